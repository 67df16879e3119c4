"""What a model is made of: one frozen description for training, reference decoding and export."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

Activation = Literal["relu", "gelu", "gelu_tanh", "silu"]
Norm = Literal["pre", "post"]
NormKind = Literal["layer", "rms"]
Mixer = Literal["attention", "ssru"]
Positions = Literal["sinusoidal_interleaved", "sinusoidal_halves", "sinusoidal_t2t", "learned", "none"]


# Far beyond any model there is: what is larger is a mistake or an attack, and would take all memory.
_Entries = Annotated[int, Field(gt=3, le=2**24)]
_Layers = Annotated[int, Field(gt=0, le=1024)]
_Width = Annotated[int, Field(gt=0, le=2**20)]


class Architecture(BaseModel):
    """What every architecture has in common."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source_vocab_size: _Entries = Field(description="rows of the source embedding")
    target_vocab_size: _Entries = Field(
        description="rows of the target embedding and of the output projection"
    )

    def differences(self, other: Architecture) -> dict[str, tuple[Any, Any]]:
        """Compare architectures: the values of both where they differ. Dropouts are free."""
        if type(self) is not type(other):
            return {"architecture": (architecture_of(self), architecture_of(other))}
        theirs = other.model_dump()
        return {
            name: (value, theirs[name])
            for name, value in self.model_dump().items()
            if value != theirs[name] and not name.endswith("dropout")
        }


class TransformerConfig(Architecture):
    """Architecture of an encoder-decoder Transformer (Vaswani et al., 2017, and its common variants)."""

    d_model: _Width = Field(default=256, description="width E of every hidden state")
    encoder_layers: _Layers = 6
    decoder_layers: _Layers = 2
    encoder_heads: int = Field(default=4, gt=0)
    decoder_heads: int = Field(default=4, gt=0)
    encoder_ffn_dim: _Width = 1024
    decoder_ffn_dim: _Width = 1024
    norm: Norm = Field(default="pre", description="norm before (Xiong et al., 2020) or after each sub-layer")
    norm_kind: NormKind = Field(
        default="layer", description="LayerNorm, or the RMSNorm of T5 (Zhang and Sennrich, 2019)"
    )
    biases: bool = Field(default=True, description="of all products but the output projection; T5 has none")
    activation: Activation = Field(
        default="relu", description="silu is the swish of MarianMT, gelu_tanh what T5 calls gelu_new"
    )
    gated_ffn: bool = Field(
        default=False, description="the activation multiplies a second product (Shazeer, 2020)"
    )
    head_dim: int | None = Field(
        default=None, gt=0, le=4096, description="size of every head; None for d_model / heads"
    )
    decoder_mixer: Mixer = Field(
        default="attention",
        description="what joins the positions of a target: self-attention, or the recurrence of Kim et al. "
        "(2019) in its place, `model.attention.Ssru`",
    )
    positions: Positions = Field(
        default="sinusoidal_interleaved",
        description="see `model.positions.sinusoidal_table`; none where attention knows distances",
    )
    relative_distances: int = Field(
        default=0,
        ge=0,
        le=65536,
        description="self-attention has a learned bias for each distance up to this one, which farther ones "
        "share (Raffel et al., 2020); 0 for no bias",
    )
    relative_every_layer: bool = Field(
        default=False, description="every layer has biases of its own, as in umT5; otherwise all share"
    )
    position_offset: int = Field(
        default=0, ge=0, le=65536, description="added to every position; 2 in BART and M2M100"
    )
    max_positions: int = Field(default=512, gt=0, le=65536, description="longest source or target, in tokens")
    source_features: int = Field(
        default=0,
        ge=0,
        le=65536,
        description="values of a feature vector, where sources are such vectors: a projection reads them, "
        "and there is no source embedding; 0 for tokens",
    )
    scale_embeddings: bool = Field(default=True, description="multiply embeddings by sqrt(d_model)")
    share_source_target_embeddings: bool = Field(default=True, description="one table for both sides")
    tie_output: bool = Field(
        default=True, description="output projection = target embedding (Press and Wolf, 2017)"
    )
    embedding_norm: bool = Field(default=False, description="LayerNorm after embeddings, as in BART")
    final_norm: bool = Field(default=True, description="LayerNorm after the last layer; usual with pre-norm")
    output_bias: bool = Field(default=False, description="final_logits_bias of Marian")
    layer_norm_eps: float = Field(default=1e-5, gt=0)
    dropout: float = Field(default=0.1, ge=0, lt=1, description="on embeddings and sub-layer outputs")
    attention_dropout: float = Field(default=0.0, ge=0, lt=1, description="on attention weights")
    activation_dropout: float = Field(default=0.0, ge=0, lt=1, description="inside the feed-forward layer")
    pad_id: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for side in ("encoder", "decoder"):
            heads = getattr(self, f"{side}_heads")
            if self.head_dim is None and self.d_model % heads:
                raise ValueError(f"d_model {self.d_model} is not a multiple of {side}_heads {heads}")
        if self.share_source_target_embeddings and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                "share_source_target_embeddings needs one vocabulary: "
                f"source has {self.source_vocab_size} entries, target {self.target_vocab_size}"
            )
        if self.source_features and self.share_source_target_embeddings:
            raise ValueError("source_features: feature vectors have no embedding to share with the target")
        if self.positions not in ("learned", "none") and self.d_model % 2:
            raise ValueError(f"sinusoidal positions need an even d_model, not {self.d_model}")
        if self.decoder_mixer == "ssru" and self.relative_distances:
            raise ValueError("a decoder with an ssru knows no distances: relative_distances must be 0")
        if not self.pad_id < min(self.source_vocab_size, self.target_vocab_size):
            raise ValueError(f"pad_id {self.pad_id} is outside the vocabulary")
        return self

    @property
    def decoder_head_dim(self) -> int:
        """Size D of one decoder head."""
        return self.head_dim or self.d_model // self.decoder_heads

    @property
    def encoder_head_dim(self) -> int:
        """Size of one encoder head."""
        return self.head_dim or self.d_model // self.encoder_heads

    @property
    def unservable(self) -> str | None:
        """Why no server could decode with such a model; None if one can."""
        if self.decoder_mixer == "ssru" and self.d_model % self.decoder_head_dim:
            return (
                f"the state of {self.d_model} numbers is no multiple of the heads of {self.decoder_head_dim}"
            )
        if self.decoder_head_dim % 8 == 0:
            return None
        # GroupQueryAttention takes no others.
        return (
            f"d_model {self.d_model} over decoder_heads {self.decoder_heads} makes heads of "
            f"{self.decoder_head_dim}; ONNX Runtime decodes with multiples of 8 only"
        )


