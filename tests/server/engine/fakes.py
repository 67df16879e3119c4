"""A model without a network, at the seam: what it says depends on what the engine keeps in its buffers.

The fake encoder writes token ids into the cross-attention cache, the fake decoder writes its inputs into the
self-attention cache, and the scores of a row are a function of the source and the target so far *as read back
from these caches*. An engine that moves, reorders or grows its arena wrongly gets other translations.
"""

import functools
import itertools
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

import numpy as np
from numpy.typing import NDArray

from server.engine.options import DecodingOptions
from server.engine.search.log_sum_exp import log_sum_exp
from server.engine.sequence import Priority
from server.engine.sequence import Sequence as Sentence
from server.errors import InferenceError
from server.runtime.model_spec import Array, ModelSpec
from server.runtime.sessions import Beams, BeamSteps, StepBuffers

PAD, START, EOS, VOCABULARY = 0, 2, 3, 96
LAYERS, HEADS, HEAD_SIZE = 2, 2, 3

Language = Callable[[tuple[int, ...], tuple[int, ...]], NDArray[np.float32]]


def spec(max_source_tokens: int = 512, max_target_tokens: int = 512) -> ModelSpec:
    return ModelSpec(
        decoder_layers=LAYERS,
        decoder_heads=HEADS,
        head_size=HEAD_SIZE,
        vocabulary_size=VOCABULARY,
        cache_dtype=np.dtype(np.float32),
        pad_id=PAD,
        eos_id=EOS,
        decoder_start_id=START,
        beam_widths=(1, 2, 3, 4, 8),
        max_source_tokens=max_source_tokens,
        max_target_tokens=max_target_tokens,
        appends_cross=True,
    )


@functools.lru_cache(maxsize=100_000)
def babble(source: tuple[int, ...], target: tuple[int, ...]) -> NDArray[np.float32]:
    """Scores [V] that look random but depend on nothing else than source and target; ends sooner or later."""
    draw = np.random.default_rng(zlib.crc32(repr((source, target)).encode()))
    scores = (draw.standard_normal(VOCABULARY) * 2).astype(np.float32)
    scores[EOS] += 2.5 + 0.5 * (len(target) - len(source))
    return scores


def recite(source: tuple[int, ...], target: tuple[int, ...]) -> NDArray[np.float32]:
    """Translates a sentence to itself, and ends, however often it is asked."""
    scores = np.zeros(VOCABULARY, np.float32)
    scores[(*source, EOS)[min(len(target) - 1, len(source))]] = 10.0
    return scores


def ramble(source: tuple[int, ...], target: tuple[int, ...]) -> NDArray[np.float32]:
    """Never ends by itself."""
    scores = np.zeros(VOCABULARY, np.float32)
    scores[5 + len(target) % 7] = 10.0
    return scores


class FakeEncoder:
    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []
        self.poison: int | None = None
        self.before: Callable[[], None] = lambda: None

    def encode(self, input_ids: NDArray[np.int64], lengths: NDArray[np.int32]) -> Sequence[Array]:
        self.before()
        self.shapes.append(input_ids.shape)
        if self.poison is not None and (input_ids == self.poison).any():
            raise InferenceError("the encoder chokes on it")
        outputs = []
        for layer, sign in itertools.product(range(LAYERS), (1, -1)):
            filled = (input_ids + layer) * sign
            for sentence, length in enumerate(lengths):
                filled[sentence, length:] = -77  # what stands past a sentence's end must not matter
            shape = (len(lengths), HEADS, input_ids.shape[1], HEAD_SIZE)
            outputs.append(np.broadcast_to(filled[:, None, :, None], shape).astype(np.float32))
        return outputs


