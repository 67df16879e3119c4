"""N-best lists and the choice among them."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from sacrebleu.metrics.bleu import BLEU

from model.data.corpus import CorpusError
from model.data.distillation import Metric, choose, read_n_best

LIST = """0 ||| the cat sat ||| -0.1
0 ||| the cat sat on a mat ||| -0.2
0 ||| a dog ||| F0= -1 LM= 2 ||| -0.3
1 |||  ||| 0
2 ||| a | b ||| -1
"""
Write = Callable[[str, str], Path]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    def write(name: str, text: str) -> Path:
        file = tmp_path / name
        file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return file

    return write


@pytest.mark.parametrize("name", ["n-best", "n-best.gz"])
def test_lists_are_read(written: Write, name: str) -> None:
    assert list(read_n_best(written(name, LIST))) == [
        ["the cat sat", "the cat sat on a mat", "a dog"],
        [""],
        ["a | b"],
    ]


@pytest.mark.parametrize("metric", ["bleu", "chrf"])
def test_the_closest_to_the_reference_is_chosen(written: Write, metric: Metric) -> None:
    reference = written("de", "the cat sat on the mat\nanything\nx\n")
    assert list(choose(written("n-best", LIST), reference, metric)) == ["the cat sat on a mat", "", "a | b"]


def test_it_is_sentence_bleu_that_decides(written: Write) -> None:
    texts = ["a b c d e f", "a b c x e f", "a b", "f e d c b a", "a b c d"]
    lines = written("n-best", "".join(f"0 ||| {text} ||| 0\n" for text in texts))
    for reference in ("a b c x e", "f e d", "a b", "c d e f"):
        scores = [BLEU(effective_order=True).sentence_score(text, [reference]).score for text in texts]
        (found,) = choose(lines, written("de", f"{reference}\n"))
        assert found == texts[scores.index(max(scores))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 ||| a ||| 1\nb\n", "n-best:2: not of the form"),
        ("1 ||| a ||| 1\n", "n-best:1: number 1 after 0; they ascend by one from 0"),
        ("0 ||| a ||| 1\n2 ||| a ||| 1\n", "n-best:2: number 2 after 0"),
        ("0 ||| a ||| 1\n", "n-best: ends before line 2 of the other file"),
        ("0 ||| a ||| 1\n1 ||| a ||| 1\n2 ||| a ||| 1\n", "de: ends before line 3 of the other file"),
    ],
)
def test_what_does_not_fit_is_named(written: Write, text: str, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        list(choose(written("n-best", text), written("de", "x\ny\n")))
