"""The comparison of training loops: both really train, on the same batches, and the figures are theirs."""

import json
from pathlib import Path

import pytest

from benchmarks.inputs.random_model import Size
from benchmarks.models import RANDOM_SIZES
from benchmarks.training import speed as training_speed
from benchmarks.training.large_corpus import write_corpus
from benchmarks.training.plain_loop import PlainTransformer
from model.config import TransformerConfig
from model.transformer import Transformer


def test_both_models_are_of_the_same_size() -> None:
    size = RANDOM_SIZES["tiny"]
    config = TransformerConfig(
        source_vocab_size=8004,
        target_vocab_size=8004,
        d_model=size.d_model,
        encoder_layers=size.encoder_layers,
        decoder_layers=size.decoder_layers,
        encoder_ffn_dim=size.ffn_dim,
        decoder_ffn_dim=size.ffn_dim,
    )
    ours, plain = (
        sum(p.numel() for p in model.parameters())
        for model in (Transformer(config), PlainTransformer(config))
    )
    assert plain == ours
    products = sum(p.numel() for p in Transformer(config).parameters() if p.dim() == 2)
    assert training_speed.products_per_token("tiny", 8004) == products


@pytest.mark.slow
def test_both_train_and_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RANDOM_SIZES, "toy", Size(2, 1, d_model=64, ffn_dim=128))
    monkeypatch.setattr(training_speed, "_GEMM", 256)
    # Threads that wait for one another on a busy processor took minutes.
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    write_corpus(tmp_path, 400)
    found = training_speed.compare(
        tmp_path,
        model="toy",
        precision="fp32",
        device="cpu",
        processes=[1],
        updates=40,
        batch_tokens=150,
        rounds=1,
    )
    speeds = found["tokens_per_s"]
    assert found["ratios"]["dragoman"]["median"] == pytest.approx(speeds["dragoman"][0] / speeds["plain"][0])
    assert 0 < found["utilisation"]["plain"] < 1
    for run in ("run-fp32-0-1", "plain-fp32-0"):
        lines = [json.loads(line) for line in (tmp_path / run / "metrics.jsonl").read_text().splitlines()]
        losses = [line["loss"] for line in lines if line["kind"] == "train"]
        assert len(losses) == 2
        assert losses[-1] < losses[0] - 0.3
