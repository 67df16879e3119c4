"""Whether protected spans survive: random ones put into real sentences, each of which must come back once.

python -m benchmarks.text.protection --inputs 10000
python -m benchmarks.text.protection --bundle bundles/en-de --text corpus/dev.en.gz --inputs 2000
"""

from __future__ import annotations

import argparse
import gzip
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tqdm import tqdm

from server.engine.observer import NullObserver
from server.service.models.loading import load_model
from server.service.models.served_model import ServedModel, text_side
from server.service.request_limits import request_limits
from server.service.text.codec import Reading, TextCodec
from server.service.text.options import Way
from server.service.text.sentences import TranslatedSentence
from server.service.translation.decoding_options import choose_each
from server.service.translation.request import RequestedOptions
from server.settings import Settings

BATCH = 64
KINDS = (
    "{name}", "{0}", "{{count}}", "${total}", "%s", "%1$s", "%(user)s", "%d", "$t(menu.open)", "__CITY__",
    ":street", "%{key}", '<x id="1"/>', "https://a.example/b?c=1#d", "www.example.org/x", "me+x@mail.example",
    "@someone", "#topic", "/etc/app/conf.d", "C:\\Data\\x.txt", "`a.b()`", "1.234.567,50", "€19.99",
    "2026-11-27", "+44 20 7946 0812", "MX-7040b", "PH1", "Q7", "XX1", "20 °C",
)  # fmt: skip


def sentences(model: ServedModel, text: Path | None) -> list[str]:
    """Read real sentences: of a file, or the bundle's golden ones."""
    if text is None:
        return [golden.source for golden in model.manifest.golden]
    unpacked = gzip.decompress(text.read_bytes()) if text.suffix == ".gz" else text.read_bytes()
    return [line.strip() for line in unpacked.decode("utf-8").split("\n") if line.strip()]


def with_spans(sentence: str, draw: random.Random) -> tuple[str, list[str]]:
    """Put one to four spans into a sentence, in the place of words or between them."""
    words = sentence.split()
    spans = draw.sample(KINDS, draw.choice((1, 1, 1, 2, 2, 3, 4)))
    for span in spans:
        place = draw.randrange(len(words) + 1)
        taken = draw.random() < 0.3 and place < len(words) and words[place].isalpha() and len(words) > 2
        words[place : place + taken] = [span]
    return " ".join(words), spans


def translated(model: ServedModel, texts: Sequence[str]) -> Iterator[tuple[str, list[TranslatedSentence]]]:
    """Translate texts as the server does, in batches."""
    limits = request_limits(Settings(), model.manifest)
    codec = TextCodec(text_side(model, limits), limits)
    source, target = next(iter(model.manifest.pairs))
    way = Way(source, target, model.manifest.framing(source, target))
    for start in range(0, len(texts), BATCH):
        document = codec.read(texts[start : start + BATCH], way, Reading())
        while document.inputs:
            options = choose_each(RequestedOptions(), limits, document.inputs)
            futures = model.engine.submit(
                str(time.monotonic()), [one.ids for one in document.inputs], options
            )
            document.resume([future.result() for future in futures])
        for text, pieces in zip(document.translations(1), document.pieces, strict=True):
            yield text.hypotheses[0], [piece for piece in pieces if not isinstance(piece, str)]


def measure(bundle: Path, text: Path | None, inputs: int, seed: int) -> tuple[str, int]:
    """Measure one bundle; returns a row of the table, and the inputs that lost a span."""
    model = load_model(Settings(bundle=(bundle,)), NullObserver())
    try:
        draw = random.Random(seed)
        real = sentences(model, text)
        made = [with_spans(draw.choice(real), draw) for _ in range(inputs)]
        lost, rungs, first = 0, Counter[int](), dict[bool, list[bool]]({False: [], True: []})
        outputs = translated(model, [source for source, _ in made])
        shown = tqdm(zip(made, outputs, strict=True), total=inputs, desc=bundle.name, disable=None)
        for (source, spans), (output, found) in shown:
            if any(output.count(span) != source.count(span) for span in spans):
                lost += 1
                tqdm.write(f"lost: {source!r} -> {output!r}", file=sys.stderr)
            rung = max((one.rung for one in found), default=0)
            rungs.update([rung])
            first[len(spans) > 1].append(not rung)
    finally:
        model.engine.close(0.0)
    shares = " | ".join(f"{100 * rungs[rung] / inputs:.1f}" for rung in range(4))
    by_spans = " | ".join(f"{100 * sum(held) / max(1, len(held)):.1f}" for held in first.values())
    kept = 100 * (inputs - lost) / inputs
    return f"| {bundle.name} | {inputs} | {kept:.2f} | {shares} | {by_spans} |", lost


def main() -> int:
    """Measure all bundles that are named and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bundle", type=Path, action="append", help="default: all of bundles/")
    parser.add_argument(
        "--text", type=Path, help="sentences, one a line; default: the golden ones of each bundle"
    )
    parser.add_argument("--inputs", type=int, default=1000, help="for each bundle (default 1000)")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    bundles = asked.bundle or sorted(path.parent for path in Path("bundles").glob("*/manifest.json"))
    rows = [measure(bundle, asked.text, asked.inputs, asked.seed) for bundle in bundles]
    print("| bundle | inputs | kept % | first masks % | other masks % | required % | cut % |", end="")
    print(" first masks, one span % | several % |")
    print("|---" * 9 + "|")
    print("\n".join(row for row, _ in rows))
    return 1 if any(lost for _, lost in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
