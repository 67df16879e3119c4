"""The engine's vocabulary: what is asked of a sentence, what it is while it waits, what comes back.

Everything here is a plain value. No clock, no thread, no session.
"""

import math
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal, Protocol

from server.errors import InvalidOptionError

FinishReason = Literal["eos", "length"]
"""Why a sentence ended: the model said so, or `max_decoding_length` was reached."""

EarlyStopping = bool | Literal["never"]
"""Values of transformers' option of this name."""

EndReason = Literal["eos", "length", "cancelled", "deadline", "error"]
"""Why a sentence left the engine, with or without a result; a label of the metrics."""


@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """How a sentence is decoded, in CTranslate2's words; docs/decoding.md has the exact meanings.

    Lengths are in target tokens and count `target_prefix`.

    Attributes:
        beam_size: hypotheses kept at each step; 1 is greedy search. When sampling, the rows that a sentence
            takes, at least `num_hypotheses`.
        length_penalty: exponent a of the final score `log P / length**a`; 0 ranks by plain log-probability.
        num_hypotheses: how many of the best hypotheses to return, at most `beam_size`; when sampling, how
            many to draw.
        max_decoding_length: decoder steps after which a sentence ends, the one that yields the end token
            counted.
        min_decoding_length: target tokens before which the end token is not allowed; 0 allows empty targets
            (CTranslate2's default is 1).
        return_scores: whether greedy search also accumulates log-probabilities (beam search always does).
        patience: CTranslate2's beam search goes on until `beam_size * patience` hypotheses have ended.
        early_stopping: None ends beam search as CTranslate2 does; False, True and "never" do everything as
            transformers' beam search with that value.
        repetition_penalty: divides scores above zero of tokens that were written before, multiplies those
            below; 1 changes nothing.
        no_repeat_ngram_size: length of token sequences that may occur only once; 0 allows all.
        target_prefix: tokens that the target begins with; they are returned, too.
        model_prefix_tokens: how many of these the model begins every target with. Transformers' rules count
            them in a score's length (`forced_bos_token_id`), and the others not: they are a prompt.
        sampling_topk: draw from this many best tokens; 1 takes the best without drawing, 0 draws from all.
        sampling_topp: of these, draw from the fewest that reach this probability together.
        sampling_temperature: divides scores before drawing; 0 takes the best without drawing.
        seed: what draws depend on, together with the source tokens of the sentence.
    """

    beam_size: int = 1
    length_penalty: float = 1.0
    num_hypotheses: int = 1
    max_decoding_length: int = 256
    min_decoding_length: int = 0
    return_scores: bool = False
    patience: float = 1.0
    early_stopping: EarlyStopping | None = None
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    target_prefix: tuple[int, ...] = ()
    model_prefix_tokens: int = 0
    sampling_topk: int = 1
    sampling_topp: float = 1.0
    sampling_temperature: float = 1.0
    seed: int = 0

    @property
    def samples(self) -> bool:
        """Whether tokens are drawn at random."""
        return self.sampling_topk != 1 and self.sampling_temperature > 0

    @property
    def follows_transformers(self) -> bool:
        """Whether beam search keeps transformers' rules; without beams there is no difference."""
        return self.early_stopping is not None and not self.samples

    @property
    def prompt_tokens(self) -> int:
        """Tokens of `target_prefix` that are a prompt to transformers."""
        return len(self.target_prefix) - self.model_prefix_tokens

    @property
    def max_ended(self) -> int:
        """Hypotheses after which CTranslate2's beam search ends."""
        return math.floor(self.beam_size * self.patience + 0.5)

    def validate(self) -> None:
        """Check every option and how they fit together.

        Raises:
            InvalidOptionError: an option is out of range; the message names it.
        """
        if self.beam_size < 1:
            raise InvalidOptionError("beam_size must be at least 1")
        if not 1 <= self.num_hypotheses <= self.beam_size:
            raise InvalidOptionError("num_hypotheses must be between 1 and beam_size")
        if not math.isfinite(self.length_penalty):
            raise InvalidOptionError("length_penalty must be a finite number")
        if self.max_decoding_length < 1:
            raise InvalidOptionError("max_decoding_length must be at least 1")
        if not 0 <= self.min_decoding_length <= self.max_decoding_length:
            raise InvalidOptionError("min_decoding_length must be between 0 and max_decoding_length")
        if len(self.target_prefix) > self.max_decoding_length:
            raise InvalidOptionError("target_prefix is longer than max_decoding_length")
        if not 0 <= self.model_prefix_tokens <= len(self.target_prefix):
            raise InvalidOptionError("model_prefix_tokens must be between 0 and the length of target_prefix")
        if not 0 < self.patience < math.inf:
            raise InvalidOptionError("patience must be above 0")
        if self.max_ended < self.num_hypotheses:
            raise InvalidOptionError("num_hypotheses must be at most beam_size * patience")
        if self.early_stopping not in (None, False, True, "never"):
            raise InvalidOptionError("early_stopping must be false, true or never")
        if not 0 < self.repetition_penalty < math.inf:
            raise InvalidOptionError("repetition_penalty must be above 0")
        if self.no_repeat_ngram_size < 0:
            raise InvalidOptionError("no_repeat_ngram_size must be at least 0")
        if self.sampling_topk < 0:
            raise InvalidOptionError("sampling_topk must be at least 0")
        if not 0 < self.sampling_topp <= 1:
            raise InvalidOptionError("sampling_topp must be above 0 and at most 1")
        if not 0 <= self.sampling_temperature < math.inf:
            raise InvalidOptionError("sampling_temperature must be at least 0")
        if self.seed < 0:
            raise InvalidOptionError("seed must be at least 0")


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One translation of a sentence.

    Attributes:
        tokens: target ids without the end token.
        score: natural-log probability divided by `length**length_penalty`, where length counts the end token
            if the hypothesis has one (`search` has the details); 0.0 for greedy search without
            `return_scores`.
    """

    tokens: tuple[int, ...]
    score: float


@dataclass(frozen=True, slots=True)
class SequenceResult:
    """A decoded sentence.

    Attributes:
        hypotheses: best first, `num_hypotheses` of them.
        finish_reason: why the best hypothesis ended.
        source_tokens: tokens read, prefix and suffix included.
        target_tokens: tokens of the best hypothesis, the end token not counted.
        queue_s: seconds from submission to the start of the encoder run.
        encode_s: seconds of the encoder run this sentence was part of.
        decode_s: seconds from the end of the encoder run to the end of the last decoder step.
    """

    hypotheses: tuple[Hypothesis, ...]
    finish_reason: FinishReason
    source_tokens: int
    target_tokens: int
    queue_s: float
    encode_s: float
    decode_s: float


@dataclass(eq=False, slots=True, weakref_slot=True)
class Sequence:
    """A sentence on its way through the engine; compared by identity.

    Attributes:
        request_id: the request it belongs to.
        source: token ids with the model's prefix and suffix.
        options: how to decode it.
        submitted_s: monotonic time of submission.
        deadline_s: monotonic time after which nobody waits for it; infinity if somebody always does.
        future: where its one outcome goes.
        aborted: set by an abort; the row is freed before the next step.
        queue_s: seconds it waited; known once it is admitted.
        encode_s: seconds of its encoder run; known once it is encoded.
        decoding_since_s: monotonic time at which it entered the decoder.
    """

    request_id: str
    source: tuple[int, ...]
    options: DecodingOptions
    submitted_s: float
    deadline_s: float
    future: Future[SequenceResult]
    aborted: bool = False
    queue_s: float = 0.0
    encode_s: float = 0.0
    decoding_since_s: float = 0.0

    @property
    def beam_size(self) -> int:
        """Rows it takes in a batch."""
        return self.options.beam_size

    def overdue(self, now_s: float) -> bool:
        """Whether its deadline has passed at `now_s`."""
        return now_s >= self.deadline_s


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """What the engine may take on.

    Attributes:
        workers: worker threads, each with its own arena and batches.
        max_rows: decoder rows of one worker in one lane over all beam widths (a sentence takes `beam_size`
            rows).
        max_queue_sentences: sentences that may wait, over all workers.
        max_queue_tokens: source tokens that may wait, over all workers.
        max_batch_tokens: source tokens started in one step, and encoder positions of one run, padding
            included; bounds how long new sentences hold up those that are decoding. Runs gain little beyond
            128 positions and nothing beyond 256.
        max_source_tokens: tokens of one source sentence, prefix and suffix included.
        max_target_tokens: upper bound of `max_decoding_length`; a larger one is lowered to it.
        max_cache_bytes: what the key/value caches of all workers, and what shortlists have beside them, may
            take together; None is no bound.
    """

    workers: int = 1
    max_rows: int = 32
    max_queue_sentences: int = 2048
    max_queue_tokens: int = 65536
    max_batch_tokens: int = 1024
    max_source_tokens: int = 512
    max_target_tokens: int = 512
    max_cache_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class EngineStats:
    """What the engine is doing at one moment.

    Attributes:
        queue_sentences: sentences waiting.
        queue_tokens: source tokens waiting.
        queue_oldest_age_s: seconds the oldest waiting sentence has waited; 0.0 if none waits.
        rows_busy: decoder rows in use, over all workers.
        rows_total: decoder rows there are, over all workers and lanes.
        max_rows: decoder rows of one worker in one lane.
        kv_cache_bytes: bytes held by the arenas of all workers, and by what shortlists have beside them.
        alive: False once a worker crashed.
        last_progress_s: monotonic time of the last finished step, or of the start.
        engine_pids: processes that do the work, if they are not this one.
    """

    queue_sentences: int
    queue_tokens: int
    queue_oldest_age_s: float
    rows_busy: int
    rows_total: int
    max_rows: int
    kv_cache_bytes: int
    alive: bool
    last_progress_s: float
    engine_pids: tuple[int, ...] = ()


class EngineObserver(Protocol):
    """Told what the engine does; called from worker threads, must be quick and must not raise."""

    def encode(self, sentences: int, real_tokens: int, padding_tokens: int, duration_s: float) -> None:
        """One encoder run ended."""

    def step(self, busy_rows: int, idle_rows: int, duration_s: float) -> None:
        """One decoder step ended."""

    def finished(self, reason: EndReason, source_tokens: int, target_tokens: int, queue_s: float) -> None:
        """One sentence left the engine."""

    def error(self, kind: str) -> None:
        """One engine fault: `run_failed`, `poison`, `terminated`, `out_of_memory` or `worker_lost`."""

    def of_model(self, name: str) -> "EngineObserver":
        """Give the observer for the engine of one of several models."""
        ...


class NullObserver:
    """An observer that looks away."""

    def encode(self, sentences: int, real_tokens: int, padding_tokens: int, duration_s: float) -> None:
        """Do nothing."""

    def step(self, busy_rows: int, idle_rows: int, duration_s: float) -> None:
        """Do nothing."""

    def finished(self, reason: EndReason, source_tokens: int, target_tokens: int, queue_s: float) -> None:
        """Do nothing."""

    def error(self, kind: str) -> None:
        """Do nothing."""

    def of_model(self, name: str) -> EngineObserver:
        """Look away from all alike."""
        return self
