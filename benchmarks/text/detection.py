"""How often the language of a text is found, and how often a text is left that should be translated.

Give it text of each language, one sentence a line: the shares are of whole sentences, of those of at most
three words, and of one or two words out of each. The second table takes every language as stated source of
every other one's target.
"""

import argparse
import gzip
import itertools
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from server.service.text.detection import triage
from server.service.text.detection.detector import WORDS, load_model, rank


def read(path: Path, limit: int) -> list[str]:
    """Read different lines of a file, gzipped or not, the same ones every time."""
    packed = path.read_bytes()
    text = (gzip.decompress(packed) if path.suffix == ".gz" else packed).decode("utf-8")
    lines = sorted({line.strip() for line in text.splitlines()} - {""})
    random.Random(1).shuffle(lines)
    return lines[:limit]


def samples(lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Make short texts of sentences.

    Yields:
        Kind and text.
    """
    draw = random.Random(2)
    for line in lines:
        words = [word for word in WORDS.findall(line) if len(word) > 1]
        yield "sentences", line
        if len(line.split()) <= 3:
            yield "<= 3 words", line
        if words:
            yield "1 word", draw.choice(words)
        if len(words) > 2:
            start = draw.randrange(len(words) - 1)
            yield "2 words", " ".join(words[start : start + 2])


def measure_detection(texts: Mapping[str, Sequence[str]]) -> None:
    """Print the share of right guesses and how far the confidence is off."""
    right: dict[str, list[tuple[bool, int]]] = {}
    started_s = time.perf_counter()
    for language, lines in texts.items():
        for kind, text in samples(lines):
            best = rank(text, texts)[0]
            right.setdefault(kind, []).append((best.language == language, best.confidence))
    elapsed_s = time.perf_counter() - started_s
    print("| texts | number | right, % | calibration error, points |\n|---|---|---|---|")
    for kind, found in right.items():
        bins = [[one for one in found if low <= min(one[1], 99) < low + 10] for low in range(0, 100, 10)]
        off = sum(abs(sum(c for _, c in one) - 100 * sum(r for r, _ in one)) for one in bins) / len(found)
        print(f"| {kind} | {len(found)} | {100 * sum(r for r, _ in found) / len(found):.1f} | {off:.1f} |")
    print(f"\n{1e6 * elapsed_s / sum(map(len, right.values())):.0f} us a text\n")


def measure_triage(texts: Mapping[str, Sequence[str]], pivot: str) -> None:
    """Print how many texts are left, of the stated source's language and of the target's."""
    print("| pair | source left, % | target of 5 words and more left, % | us a text |\n|---|---|---|---|")
    for source, target in itertools.permutations(texts, 2):
        if pivot not in (source, target):
            continue
        started_s = time.perf_counter()
        wrong = sum(triage.check(t, source, target, is_html=False).source is None for t in texts[source])
        elapsed_s = time.perf_counter() - started_s
        long = [text for text in texts[target] if len(text.split()) >= 5]
        found = sum(triage.check(t, source, target, is_html=False).source is None for t in long)
        print(
            f"| {source}-{target} | {100 * wrong / len(texts[source]):.2f} of {len(texts[source])} | "
            f"{100 * found / len(long):.1f} | {1e6 * elapsed_s / len(texts[source]):.0f} |"
        )


def main() -> None:
    """Read the arguments and print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", nargs="+", metavar="LANGUAGE=FILE", help="several files of a language add up")
    parser.add_argument("--limit", type=int, default=4000, help="lines of each file")
    parser.add_argument("--pivot", default="en", help="language of all pairs that are tried")
    given = parser.parse_args()
    texts: dict[str, list[str]] = {}
    for one in given.text:
        language, _, name = one.partition("=")
        texts.setdefault(language, []).extend(read(Path(name), given.limit))
    load_model()
    measure_detection(texts)
    measure_triage(texts, given.pivot)


if __name__ == "__main__":
    main()