class RnnConfig(Architecture):
    """Architecture of a recurrent encoder-decoder with attention, see `model.recurrent.rnn`."""

    architecture: Literal["rnn"]
    d_model: _Width = Field(default=256, description="width E of embeddings and of attentional vectors")
    state_dim: _Width = Field(default=256, description="width H of states; half of it reads each direction")
    encoder_layers: _Layers = 2
    decoder_layers: _Layers = 2
    max_positions: int = Field(
        default=512, gt=0, le=65536, description="longest source or target that it is given, in tokens"
    )
    share_source_target_embeddings: bool = Field(default=True, description="one table for both sides")
    tie_output: bool = Field(
        default=True, description="output projection = target embedding (Press and Wolf, 2017)"
    )
    dropout: float = Field(
        default=0.1, ge=0, lt=1, description="between layers, not between steps (Zaremba et al., 2014)"
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.state_dim % 2:
            raise ValueError(f"state_dim {self.state_dim} must be even: each direction has half of it")
        if self.share_source_target_embeddings and self.source_vocab_size != self.target_vocab_size:
            raise ValueError(
                "share_source_target_embeddings needs one vocabulary: "
                f"source has {self.source_vocab_size} entries, target {self.target_vocab_size}"
            )
        return self


def architecture_of(config: Any) -> str:
    """Name the architecture of a configuration or of its fields: transformer, unless it says another."""
    if isinstance(config, dict):
        return str(config.get("architecture", "transformer"))
    return str(getattr(config, "architecture", "transformer"))


AnyConfig = Annotated[
    Annotated[TransformerConfig, Tag("transformer")] | Annotated[RnnConfig, Tag("rnn")],
    Discriminator(architecture_of),
]
"""The architecture of a model; ``architecture`` says which, in a recipe and in a checkpoint."""
