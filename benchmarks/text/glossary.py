"""What a glossary does: terms that the model would not choose, in real sentences, and what they cost.

Half of the terms are a translator's own rare choice, taken from the reference (`rare`); half are rare words
of the target language with the same ending, which take the place of a usual choice in the reference, too
(`made`). Sentences go through a server with and without a glossary. Counted are sentences with the term as it
is written (exact) and with any of its forms; chrF is against references that have the term. Then sentences of
which 5 % have a term are sent in turns with and without.

    python -m benchmarks.text.glossary --data data --pairs en-de --sentences 500 --rounds 7
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
from sacrebleu.metrics.chrf import CHRF

from benchmarks.inputs.workload import read_text
from benchmarks.peers.http_servers import Server, serving
from benchmarks.peers.turns import REPOSITORY, ended_by_signals
from benchmarks.reporting.spread import ratios
from benchmarks.reporting.tables import shown
from export.bundle import load_manifest
from export.lexicon import Lexicon
from model.tokenizer import Tokenizer
from server.service.text.protection.alignment import WordAligner

PAIRS = ("en-de", "de-en", "en-es", "es-en", "en-fr", "fr-en")
_WORD = re.compile(r"[^\W\d_]+")
_ALIGNED, _PREFERRED = 0.02, 0.3
"""Probability from which a link is one, and below which a translation is not what the model would choose."""
_LETTERS = 4
_COMMON = 0.004
"""Share of sentences above which a source word is too common to be a term."""
_TEXTS_OF_A_REQUEST = 50
_SHARE_WITH_TERM = 0.05


@dataclass(frozen=True)
class Case:
    """A sentence with a term.

    Attributes:
        kind: `rare` or `made`.
        source: sentence.
        reference: its translation, which has the term.
        term: in the source.
        target: what it has to become.
        forms: inflected forms of that, which are as good.
    """

    kind: str
    source: str
    reference: str
    term: str
    target: str
    forms: tuple[str, ...] = ()

    @property
    def entry(self) -> dict[str, Any]:
        """The glossary's entry, for a request."""
        return {"source": self.term, "target": self.target, "forms": list(self.forms)}


def read_aligner(bundle: Path) -> WordAligner:
    """Load the word tables of a bundle."""
    manifest = load_manifest(bundle)
    tokenizer = Tokenizer.load(*manifest.tokenizer.paths(bundle))
    if manifest.text is None:
        raise SystemExit(f"{bundle} has no word tables; dragoman measure makes them")
    sizes = tokenizer.source_vocab_size, tokenizer.target_vocab_size
    return WordAligner(Lexicon.load(bundle / manifest.text.lexicon, *sizes), tokenizer)


def make_cases(pairs: Sequence[tuple[str, str]], aligner: WordAligner, wanted: int, seed: int) -> list[Case]:
    """Make sentences with unusual terms, half of each kind.

    Args:
        pairs: sentences and references, held out.
        aligner: of the bundle.
        wanted: how many.
        seed: of the draw.
    """
    draw = random.Random(seed)
    common = Counter(word for source, _ in pairs for word in set(_WORD.findall(source.lower())))
    counts = Counter(word for _, reference in pairs for word in _WORD.findall(reference))
    by_ending: defaultdict[tuple[str, bool], list[str]] = defaultdict(list)
    for word in counts:
        if len(word) > _LETTERS and counts[word] <= 2:
            by_ending[word[-2:], word[:1].isupper()].append(word)
    shuffled = list(pairs)
    draw.shuffle(shuffled)
    kinds: dict[str, list[Case]] = {"rare": [], "made": []}
    for source, reference in shuffled:
        kind = min(kinds, key=lambda one: len(kinds[one]))
        if len(kinds[kind]) * 2 >= wanted:
            break
        for term, choice, probability in _linked(source, reference, aligner):
            if common[term.lower()] > _COMMON * len(pairs):
                continue
            if kind == "rare" and probability < _PREFERRED:
                kinds[kind].append(Case(kind, source, reference, term, choice, _family(choice, counts)))
                break
            if kind == "made" and probability >= _PREFERRED:
                others = by_ending[choice[-2:], choice[:1].isupper()]
                others = [
                    one for one in others if one[:3] != choice[:3] and aligner.evidence(term, one) < 0.001
                ]
                if others:
                    new = draw.choice(others)
                    changed = re.sub(rf"\b{choice}\b", new, reference, count=1)
                    kinds[kind].append(Case(kind, source, changed, term, new, _family(new, counts)))
                    break
    return kinds["rare"] + kinds["made"]


