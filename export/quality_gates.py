"""The gates of an export: what a bundle must show before it is written.

Gates run graphs through ``GraphRunner`` and raise ``GateError`` with one line that states both numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from onnxruntime import InferenceSession

from export.bundle import Agreement, Golden, Parity
from export.graph.runner import Decoded, GraphRunner, Source, Tokens
from model.checkpoint import Direction, SpecialTokens
from model.evaluation.scoring import score
from model.features.encoded import to_base64
from model.tokenizer import Tokenizer
from model.transformer import Transformer

MAX_LOGIT_DIFFERENCE = 1e-4
MAX_ROUNDING_RATIO = 4
MIN_PARITY_SENTENCES = 200
MAX_BLEU_LOSS = 0.5
MIN_AGREEMENT_BLEU = 80.0
MAX_BEAM_DIFFERENCE = {"fp32": 1e-4, "fp16": 0.5, "int8": 0.5}
MIN_GOLDEN_SENTENCES, GOLDEN_SENTENCES = 5, 8
MIN_GOLDEN_TOKENS, MAX_GOLDEN_TOKENS = 3, 30
GOLDEN_CANDIDATES = 400
_TOGETHER = 4
_SCORED_TOGETHER = 16


class GateError(Exception):
    """An export is refused; the message is one line with the measured and the required value."""


def to_source_ids(
    tokenizer: Tokenizer,
    special: SpecialTokens,
    texts: Sequence[str],
    directions: Sequence[Direction] = (),
) -> list[list[int]]:
    """Tokenise source texts, with prefix and suffix; texts take turns with the directions, if any."""
    rows = []
    for i, ids in enumerate(tokenizer.encode_batch(list(texts))):
        before, after = special.source_prefix_ids, special.source_suffix_ids
        if directions:
            direction = directions[i % len(directions)]
            before = [*before, *direction.source_prefix_ids]
            after = [*after, *direction.source_suffix_ids]
        rows.append([*before, *ids, *after])
    return rows


def decode_all(
    runner: GraphRunner, sources: Sequence[Source], prefixes: Sequence[Tokens] = ()
) -> list[Decoded]:
    """Decode greedily and return results in the order of the sources; see ``GraphRunner.greedy``."""
    return sorted(runner.greedy(sources, prefixes=prefixes), key=lambda result: result.index)


def check_parity(
    model: Transformer,
    runner: GraphRunner,
    sources: Sequence[Source],
    start_id: int,
    eos_id: int,
    prefixes: Sequence[Tokens] = (),
    least: int = MIN_PARITY_SENTENCES,
) -> Parity:
    """Compare fp32 graphs with PyTorch on greedy translations.

    PyTorch scores the tokens that the graphs chose (teacher forcing). If its best token is the chosen
    one at every position, its own greedy decoding would have chosen the same, by induction; one that is best
    but for rounding will do.

    Raises:
        GateError: too few sentences, a token is not the best, or logits differ by more than 1e-4 without
            PyTorch's own being about as far from the same computation in float64.
    """
    if len(sources) < least:
        raise GateError(
            f"parity needs at least {least} sentences, there are {len(sources)}: give a longer --dev-source"
        )
    largest, same, right = 0.0, 0, 0
    translations = decode_all(runner, sources, prefixes)
    for result, ours in _scored(runner, sources, translations):
        forced = len(prefixes[result.index]) if prefixes else 0
        source, tokens = sources[result.index], result.tokens
        theirs = _logits(model, source, [start_id, *tokens])
        if not np.isfinite(ours).all():
            raise GateError("the fp32 graphs compute logits that are not finite")
        largest = max(largest, float(np.abs(ours - theirs).max()))
        theirs[:, runner.suppressed_ids] = -np.inf
        wanted = [*tokens, eos_id] if result.finished else tokens
        scores, wanted = theirs[forced : len(wanted)], wanted[forced:]
        same += scores.argmax(axis=1).tolist() == wanted
        behind = scores.max(axis=1) - scores[np.arange(len(wanted)), wanted]
        right += float(behind.max(initial=0.0)) <= 2 * max(largest, MAX_LOGIT_DIFFERENCE)
    parity = Parity(largest_logit_difference=largest, sentences=len(sources), same_tokens=same)
    if largest > MAX_LOGIT_DIFFERENCE:
        _check_rounding(model, runner, sources, translations, start_id, largest)
    if right != len(sources):
        raise GateError(f"fp32 tokens agree with PyTorch on {right} of {len(sources)} sentences only")
    return parity


def _check_rounding(
    model: Transformer,
    runner: GraphRunner,
    sources: Sequence[Source],
    translations: Sequence[Decoded],
    start_id: int,
    largest: float,
) -> None:
    """Tell a model that amplifies rounding from a graph that computes something else.

    Raises:
        GateError: the graphs are further from float64 than rounding explains.
    """
    exact = copy.deepcopy(model).double()
    ours = theirs = 0.0
    for result, logits in _scored(runner, sources, translations):
        source, tokens = sources[result.index], [start_id, *result.tokens]
        expected = _logits(exact, source, tokens)
        ours = max(ours, float(np.abs(logits - expected).max()))
        theirs = max(theirs, float(np.abs(_logits(model, source, tokens) - expected).max()))
    if not ours <= MAX_ROUNDING_RATIO * theirs:
        raise GateError(
            f"fp32 logits differ from PyTorch by {largest:.2e}, more than {MAX_LOGIT_DIFFERENCE:.0e}, and "
            f"from float64 by {ours:.2e}, more than {MAX_ROUNDING_RATIO} times PyTorch's {theirs:.2e}"
        )


def _scored(
    runner: GraphRunner, sources: Sequence[Source], results: Sequence[Decoded]
) -> Iterator[tuple[Decoded, NDArray[np.float32]]]:
    """Score translations, some of similar length at a time: alone, each step would read all weights."""
    ordered = sorted(results, key=lambda result: len(result.tokens))
    for start in range(0, len(ordered), _SCORED_TOGETHER):
        some = ordered[start : start + _SCORED_TOGETHER]
        rows = runner.forced([sources[one.index] for one in some], [one.tokens for one in some])
        yield from zip(some, rows, strict=True)


@torch.inference_mode()
def _logits(model: Transformer, source: Source, tokens: Tokens) -> NDArray[Any]:
    """Compute the logits [T, V] of a target that begins with its start token."""
    lengths = torch.tensor([len(source)])
    memory = model.encode(torch.as_tensor(source)[None], lengths)
    logits: NDArray[Any] = model.decode(torch.tensor([tokens]), memory, lengths)[0].numpy()
    return logits


def measure_agreement(
    tokenizer: Tokenizer, name: str, full: Sequence[Decoded], other: Sequence[Decoded]
) -> Agreement:
    """Compare the translations of another precision with those of fp32, in the order of the sentences."""
    same = sum(ours.tokens == theirs.tokens for ours, theirs in zip(full, other, strict=True))
    bleu = score(
        [tokenizer.decode(result.tokens) for result in other],
        [tokenizer.decode(result.tokens) for result in full],
    ).bleu
    return Agreement(set=name, sentences=len(full), same_tokens=same, bleu=bleu)


def is_batch_invariant(runner: GraphRunner, sources: Sequence[Source], targets: Sequence[Tokens]) -> bool:
    """Tell whether every sentence gets the same bits alone, padded, and among all the others."""
    together = runner.forced(sources, targets)
    encoded = runner.encode(sources)
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        if not np.array_equal(runner.forced([source], [target])[0], together[row]):
            return False
        for name, alone in runner.encode([source], capacity=len(source) + 3).items():
            if not np.array_equal(alone[0][:, : len(source)], encoded[name][row][:, : len(source)]):
                return False
    return True


def check_beam_graph(
    single: GraphRunner,
    wide: GraphRunner,
    beams: int,
    precision: str,
    sources: Sequence[Source],
    targets: Sequence[Tokens],
) -> None:
    """Compare a graph for several beams with the one for a single beam, each beam with its own tokens.

    Raises:
        GateError: logits differ by more than the precision allows.
    """
    rows = [target for start in range(len(sources)) for target in _rotate(targets, start, beams)]
    folded = wide.forced(sources, rows)
    repeated = [source for source in sources for _ in range(beams)]
    difference = max(
        largest_difference(ours, theirs)
        for ours, theirs in zip(folded, single.forced(repeated, rows), strict=True)
    )
    limit = MAX_BEAM_DIFFERENCE[precision]
    if not difference <= limit:
        raise GateError(
            f"the graph for {beams} beams differs from the one for 1 by {difference:.2e}, more than {limit:g}"
        )


def is_same_in_multi_step(
    single: GraphRunner, multi_step: InferenceSession, sources: Sequence[Source], steps: Sequence[int]
) -> bool:
    """Tell whether sentences decoded several steps at a time get the tokens and caches of single steps.

    Args:
        single: the decoder of beam width 1.
        multi_step: the multi-step graph.
        sources: sentences, decoded one by one and a few together.
        steps: of each, at most.
    """
    numbers = range(len(sources))
    together = [numbers[first : first + _TOGETHER] for first in numbers[::_TOGETHER]]
    for number, some in enumerate([*([one] for one in numbers), *together]):
        chosen, longest = [sources[one] for one in some], min(steps[one] for one in some)
        tokens, caches = single.until_one_ends(chosen, longest)
        made, filled = single.until_one_ends(chosen, longest, multi_step, 2 + number % 7)
        if not np.array_equal(tokens, made) or not all(map(np.array_equal, caches, filled)):
            return False
    return True


def largest_difference(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> float:
    """Compare logits; equal infinities, which fp16 makes of large biases, do not differ. NaN does."""
    apart = ours != theirs
    return float(np.abs(np.subtract(ours, theirs, where=apart, out=np.zeros_like(ours))).max())


def _rotate(targets: Sequence[Tokens], start: int, count: int) -> list[Tokens]:
    return [targets[(start + offset) % len(targets)] for offset in range(count)]


def pick_golden(
    runner: GraphRunner,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    sources: Sequence[Source],
    results: Sequence[Decoded],
    prefix: Tokens = (),
    candidates: int = GOLDEN_CANDIDATES,
) -> tuple[Golden, ...]:
    """Choose sentences whose greedy translation hangs on no close call, so that every machine repeats it.

    Of finished translations of 3 to 30 tokens those with the widest margin between the best and the second
    token at their narrowest step are taken, of different source lengths first.

    Raises:
        GateError: there are not enough of them.
    """
    eligible = [
        result
        for result in results
        if result.finished and MIN_GOLDEN_TOKENS <= len(result.tokens) <= MAX_GOLDEN_TOKENS
    ]
    margins = {
        result.index: _margin(logits[len(prefix) :], runner.suppressed_ids)
        for result, logits in _scored(runner, sources, eligible[:candidates])
    }
    ranked = sorted(eligible[:candidates], key=lambda result: -margins[result.index])
    lengths: set[int] = set()
    distinct: list[Decoded] = []
    others: list[Decoded] = []
    for result in ranked:
        length = len(sources[result.index])
        (others if length in lengths else distinct).append(result)
        lengths.add(length)
    chosen = (distinct + others)[:GOLDEN_SENTENCES]
    if len(chosen) < MIN_GOLDEN_SENTENCES:
        raise GateError(
            f"only {len(chosen)} translations of {MIN_GOLDEN_TOKENS} to {MAX_GOLDEN_TOKENS} tokens end by "
            f"themselves, {MIN_GOLDEN_SENTENCES} are needed as golden: give other sentences (--golden)"
        )
    return tuple(
        Golden(
            **_golden_source(texts[result.index], sources[result.index]),
            target=tokenizer.decode(result.tokens),
            target_ids=tuple(result.tokens),
            target_prefix_ids=tuple(prefix),
        )
        for result in chosen
    )


def _golden_source(text: str, source: Source) -> dict[str, Any]:
    if isinstance(source, np.ndarray):
        return {"source_features": to_base64(source)}
    return {"source": text, "source_ids": tuple(source)}


def _margin(logits: NDArray[np.float32], suppressed_ids: Sequence[int]) -> float:
    logits[:, suppressed_ids] = -np.inf
    best = np.partition(logits, -2, axis=1)[:, -2:]
    return float((best[:, 1] - best[:, 0]).min())
