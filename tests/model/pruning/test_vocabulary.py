"""A checkpoint without some words writes what it wrote and spells what it has no word for."""

from pathlib import Path

import pytest
import torch

from model.checkpoint import CheckpointError, load_checkpoint
from model.evaluation.evaluation import checkpoint_translator
from model.pruning.vocabulary import Trimmed, trim_vocabulary
from model.tokenizer import Tokenizer
from model.vocabulary.learning import train_sentencepiece
from model.vocabulary.trimming import needed_pieces, read_pieces, trimmed_pieces
from tests.support import factories


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def trimmed(
    tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Trimmed, list[str]]:
    """A checkpoint with the words of few sentences, and these."""
    folder = tmp_path_factory.mktemp("trimmed")
    sources, targets = (list(side) for side in factories.parallel_text(2, seed=3))
    translated = checkpoint_translator(tiny_checkpoint)(sources)
    source, target = write(folder / "en", sources), write(folder / "de", [*targets, *translated])
    found = trim_vocabulary(tiny_checkpoint, folder / "out", [source, target], [source, target])
    counted = [line for i, line in enumerate(sources) if i % 20]
    return folder / "out", found, counted


def test_texts_that_were_counted_are_translated_as_before(
    trimmed: tuple[Path, Trimmed, list[str]], tiny_checkpoint: Path
) -> None:
    out, found, lines = trimmed
    assert found.words[0] == 360
    assert found.words[1] < 356
    assert found.parameters[1] < found.parameters[0]
    assert (found.direction, found.translated, found.translated_alike) == ("en-de", 1, 1)
    assert load_checkpoint(out).config.model.target_vocab_size == found.words[1]
    assert checkpoint_translator(out)(lines) == checkpoint_translator(tiny_checkpoint)(lines)


def test_a_text_that_was_not_is_spelled(trimmed: tuple[Path, Trimmed, list[str]]) -> None:
    tokenizer = load_checkpoint(trimmed[0]).tokenizer
    for text in ("a quite unusual text", "日本語 🙂", "ŁÓDŹ"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_texts_are_cut_as_before(kind: str, tmp_path: Path) -> None:
    lines = [line for side in factories.parallel_text(300, seed=5) for line in side]
    train_sentencepiece(lines, tmp_path / "all.spm", vocab_size=330, kind=kind)  # type: ignore[arg-type]
    proto = read_pieces(tmp_path / "all.spm")
    before = Tokenizer.load(tmp_path / "all.spm")
    few = lines[:2]
    kept = needed_pieces(proto, {id for row in before.encode_batch(few) for id in row})
    assert len(kept) < 325
    (tmp_path / "few.spm").write_bytes(trimmed_pieces(proto, kept))
    after = Tokenizer.load(tmp_path / "few.spm")
    assert (after.pad_id, after.unk_id, after.bos_id, after.eos_id) == (0, 1, 2, 3)
    new_of = {old: new for new, old in enumerate(sorted(kept))}
    assert after.encode_batch(few) == [[new_of[id] for id in row] for row in before.encode_batch(few)]


def test_odd_questions_are_refused(tiny_checkpoint: Path, tmp_path: Path) -> None:
    text = write(tmp_path / "text", ["a", "b"])
    with pytest.raises(CheckpointError, match="has no language xx; it has de, en"):
        trim_vocabulary(tiny_checkpoint, tmp_path / "out", [text], [text], ["en", "xx"])
    (tmp_path / "there").mkdir()
    with pytest.raises(ValueError, match="there exists; remove it or choose another --out"):
        trim_vocabulary(tiny_checkpoint, tmp_path / "there", [text], [text])


def test_words_that_translations_need_do_not_go(tiny_checkpoint: Path, tmp_path: Path) -> None:
    held_out = factories.parallel_text(1, seed=4)[0]
    text = write(tmp_path / "text", [*held_out, *["a"] * 19])
    with pytest.raises(CheckpointError, match=r"0 of 1 translated as before \(en-de\): less than --min"):
        trim_vocabulary(tiny_checkpoint, tmp_path / "out", [text], [text])
    write(text, ["", *["a"] * 19])
    with pytest.raises(CheckpointError, match=r"0 of 0 translated as before"):
        trim_vocabulary(tiny_checkpoint, tmp_path / "out", [text], [text])
    assert list(tmp_path.iterdir()) == [text]
    write(text, [*held_out, *["a"] * 19])
    assert trim_vocabulary(tiny_checkpoint, tmp_path / "out", [text], [text], min_agreement=0).words[1] < 310


def test_weights_are_rows_of_the_old_ones(
    trimmed: tuple[Path, Trimmed, list[str]], tiny_checkpoint: Path
) -> None:
    old, new = load_checkpoint(tiny_checkpoint), load_checkpoint(trimmed[0])
    pieces = {piece: id for id, piece in enumerate(old.tokenizer.source_pieces())}
    places = torch.tensor([pieces[piece] for piece in new.tokenizer.source_pieces()])
    assert torch.equal(
        new.transformer.target_embedding.tokens.weight, old.transformer.target_embedding.tokens.weight[places]
    )
