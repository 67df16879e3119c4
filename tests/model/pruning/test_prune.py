"""A pruned model is the larger one with heads and columns closed, as small as asked, and is served."""

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from export.pipeline import ExportOptions, export_bundle
from model.checkpoint import CheckpointError, build_model, load_checkpoint
from model.config import TransformerConfig
from model.data.batching import Batch, collate
from model.pruning.importance import (
    SIDES,
    Gated,
    gated_attention,
    gated_cross_attention,
    gated_feed_forward,
    measure_importance,
)
from model.pruning.prune import prune_checkpoint, pruned_tensors
from model.pruning.shape import Kept, choose, pruned_config
from model.transformer import Transformer
from server.service.translation.file_translation import translate_lines
from tests.support import factories


def make_model(**changes: object) -> Transformer:
    torch.manual_seed(0)
    model = Transformer(factories.tiny_config(40, **changes)).eval()
    for parameter in model.parameters():  # biases that are not 0
        if parameter.dim() == 1:
            nn.init.normal_(parameter, std=0.3)
    return model


def make_batch(rows: int = 6) -> Batch:
    draw = torch.Generator().manual_seed(1)
    lengths = torch.randint(3, 9, (2, rows), generator=draw).tolist()
    sides = [[torch.randint(4, 40, (n,), generator=draw).tolist() for n in side] for side in lengths]
    return collate(*sides, pad_id=0, start_id=2, eos_id=3)


@contextlib.contextmanager
def closed(gated: Sequence[Gated], kept: Sequence[Sequence[int]]) -> Iterator[None]:
    """Multiply the outputs of all units but the kept ones by 0."""

    def close(units: int, open_ones: Sequence[int]) -> Callable[[nn.Module, tuple[Tensor]], tuple[Tensor]]:
        gate = torch.zeros(units, 1)
        gate[list(open_ones)] = 1
        return lambda module, given: ((given[0].unflatten(-1, (units, -1)) * gate).flatten(-2),)

    hooks = [
        one.product.register_forward_pre_hook(close(one.units, some))
        for one, some in zip(gated, kept, strict=True)
    ]
    yield
    for hook in hooks:
        hook.remove()


@pytest.mark.parametrize(
    "changes",
    [
        {"decoder_heads": 4},
        {"decoder_heads": 4, "gated_ffn": True, "activation": "silu"},
        {"decoder_heads": 4, "biases": False, "norm_kind": "rms"},
        {"decoder_heads": 4, "norm": "post", "final_norm": False, "tie_output": False},
    ],
)
def test_equals_the_larger_model_with_the_rest_closed(changes: dict[str, object]) -> None:
    model, batch = make_model(**changes), make_batch()
    kept = Kept(
        heads={"encoder": [[0, 2], [1, 3]], "decoder": [[3], [0]]},
        cross_heads=[[1], [2]],
        columns={"encoder": [[*range(5, 37)], [*range(64, 96)]], "decoder": [[*range(16)], [*range(3, 19)]]},
    )
    smaller = build_model(pruned_config(model.config, kept), pruned_tensors(model, kept), Path("pruned"))
    smaller.eval()
    given = (batch.source_ids, batch.source_lengths, batch.target_in)
    with contextlib.ExitStack() as stack:
        for side in SIDES:
            stack.enter_context(closed(gated_attention(model, side), kept.heads[side]))
            stack.enter_context(closed(gated_feed_forward(model, side), kept.columns[side]))
        stack.enter_context(closed(gated_cross_attention(model), kept.cross_heads))
        expected = model(*given)
    assert not torch.allclose(model(*given), expected, atol=1e-3)
    torch.testing.assert_close(smaller(*given), expected, rtol=1e-5, atol=1e-5)


def test_importance_is_the_gradient_of_a_gate() -> None:
    model, batch = make_model(decoder_heads=4), make_batch(1)
    found = measure_importance(model, [batch], pad_id=0)
    for side, gated, values in (
        ("encoder", gated_attention(model, "encoder"), found.heads["encoder"]),
        ("decoder", gated_attention(model, "decoder"), found.heads["decoder"]),
        ("cross", gated_cross_attention(model), found.cross_heads),
        ("encoder", gated_feed_forward(model, "encoder"), found.columns["encoder"]),
        ("decoder", gated_feed_forward(model, "decoder"), found.columns["decoder"]),
    ):
        for layer, one in enumerate(gated):
            gates = torch.ones(one.units, 1, requires_grad=True)

            def gate(module: nn.Module, given: tuple[Tensor], gates: Tensor = gates) -> tuple[Tensor]:
                return ((given[0].unflatten(-1, (*gates.shape[:1], -1)) * gates).flatten(-2),)

            hook = one.product.register_forward_pre_hook(gate)
            logits = model(batch.source_ids, batch.source_lengths, batch.target_in)
            loss = cross_entropy(logits[0], batch.target_out[0], reduction="sum")
            (gradient,) = torch.autograd.grad(loss, [gates])
            hook.remove()
            expected = gradient[:, 0].abs().double()
            torch.testing.assert_close(values[layer], expected, rtol=1e-3, atol=1e-5, msg=f"{side} {layer}")


