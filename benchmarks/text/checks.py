"""How often the checks fire on clean text, and how many loops are left on long text after mending.

python -m benchmarks.text.checks --text en=corpus/dev.en.gz --text de=corpus/dev.de.gz --inputs 2000
python -m benchmarks.text.checks --bundle bundles/en-de --text en=corpus/dev.en.gz --show

An alarm on a sentence that the model was trained for counts as false, whatever it wrote; many of these are
right, for the model was wrong. With `--reference`, people's translations are put in the place of the model's
(of sentences that are read as one, without a mask), and an alarm on one of them is false beyond doubt.
Without `--text`, the golden sentences of the bundles are read. Long text is made of three to five sentences,
joined by commas and `and`.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.text.protection import sentences, translated
from server.engine.observer import NullObserver
from server.engine.sequence import Hypothesis, SequenceResult
from server.service.models.loading import load_model
from server.service.models.served_model import ServedModel, text_side
from server.service.request_limits import request_limits
from server.service.text.codec import Reading, TextCodec
from server.service.text.options import Way
from server.service.text.output.checks import REASONS, is_loop
from server.service.translation.decoding_options import choose_each
from server.service.translation.request import RequestedOptions
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

    def row(self, bundle: str, whose: str) -> str:
        """Format a row of the table: of a bundle, and of whose translations."""
        each = " | ".join(str(self.alarms[reason]) for reason in REASONS)
        loops = f"{100 * self.loops_found / max(1, self.long):.1f} | {self.loops_percent:.1f}"
        share = f"{self.false_percent:.2f}"
        return f"| {bundle} | {whose} | {self.clean} | {share} | {each} | {self.long} | {loops} |"


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


def measure_people(
    model: ServedModel, pairs: list[tuple[str, str]], inputs: int, seed: int, show: bool
) -> Counted:
    """Check people's translations as if the model had written them.

    Args:
        model: whose checks they are.
        pairs: sentences and their translations.
        inputs: how many of them.
        seed: of the choice.
        show: whether to print the pairs with an alarm.

    Returns:
        What was found on the sentences that were read as one, without a mask.
    """
    limits = request_limits(Settings(), model.manifest)
    side = text_side(model, limits)
    codec = TextCodec(side, limits)
    source, target = next(iter(model.manifest.pairs))
    way = Way(source, target, model.manifest.framing(source, target))
    counted = Counted()
    for text, reference in random.Random(seed).sample(pairs, min(inputs, len(pairs))):
        document = codec.read([text], way, Reading())
        if len(document.inputs) != 1 or document.inputs[0].required:
            continue
        counted.clean += 1
        (tokens,) = side.target_ids([reference])
        written = SequenceResult((Hypothesis(tokens, 0.0),), "eos", len(tokens), len(tokens), 0.0, 0.0, 0.0)
        document.resume([written])
        while document.inputs:
            options = choose_each(RequestedOptions(), limits, document.inputs)
            futures = model.engine.submit("mended", [one.ids for one in document.inputs], options)
            document.resume([future.result() for future in futures])
        pieces = [piece for piece in document.pieces[0] if not isinstance(piece, str)]
        reasons = {reason for piece in pieces for reason, _ in piece.guards}
        counted.with_alarm += bool(reasons)
        counted.alarms.update(reasons)
        if reasons and show:
            print(f"{model.manifest.name} {sorted(reasons)}: {text!r} = {reference!r}", file=sys.stderr)
    return counted


def main() -> int:
    """Measure all bundles that are named and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bundle", type=Path, action="append", help="default: all of bundles/")
    parser.add_argument("--text", action="append", default=[], help="LANGUAGE=FILE, sentences, one a line")
    parser.add_argument("--reference", action="append", default=[], help="LANGUAGE=FILE, beside --text")
    parser.add_argument("--inputs", type=int, default=1000, help="for each bundle (default 1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--show", action="store_true", help="print the sentences that alarms and loops are of"
    )
    asked = parser.parse_args()
    files, references = (
        {language: Path(name) for language, _, name in (text.partition("=") for text in given)}
        for given in (asked.text, asked.reference)
    )
    bundles = asked.bundle or sorted(path.parent for path in Path("bundles").glob("*/manifest.json"))
    fits = True
    print(f"| bundle | of | sentences | false % | {' | '.join(REASONS)} | long | loops found % | left % |")
    print("|---" * (len(REASONS) + 7) + "|")
    for bundle in bundles:
        model = load_model(Settings(bundle=(bundle,)), NullObserver())
        source, target = next(iter(model.manifest.pairs))
        try:
            lines = sentences(model, files.get(source))
            counted = [("model", measure(model, lines, asked.inputs, asked.seed, asked.show))]
            if target in references:
                pairs = list(zip(lines, sentences(model, references[target]), strict=True))
                counted.append(("people", measure_people(model, pairs, asked.inputs, asked.seed, asked.show)))
        finally:
            model.engine.close(0.0)
        for whose, found in counted:
            print(found.row(bundle.name, whose), flush=True)
            fits &= found.loops_percent <= MOST_LOOPS_PERCENT
        fits &= counted[-1][1].false_percent <= MOST_FALSE_PERCENT
    return 0 if fits else 1


if __name__ == "__main__":
    sys.exit(main())
