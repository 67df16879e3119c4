import pytest
import torch
from torch import Tensor, nn

from model.config import TransformerConfig
from model.evaluation.evaluation import greedy_decode
from model.transformer import Transformer

VARIANTS = {
    "paper": {"norm": "post", "final_norm": False},
    "pre-norm": {"norm": "pre", "final_norm": True},
    "marian": {
        "norm": "post",
        "final_norm": False,
        "activation": "silu",
        "positions": "sinusoidal_halves",
        "output_bias": True,
    },
    "bart": {
        "norm": "post",
        "final_norm": False,
        "activation": "gelu",
        "positions": "learned",
        "position_offset": 2,
        "embedding_norm": True,
        "scale_embeddings": False,
        "output_bias": True,
    },
    "m2m100": {"norm": "pre", "positions": "sinusoidal_t2t", "position_offset": 2},
    "t5": {
        "norm_kind": "rms",
        "biases": False,
        "positions": "none",
        "scale_embeddings": False,
        "relative_distances": 3,
        "head_dim": 6,
    },
    "umt5": {
        "norm_kind": "rms",
        "biases": False,
        "activation": "gelu_tanh",
        "gated_ffn": True,
        "positions": "none",
        "relative_distances": 5,
        "relative_every_layer": True,
        "decoder_heads": 3,
        "head_dim": 8,
        "tie_output": False,
    },
    "untied": {"share_source_target_embeddings": False, "tie_output": False, "target_vocab_size": 29},
    "firefox": {
        "norm": "post",
        "final_norm": False,
        "decoder_mixer": "ssru",
        "positions": "sinusoidal_t2t",
        "output_bias": True,
    },
    "uneven": {"encoder_heads": 2, "decoder_heads": 8, "encoder_ffn_dim": 24, "decoder_ffn_dim": 40},
}


def build(**changes: object) -> Transformer:
    torch.manual_seed(0)
    values = {
        "source_vocab_size": 37,
        "target_vocab_size": 37,
        "d_model": 16,
        "encoder_layers": 3,
        "decoder_layers": 2,
        "encoder_heads": 4,
        "decoder_heads": 4,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "max_positions": 32,
        **changes,
    }
    model = Transformer(TransformerConfig(**values)).eval()
    # Norms and biases start as ones and zeros, which would hide a swapped pair.
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


@pytest.fixture(params=VARIANTS, ids=list(VARIANTS))
def model(request: pytest.FixtureRequest) -> Transformer:
    return build(**VARIANTS[request.param])


def sentences(model: Transformer) -> tuple[Tensor, Tensor, Tensor]:
    """Four sources of different length and four targets of seven tokens."""
    torch.manual_seed(1)
    source = torch.randint(4, model.config.source_vocab_size, (4, 9))
    lengths = torch.tensor([9, 5, 1, 7])
    for row, length in enumerate(lengths):
        source[row, length:] = model.config.pad_id
    return source, lengths, torch.randint(4, model.config.target_vocab_size, (4, 7))


@torch.no_grad()
def test_a_future_target_token_changes_no_earlier_output(model: Transformer) -> None:
    source, lengths, target = sentences(model)
    before = model(source, lengths, target)
    changed = target.clone()
    changed[:, 4] = (changed[:, 4] + 1) % model.config.target_vocab_size
    after = model(source, lengths, changed)
    assert torch.equal(before[:, :4], after[:, :4])
    assert not torch.allclose(before[:, 4:], after[:, 4:])


