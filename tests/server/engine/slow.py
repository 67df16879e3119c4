"""The slow reference: one sentence, plain lists, everything recomputed from scratch at every step."""

import math

import numpy as np

from server.engine.sequence import DecodingOptions, Hypothesis

from .fakes import EOS, START, Language


def decode(
    language: Language, source: tuple[int, ...], options: DecodingOptions, limit: int
) -> list[Hypothesis]:
    """Greedy or beam search, as CTranslate2 defines it."""
    width, longest = options.beam_size, min(options.max_decoding_length, limit)
    wanted = 2 * width if width > 1 else 1
    beams: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[tuple[float, list[int]]] = []
    best_ended = False
    for step in range(longest):
        offers = []
        for number, (total, tokens) in enumerate(beams):
            scores = language(source, (START, *tokens)).copy()
            if step < options.min_decoding_length:
                scores[EOS] = -math.inf
            normaliser = float(np.logaddexp.reduce(scores.astype(np.float64)))
            best = sorted(range(len(scores)), key=lambda token: (-scores[token], token))[:wanted]
            offers += [(total + float(scores[t]) - normaliser, number, t) for t in sorted(best)]
        offers.sort(key=lambda offer: -offer[0])
        candidates = [(total, [*beams[number][1], token]) for total, number, token in offers[:wanted]]
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
        if options.length_penalty != 0 and len(ended) >= width:
            break
    scored = [(total / len(tokens) ** options.length_penalty, tokens) for total, tokens in ended]
    scored.sort(key=lambda hypothesis: -hypothesis[0])
    return [
        Hypothesis(tuple(tokens[:-1] if tokens[-1] == EOS else tokens), score)
        for score, tokens in scored[: options.num_hypotheses]
    ]
