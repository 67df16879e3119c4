"""The page at the end of a run, and what it is made of."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from model.config import TransformerConfig
from model.evaluation.attention_maps import cross_attention
from model.evaluation.training_page import AttentionMap, read_metrics, read_samples, write_page
from model.training.trainer import Trainer
from model.transformer import Transformer


def test_a_run_ends_with_a_page(recipe: Callable[..., Path], tmp_path: Path) -> None:
    trainer = Trainer(recipe(max_updates=60, validate_every=20), tmp_path / "run", quiet=True)
    chosen = trainer.run()
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    samples = read_samples(tmp_path / "run" / "samples.jsonl")
    assert 1 <= len(samples) <= 6
    for of_one in samples:
        assert of_one[0].direction == "en-de"
        assert of_one[0].source in page
        assert [sample.update for sample in of_one] == [20, 40, 60]
        assert of_one[-1].translation in page
    assert page.count("<svg") >= 4 + 1  # the curves, and a sentence short enough to be drawn
    assert str(chosen) in page
    assert "<script" not in page
    assert "http-equiv" not in page


def test_text_is_escaped_and_no_formula(tmp_path: Path) -> None:
    sample = {"update": 1, "source": "<b>a</b> & b", "reference": "<i>", "translation": "</table>$x$"}
    (tmp_path / "samples.jsonl").write_text(json.dumps(sample) + "\n")
    (tmp_path / "metrics.jsonl").write_text("")
    weights = np.full((2, 3), 1 / 3)
    drawn = AttentionMap(["$", "<s>", "\\frac"], ["$x$", "</s>"], weights)
    page = write_page(tmp_path, "a < b", {"k": "<v>"}, [drawn]).read_text()
    for raw in ("<b>", "<i>", "</table>$", "<v>", "a < b"):
        assert raw not in page
    assert "&lt;b&gt;a&lt;/b&gt; &amp; b" in page


def test_of_two_records_for_one_update_the_later_counts(tmp_path: Path) -> None:
    lines = [
        {"kind": "train", "update": 20, "loss": 5.0},
        {"kind": "train", "update": 40, "loss": 4.0},
        {"kind": "valid", "update": 40, "bleu": 1.0},
        {"kind": "train", "update": 40, "loss": 3.0},
        {"kind": "average", "update": 40, "bleu": 9.0},
    ]
    text = "\n".join(map(json.dumps, lines)) + '\n{"kind": "tra'
    (tmp_path / "metrics.jsonl").write_text(text)
    train, valid = read_metrics(tmp_path / "metrics.jsonl")
    assert [(one["update"], one["loss"]) for one in train] == [(20, 5.0), (40, 3.0)]
    assert [one["bleu"] for one in valid] == [1.0]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_attention_is_what_the_decoder_uses(norm: str) -> None:
    torch.manual_seed(3)
    config = TransformerConfig(
        d_model=16, encoder_layers=1, decoder_layers=2, encoder_heads=2, decoder_heads=2, encoder_ffn_dim=32,
        decoder_ffn_dim=32, source_vocab_size=20, target_vocab_size=20, norm=norm, max_positions=16,
    )  # fmt: skip
    model = Transformer(config).eval()
    source, target = torch.tensor([[3, 4, 5, 6]]), torch.tensor([[1, 7, 8]])
    weights = cross_attention(model, source, target)
    assert weights.shape == (2, 2, 3, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 3))
    assert float(weights.std()) > 0
    # With values that say which position they are of, the context is the weights: layer 1 by layer 1.
    lengths = torch.tensor([4])
    memory = model.encode(source, lengths)
    seen: list[torch.Tensor] = []

    def watch(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        seen.append(output)

    layer = model.decoder_layers[0].cross_attention
    handle = layer.query.register_forward_hook(watch)
    model.decode_hidden(target, memory, lengths)
    handle.remove()
    key, _ = layer.project_memory(memory)
    query = seen[0].view(1, 3, 2, 8).transpose(1, 2)
    expected = torch.softmax(query @ key.transpose(-1, -2) / 8**0.5, -1)
    torch.testing.assert_close(weights[:1], expected)