def _linked(source: str, reference: str, aligner: WordAligner) -> Iterator[tuple[str, str, float]]:
    """Yield words within a sentence, the one word that stands for each, and how usual that is."""
    ours, theirs = _WORD.findall(source), _WORD.findall(reference)
    if len(ours) < _LETTERS or not theirs:
        return
    links = aligner.links(ours, theirs)
    for at, word in enumerate(ours):
        mine = [other for one, other in links if one == at]
        if at and len(mine) == 1 and mine[0] and len(word) >= _LETTERS and ours.count(word) == 1:
            choice = theirs[mine[0]]
            probability = aligner.evidence(word, choice)
            same = word.lower() == choice.lower() or not word.islower()
            if probability >= _ALIGNED and len(choice) >= _LETTERS and theirs.count(choice) == 1 and not same:
                yield word, choice, probability


def _family(word: str, words: Mapping[str, int]) -> tuple[str, ...]:
    """Give words that look like forms of a word: the same stem, and up to three letters more."""
    stem = word[: max(_LETTERS, len(word) - 2)]
    return tuple(
        sorted(one for one in words if one != word and one.startswith(stem) and len(one) <= len(stem) + 3)[
            :20
        ]
    )


def has(text: str, terms: Sequence[str]) -> bool:
    """Tell whether one of some terms stands in a text, with its first letter small or capital."""
    return any(
        re.search(rf"(?<!\w){re.escape(one)}(?!\w)", text) is not None
        for term in terms
        for one in {term, term[:1].upper() + term[1:]}
    )


def ask(client: httpx.Client, texts: Sequence[str], pair: str, **fields: Any) -> dict[str, Any]:
    """Translate texts with one request."""
    source, target = pair.split("-")
    body = {"q": list(texts), "source": source, "target": target, **fields}
    answer = client.post("/translate", json=body)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def measure_terms(client: httpx.Client, cases: Sequence[Case], pair: str) -> list[str]:
    """Translate each case with its own glossary and without; returns rows of the table."""
    plain: list[str] = []
    for start in range(0, len(cases), _TEXTS_OF_A_REQUEST):
        texts = [case.source for case in cases[start : start + _TEXTS_OF_A_REQUEST]]
        plain += ask(client, texts, pair)["translatedText"]
    with_terms, satisfied = [], []
    for case in cases:
        answer = ask(client, [case.source], pair, glossary=[case.entry])
        with_terms += answer["translatedText"]
        satisfied += [bool(used) and all(one["satisfied"] for one in used) for used in answer["glossary"]]
    rows = []
    chrf = CHRF()
    for kind in ("rare", "made", "all"):
        chosen = [n for n, case in enumerate(cases) if kind in (case.kind, "all")]
        if not chosen:
            continue

        def share(outputs: Sequence[str], *, forms: bool, chosen: Sequence[int] = chosen) -> float:
            right = [has(outputs[n], (cases[n].target, *(cases[n].forms if forms else ()))) for n in chosen]
            return 100 * sum(right) / len(right)

        references = [cases[n].reference for n in chosen]
        before, after = (
            chrf.corpus_score([outputs[n] for n in chosen], [references]).score
            for outputs in (plain, with_terms)
        )
        said = 100 * sum(satisfied[n] for n in chosen) / len(chosen)
        rows.append(
            f"| {pair} | {kind} | {len(chosen)} | {share(plain, forms=True):.1f} | "
            f"{share(with_terms, forms=True):.1f} | {share(with_terms, forms=False):.1f} | {said:.1f} | "
            f"{before:.1f} | {after:.1f} | {after - before:+.1f} |"
        )
    return rows


