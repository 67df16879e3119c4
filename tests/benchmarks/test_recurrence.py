"""The contest of RNN and Transformer is one of equals, and its probes ask what they say."""

import json
import random
from pathlib import Path

import pytest
import torch

from benchmarks.recurrence import runs
from benchmarks.recurrence.contenders import ARCHITECTURES, CORPORA, Corpus, matched_rnn, parameters
from benchmarks.recurrence.probes import agreed, copied, example
from benchmarks.recurrence.runs import equal_time_updates
from benchmarks.rnn_against_transformer import main
from model.checkpoint import Checkpoint, CheckpointConfig, new_model
from model.config import TransformerConfig
from tests.support.toy_training import write_corpus


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("vocabulary", [300, 6000, 9712])
def test_both_have_as_many_parameters(name: str, vocabulary: int) -> None:
    sizes = {"source_vocab_size": vocabulary, "target_vocab_size": vocabulary}
    transformer = TransformerConfig(**sizes, **CORPORA[name].transformer)
    rnn = matched_rnn(transformer)
    assert parameters(rnn) == pytest.approx(parameters(transformer), rel=0.02)
    assert rnn.d_model == transformer.d_model
    assert parameters(rnn) == sum(parameter.numel() for parameter in new_model(rnn).parameters())


def test_equal_time_ends_at_a_checkpoint_within_it() -> None:
    assert equal_time_updates(1200, 1.0) == 1200
    assert equal_time_updates(1200, 1.3) == 900  # 923 would be as long; a checkpoint every 100
    assert equal_time_updates(1200, 50.0) == 100


def test_examples_are_of_their_task() -> None:
    draw = random.Random(0)
    source, target = example("copy", 7, draw)
    assert source == ["copy", *target]
    assert len(target) == 7
    source, target = example("agreement", 5, draw)
    assert source[1:] == target[:-1]
    assert source[0].removeprefix("noun") == target[-1].removeprefix("verb")
    assert ARCHITECTURES == ("transformer", "rnn")


class _Copier(torch.nn.Module):
    """Says its source word for word, and of an agreement the noun as if it were the verb."""

    def encode(self, source_ids: torch.Tensor, source_lengths: torch.Tensor) -> torch.Tensor:
        self.source = source_ids
        return source_ids

    def start_cache(self, memory: torch.Tensor, source_lengths: torch.Tensor, capacity: int) -> None:
        return None

    def decode_step(self, ids: torch.Tensor, positions: torch.Tensor, cache: None) -> torch.Tensor:
        step = int(positions[0]) + 1
        said = torch.zeros(len(ids), 100)
        said[torch.arange(len(ids)), self.source[:, min(step, self.source.shape[1] - 1)]] = 1
        return said


class _Words:
    """A vocabulary of the probes: every word has the same id on both sides; nouns are not verbs."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def encode_batch(self, texts: list[str]) -> list[list[int]]:
        return [[self.ids.setdefault(word, len(self.ids) + 4) for word in text.split()] for text in texts]

    encode_target_batch = encode_batch


def test_probes_count_what_is_right() -> None:
    config = CheckpointConfig(
        name="probe",
        model=TransformerConfig(source_vocab_size=100, target_vocab_size=100),
        source_language="en",
        target_language="de",
    )
    read = Checkpoint(None, config, _Copier(), _Words())
    assert copied(read, 9) == (1.0, 1.0)
    assert agreed(read, 9) == 0.0  # the verb is no word of the source


def test_a_contest_is_run_once_and_its_results_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(tmp_path, train=120, dev=20)
    files = {
        part: (f"{name}.en", f"{name}.de")
        for part, name in (("train", "train"), ("dev", "dev"), ("test", "dev"))
    }
    small = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_heads": 2, "decoder_heads": 2}
    toy = Corpus(
        "toy",
        files,
        {"kind": "bpe", "size": 345, "character_coverage": 1.0},
        small | {"encoder_ffn_dim": 32, "decoder_ffn_dim": 32},
        updates=12,
        batch_tokens=200,
        tokenize="13a",
        data=tmp_path,
    )
    monkeypatch.setitem(CORPORA, "toy", toy)
    monkeypatch.setattr(runs, "RATES", (0.002, 0.004))
    monkeypatch.setattr(runs, "_COST_BATCHES", 2)
    monkeypatch.setattr(runs, "_PEAK_WIDTH", 64)
    out, threads = tmp_path / "out", torch.get_num_threads()
    command = ["--out", str(out), "--parts", "toy", "--seeds", "1"]
    main([*command, "--architectures", "rnn"])
    main([*command, "--plots", str(tmp_path)])
    torch.set_num_threads(threads)
    found = json.loads((out / "results.json").read_text())["corpora"]["toy"]
    assert set(found["runs"]) == {"rnn-1", "transformer-1"}
    for entry in found["runs"].values():
        assert [update for update, _, _ in entry["curve"]] == [*range(1, 13)]
        assert entry["scores"]["equal_updates"]["updates"] == 12
        assert entry["scores"]["equal_updates"]["by_length"]
    ended = {entry["scores"]["equal_time"]["updates"] for entry in found["runs"].values()}
    assert max(ended) == 12
    assert (tmp_path / "rnn-quality.png").stat().st_size > 1000
    assert "| toy | rnn |" in capsys.readouterr().out
