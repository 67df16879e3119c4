"""How often the checks fire on clean text, and how many loops are left on long text after mending.

python -m benchmarks.checks --text en=corpus/dev.en.gz --text de=corpus/dev.de.gz --inputs 2000
python -m benchmarks.checks --bundle bundles/en-de --text en=corpus/dev.en.gz --show

An alarm on a sentence that the model was trained for counts as false, whatever it wrote. Without `--text`,
the golden sentences of the bundles are read. Long text is made of three to five sentences, joined by commas
and `and`.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.protection import sentences, translated
from server.engine.observer import NullObserver
from server.service.models.loading import load_model
from server.service.models.served_model import ServedModel
from server.service.text.output.checks import REASONS, is_loop
from server.settings import Settings

AND = {"en": "and", "de": "und", "fr": "et", "es": "y"}
MOST_FALSE_PERCENT = 0.2
MOST_LOOPS_PERCENT = 2.0


@dataclass
class Counted:
    """What was found for one bundle; percentages of sentences."""

    alarms: Counter[str] = field(default_factory=Counter)
    clean: int = 0
    with_alarm: int = 0
    long: int = 0
    loops_found: int = 0
    loops_left: int = 0

    @property
    def false_percent(self) -> float:
        """Clean sentences with any alarm."""
        return 100 * self.with_alarm / max(1, self.clean)

    @property
    def loops_percent(self) -> float:
        """Long sentences that loop after mending."""
        return 100 * self.loops_left / max(1, self.long)


def long_sentence(lines: list[str], language: str, draw: random.Random) -> str:
    """Join three to five sentences into one."""
    parts = [line.rstrip(".!?…").strip() for line in draw.sample(lines, draw.choice((3, 4, 5)))]
    text = parts[0]
    for part in parts[1:]:
        text += draw.choice((", ", f" {AND.get(language, ',')} ")) + part
    return text + "."


def measure(model: ServedModel, lines: list[str], inputs: int, seed: int, show: bool) -> Counted:
    """Translate clean and long sentences and count."""
    draw = random.Random(seed)
    source = next(iter(model.manifest.pairs))[0]
    counted = Counted()
    clean = draw.sample(lines, min(inputs, len(lines)))
    for text, (output, pieces) in zip(clean, translated(model, clean), strict=True):
        reasons = {reason for piece in pieces for reason, _ in piece.guards}
        counted.clean += 1
        counted.with_alarm += bool(reasons)
        counted.alarms.update(reasons)
        if reasons and show:
            print(f"{model.manifest.name} {sorted(reasons)}: {text!r} -> {output!r}", file=sys.stderr)
    long = [long_sentence(lines, source, draw) for _ in range(max(1, inputs // 4))]
    for text, (output, pieces) in zip(long, translated(model, long), strict=True):
        counted.long += 1
        counted.loops_found += any(reason == "loop" for piece in pieces for reason, _ in piece.guards)
        if is_loop(text, output):
            counted.loops_left += 1
            if show:
                print(f"{model.manifest.name} loop left: {text!r} -> {output!r}", file=sys.stderr)
    return counted


def main() -> int:
    """Measure all bundles that are named and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bundle", type=Path, action="append", help="default: all of bundles/")
    parser.add_argument("--text", action="append", default=[], help="LANGUAGE=FILE, sentences, one a line")
    parser.add_argument("--inputs", type=int, default=1000, help="for each bundle (default 1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--show", action="store_true", help="print the sentences that alarms and loops are of"
    )
    asked = parser.parse_args()
    files = {language: Path(name) for language, _, name in (text.partition("=") for text in asked.text)}
    bundles = asked.bundle or sorted(path.parent for path in Path("bundles").glob("*/manifest.json"))
    fits = True
    print(f"| bundle | sentences | false % | {' | '.join(REASONS)} | long | loops found % | left % |")
    print("|---" * (len(REASONS) + 6) + "|")
    for bundle in bundles:
        model = load_model(Settings(bundle=(bundle,)), NullObserver())
        try:
            lines = sentences(model, files.get(next(iter(model.manifest.pairs))[0]))
            counted = measure(model, lines, asked.inputs, asked.seed, asked.show)
        finally:
            model.engine.close(0.0)
        each = " | ".join(str(counted.alarms[reason]) for reason in REASONS)
        found = 100 * counted.loops_found / counted.long
        print(
            f"| {bundle.name} | {counted.clean} | {counted.false_percent:.2f} | {each} "
            f"| {counted.long} | {found:.1f} | {counted.loops_percent:.1f} |",
            flush=True,
        )
        fits &= counted.false_percent <= MOST_FALSE_PERCENT and counted.loops_percent <= MOST_LOOPS_PERCENT
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