class FakeDecoder:
    def __init__(self, width: int, language: Language) -> None:
        self.width = width
        self.language = language
        self.rows: list[int] = []
        self.poison: int | None = None
        self.before: Callable[[], None] = lambda: None

    def step(self, buffers: StepBuffers) -> None:
        self.before()
        inputs, outputs = buffers.inputs, buffers.outputs
        self.rows.append(len(inputs["input_ids"]))
        assert all(array.flags.c_contiguous for array in [*inputs.values(), *outputs.values()])
        assert inputs["self_lengths"].max() < inputs["self_total"] <= inputs["self_key_0"].shape[2]
        assert inputs["cross_lengths"].max() < inputs["cross_total"] <= inputs["cross_key_0"].shape[2]
        if self.poison is not None:
            sources = (self._source(inputs, n) for n in range(len(inputs["cross_lengths"])))
            if any(self.poison in source for source in sources):
                outputs["logits"][:] = np.nan
                raise InferenceError("the decoder chokes on it")
        for row in range(len(inputs["input_ids"])):
            source = self._source(inputs, row // self.width)
            outputs["logits"][row] = self.language(source, self._target(inputs, outputs, row))

    def _source(self, inputs: Mapping[str, Array], sentence: int) -> tuple[int, ...]:
        end = inputs["cross_lengths"][sentence] + 1
        first = inputs["cross_key_0"][sentence, 0, :end, 0]
        for layer, (part, sign) in itertools.product(range(LAYERS), (("key", 1), ("value", -1))):
            cache = inputs[f"cross_{part}_{layer}"][sentence, :, :end]
            assert (cache == ((first + layer) * sign)[None, :, None]).all()
            last = inputs[f"cross_last_{part}_{layer}"][sentence, 0].reshape(HEADS, HEAD_SIZE)
            assert (last == cache[:, -1]).all()
        return tuple(map(int, first))

    def _target(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array], row: int) -> tuple[int, ...]:
        past = int(inputs["self_lengths"][row])
        assert inputs["positions"][row, 0] == past
        token = inputs["input_ids"][row, 0]
        first = None
        for layer, (part, sign) in itertools.product(range(LAYERS), (("key", 1), ("value", -1))):
            cache = outputs[f"self_{part}_out_{layer}"][row]
            assert cache.base is not None
            cache[:, past] = (token + layer) * sign
            first = cache[0, : past + 1, 0] if first is None else first
            assert (cache[:, : past + 1] == ((first + layer) * sign)[None, :, None]).all()
        assert first is not None
        return tuple(map(int, first))


class FakeGreedyMultiStep:
    """Steps a `FakeDecoder` and takes the best tokens itself."""

    def __init__(self, decoder: FakeDecoder, stop: NDArray[np.int64]) -> None:
        self.decoder = decoder
        self.stop = stop
        self.asked: list[tuple[int, int]] = []
        self.made: list[int] = []
        self.refuses = False

    def run(self, buffers: StepBuffers, may_end: bool, steps: int) -> NDArray[np.int64] | None:
        count = len(buffers.inputs["input_ids"])
        self.asked.append((count, steps))
        if self.refuses:
            return None
        own = ("input_ids", "positions", "self_lengths", "self_total")
        moving = {name: buffers.inputs[name].copy() for name in own}
        logits = np.zeros((count, VOCABULARY), np.float32)
        each = StepBuffers({**buffers.inputs, **moving}, {**buffers.outputs, "logits": logits})
        tokens: list[NDArray[np.int64]] = []
        while len(tokens) < steps and not any(EOS in step for step in tokens):
            self.decoder.step(each)
            if not may_end:
                logits[:, EOS] = -np.inf
            tokens.append(logits.argmax(axis=1))
            moving["input_ids"][:, 0] = tokens[-1]
            for name in own[1:]:
                moving[name] += 1
            if self.stop:
                break
        self.made.append(len(tokens))
        return np.array(tokens, np.int64)


