"""What does it cost a sentence that one of its words is masked while it is translated?

Takes the sentences of a test set in which a capitalized word stands once, and once in the reference. The
word is replaced by the bundle's first mask, and put back in the translation. No other mask is tried where the
first one is lost, and nothing is cut or forced, so this is the first rung of the ladder alone.

    python -m benchmarks.text.masks bundles/* --data FOLDER ...  # test.en.gz and test.de.gz in one of them
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.reporting.tables import table
from export.bundle import Mask, load_manifest
from export.text_measures.dev_translator import DevTranslator
from export.text_measures.masks import is_copied
from model.data.corpus import ParallelText, read_parallel
from model.evaluation.scoring import score

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Cost:
    """What one mask costs.

    Attributes:
        sentences: that have a word to mask.
        copied: share of them that keep the mask, exactly once.
        plain: chrF of their translations.
        masked: chrF of those with a mask, the word put back.
    """

    sentences: int
    copied: float
    plain: float
    masked: float


def names(text: ParallelText) -> list[tuple[str, str, str]]:
    """Choose sentences, the word in each that is masked, and their references."""
    chosen = []
    for source, target in zip(text.sources, text.targets, strict=True):
        written = _WORD.findall(target)
        for word in _WORD.findall(source):
            capital = len(word) > 2 and word.isalpha() and word[0].isupper()
            if capital and source.count(word) == 1 and target.count(word) == 1 and word in written:
                chosen.append((source, word, target))
                break
    return chosen


def cost(translator: DevTranslator, mask: Mask, chosen: Sequence[tuple[str, str, str]]) -> Cost:
    """Translate the sentences without and with a mask."""
    references = [target for _, _, target in chosen]
    plain = translator.translate([source for source, _, _ in chosen], "plain")
    outputs = translator.translate(
        [source.replace(word, mask.word(1), 1) for source, word, _ in chosen], mask.word(1)
    )
    back = [output.replace(mask.word(1), word) for output, (_, word, _) in zip(outputs, chosen, strict=True)]
    kept = sum(is_copied(output, mask.word(1)) for output in outputs)
    return Cost(len(chosen), kept / len(chosen), score(plain, references).chrf, score(back, references).chrf)


def find_text(folders: Sequence[Path], languages: tuple[str, str]) -> ParallelText:
    """Read the test set of two languages: `test.en.gz` and `test.de.gz` in one folder.

    Raises:
        SystemExit: there is none.
    """
    for first in (path for folder in folders for path in sorted(folder.rglob(f"test.{languages[0]}.gz"))):
        second = first.with_name(f"test.{languages[1]}.gz")
        if second.exists():
            return read_parallel([first], [second])
    raise SystemExit(
        f"{', '.join(map(str, folders))}: no folder has test.{languages[0]}.gz and test.{languages[1]}.gz"
    )


def main() -> None:
    """Measure every bundle and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundles", nargs="+", type=Path)
    parser.add_argument("--data", nargs="+", type=Path, required=True, help="folders with the test sets")
    arguments = parser.parse_args()
    rows = []
    for bundle in arguments.bundles:
        manifest = load_manifest(bundle)
        if manifest.text is None or not manifest.text.masks:
            parser.error(f"{bundle} has no masks; dragoman measure finds them")
        mask = manifest.text.masks[0]
        pair = next(manifest.pairs)
        found = cost(DevTranslator.of_bundle(bundle, manifest), mask, names(find_text(arguments.data, pair)))
        rows.append(
            [
                "-".join(pair),
                mask.template,
                str(found.sentences),
                f"{found.copied:.1%}",
                f"{found.plain:.1f}",
                f"{found.masked:.1f}",
                f"{found.plain - found.masked:+.1f}",
            ]
        )
    print(table(["pair", "mask", "sentences", "copied", "chrF plain", "chrF masked", "lost"], rows))


if __name__ == "__main__":
    main()
