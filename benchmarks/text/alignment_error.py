"""Alignment error rate of a bundle's word links on sentences that people have aligned.

python -m benchmarks.text.alignment_error --bundle bundles/en-de --gold tests/benchmarks/links.en-de.tsv
python -m benchmarks.text.alignment_error --bundle bundles/en-es --gold xl-wa/es/test.tsv
python -m benchmarks.text.alignment_error --bundle bundles/en-fr --gold hansards/test.wa.nonullalign \
    --source hansards/test.e --target hansards/test.f

Gold links come in two formats. A tab file has a source sentence, its translation and links `0-0 1-2 3p3` on
each line, from 0, `p` for possible ones (XL-WA: https://github.com/SapienzaNLP/XL-WA, CC BY-NC-SA 4.0). A
file of the shared task of NAACL 2003 has `sentence i j [S|P]` on each line, from 1, and the sentences in two
files of their own, plain or as `<s snum=1> ... </s>` (Mihalcea and Pedersen, 2003). Words are what white
space separates. The model sees sentences as people write them: no space before a full stop.
"""

from __future__ import annotations

import argparse
import gzip
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from export.bundle import Manifest, verify_bundle
from model.tokenizer import Tokenizer
from server.service.models.loading import read_measured
from server.service.text.drafts import Run
from server.service.text.explanation.attention import Looks, of_words
from server.service.text.explanation.word_links import SentenceWords
from server.service.text.model_text import ModelText
from server.service.text.protection.words import Word, find_words
from server.service.text.segment import Segment, Target
from server.service.text.sentences import Delivered

Pairs = set[tuple[int, int]]
Range = tuple[int, int]
_TAGGED = re.compile(r"<s snum=(\d+)>(.*?)</s>")
_LINK = re.compile(r"(\d+)([-p])(\d+)")
_NO_SPACE_BEFORE = re.compile(r"[.,;:!?)\]%…]+|'s|n't|'\w+")
_NO_SPACE_AFTER = re.compile(r"[(\[¿¡]|\w+'")


