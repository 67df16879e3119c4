"""What inline tags cost, and whether they come back: a server with tagged text against the same text plain.

Words and runs of words are put into elements at random, so that most sentences have one or two. The two forms
of a text are sent in turns. Counted are translations whose words are those of the plain text, and
documents that have exactly the source's tags, have more of those that may repeat, or have others. Sentences
tagged by hand then tell how often tags come to the right words of a given translation (en-de only).

    python -m benchmarks.text.markup [BUNDLE] [--source FILE.gz] [--sentences 400] [--rounds 7]
"""

from __future__ import annotations

import argparse
import html
import json
import random
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.inputs.workload import read_text
from benchmarks.peers.http_servers import Server, serving
from benchmarks.peers.turns import REPOSITORY, ended_by_signals
from benchmarks.reporting.spread import ratios, spread
from benchmarks.reporting.tables import shown
from benchmarks.text.tagged_sentences import SENTENCES
from export.bundle import load_manifest
from export.lexicon import Lexicon
from model.tokenizer import Tokenizer
from server.service.text.protection.alignment import WordAligner
from server.service.text.protection.projection import place_tags
from server.service.text.protection.writing import write
from server.service.text.reading.html import read_html
from server.service.text.segment import Segment, Target

_TAG = re.compile(r"<[^>]*>")
_ELEMENTS = ("b", "i", "em", "strong", 'a href="/x?y=1&amp;z=2"', 'span class="c"', 'u id="d"', "q")
_REPEATED = re.compile(r"</?(?:b|i|em|strong|span)\b")
_TEXTS_OF_A_REQUEST = 50


def with_tags(sentence: str, draw: random.Random) -> str:
    """Put one or two runs of words of a sentence into elements, sometimes one into the other.

    Args:
        sentence: plain text.
        draw: source of chance.
    """
    words = html.escape(sentence, quote=False).split(" ")
    for _ in range(draw.choice((1, 1, 2))):
        start = draw.randrange(len(words))
        end = draw.randrange(start, min(len(words), start + 4))
        inner = " ".join(words[start : end + 1])
        element = draw.choice(_ELEMENTS)
        words[start : end + 1] = [f"<{element}>{inner}</{element.split(' ')[0]}>"]
    return " ".join(words)


def translate(port: int, texts: Sequence[str], pair: tuple[str, str], form: str) -> list[str]:
    """Translate over HTTP, some texts a request.

    Args:
        port: of the server.
        texts: to translate.
        pair: source and target language.
        form: `html` or `text`.
    """
    found: list[str] = []
    for start in range(0, len(texts), _TEXTS_OF_A_REQUEST):
        body = {"q": texts[start : start + _TEXTS_OF_A_REQUEST], "format": form}
        body |= {"source": pair[0], "target": pair[1]}
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/translate",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=600) as answer:
            found += json.load(answer)["translatedText"]
    return found


def kept(source: str, translation: str) -> str:
    """Say what became of the tags: `all`, `repeated` or `wrong`."""
    before, after = Counter(_TAG.findall(source)), Counter(_TAG.findall(translation))
    if before == after:
        return "all"
    others = {tag for tag in before.keys() | after.keys() if before[tag] != after[tag]}
    repeats = all(before[tag] < after[tag] and before[tag] and _REPEATED.match(tag) for tag in others)
    return "repeated" if repeats else "wrong"


def rightly_placed(bundle: Path) -> int:
    """Count the sentences tagged by hand whose tags come to the right words, and print the others."""
    manifest = load_manifest(bundle)
    tokenizer = Tokenizer.load(*manifest.tokenizer.paths(bundle))
    sizes = tokenizer.source_vocab_size, tokenizer.target_vocab_size
    lexicon = None if manifest.text is None else Lexicon.load(bundle / manifest.text.lexicon, *sizes)
    aligner = WordAligner(lexicon, tokenizer)
    right = 0
    for source, expected in SENTENCES:
        segment = next(piece for piece in read_html(source, "en") if isinstance(piece, Segment))
        target = Target(_TAG.sub("", expected[0]))
        written = write(target.text, target.spans, place_tags(segment, target, aligner.links), segment.escape)
        right += written in expected
        if written not in expected:
            print(f"misplaced: {written}")
    return right


def bare(translation: str) -> str:
    """Take the tags off, and decode entities."""
    return html.unescape(_TAG.sub("", translation)).replace("\u00a0", " ")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", nargs="?", type=Path, default=REPOSITORY / "bundles" / "en-de")
    parser.add_argument("--source", type=Path, help="sentences, one a line")
    parser.add_argument("--sentences", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    manifest = load_manifest(given.bundle)
    direction = manifest.directions[0]
    pair = direction.source, direction.target
    lines = read_text(given.source)
    draw = random.Random(1)
    plain = [" ".join(line.split()) for line in draw.sample(lines, min(given.sentences, len(lines)))]
    tagged = [with_tags(line, draw) for line in plain]
    variables = {"DRAGOMAN_LOG_LEVEL": "warning", "DRAGOMAN_CACHE_BYTES": "0"}
    server = Server("dragoman", ("-m", "dragoman", "serve", str(given.bundle)), variables)
    times_s: dict[str, list[float]] = {"text": [], "html": []}
    with ended_by_signals(), serving(server) as (port, _):
        answers = {
            "text": translate(port, plain, pair, "text"),
            "html": translate(port, tagged, pair, "html"),
        }
        for _ in range(given.rounds):
            for form, texts in (("text", plain), ("html", tagged)):
                started_s = time.perf_counter()
                translate(port, texts, pair, form)
                times_s[form].append(time.perf_counter() - started_s)
    same = sum(bare(ours) == theirs for ours, theirs in zip(answers["html"], answers["text"], strict=True))
    fates = Counter(kept(*both) for both in zip(tagged, answers["html"], strict=True))
    print(f"{len(plain)} sentences, {sum(len(_TAG.findall(line)) for line in tagged) // 2} elements")
    print(f"plain: {shown(spread(times_s['text']))} s, tagged: {shown(spread(times_s['html']))} s")
    print(f"tagged / plain: {shown(ratios(times_s['html'], times_s['text']))}")
    print(f"the same words: {100 * same / len(plain):.1f} %")
    print("tags: " + ", ".join(f"{fate} {100 * number / len(plain):.1f} %" for fate, number in fates.items()))
    if pair == ("en", "de"):
        print(f"tagged by hand: {rightly_placed(given.bundle)} of {len(SENTENCES)} placed right")


if __name__ == "__main__":
    main()