class FakeBeamMultiStep:
    """Steps a `FakeDecoder` and searches with sorted lists, as slowly as that goes."""

    def __init__(self, decoder: FakeDecoder, stop: NDArray[np.int64], suppressed: Sequence[int]) -> None:
        self.decoder = decoder
        self.stop = stop
        self.suppressed = list(suppressed)
        self.asked: list[tuple[int, int]] = []
        self.made: list[int] = []
        self.refuses = False

    def run(self, buffers: StepBuffers, beams: Beams, steps: int) -> BeamSteps | None:
        count, width = beams.order.shape
        self.asked.append((count, steps))
        if self.refuses:
            return None
        rows = beams.order.reshape(-1)
        moving = {name: buffers.inputs[name].copy() for name in ("positions", "self_lengths", "self_total")}
        moving["input_ids"] = buffers.inputs["input_ids"][rows]
        moving |= {name: array.copy() for name, array in buffers.inputs.items() if _is_own_cache(name)}
        moving["logits"] = np.zeros((count * width, VOCABULARY), np.float32)
        scores, remaining = beams.scores.copy(), beams.remaining.copy()
        found: list[tuple[Array, ...]] = []
        while len(found) < steps and remaining.min() > 0:
            for name in filter(_is_own_cache, moving):
                moving[name] = np.ascontiguousarray(moving[name][rows])
            outputs = {_updated(name): moving[name] for name in moving if _is_own_cache(name)}
            each = StepBuffers({**buffers.inputs, **moving}, {**outputs, "logits": moving["logits"]})
            self.decoder.step(each)
            moving["logits"][:, [*self.suppressed, *([] if beams.may_end else [EOS])]] = -np.inf
            step = [self._search(moving["logits"], scores, place, width) for place in range(count)]
            parents, tokens, totals, chosen = (np.array(part) for part in zip(*step, strict=True))
            found.append((parents, tokens, totals, chosen, np.isnan(totals).any(axis=1)))
            remaining -= (tokens[:, :width] == EOS).sum(axis=1)
            scores = np.take_along_axis(totals, chosen, axis=1)
            first_rows = np.arange(0, count * width, width)[:, None]
            rows = (np.take_along_axis(parents, chosen, axis=1) + first_rows).reshape(-1)
            moving["input_ids"] = np.take_along_axis(tokens, chosen, axis=1).reshape(-1, 1)
            for name in ("positions", "self_lengths", "self_total"):
                moving[name] = moving[name] + moving[name].dtype.type(1)
            if self.stop:
                break
        for name in filter(_is_own_cache, moving):
            buffers.outputs[_updated(name)][...] = moving[name][rows]
        self.made.append(len(found))
        return BeamSteps(*(np.array(part) for part in zip(*found, strict=True)))

    @staticmethod
    def _search(
        logits: NDArray[np.float32], scores: NDArray[np.float64], place: int, width: int
    ) -> tuple[list[int], list[int], list[float], list[int]]:
        offers = []
        for beam in range(width):
            row = logits[place * width + beam]
            gains = row - log_sum_exp(row[None], row.max(keepdims=True))[0]
            best = sorted(range(VOCABULARY), key=lambda token, row=row: (-row[token], token))[: 2 * width]
            offers += [(float(scores[place, beam]) + float(gains[token]), beam, token) for token in best]
        candidates = sorted(offers, key=lambda offer: -offer[0])[: 2 * width]
        totals, parents, tokens = (list(part) for part in zip(*candidates, strict=True))
        chosen = [k for k, token in enumerate(tokens) if token != EOS][:width]
        return parents, tokens, totals, chosen


def _is_own_cache(name: str) -> bool:
    return name.startswith(("self_key_", "self_value_"))


def _updated(name: str) -> str:
    kind, part, layer = name.split("_")
    return f"{kind}_{part}_out_{layer}"


class FakeRuntime:
    device = None

    def __init__(self, language: Language = babble, **sizes: int) -> None:
        self.language = language
        self.spec = spec(**sizes)
        self.encoder = FakeEncoder()
        self.decoders: list[FakeDecoder] = []
        self.decoder_poison: int | None = None
        self.before_step: Callable[[], None] = lambda: None
        self.terminated = False
        self.has_multi_step = False
        self.multi_steps: list[FakeGreedyMultiStep] = []
        self.beam_multi_steps: list[FakeBeamMultiStep] = []

    def decoder(self, beam_width: int) -> FakeDecoder:
        decoder = FakeDecoder(beam_width, self.language)
        decoder.poison = self.decoder_poison
        decoder.before = self.before_step
        self.decoders.append(decoder)
        return decoder

    def multi_step(
        self, beam_width: int, stop: NDArray[np.int64]
    ) -> FakeGreedyMultiStep | FakeBeamMultiStep | None:
        if not self.has_multi_step:
            return None
        decoder = self.decoder(beam_width)
        if beam_width == 1:
            self.multi_steps.append(FakeGreedyMultiStep(decoder, stop))
            return self.multi_steps[-1]
        self.beam_multi_steps.append(FakeBeamMultiStep(decoder, stop, self.spec.suppressed_ids))
        return self.beam_multi_steps[-1]

    def ranker(self, best: int) -> None:
        """numpy does it."""

    def terminate(self) -> None:
        self.terminated = True


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def sentence(
    source: Sequence[int],
    options: DecodingOptions | None = None,
    request: str = "request",
    at_s: float = 0.0,
    deadline_s: float = math.inf,
    priority: Priority = "interactive",
) -> Sentence:
    asked = options or DecodingOptions()
    return Sentence(next(_NUMBERS), tuple(source), asked, priority, at_s, deadline_s, request, Future())


_NUMBERS = itertools.count()
