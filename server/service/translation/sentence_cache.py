"""Sentences that were translated: one that comes again is found, not computed.

What a model makes of a sentence depends on its token ids and on the options of decoding, so these and the
bundle's hash are the key: texts that the tokenizer does not tell apart share an entry, and a reload leaves no
entry that is wrong. What is drawn at random without a seed is looked up nowhere.
"""

from collections import OrderedDict
from dataclasses import dataclass

from server.engine.options import DecodingOptions
from server.engine.sequence import FinishReason, Hypothesis, SequenceResult
from server.engine.source import Source

Key = tuple[str, DecodingOptions, Source]
"""SHA-256 of the bundle's manifest, how to decode, and what the encoder reads: token ids or features."""

_Entry = tuple[tuple[tuple[tuple[int, ...], float, tuple[float, ...]], ...], FinishReason, int, int]
"""A result as tuples of numbers, which the garbage collector looks at once and never again: tokens and score
of each hypothesis, why the best one ended, source and target tokens."""

# CPython 3.11, 64 bits; a test compares with what the allocator says.
_ENTRY_BYTES = 500
_HYPOTHESIS_BYTES = 160
_TOKEN_BYTES = 40
_SCORE_TOKENS = 3  # what a number of floating point takes, in tokens
_SEQUENCE_TOKENS = 2  # what a tuple of tokens takes beside them


@dataclass(frozen=True, slots=True)
class CacheStats:
    """What the cache has done and holds.

    Attributes:
        hits: sentences that were there.
        misses: sentences that had to be computed.
        evictions: entries that made room for others.
        entries: sentences that are there now.
        entry_bytes: memory that they take.
    """

    hits: int = 0
    misses: int = 0
    evictions: int = 0
    entries: int = 0
    entry_bytes: int = 0


class SentenceCache:
    """Least recently used sentences of all models, bounded in bytes. Used from one event loop."""

    def __init__(self, max_bytes: int) -> None:
        """Start empty; entries may take so many bytes."""
        self._max_bytes = max_bytes
        self._bytes = 0
        self._entries: OrderedDict[Key, _Entry] = OrderedDict()
        self._hits = self._misses = self._evictions = 0

    def stats(self) -> CacheStats:
        """Say what it has done and holds."""
        return CacheStats(self._hits, self._misses, self._evictions, len(self._entries), self._bytes)

    def find(self, key: Key) -> SequenceResult | None:
        """Look a sentence up, and count whether it is there."""
        entry = self._entries.get(key)
        if entry is None:
            self._misses += 1
            return None
        self._entries.move_to_end(key)
        self._hits += 1
        hypotheses = tuple([Hypothesis(*each) for each in entry[0]])
        # A cached result has waited for nothing.
        return SequenceResult(hypotheses, *entry[1:], 0.0, 0.0, 0.0)

    def put(self, key: Key, result: SequenceResult) -> None:
        """Keep what the engine made of a sentence that was not found."""
        hypotheses = tuple([(one.tokens, one.score, one.token_scores) for one in result.hypotheses])
        entry = (hypotheses, result.finish_reason, result.source_tokens, result.target_tokens)
        size = _bytes_of(key, entry)
        if size > self._max_bytes or key in self._entries:  # which another request computed meanwhile
            return
        self._entries[key] = entry
        self._bytes += size
        while self._bytes > self._max_bytes:
            old_key, old = self._entries.popitem(last=False)
            self._bytes -= _bytes_of(old_key, old)
            self._evictions += 1


def _bytes_of(key: Key, entry: _Entry) -> int:
    """Estimate what an entry takes, key and bookkeeping included."""
    hypotheses = entry[0]
    tokens = len(key[2])
    tokens += sum([len(one) for one in key[2] if isinstance(one, bytes)]) // _TOKEN_BYTES
    tokens += len(key[1].target_prefix)
    tokens += sum([_SEQUENCE_TOKENS + len(sequence) for sequence in key[1].required])
    for written, _, token_scores in hypotheses:
        tokens += len(written) + _SCORE_TOKENS * len(token_scores)
    return _ENTRY_BYTES + _HYPOTHESIS_BYTES * len(hypotheses) + _TOKEN_BYTES * tokens