def spread_terms(lines: Sequence[str], cases: Sequence[Case]) -> list[Case]:
    """Choose terms that stand in about 5 % of some lines."""
    words = [set(_WORD.findall(line.lower())) for line in lines]
    chosen: dict[str, Case] = {}
    hit: set[int] = set()
    for case in cases:
        new = {n for n, found in enumerate(words) if case.term in found}
        if new and len(hit | new) <= _SHARE_WITH_TERM * len(lines) and case.term not in chosen:
            chosen[case.term] = replace(case, forms=())
            hit |= new
    print(f"{len(chosen)} terms stand in {len(hit)} of {len(lines)} sentences")
    return list(chosen.values())


def measure_speed(
    client: httpx.Client, lines: Sequence[str], pair: str, rounds: int, number_of_clients: int
) -> str:
    """Send lines with the glossary `speed` and without, in turns; returns what the throughput is with it."""
    rates: dict[str, list[float]] = {"without": [], "with": []}
    for number in range(rounds + 1):
        for how in ("without", "with"):
            fields = {"glossary": "speed"} if how == "with" else {}
            parts = [lines[at : at + _TEXTS_OF_A_REQUEST] for at in range(0, len(lines), _TEXTS_OF_A_REQUEST)]
            started_s = time.perf_counter()
            with ThreadPoolExecutor(number_of_clients) as clients:
                list(clients.map(lambda part, fields=fields: ask(client, part, pair, **fields), parts))
            if number:  # the first round warms up
                rates[how].append(len(lines) / (time.perf_counter() - started_s))
    return shown(ratios(rates["with"], rates["without"]))


def measure(pair: str, given: argparse.Namespace) -> tuple[list[str], str]:
    """Measure one pair; returns rows of the table and the ratio of throughput."""
    bundle = given.bundles / pair
    source, target = pair.split("-")
    folder = given.data / ("tatoeba-" + (pair if source == "en" else f"{target}-{source}"))
    texts = {
        code: [line for part in ("test", "dev") for line in read_text(folder / f"{part}.{code}.gz")]
        for code in (source, target)
    }
    pairs = list(zip(texts[source], texts[target], strict=True))
    cases = make_cases(pairs, read_aligner(bundle), given.sentences, given.seed)
    lines = texts[source][: given.lines]
    with tempfile.TemporaryDirectory() as made:
        entries = "".join(f"{case.term}\t{case.target}\n" for case in spread_terms(lines, cases))
        Path(made, f"speed.{pair}.tsv").write_text(entries, encoding="utf-8")
        variables = {"DRAGOMAN_LOG_LEVEL": "warning", "DRAGOMAN_CACHE_BYTES": "0"}
        arguments = ("-m", "dragoman", "serve", str(bundle), "--glossaries", made)
        with (
            serving(Server("dragoman", arguments, variables)) as (port, _),
            httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600) as client,
        ):
            rows = measure_terms(client, cases, pair)
            speed = (
                measure_speed(client, lines, pair, given.rounds, given.clients)
                if given.rounds
                else "not measured"
            )
    return rows, speed


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", type=Path, default=REPOSITORY / "data", help="folder of tatoeba-en-de and so on"
    )
    parser.add_argument("--bundles", type=Path, default=REPOSITORY / "bundles")
    parser.add_argument("--pairs", nargs="+", default=PAIRS)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--lines", type=int, default=1000, help="of which 5 %% have a term")
    parser.add_argument("--rounds", type=int, default=7, help="0: measure no throughput")
    parser.add_argument("--clients", type=int, default=1, help="that send requests at the same time")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    rows, speeds = [], []
    with ended_by_signals():
        for pair in given.pairs:
            found, speed = measure(pair, given)
            rows += found
            speeds.append(f"{pair}: throughput with / without: {speed}")
    print(
        "| pair | terms | sentences | plain % | any form % | exact % | said % | chrF plain | chrF | change |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    print("\n".join([*rows, "", *speeds]))


if __name__ == "__main__":
    main()