@dataclass(frozen=True)
class Gold:
    """A sentence and its translation as people have linked them.

    Attributes:
        source: words.
        target: words of the translation.
        sure: links that everybody would draw.
        possible: links that may be drawn; the sure ones among them.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]


def alignment_error_rate(found: Sequence[Pairs], gold: Sequence[Gold]) -> float:
    """Compute AER = 1 - (|A and S| + |A and P|) / (|A| + |S|) (Och and Ney, 2003), of all sentences."""
    hits = sum(len(own & one.sure) + len(own & one.possible) for own, one in zip(found, gold, strict=True))
    total = sum(len(own) + len(one.sure) for own, one in zip(found, gold, strict=True))
    return 1 - hits / total if total else 0.0


def read_tab_file(path: Path) -> Iterator[Gold]:
    """Read sentences and links `0-0 1p2`.

    Raises:
        ValueError: a line has not three columns, or a link is none.
    """
    for number, line in enumerate(_text(path).splitlines(), start=1):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) != 3:
            raise ValueError(f"{path}:{number}: {len(columns)} columns, not 3")
        links = [_LINK.fullmatch(link) for link in columns[2].split()]
        sure, possible = set(), set()
        for link in links:
            if link is None:
                raise ValueError(f"{path}:{number}: a link is written as 0-0 or 0p0")
            pair = int(link[1]), int(link[3])
            possible.add(pair)
            if link[2] == "-":
                sure.add(pair)
        yield _gold(columns[0].split(), columns[1].split(), sure, possible, f"{path}:{number}")


def read_shared_task(path: Path, source: Path, target: Path) -> Iterator[Gold]:
    """Read links `sentence i j [S|P]` and the sentences of two files.

    Raises:
        ValueError: a line is not such a link, or its sentence is missing.
    """
    sides = _sentences(source), _sentences(target)
    sure: defaultdict[int, Pairs] = defaultdict(set)
    possible: defaultdict[int, Pairs] = defaultdict(set)
    for number, line in enumerate(_text(path).splitlines(), start=1):
        parts = line.split()
        if not parts:
            continue
        if (
            len(parts) not in (3, 4)
            or not all(map(str.isdecimal, parts[:3]))
            or parts[3:] not in ([], ["S"], ["P"])
        ):
            raise ValueError(f"{path}:{number}: not `sentence i j [S|P]`")
        sentence, i, j = map(int, parts[:3])
        possible[sentence].add((i - 1, j - 1))
        if parts[3:] != ["P"]:
            sure[sentence].add((i - 1, j - 1))
    for sentence, links in sorted(possible.items()):
        if any(sentence not in side for side in sides):
            raise ValueError(f"{path}: sentence {sentence} is not in both texts")
        yield _gold(sides[0][sentence], sides[1][sentence], sure[sentence], links, f"{path}: {sentence}")


def _gold(source: Sequence[str], target: Sequence[str], sure: Pairs, possible: Pairs, where: str) -> Gold:
    if any(not (0 <= i < len(source) and 0 <= j < len(target)) for i, j in possible):
        raise ValueError(f"{where}: a link to a word that is not there")
    return Gold(tuple(source), tuple(target), frozenset(sure), frozenset(possible))


def _sentences(path: Path) -> dict[int, list[str]]:
    text = _text(path)
    tagged = {int(number): words.split() for number, words in _TAGGED.findall(text)}
    return tagged or {number: line.split() for number, line in enumerate(text.splitlines(), start=1)}


def _text(path: Path) -> str:
    packed = path.read_bytes()
    content = gzip.decompress(packed) if path.suffix == ".gz" else packed
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")  # the shared task's files are that old


def written(words: Sequence[str]) -> tuple[str, list[Range]]:
    """Write words as people do; gives the text and where each word stands."""
    text, places = "", []
    for number, word in enumerate(words):
        joined = number and not (
            _NO_SPACE_BEFORE.fullmatch(word) or _NO_SPACE_AFTER.fullmatch(words[number - 1])
        )
        text += " " if joined else ""
        places.append((len(text), len(text) + len(word)))
        text += word
    return text, places


class Links:
    """Links words of known translations as a server with this bundle does. Used by one thread."""

    def __init__(self, bundle: Path, manifest: Manifest) -> None:
        """Open the bundle's text side.

        Args:
            bundle: verified.
            manifest: of it.
        """
        self._tokenizer = Tokenizer.load(*manifest.tokenizer.paths(bundle))
        measured = read_measured(bundle, manifest, self._tokenizer)
        self._limit = min(manifest.limits.max_source_tokens, manifest.limits.max_target_tokens)
        self._framing = manifest.framing(*next(manifest.pairs))
        self.model = ModelText(self._tokenizer, self._limit, None, measured)

    def of(self, one: Gold) -> dict[str, Pairs]:
        """Link the words of a sentence in every way that the bundle can."""
        (source, ours), (target, theirs) = written(one.source), written(one.target)
        read = (*self._framing.source_prefix, *self.model.source_ids(source), *self._framing.source_suffix)
        wrote = (*self._framing.target_prefix, *self.model.target_ids([target])[0])
        fits = max(len(read), len(wrote)) <= self._limit
        runs = (Run(read, wrote),) if fits else ()
        kept = Delivered(Segment(source), Target(target), (), runs=runs)
        words = SentenceWords(kept, self.model.aligner)

        def pairs(links: Sequence[tuple[Word, Word, float]]) -> Pairs:
            return {
                (i, j) for one, other, _ in links for i in _under(one, ours) for j in _under(other, theirs)
            }

        found = {"lexicon": pairs(words.links(self.model))}
        if self.model.attention is not None:
            looks: Looks = tuple(self.model.attention.weights([(read, wrote)])) if fits else ()
            found["attention"] = pairs(self._by_attention(kept, looks))
            found["both"] = pairs(words.links(self.model, looks))
            found["as served"] = found["lexicon"] if words.is_certain else found["both"]
        return found

    def _by_attention(self, kept: Delivered, looks: Looks) -> list[tuple[Word, Word, float]]:
        """Link words that look at each other most, of all the others."""
        ours, theirs = find_words(kept.segment.text, ()), find_words(kept.target.text, ())
        seen = of_words(kept, looks, self.model, ours, theirs)
        if not seen.size:
            return []
        best = seen.argmax(axis=0)
        mutual = np.flatnonzero(seen.argmax(axis=1)[best] == np.arange(len(theirs)))
        return [(ours[best[j]], theirs[j], 0.0) for j in mutual.tolist() if seen[best[j], j] > 0]


def _under(word: Word, places: Sequence[Range]) -> list[int]:
    return [index for index, (start, end) in enumerate(places) if start < word.end and word.start < end]


def main() -> None:
    """Print the rates of all ways to link words."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bundle", type=Path, default=Path("bundles/en-de"))
    parser.add_argument("--gold", type=Path, nargs="+", required=True)
    parser.add_argument("--source", type=Path, help="of links in the format of the shared task")
    parser.add_argument("--target", type=Path, help="translations, line by line")
    parser.add_argument("--reversed", action="store_true", help="the bundle translates target to source")
    given = parser.parse_args()
    if (given.source is None) != (given.target is None):
        parser.error("--source and --target go together")
    gold: list[Gold] = []
    for path in given.gold:
        gold += read_shared_task(path, given.source, given.target) if given.source else read_tab_file(path)
    if given.reversed:
        gold = [turned(one) for one in gold]
    links = Links(given.bundle, verify_bundle(given.bundle))
    found: defaultdict[str, list[Pairs]] = defaultdict(list)
    for one in tqdm(gold, desc="sentences", leave=False, disable=None):
        for name, pairs in links.of(one).items():
            found[name].append(pairs)
    print(f"{len(gold)} sentences, {sum(len(one.sure) for one in gold)} sure links; AER, precision, recall:")
    for name, each in found.items():
        count = max(1, sum(map(len, each)))
        right = sum(len(own & one.possible) for own, one in zip(each, gold, strict=True)) / count
        sure = max(1, sum(len(one.sure) for one in gold))
        recall = sum(len(own & one.sure) for own, one in zip(each, gold, strict=True)) / sure
        print(
            f"{name:>10} {100 * alignment_error_rate(each, gold):5.1f} {100 * right:5.1f} {100 * recall:5.1f}"
        )


def turned(one: Gold) -> Gold:
    """Turn a sentence and its translation around."""
    sure, possible = (frozenset((j, i) for i, j in links) for links in (one.sure, one.possible))
    return Gold(one.target, one.source, sure, possible)


if __name__ == "__main__":
    main()
