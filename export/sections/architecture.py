"""What a manifest says of the model's architecture."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from export.languages import Count, Part

Layers = Annotated[int, Field(gt=0, le=1024)]  # names are made of them: 2**40 would take all memory


class ArchitectureDetails(Part):
    """What else tells one Transformer from another; the fields of ``model.config.TransformerConfig``."""

    norm: Literal["pre", "post"]
    norm_kind: Literal["layer", "rms"] = "layer"
    biases: bool = True
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"]
    gated_ffn: bool = False
    decoder_mixer: Literal["attention", "ssru"] = "attention"
    head_dim: Count | None = None
    positions: Literal["sinusoidal_interleaved", "sinusoidal_halves", "sinusoidal_t2t", "learned", "none"]
    relative_distances: int = Field(default=0, ge=0)
    relative_every_layer: bool = False
    position_offset: int = Field(ge=0)
    scale_embeddings: bool
    share_source_target_embeddings: bool
    tie_output: bool
    embedding_norm: bool
    final_norm: bool
    output_bias: bool
    layer_norm_eps: float = Field(gt=0)


class Architecture(Part):
    """What the server needs to lay out its buffers, and what people like to know."""

    encoder_layers: Layers
    decoder_layers: Layers
    d_model: Count
    encoder_heads: Count
    decoder_heads: Count
    head_dim: Count = Field(description="size of one decoder head")
    encoder_ffn_dim: Count
    decoder_ffn_dim: Count
    source_vocab_size: Count
    vocab_size: Count = Field(description="target vocabulary: the width of logits")
    source_features: int = Field(default=0, ge=0, description="values of a feature vector; 0 for text")
    parameters: Count
    details: ArchitectureDetails | None = Field(default=None, description="the server needs none of it")
