"""What becomes a directory for transformers, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from export.convert.huggingface_files import HuggingFaceError
from export.convert.to_huggingface import choose_class, write_huggingface
from model.checkpoint import CheckpointConfig, load_checkpoint
from model.transformer import Transformer
from tests.support import factories


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": "learned"}, "learned positions"),
        ({"position_offset": 2}, "counts positions from 2"),
        ({"embedding_norm": True}, "a norm on its embeddings"),
        ({"norm": "post"}, "final norm"),
        ({"final_norm": False}, "final norm"),
        ({"layer_norm_eps": 1e-6}, "layer_norm_eps 1e-06"),
        ({"share_source_target_embeddings": False}, "separate embeddings"),
    ],
)
def test_architectures_that_no_class_has_are_named(changes: dict[str, Any], message: str) -> None:
    config = CheckpointConfig(
        name="mine", model=factories.tiny_config(360, **changes), source_language="en", target_language="de"
    )
    with pytest.raises(HuggingFaceError, match=f"mine: no Hugging Face class fits: .*{message}"):
        choose_class(config)


def test_post_norm_models_become_marian_models(tmp_path: Path, tiny_checkpoint: Path) -> None:
    """What CTranslate2's converter would get wrong is said."""
    checkpoint = load_checkpoint(tiny_checkpoint)
    model = factories.tiny_config(checkpoint.config.model.target_vocab_size, norm="post", final_norm=False)
    changed = replace(
        checkpoint,
        model=Transformer(model).eval(),
        config=checkpoint.config.model_copy(update={"model": model}),
    )
    lines: list[str] = []
    assert write_huggingface(changed, tmp_path / "hf", lines.append) == "MarianMTModel"
    assert len(lines) == 2
    assert "4 heads for the decoder, which has 2" in lines[0]
    assert "a zero embedding" in lines[1]
    config = json.loads((tmp_path / "hf" / "config.json").read_text(encoding="utf-8"))
    assert (config["model_type"], config["decoder_vocab_size"]) == ("marian", 360)
