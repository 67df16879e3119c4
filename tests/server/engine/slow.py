"""The slow reference: one sentence, plain lists, everything recomputed from scratch at every step."""

import numpy as np
from numpy.typing import NDArray

from server.engine.options import DecodingOptions
from server.engine.search.sampling import uniforms
from server.engine.sequence import Hypothesis
from tests.server.engine.fakes import EOS, START, VOCABULARY, Language

Beam = tuple[float, list[int]]


def decode(
    language: Language,
    source: tuple[int, ...],
    options: DecodingOptions,
    limit: int,
    suppressed: tuple[int, ...] = (),
) -> list[Hypothesis]:
    """Greedy search, beam search or sampling."""
    longest = min(options.max_decoding_length, limit)
    if options.samples:
        ended = [
            _sample(language, source, options, longest, suppressed, n) for n in range(options.num_hypotheses)
        ]
    elif options.early_stopping is None or options.beam_size == 1:
        ended = _ctranslate2(language, source, options, longest, suppressed)
    else:
        return _transformers(language, source, options, longest, suppressed)
    scored = [(total / len(tokens) ** options.length_penalty, tokens) for total, tokens in ended]
    return _result(scored, options)


def _result(scored: list[Beam], options: DecodingOptions) -> list[Hypothesis]:
    scored.sort(key=lambda hypothesis: -hypothesis[0])
    return [
        Hypothesis(tuple(tokens[:-1] if tokens[-1] == EOS else tokens), score)
        for score, tokens in scored[: options.num_hypotheses]
    ]


def log_probabilities(
    language: Language,
    source: tuple[int, ...],
    tokens: list[int],
    options: DecodingOptions,
    longest: int,
    suppressed: tuple[int, ...],
) -> NDArray[np.float64]:
    """Log-probabilities [V] of the next token after `tokens`."""
    if len(tokens) < len(options.target_prefix):
        return _certainly(options.target_prefix[len(tokens)])
    block = _block(language, source, tokens, options, longest, suppressed) if options.required else None
    if block is not None:
        return _certainly(block[_begun(tokens, block)])
    values = _constrained(language, source, tokens, options, suppressed)
    if _missing(tokens, options):
        values[EOS] = -np.inf
    return values if _first(options) else values - np.logaddexp.reduce(values)


def _certainly(token: int) -> NDArray[np.float64]:
    return np.where(np.arange(VOCABULARY) == token, 0.0, -np.inf)


def _first(options: DecodingOptions) -> bool:
    return options.early_stopping is not None and options.beam_size > 1 and not options.samples


def _constrained(
    language: Language,
    source: tuple[int, ...],
    tokens: list[int],
    options: DecodingOptions,
    suppressed: tuple[int, ...],
) -> NDArray[np.float64]:
    """Scores [V] of the next token with all bans but that of an end while a sequence is missing."""
    values = language(source, (START, *tokens)).astype(np.float64)
    if _first(options):
        values -= np.logaddexp.reduce(values)
    for token in set(tokens):
        penalty = options.repetition_penalty
        values[token] = values[token] * penalty if values[token] < 0 else values[token] / penalty
    size = options.no_repeat_ngram_size
    for start in range(len(tokens) - size + 1 if size else 0):
        if tokens[start : start + size - 1] == tokens[len(tokens) - size + 1 :]:
            values[tokens[start + size - 1]] = -np.inf
    values[list(suppressed)] = -np.inf
    if len(tokens) < options.min_decoding_length:
        values[EOS] = -np.inf
    for one in options.required:
        if occurrences(tokens, one) and occurrences([*tokens, one[-1]], one) > occurrences(tokens, one):
            values[one[-1]] = -np.inf
    return values


def occurrences(tokens: list[int], sequence: tuple[int, ...]) -> int:
    """How often a sequence occurs in tokens."""
    return sum(tuple(tokens[start : start + len(sequence)]) == sequence for start in range(len(tokens)))


def _missing(tokens: list[int], options: DecodingOptions) -> list[tuple[int, ...]]:
    return [one for one in options.required if not occurrences(tokens, one)]


def _begun(tokens: list[int], sequence: tuple[int, ...]) -> int:
    lengths = range(min(len(sequence) - 1, len(tokens)) + 1)
    return max(n for n in lengths if tuple(tokens[len(tokens) - n :]) == sequence[:n])


