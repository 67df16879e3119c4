"""As many translations come back as texts went in, in their order, each with the reason that ended it."""

import asyncio
import random
import re
import time

import pytest

from server.service.request_limits import RequestLimits, request_limits
from server.service.translation.request import RequestedOptions, TranslationRequest
from server.service.translation.translator import Translator
from server.settings import Settings
from tests.server.fake_engine import FakeEngine, manifest, served_model

WORDS = ("one", "two", "three", "four", "Dr.", "e.g.", "\u200b", "12", "...", "<b>", "\U0001f600", "\u202e")
SPACES = (" ", "  ", "\n", "\t", "\u00a0", "\n\n")
ENDS = ("", ".", "!", "? ", "\n")


def random_text(draw: random.Random) -> str:
    """Nothing, white space, half a sentence, or many of them."""
    words = draw.choice((0, 0, 1, 3, 8, 30))
    return "".join(
        draw.choice(WORDS) + draw.choice(ENDS) * (draw.random() < 0.3) + draw.choice(SPACES)
        for _ in range(words)
    ) + draw.choice(SPACES) * draw.randint(0, 2)


def words(text: str) -> list[str]:
    """Words and signs without regard to order, capitals and white space; what cannot be seen may go."""
    seen = text.translate(dict.fromkeys((0x200B, 0x202E))).upper()
    return sorted(re.findall(r"\w+|[^\w\s]", seen))


@pytest.fixture(scope="module")
def limits() -> RequestLimits:
    return request_limits(Settings(), manifest())


def test_1000_random_batches(limits: RequestLimits) -> None:
    draw = random.Random(7)
    translator = Translator(served_model(FakeEngine(max_queue_sentences=10**6)), limits)
    known: dict[tuple[str, int | None], tuple[str, str]] = {}

    async def translate(texts: list[str], longest: int | None) -> list[tuple[str, str]]:
        requested = RequestedOptions(max_decoding_length=longest)
        request = TranslationRequest(
            str(draw.random()), tuple(texts), "en", "de", time.monotonic() + 60, requested
        )
        translation = await translator.translate(request, "en", "de")
        return [(text.hypotheses[0], text.finish_reason) for text in translation.texts]

    async def main() -> None:
        for _ in range(1000):
            texts = [random_text(draw) for _ in range(draw.choice((1, 2, 5, 20)))]
            longest = draw.choice((None, None, 2))
            found = await translate(texts, longest)
            assert len(found) == len(texts)
            for text, answer in zip(texts, found, strict=True):
                if (text, longest) not in known:
                    (known[text, longest],) = await translate([text], longest)
                assert answer == known[text, longest]
                assert answer[1] in ("eos", "length")
                if longest is None:
                    # The fake engine writes every word in capitals: none is lost, none is added.
                    assert words(answer[0]) == words(text), (text, answer[0])
                    assert answer[1] == "eos"

    asyncio.run(main())
    translator.close()
    assert {reason for _, reason in known.values()} == {"eos", "length"}
