"""The comfortable length: of a model that loses the end of what is long, and of one that does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from export.text_measures.comfortable_length import (
    MAX_CHRF_LOSS,
    LengthBand,
    comfortable_source_tokens,
    measure_bands,
)
from export.text_measures.dev_translator import DevTranslator

SENTENCES = [f"The {word} number {i} is here today." for i in range(60) for word in ("cat", "lamp", "city")]


class Copier:
    """Translates by copying, and stops after some words: what a model does, with a length that is known."""

    def __init__(self, words: int, limit: int) -> None:
        self.limit = limit
        self._words = words

    def source_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [[0] * len(text.split()) for text in texts]

    def translate(self, texts: Sequence[str], what: str) -> list[str]:
        return [" ".join(text.split()[: self._words]) for text in texts]


def bands(words: int, limit: int = 100) -> list[LengthBand]:
    return measure_bands(cast(Any, Copier(words, limit)), SENTENCES, SENTENCES, SENTENCES)


@pytest.mark.parametrize(("words", "comfortable"), [(18, 27), (30, 31), (40, 47)])
def test_what_is_cut_off_is_too_long(words: int, comfortable: int) -> None:
    found = bands(words)
    assert comfortable_source_tokens(found) == comfortable
    assert [band.loss > MAX_CHRF_LOSS for band in found] == [False] * (len(found) - 1) + [True]
    assert all(band.parts == 100 for band in found)


def test_a_model_that_can_take_everything_has_no_such_length() -> None:
    found = bands(1000, limit=60)
    assert comfortable_source_tokens(found) is None
    assert found[-1].from_tokens == 56
    assert {band.loss for band in found} == {0}


def test_too_few_sentences_say_nothing() -> None:
    translator = cast(DevTranslator, Copier(3, 100))
    assert measure_bands(translator, SENTENCES[:4], SENTENCES[:4], SENTENCES[:4]) == []
    assert comfortable_source_tokens([]) is None
