"""How much memory the arenas may take: what a sentence may need is reserved before it is admitted.

An arena has room for all its sentences at the capacity of the longest (`arena.Arena`), so one long sentence
makes it large, and it gives memory back only when it is empty. A sentence reserves the capacity of its own
length and of its longest possible target; what the arenas hold never exceeds what is reserved.

What a batch may need besides its caches, such as the projection columns of a shortlist, is reserved with its
arena: `ExtraBytes` says how much that is at most.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from server.engine.kv_cache.arena import KEPT_CAPACITY, next_capacity
from server.engine.limits import EngineLimits
from server.engine.sequence import Sequence
from server.runtime.model_spec import ModelSpec

USUAL_ROWS = (64, 32, 16, 8)
"""Of `EngineLimits.max_rows` where nobody says how many: the most, unless memory is short. More gain hardly
anything; see docs/experiments/scheduling.md."""

ExtraBytes = Callable[[int, int], int]
"""Given a beam width and the most sentences of a batch: bytes that it may take beside its caches."""


def no_extra_bytes(beam_width: int, max_sentences: int) -> int:
    """Say that a batch has nothing beside its caches."""
    return 0


@dataclass(frozen=True, slots=True)
class Capacity:
    """Positions of an arena: S of the source, P of the target."""

    source: int = 0
    target: int = 0


def cache_bytes(spec: ModelSpec, beam_width: int, max_rows: int, capacity: Capacity) -> int:
    """Bytes of an arena's caches, as `Arena.cache_bytes` has them.

    Those are keys and values of all layers for `max_rows // K` sentences of S source positions and their K
    rows of P target positions each, or their states, and where it is appended again every sentence's last
    source token.
    """
    sentences = max_rows // beam_width
    positions = sentences * capacity.source
    positions += sentences if spec.appends_cross else 0
    states = 0
    if spec.state_size:
        states = spec.decoder_layers * sentences * beam_width * spec.state_size * spec.state_dtype.itemsize
    else:
        positions += sentences * beam_width * capacity.target
    values = 2 * spec.decoder_layers * spec.decoder_heads * spec.head_size
    return values * positions * spec.cache_dtype.itemsize + states


def largest_request_bytes(
    spec: ModelSpec, limits: EngineLimits, extra_bytes: ExtraBytes = no_extra_bytes
) -> int:
    """Bytes that one sentence of the largest size needs: the most over all beam widths."""
    largest = Capacity(spec.max_source_tokens, spec.max_target_tokens)
    widths = [width for width in spec.beam_widths if width <= limits.max_rows]
    return max(
        cache_bytes(spec, width, limits.max_rows, largest) + extra_bytes(width, limits.max_rows // width)
        for width in widths
    )


def with_chosen_rows(
    spec: ModelSpec, limits: EngineLimits, extra_bytes: ExtraBytes = no_extra_bytes
) -> EngineLimits:
    """Choose `max_rows`: the first of `USUAL_ROWS` with which the bound holds the largest request.

    Never fewer than the widest beam needs: memory must not take away what requests may ask for. The least if
    none of them will do.
    """
    widest = max(spec.beam_widths)
    usual = [rows for rows in USUAL_ROWS if rows >= widest] or [widest]
    each = [replace(limits, max_rows=rows) for rows in usual]
    if limits.max_cache_bytes is None:
        return each[0]
    fitting = (one for one in each if largest_request_bytes(spec, one, extra_bytes) <= limits.max_cache_bytes)
    return next(fitting, each[-1])


class CacheBudget:
    """Reservations of a worker's batches. Owned by the worker thread."""

    def __init__(
        self, spec: ModelSpec, limits: EngineLimits, extra_bytes: ExtraBytes = no_extra_bytes
    ) -> None:
        """Reserve nothing yet; the limits have the bound, `max_cache_bytes`, and the sizes of the arenas."""
        self._extra = {width: extra_bytes(width, limits.max_rows // width) for width in spec.beam_widths}
        self._spec = spec
        self._limits = limits
        self._reserved: dict[int, Capacity] = {}

    @property
    def reserved_bytes(self) -> int:
        """Bytes that the batches may grow to with the sentences they have."""
        return sum(
            cache_bytes(self._spec, width, self._limits.max_rows, capacity) + self._extra[width]
            for width, capacity in self._reserved.items()
        )

    def reserve(self, sequence: Sequence) -> bool:
        """Reserve what a sentence may need; False, and nothing is reserved, if there is no room."""
        if self._limits.max_cache_bytes is None:
            return True
        width, spec = sequence.beam_size, self._spec
        now = self._reserved.get(width)
        needed_target = min(sequence.options.max_decoding_length, spec.max_target_tokens)
        wanted = Capacity(
            max(now.source if now else 0, next_capacity(len(sequence.source), spec.max_source_tokens)),
            max(now.target if now else 0, next_capacity(needed_target, spec.max_target_tokens)),
        )
        if wanted == now:
            return True
        rows = self._limits.max_rows
        added = cache_bytes(spec, width, rows, wanted)
        added += self._extra[width] if now is None else -cache_bytes(spec, width, rows, now)
        if self.reserved_bytes + added > self._limits.max_cache_bytes:
            return False
        self._reserved[width] = wanted
        return True

    def emptied(self) -> None:
        """Lower the reservations to what arenas keep when no sentence is left in them."""
        for width, capacity in self._reserved.items():
            self._reserved[width] = Capacity(
                min(capacity.source, KEPT_CAPACITY), min(capacity.target, KEPT_CAPACITY)
            )

    def freed(self, kept: Collection[int]) -> bool:
        """Drop the reservations of arenas but of those beam widths; tells whether there is more room now."""
        gone = [width for width in self._reserved if width not in kept]
        for width in gone:
            del self._reserved[width]
        return bool(gone)
