"""500 sentences, token by token against transformers: the shipped model, and a base-sized MarianMT."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from export.convert.import_command import export_huggingface, import_model
from export.convert.vocabularies.vocabulary import ImportNames
from server.engine.options import DecodingOptions
from tests.integration.hugging_face import Reference, Served, fp32_options, realistic_sentences
from tests.integration.marian import write_marian

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(3600)]

COUNT = 500
BASE = {
    "d_model": 512,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
    "max_position_embeddings": 512,
}


@pytest.fixture(scope="module")
def texts(repository: Path) -> list[str]:
    return realistic_sentences(repository / "recipes" / "golden.en", COUNT)


def _bundle(directory: Path, texts: list[str], out: Path) -> Path:
    dev = out.with_suffix(".en")
    dev.write_text("".join(f"{text}\n" for text in texts[:220]), encoding="utf-8")
    import_model(str(directory), out, None, ImportNames(), fp32_options(dev, threads=2), lambda line: None)
    return out


@pytest.fixture(scope="module", params=["shipped", "base"])
def pair(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    repository: Path,
    texts: list[str],
) -> Iterator[tuple[str, Reference, Served]]:
    aside = tmp_path_factory.mktemp(request.param)
    shipped = repository / "bundles" / "en-de"
    if request.param == "shipped":
        export_huggingface(shipped, aside / "hf", force=False, report=lambda line: None)
    else:
        pieces = shipped / "source.spm"
        write_marian(aside / "hf", pieces, pieces, end_bias=7.0, gain=0.45, **BASE)
    served = Served(_bundle(aside / "hf", texts, aside / "bundle"))
    yield request.param, Reference(aside / "hf"), served
    served.close()


@pytest.mark.parametrize(("beams", "penalty"), [(1, 1.0), (4, 1.0), (4, 0.6)])
def test_every_token(
    pair: tuple[str, Reference, Served], texts: list[str], beams: int, penalty: float
) -> None:
    """The random model has no sense of an end: it gets 12 tokens, no more and no fewer."""
    name, reference, served = pair
    steps, least = (100, 0) if name == "shipped" else (13, 12)
    assert served.ids(texts) == reference.ids(texts)
    expected = reference.generate(
        texts,
        num_beams=beams,
        max_length=steps + 1,
        min_new_tokens=least,
        length_penalty=penalty,
        early_stopping=False,
    )
    options = DecodingOptions(
        beam_size=beams,
        max_decoding_length=steps,
        min_decoding_length=least,
        length_penalty=penalty,
        early_stopping=False,
    )
    found = served.generate(texts, options)
    different = [text for text, ours, theirs in zip(texts, found, expected, strict=True) if ours != theirs]
    assert different == []
    assert sum(map(len, expected)) > 10 * COUNT
