"""A sentence while it waits and while it is decoded, what is refused before, and what comes back.

Everything here is a plain value. No clock, no thread, no session.
"""

from collections.abc import Sequence as SequenceOf
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Literal

from server.engine.limits import EngineLimits
from server.engine.options import DecodingOptions
from server.engine.source import Source
from server.errors import (
    AbortedError,
    DeadlineExceededError,
    DragomanError,
    InvalidOptionError,
    InvalidRequestError,
    TextTooLongError,
)
from server.runtime.model_spec import ModelSpec

Priority = Literal["interactive", "bulk"]
"""Class of a request: somebody waits for a few sentences, or it is a document."""

FinishReason = Literal["eos", "length"]
"""Why a sentence ended: the model said so, or `max_decoding_length` was reached."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One translation of a sentence.

    Attributes:
        tokens: target ids without the end token.
        score: natural-log probability divided by `length**length_penalty`, where length counts the end token
            if the hypothesis has one (`search` has the details); 0.0 for greedy search without
            `return_scores`.
        token_scores: natural-log probability of each token and, behind them, of the end token if the
            hypothesis has one; empty without `return_token_scores`.
    """

    tokens: tuple[int, ...]
    score: float
    token_scores: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class SequenceResult:
    """A decoded sentence.

    Attributes:
        hypotheses: best first, at least one and at most `num_hypotheses`.
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

    The dispatcher makes it. A worker thread decodes the same object, a worker process a copy without the
    fields that only the dispatcher uses: `request_id`, `future` and `worker`.

    Attributes:
        number: stands for it in messages.
        source: token ids with the model's prefix and suffix, or feature vectors.
        options: how to decode it.
        priority: class of its request.
        submitted_s: monotonic time of submission.
        deadline_s: monotonic time after which nobody waits for it; infinity if somebody always does.
        request_id: the request it belongs to.
        future: where its one outcome goes.
        worker: index of the worker that has it; None while it waits in the queue.
        aborted: set by an abort; its rows are freed before the next step.
        queue_s: seconds it waited; known once it is admitted.
        encode_s: seconds of its encoder run; known once it is encoded.
        decoding_since_s: monotonic time at which it entered the decoder.
    """

    number: int
    source: Source
    options: DecodingOptions
    priority: Priority
    submitted_s: float
    deadline_s: float
    request_id: str = ""
    future: Future[SequenceResult] | None = None
    worker: int | None = None
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
class Outcome:
    """How a sentence ended: with a result or with the error that its caller gets."""

    sequence: Sequence
    result: SequenceResult | DragomanError


def end_of_unwanted(sequence: Sequence) -> DragomanError:
    """Give the error of a sentence that is taken out before it has a result."""
    if sequence.aborted:
        return AbortedError("the request was aborted")
    return DeadlineExceededError("the deadline passed before the translation was ready")


def check_sources(
    sources: SequenceOf[SequenceOf[int | bytes]],
    options: SequenceOf[DecodingOptions],
    spec: ModelSpec,
    limits: EngineLimits,
) -> None:
    """Refuse what the model and its engine could never decode, before it waits.

    Args:
        sources: token ids, or feature vectors, of every sentence.
        options: of every sentence.
        spec: sizes of the model.
        limits: what the engine takes on.

    Raises:
        InvalidOptionError: a beam width that there is no decoder for, an impossible prefix or required
            sequence, and what `DecodingOptions.validate` says.
        InvalidRequestError: a sentence without tokens.
        TextTooLongError: a sentence with too many.
    """
    widths = [width for width in spec.beam_widths if width <= limits.max_rows]
    for one in set(options):
        one.validate()
        if one.beam_size not in widths:
            raise InvalidOptionError(f"beam_size must be one of {', '.join(map(str, widths))}")
        for name, forced in (("target_prefix", (one.target_prefix,)), ("required", one.required)):
            words = (0 <= id < spec.vocabulary_size and id != spec.eos_id for ids in forced for id in ids)
            if not all(words):
                raise InvalidOptionError(f"{name} has a token that no target can have")
    for source in sources:
        if not source:
            raise InvalidRequestError("a sentence has no tokens")
        if len(source) > spec.max_source_tokens:
            raise TextTooLongError(
                f"a sentence has {len(source)} tokens; at most {spec.max_source_tokens} are accepted"
            )
