"""Vocabularies that lack most signs, as those of models have that learned everyday sentences alone."""

import re
import string
from pathlib import Path

import pytest

from model.tokenizer import Tokenizer
from model.vocabulary.learning import train_sentencepiece
from server.service.text.vocabulary import Vocabulary

MARKS = ".,!?'\"%-"


def learn(recipes: Path, file: Path, marks: str) -> Vocabulary:
    """Learn letters without accents, digits and these marks; the rest is spelled in bytes."""
    text = "".join((recipes / f"golden.{code}").read_text(encoding="utf-8") for code in ("en", "de"))
    lines = re.sub(rf"[^\na-zA-Z0-9 {re.escape(marks)}]", "", text).splitlines()
    lines.append(" ".join(string.ascii_letters + string.digits + marks))
    train_sentencepiece(lines, file, vocab_size=400, kind="unigram", character_coverage=1.0)
    return Vocabulary(Tokenizer.load(file))


@pytest.fixture(scope="session")
def few_signs(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    return learn(repository / "recipes", tmp_path_factory.mktemp("few") / "source.spm", MARKS + ":")


@pytest.fixture(scope="session")
def no_colon(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    return learn(repository / "recipes", tmp_path_factory.mktemp("no-colon") / "source.spm", MARKS)
