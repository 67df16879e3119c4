"""MarianMT models of any architecture and settings, drawn: imported, they write what `generate` writes."""

import random
from pathlib import Path
from typing import Any

import pytest

from export.convert.import_command import import_model
from export.convert.vocabularies.vocabulary import ImportNames
from export.quality_gates import GateError
from server.service.request_limits import request_limits
from server.service.translation.decoding_options import choose_options
from server.service.translation.request import RequestedOptions
from server.settings import Settings
from tests.integration.hugging_face import Reference, Served, edit_json, fp32_options
from tests.integration.marian import write_marian
from tests.support import factories

ODD = ["日本語 and Ελληνικά, 😀😀 too.", "<b>bold</b> & more", " two  spaces\tand a tab "]


def draw_config(draw: random.Random) -> dict[str, Any]:
    head_size, heads = draw.choice((8, 16, 24, 32, 40)), draw.choice((1, 2, 4))
    width = head_size * heads
    other_heads = [count for count in (1, 2, 3, 4, 5, 8) if width % (8 * count) == 0]
    return {
        "d_model": width,
        "encoder_layers": draw.randint(1, 4),
        "decoder_layers": draw.randint(1, 4),
        "encoder_attention_heads": heads,
        "decoder_attention_heads": draw.choice(other_heads),
        "encoder_ffn_dim": draw.choice((17, 32, 64, 100, 256)),
        "decoder_ffn_dim": draw.choice((17, 32, 64, 100, 256)),
        "max_position_embeddings": draw.choice((64, 65, 128, 512)),
        "activation_function": draw.choice(("swish", "silu", "relu", "gelu")),
        "scale_embedding": draw.random() < 0.6,
    }


def draw_generation(draw: random.Random) -> dict[str, Any]:
    beams = draw.choice((1, 1, 2, 3, 4, 6))
    settings: dict[str, Any] = {"num_beams": beams, "max_length": draw.choice((20, 33, 64))}
    if beams > 1:
        settings["length_penalty"] = draw.choice((0.0, 0.6, 1.0, 2.0))
        settings["early_stopping"] = draw.choice((True, False, "never"))
    elif draw.random() < 0.3:
        settings["renormalize_logits"] = True
    if draw.random() < 0.3:
        settings["forced_eos_token_id"] = None
    if draw.random() < 0.3:
        settings["forced_bos_token_id"] = draw.randint(2, 60)
    if draw.random() < 0.3:
        settings["suppress_tokens"] = [draw.randint(61, 80) for _ in range(3)]
    return settings


def compare(seed: int, aside: Path, pieces: tuple[Path, Path], text: Path) -> bool:
    """Import a drawn model and translate; gives whether it could be: some never end their translations."""
    draw = random.Random(seed)
    separate = draw.random() < 0.3
    directory = write_marian(
        aside / "model",
        *pieces,
        separate=separate,
        tie_word_embeddings=not separate or draw.random() < 0.5,
        end_bias=draw.choice((3.5, 4.5)),
        gain=draw.choice((0.3, 0.7)),
        seed=seed,
        generation=draw_generation(draw),
        **draw_config(draw),
    )
    if draw.random() < 0.3:
        for name in ("config.json", "generation_config.json"):
            edit_json(directory / name, decoder_start_token_id=1 + seed % 60)
    try:
        import_model(
            str(directory), aside / "bundle", None, ImportNames(), fp32_options(text), lambda line: None
        )
    except GateError as error:
        assert "as golden" in str(error)
        return False
    served = Served(aside / "bundle")
    try:
        texts = [*factories.parallel_text(40, seed=21)[0], *ODD]
        limits = request_limits(Settings(bundle=(aside / "bundle",)), served.manifest)
        requested = RequestedOptions(max_decoding_length=limits.generation.max_decoding_length)
        options = choose_options(requested, limits, limits.max_source_tokens)
        assert served.generate(texts, options) == Reference(directory).generate(texts), seed
    finally:
        served.close()
    return True


@pytest.mark.slow
def test_a_drawn_model_writes_what_generate_writes(
    tmp_path: Path, pieces: tuple[Path, Path], text: Path
) -> None:
    assert compare(184, tmp_path, pieces, text)


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
def test_100_drawn_models_write_what_generate_writes(
    tmp_path: Path, pieces: tuple[Path, Path], text: Path
) -> None:
    compared = sum(compare(seed, tmp_path / str(seed), pieces, text) for seed in range(100))
    print(compared, "compared")
    assert compared > 40
