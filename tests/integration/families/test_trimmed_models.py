"""Imported models without most of their words: the logits of those that stay are what they were."""

import random
from pathlib import Path

import pytest
import torch

from export.convert.from_huggingface import import_checkpoint
from export.convert.vocabularies.vocabulary import ImportNames
from model.checkpoint import Checkpoint, CheckpointError, load_checkpoint
from model.pruning.vocabulary import trim_vocabulary
from tests.integration import fairseq
from tests.integration.marian import write_marian
from tests.support import factories

FAIRSEQ = ("nllb", "m2m100", "mbart25")
KINDS = (*FAIRSEQ, "shared", "separate", "multilingual")
LINES = 41


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def checkpoint(kind: str, pieces: tuple[Path, Path], tmp_path: Path) -> Path:
    if kind in FAIRSEQ:
        directory = fairseq.write_model(tmp_path / "theirs", kind, saved_by_transformers=True)  # type: ignore[arg-type]
    else:
        changes = {"separate": {"separate": True}, "multilingual": {"codes": ("de", "pt_BR", "zgh")}}
        directory = write_marian(tmp_path / "theirs", *pieces, **changes.get(kind, {}))  # type: ignore[arg-type]
    import_checkpoint(directory, tmp_path / "whole", ImportNames(), lambda line: None)
    return tmp_path / "whole"


def logits(model: Checkpoint, name: str, source: str, target: str) -> tuple[torch.Tensor, list[str]]:
    """Logits of a translation that is given, and what their columns stand for."""
    special = model.config.special_tokens
    (direction,) = (one for one in model.config.all_directions if one.name == name)
    encoded = [
        *special.source_prefix_ids, *direction.source_prefix_ids, *model.tokenizer.encode(source),
        *special.source_suffix_ids, *direction.source_suffix_ids,
    ]  # fmt: skip
    written = [
        special.decoder_start_id, *special.target_prefix_ids, *direction.target_prefix_ids,
        *model.tokenizer.encode_target_batch([target])[0],
    ]  # fmt: skip
    with torch.inference_mode():
        found = model.model(torch.tensor([encoded]), torch.tensor([len(encoded)]), torch.tensor([written]))
    return found[0], model.tokenizer.target_pieces()


def test_the_words_that_stay_have_the_same_logits(checkpoint: Path, kind: str, tmp_path: Path) -> None:
    lines = [*(fairseq.texts(LINES) if kind in FAIRSEQ else factories.parallel_text(LINES)[0])]
    text = tmp_path / "text"
    text.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    whole = load_checkpoint(checkpoint)
    languages = [one.code for one in whole.config.languages[1::-1]]
    first = whole.config.directions[:1]
    asked = languages or [code for one in first for code in (one.source, one.target)]
    # The weights are random and so are the words that they write, most of which go.
    trim_vocabulary(checkpoint, tmp_path / "few", [text], [text], asked, min_agreement=0)
    few = load_checkpoint(tmp_path / "few")
    assert few.transformer.config.target_vocab_size < whole.transformer.config.target_vocab_size
    assert [one.code for one in few.config.languages] == languages
    direction = few.config.all_directions[0].name
    assert direction == whole.config.all_directions[0].name or direction == "-".join(languages)
    draw = random.Random(1)
    counted = [line for i, line in enumerate(lines) if i % 20]
    for _ in range(8):
        source, target = draw.sample(counted, 2)
        (before, old), (after, new) = (logits(model, direction, source, target) for model in (whole, few))
        named = [piece for piece in new if piece and not piece.startswith("<")]
        assert len(named) > 10
        columns = [[pieces.index(piece) for piece in named] for pieces in (old, new)]
        assert torch.allclose(before[:, columns[0]], after[:, columns[1]], atol=1e-5)


@pytest.mark.parametrize("kind", ["nllb"], indirect=True)
def test_languages_are_named(checkpoint: Path, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("a\nb\n", encoding="utf-8")
    with pytest.raises(CheckpointError, match="has no language klingon; it has"):
        trim_vocabulary(checkpoint, tmp_path / "few", [text], [text], ["klingon"])
    with pytest.raises(CheckpointError, match="languages; name those that stay with --languages"):
        trim_vocabulary(checkpoint, tmp_path / "few", [text], [text])
    code = load_checkpoint(checkpoint).config.languages[0].code
    with pytest.raises(CheckpointError, match="translates nothing between"):
        trim_vocabulary(checkpoint, tmp_path / "few", [text], [text], [code])