@torch.no_grad()
def test_decoding_step_by_step_equals_teacher_forcing(model: Transformer) -> None:
    source, lengths, target = sentences(model)
    memory = model.encode(source, lengths)
    whole = model.decode(target, memory, lengths)
    cache = model.start_cache(memory, lengths, capacity=10)
    for position in range(target.shape[1]):
        step = target[:, position : position + 1]
        logits = model.decode_step(step, torch.full((4, 1), position), cache)
        torch.testing.assert_close(logits, whole[:, position], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_rows_of_different_age_share_a_step(model: Transformer) -> None:
    if model.config.decoder_mixer == "ssru":
        pytest.skip("a recurrence cannot go back but to the beginning")
    source, lengths, target = sentences(model)
    memory = model.encode(source, lengths)
    whole = model.decode(target, memory, lengths)
    cache = model.start_cache(memory, lengths, capacity=8)
    for position in range(3):
        model.decode_step(target[:, position : position + 1], torch.full((4, 1), position), cache)
    # Rows 0 and 2 go back to position 1; rows 1 and 3 go on.
    positions = torch.tensor([[1], [3], [1], [3]])
    logits = model.decode_step(target.gather(1, positions), positions, cache)
    for row, position in enumerate(positions[:, 0].tolist()):
        torch.testing.assert_close(logits[row], whole[row, position], atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", ["paper", "firefox"])
def test_a_row_begins_again_where_another_sentence_was(name: str) -> None:
    model = build(**VARIANTS[name])
    source, lengths, target = sentences(model)
    memory = model.encode(source, lengths)
    whole = model.decode(target, memory, lengths)
    cache = model.start_cache(memory, lengths, capacity=8)
    for position in range(3):
        model.decode_step(target[:, position : position + 1], torch.full((4, 1), position), cache)
    for step in range(2):
        positions = torch.tensor([[step], [3 + step], [step], [3 + step]])
        logits = model.decode_step(target.gather(1, positions), positions, cache)
        for row, position in enumerate(positions[:, 0].tolist()):
            torch.testing.assert_close(logits[row], whole[row, position], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_padding_changes_nothing(model: Transformer) -> None:
    source, lengths, target = sentences(model)
    together = model(source, lengths, target)
    for row in range(4):
        length = int(lengths[row])
        alone = model(source[row : row + 1, :length], lengths[row : row + 1], target[row : row + 1])
        torch.testing.assert_close(together[row], alone[0], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_what_stands_in_the_padding_does_not_matter(model: Transformer) -> None:
    source, lengths, target = sentences(model)
    before = model(source, lengths, target)
    source[1, 5:] = 11
    torch.testing.assert_close(model(source, lengths, target)[1], before[1])


@torch.no_grad()
def test_greedy_decoding_equals_recomputing_everything_at_every_step(model: Transformer) -> None:
    source, lengths, _ = sentences(model)
    fast = greedy_decode(model, source, lengths, bos=2, eos=3, max_length=12)
    for row in range(4):
        tokens = [2]
        while len(tokens) <= 12:
            logits = model(source[row : row + 1], lengths[row : row + 1], torch.tensor([tokens]))
            tokens.append(int(logits[0, -1].argmax()))
            if tokens[-1] == 3:
                break
        assert fast[row] == [token for token in tokens[1:] if token != 3]


def _copy_attention(into: nn.MultiheadAttention, weight: Tensor, bias: Tensor, output: nn.Linear) -> None:
    into.in_proj_weight.copy_(weight)
    into.in_proj_bias.copy_(bias)
    into.out_proj.load_state_dict(output.state_dict())


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@torch.no_grad()
def test_equals_torch_transformer_with_the_same_weights(norm: str, activation: str) -> None:
    ours = build(norm=norm, activation=activation, final_norm=True)
    theirs = nn.Transformer(
        16, 4, 3, 2, 32, dropout=0.0, activation=activation, batch_first=True, norm_first=norm == "pre"
    ).eval()
    for mine, layer in zip(ours.encoder_layers, theirs.encoder.layers, strict=True):
        qkv = mine.self_attention.qkv
        _copy_attention(layer.self_attn, qkv.weight, qkv.bias, mine.self_attention.output)
        layer.norm1.load_state_dict(mine.self_residual.norm.state_dict())
        layer.norm2.load_state_dict(mine.feed_forward_residual.norm.state_dict())
        layer.linear1.load_state_dict(mine.feed_forward.expand.state_dict())
        layer.linear2.load_state_dict(mine.feed_forward.contract.state_dict())
    for mine, layer in zip(ours.decoder_layers, theirs.decoder.layers, strict=True):
        qkv, cross = mine.self_attention.qkv, mine.cross_attention
        _copy_attention(layer.self_attn, qkv.weight, qkv.bias, mine.self_attention.output)
        weight = torch.cat((cross.query.weight, cross.key_value.weight))
        bias = torch.cat((cross.query.bias, cross.key_value.bias))
        _copy_attention(layer.multihead_attn, weight, bias, cross.output)
        layer.norm1.load_state_dict(mine.self_residual.norm.state_dict())
        layer.norm2.load_state_dict(mine.cross_residual.norm.state_dict())
        layer.norm3.load_state_dict(mine.feed_forward_residual.norm.state_dict())
        layer.linear1.load_state_dict(mine.feed_forward.expand.state_dict())
        layer.linear2.load_state_dict(mine.feed_forward.contract.state_dict())
    theirs.encoder.norm.load_state_dict(ours.encoder_norm.state_dict())
    theirs.decoder.norm.load_state_dict(ours.decoder_norm.state_dict())

    source, lengths, target = sentences(ours)
    padding = torch.arange(9)[None, :] >= lengths[:, None]
    expected = theirs(
        ours.source_embedding(source, torch.arange(9)[None, :]),
        ours.target_embedding(target, torch.arange(7)[None, :]),
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(7),
        tgt_is_causal=True,
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
    )
    memory = ours.encode(source, lengths)
    actual = ours.decode_hidden(target, memory, lengths)
    assert (actual - expected).abs().max() <= 1e-5


def test_tied_embeddings_are_one_tensor() -> None:
    model = build()
    assert model.projection.weight is model.target_embedding.tokens.weight
    assert model.source_embedding.tokens is model.target_embedding.tokens
    untied = build(**VARIANTS["untied"])
    assert untied.projection.weight is not untied.target_embedding.tokens.weight


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder_heads": 3}, "not a multiple of encoder_heads 3"),
        ({"target_vocab_size": 40}, "needs one vocabulary"),
        ({"d_model": 15, "encoder_heads": 5, "decoder_heads": 5}, "even d_model"),
        ({"activation": "tanh"}, "activation"),
        ({"layers": 3}, "layers"),
    ],
)
def test_a_wrong_configuration_says_what_is_wrong(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(**changes)


def test_projections_of_attention_start_at_glorots_bound_over_the_square_root_of_two() -> None:
    model = Transformer(TransformerConfig(source_vocab_size=8, target_vocab_size=8, d_model=64))
    peer = nn.MultiheadAttention(64, 4)
    encoder_layer, layer = model.encoder_layers[0], model.decoder_layers[0]
    for weight in (
        encoder_layer.self_attention.qkv.weight,
        layer.self_attention.qkv.weight,
        layer.cross_attention.query.weight,
        layer.cross_attention.key_value.weight,
    ):
        assert weight.std().item() == pytest.approx(peer.in_proj_weight.std().item(), rel=0.03)
    assert layer.self_attention.output.weight.std().item() == pytest.approx((2 / 128) ** 0.5, rel=0.03)
