"""Gives a run its vocabulary: learnt from its corpus, or copied from another run, a bundle or a file."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from model.data.corpus import iterate_lines
from model.data.directions import tags_of
from model.recipe import Corpus, Recipe, RecipeError
from model.tokenizer import Tokenizer
from model.vocabulary.learning import SPECIAL_IDS, share_spelled, train_sentencepiece

TOKENIZER_FILES = ("source.spm", "target.spm")
_MOST_SPELLED, _MUCH_SPELLED = 0.25, 0.02
"""Shares of a corpus' pieces that are bytes: refused above the first, warned of above the second. With the
shipped model's vocabulary they are 0.3 % of German, its own, 9 % of French, and 89 % of Greek."""

_LINES_OF_A_FILE = 2_000


def copy_vocabulary(place: Path, directory: Path) -> None:
    """Copy a vocabulary into the directory of a run; one that is there already goes.

    Args:
        place: a SentencePiece model of both languages, or the directory of a run, a checkpoint or a bundle,
            which has one for each language or one for both.
        directory: of the run.

    Raises:
        RecipeError: there is none, or one with other special ids than a run's.
        TokenizerError: a file is no SentencePiece model.
    """
    files = [place / name for name in TOKENIZER_FILES] if place.is_dir() else [place]
    if not files[0].is_file():
        raise RecipeError(
            f"{files[0]}: no such vocabulary; give a .spm file, a run, a checkpoint or a bundle"
        )
    for file in filter(Path.is_file, files):
        _check_ids(file)
    for file, name in itertools.zip_longest(files, TOKENIZER_FILES):
        (directory / name).unlink(missing_ok=True)
        if file is not None and file.is_file():
            shutil.copyfile(file, directory / name)


def _check_ids(file: Path) -> None:
    tokenizer = Tokenizer.load(file)
    found, needed = (
        ", ".join(f"{name} {number}" for name, number in ids.items())
        for ids in ({name: getattr(tokenizer, name) for name in SPECIAL_IDS}, SPECIAL_IDS)
    )
    if found != needed:
        raise RecipeError(
            f"{file}: has {found}, but a run needs {needed}; learn one with dragoman train, or with "
            "SentencePiece and these ids"
        )


def learn_vocabulary(recipe: Recipe, directory: Path, pairs: int, say: Callable[[str], None]) -> None:
    """Learn the pieces of a recipe's corpus, of both sides together or of each; what is there is kept.

    Args:
        recipe: says which.
        directory: where the ``.spm`` files go.
        pairs: of the corpus; a sample is drawn from more than the recipe wants.
        say: reports what is done.
    """
    vocabulary, corpus = recipe.vocabulary, recipe.corpus
    sources = [path for text in corpus.directions for path in text.train_source]
    targets = [path for text in corpus.directions for path in text.train_target]
    if corpus.has_features:
        sides = {"source.spm": targets}
    elif vocabulary.joint:
        sides = {"source.spm": [*sources, *targets]}
    else:
        sides = {"source.spm": sources, "target.spm": targets}
    seed = recipe.training.seed
    share = vocabulary.sentences / max(1, pairs * (1 + vocabulary.joint))
    for name, files in sides.items():
        if not (directory / name).exists():
            say(f"learning {vocabulary.size:,} pieces from {', '.join(file.name for file in files)}")
            train_sentencepiece(
                # SentencePiece would draw a sample, too, but take 0.5 us for every line it leaves out.
                itertools.chain.from_iterable(
                    iterate_lines(file, share=share, seed=seed + number) for number, file in enumerate(files)
                ),
                directory / name,
                vocab_size=vocabulary.size,
                kind=(name == "target.spm" and vocabulary.target_kind) or vocabulary.kind,
                character_coverage=vocabulary.character_coverage,
                split_digits=vocabulary.split_digits,
                symbols=vocabulary.symbols,
                tags=tags_of(corpus) if name == "source.spm" else (),
                seed=seed,
            )


def check_fit(
    tokenizer: Tokenizer, corpus: Corpus, place: Path, setting: str, say: Callable[[str], None]
) -> None:
    """See that the vocabulary of another run suits a corpus, by the first lines of every file.

    Args:
        tokenizer: with that vocabulary.
        corpus: the text.
        place: where the vocabulary is from, for messages.
        setting: of the recipe that named it.
        say: warns of one that fits badly.

    Raises:
        RecipeError: it was learnt for other text.
    """
    texts = () if corpus.has_features else corpus.directions
    sources = _first_lines(file for text in texts for file in text.train_source)
    targets = _first_lines(file for text in corpus.directions for file in text.train_target)
    share = max(
        share_spelled(tokenizer.source_pieces(), tokenizer.encode_batch(sources)),
        share_spelled(tokenizer.target_pieces(), tokenizer.encode_target_batch(targets)),
    )
    found = f"{share:.1%} of this corpus' pieces are single bytes or unknown"
    if share > _MOST_SPELLED:
        raise RecipeError(
            f"{setting}: the vocabulary of {place} was learnt for other text: {found}; "
            "train from the start, with a vocabulary of its own"
        )
    if share > _MUCH_SPELLED:
        say(f"the vocabulary of {place} fits badly: {found}; one of its own would make shorter sequences")


def _first_lines(files: Iterator[Path]) -> Sequence[str]:
    return [line for file in files for line in itertools.islice(iterate_lines(file), _LINES_OF_A_FILE)]
