"""A MarianMT model of random weights that counts down, small enough to be made in a test, for CTranslate2."""

from pathlib import Path

import pytest

from benchmarks.inputs import vocabulary
from benchmarks.inputs.random_model import Size, write_random_model
from benchmarks.models import Model, convert

SIZE = Size(encoder_layers=1, decoder_layers=1, d_model=256, ffn_dim=512, heads=4, vocabulary=1000)


@pytest.fixture(scope="session")
def counting_model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Folders for transformers and CTranslate2; there is no bundle."""
    home = tmp_path_factory.mktemp("counting")
    huggingface, ctranslate2 = home / "huggingface", home / "ctranslate2"
    huggingface.mkdir()
    write_random_model(huggingface, SIZE)
    convert(huggingface, ctranslate2)
    return Model("tiny", Path("nowhere"), huggingface, ctranslate2)


@pytest.fixture(scope="session")
def countdowns() -> list[tuple[str, str]]:
    """Texts of 1 to 12 words and what becomes of them: as many counting words."""
    lengths = [1 + (5 * n) % 12 for n in range(48)]
    sources = vocabulary.random_sentences(SIZE.vocabulary, lengths, seed=4, ending=True)
    counts = [" ".join(vocabulary.word(vocabulary.counting_id(n)) for n in range(k, 0, -1)) for k in lengths]
    return list(zip(map(vocabulary.as_text, sources), counts, strict=True))