def _block(
    language: Language,
    source: tuple[int, ...],
    tokens: list[int],
    options: DecodingOptions,
    longest: int,
    suppressed: tuple[int, ...],
) -> tuple[int, ...] | None:
    """The required sequence whose tokens are forced after `tokens`; the whole past is gone through anew."""
    block = None
    for step in range(len(options.target_prefix), len(tokens) + 1):
        said = tokens[:step]
        missing = _missing(said, options)
        if block not in missing:
            block = None
        if missing and block is None:
            values = _constrained(language, source, said, options, suppressed)
            if longest - step <= sum(map(len, missing)) or _best(values, 1) == [EOS]:
                block = max(missing, key=lambda one, said=said: _begun(said, one))
    return block


def _best(values: NDArray[np.float64], count: int) -> list[int]:
    single = values.astype(np.float32)
    return sorted(range(len(values)), key=lambda token: (-single[token], token))[:count]


def _sample(
    language: Language,
    source: tuple[int, ...],
    options: DecodingOptions,
    longest: int,
    suppressed: tuple[int, ...],
    number: int,
) -> Beam:
    chances = uniforms(options.seed, source, options.num_hypotheses, longest)[number]
    total, tokens = 0.0, list[int]()
    while len(tokens) < longest and EOS not in tokens:
        values = log_probabilities(language, source, tokens, options, longest, suppressed)
        ranked = _best(values, options.sampling_topk or len(values))
        weights = np.exp((values[ranked] - values.max()) / options.sampling_temperature)
        kept = [
            t
            for n, t in enumerate(ranked)
            if weights[:n].sum() < options.sampling_topp * weights.sum() - 1e-12
        ]
        kept = kept if options.sampling_topp < 1 else ranked
        weight_of = dict(zip(ranked, weights.tolist(), strict=True))
        left = chances[len(tokens)] * sum(weight_of[t] for t in kept)
        for token in sorted(kept):
            left -= weight_of[token]
            if left < 0:
                break
        total, tokens = total + float(values[token]), [*tokens, token]
    return total, tokens


def _ctranslate2(
    language: Language,
    source: tuple[int, ...],
    options: DecodingOptions,
    longest: int,
    suppressed: tuple[int, ...],
) -> list[Beam]:
    width = options.beam_size
    wanted = 2 * width if width > 1 else 1
    beams: list[Beam] = [(0.0, [])]
    ended: list[Beam] = []
    best_ended = False
    for step in range(longest):
        candidates = _candidates(language, source, beams, wanted, options, longest, suppressed)
        beams, spare = candidates[:width], [c for c in candidates[width:] if c[1][-1] != EOS]
        for number, candidate in enumerate(candidates[:width]):
            if candidate[1][-1] == EOS or step + 1 == longest:
                ended.append(candidate)
                best_ended |= number == 0
                if spare:
                    beams[number] = spare.pop(0)
        if width == 1 and ended:
            break
        if options.length_penalty == 0 and best_ended and len(ended) >= options.num_hypotheses:
            break
        if options.length_penalty != 0 and len(ended) >= int(width * options.patience + 0.5):
            break
    return ended


def _transformers(
    language: Language,
    source: tuple[int, ...],
    options: DecodingOptions,
    longest: int,
    suppressed: tuple[int, ...],
) -> list[Hypothesis]:
    width, prompt, rule = options.beam_size, options.prompt_tokens, options.early_stopping
    beams: list[Beam] = [(0.0, [])]
    kept: list[Beam] = []
    for step in range(1, longest + 1):
        candidates = _candidates(language, source, beams, 2 * width, options, longest, suppressed)
        for total, tokens in candidates[:width]:
            if tokens[-1] == EOS or step == longest:
                kept.append((total / max(1, step - prompt) ** options.length_penalty, tokens))
        kept.sort(key=lambda hypothesis: -hypothesis[0])
        kept = kept[:width]
        beams = [c for c in candidates if c[1][-1] != EOS][:width]
        if len(kept) == width:
            length = longest if rule == "never" and options.length_penalty > 0 else step
            reachable = beams[0][0] / max(1, length - prompt) ** options.length_penalty
            if rule is True or not reachable > kept[-1][0]:
                break
    return _result(kept, options)


def _candidates(
    language: Language,
    source: tuple[int, ...],
    beams: list[Beam],
    wanted: int,
    options: DecodingOptions,
    longest: int,
    suppressed: tuple[int, ...],
) -> list[Beam]:
    offers = []
    for number, (total, tokens) in enumerate(beams):
        values = log_probabilities(language, source, tokens, options, longest, suppressed)
        offers += [
            (total + float(values[t]), number, t)
            for t in sorted(_best(values, wanted))
            if values[t] > -np.inf
        ]
    offers.sort(key=lambda offer: -offer[0])
    return [(total, [*beams[number][1], token]) for total, number, token in offers[:wanted]]