@pytest.mark.parametrize("keep", [0.9, 0.7, 0.5])
def test_keeps_what_matters_within_the_share(keep: float) -> None:
    model = make_model(decoder_heads=4, encoder_ffn_dim=256, decoder_ffn_dim=128)
    importance = measure_importance(model, [make_batch()], pad_id=0)
    for values in (*importance.heads.values(), importance.cross_heads, *importance.columns.values()):
        values[:] = 1e-6
    importance.heads["encoder"][:, 1] = importance.columns["encoder"][:, 40] = 5.0
    before = sum(parameter.numel() for parameter in model.parameters())
    kept = choose(model.config, importance, before, keep)
    smaller = Transformer(pruned_config(model.config, kept))
    after = sum(parameter.numel() for parameter in smaller.parameters())
    assert keep * before - 4500 < after <= keep * before  # 16 columns of two layers have 3,104 weights
    assert all(1 in heads for heads in kept.heads["encoder"])
    assert all(40 in columns for columns in kept.columns["encoder"])


def test_heads_of_two_sizes_all_stay() -> None:
    model = make_model(encoder_heads=4, decoder_heads=2)
    importance = measure_importance(model, [make_batch()], pad_id=0)
    before = sum(parameter.numel() for parameter in model.parameters())
    config = pruned_config(model.config, choose(model.config, importance, before, 0.8))
    assert (config.encoder_heads, config.decoder_heads, config.head_dim) == (4, 2, None)
    with pytest.raises(
        ValueError, match=r"--keep 0.1: embeddings are not pruned; .* at least 0\.\d\d of all"
    ):
        choose(model.config, importance, before, 0.1)


def test_a_pruned_checkpoint_is_exported_and_served(tmp_path: Path) -> None:
    larger = factories.tiny_checkpoint(tmp_path, encoder_heads=3, decoder_heads=3, d_model=48)
    sources, targets = factories.parallel_text(250, seed=3)
    (tmp_path / "dev.en").write_text("\n".join(sources) + "\n")
    (tmp_path / "dev.de").write_text("\n".join(targets) + "\n")
    text = ([tmp_path / "dev.en"], [tmp_path / "dev.de"])
    smaller = tmp_path / "smaller"
    result = prune_checkpoint(larger, smaller, 0.75, *text)
    assert result.after <= 0.75 * result.before < result.after + 6000
    assert f"{result.before:,} -> {result.after:,} parameters" in result.as_text()
    checkpoint = load_checkpoint(smaller)
    assert checkpoint.config.model == result.config
    assert isinstance(checkpoint.config.model, TransformerConfig)
    assert sum(parameter.numel() for parameter in checkpoint.model.parameters()) == result.after
    bundle = tmp_path / "bundle"
    options = ExportOptions(precision="fp32", dev_source=text[0], beam_widths=(1,), allow_quality_loss=True)
    export_bundle(smaller, bundle, options)
    size = json.loads((bundle / "manifest.json").read_text())["architecture"]
    assert size["encoder_heads"] == result.config.encoder_heads
    lines = translate_lines(bundle, sources[:20], split=False)
    from model.evaluation.evaluation import checkpoint_translator

    assert lines == checkpoint_translator(smaller)(sources[:20])
    with pytest.raises(ValueError, match="smaller exists"):
        prune_checkpoint(larger, smaller, 0.75, *text)
    with pytest.raises(ValueError, match="must be between 0 and 1"):
        prune_checkpoint(larger, tmp_path / "same", 1.0, *text)


def test_shared_biases_of_distances_are_refused(tmp_path: Path) -> None:
    larger = factories.tiny_checkpoint(tmp_path, 1, relative_distances=8, positions="none")
    with pytest.raises(CheckpointError, match="biases of distances"):
        prune_checkpoint(larger, tmp_path / "smaller", 0.7, [], [])
