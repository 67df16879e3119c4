"""A request's texts as token sequences, and the sequences' results as texts again. No waiting."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

from export.bundle import SpecialTokens
from model.tokenizer import Tokenizer
from server.engine.sequence import SequenceResult
from server.service.request_limits import RequestLimits, check_tokens
from server.service.text.markup import escape, split_markup
from server.service.text.segmentation import Piece, split_sentences
from server.service.text.truecasing import Truecaser


@dataclass(frozen=True, slots=True)
class Document:
    """The texts of a request, cut into pieces.

    Attributes:
        texts: for each text its pieces in order: a string to copy, or the index of a sequence.
        sequences: token ids with the model's specials; equal sentences share one.
        target_prefixes: target ids that each sequence's translation begins with.
        capitals: for each sequence whether its translation is put into capitals.
        is_html: whether translations are escaped on their way back.
    """

    texts: tuple[tuple[str | int, ...], ...]
    sequences: tuple[tuple[int, ...], ...]
    target_prefixes: tuple[tuple[int, ...], ...]
    capitals: tuple[bool, ...]
    is_html: bool


@dataclass(frozen=True, slots=True)
class TextTranslation:
    """The translations of one text.

    Attributes:
        hypotheses: best first, `num_hypotheses` of them.
        scores: of each hypothesis, the mean of its sentences' scores; 0.0 if nothing was translated.
        finish_reason: `length` if a sentence of the best one was ended by `max_decoding_length`, else `eos`.
        warnings: what the checks found and could not mend, each once.
    """

    hypotheses: tuple[str, ...]
    scores: tuple[float, ...]
    finish_reason: str
    warnings: tuple[str, ...] = ()


class TextCodec:
    """Splits, tokenises and puts together again. Thread-safe."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        tokens: SpecialTokens,
        limits: RequestLimits,
        truecaser: Truecaser | None = None,
    ) -> None:
        """Keep what is needed.

        Args:
            tokenizer: of the model.
            tokens: what the model expects around a source sentence.
            limits: what a request may hold.
            truecaser: of the model; None translates capitals as they are.
        """
        self._truecaser = truecaser
        self._tokenizer = tokenizer
        self._tokens = tokens
        self._limits = limits

    def encode(
        self,
        texts: Sequence[str],
        language: str,
        *,
        is_html: bool,
        prefix: Sequence[int] | None = None,
        suffix: Sequence[int] | None = None,
        target_prefixes: Sequence[str] = (),
    ) -> Document:
        """Turn texts into sequences for the engine.

        Args:
            texts: of one request.
            language: their language.
            is_html: whether they are HTML.
            prefix: ids before every sentence, which tell a multilingual model the direction; None is the
                prefix that all directions share.
            suffix: the same after every sentence.
            target_prefixes: for each text what the translation of its first sentence begins with.

        Returns:
            A document whose sequences are ready to submit; none if there is nothing to translate.

        Raises:
            TextTooLongError: a sentence or the request has too many tokens.
        """
        split = split_markup if is_html else split_sentences
        pieces = [split(text, language) for text in texts]
        return self.encode_pieces(
            pieces, is_html=is_html, prefix=prefix, suffix=suffix, target_prefixes=target_prefixes
        )

    def encode_pieces(
        self,
        texts: Sequence[Sequence[Piece]],
        *,
        is_html: bool = False,
        prefix: Sequence[int] | None = None,
        suffix: Sequence[int] | None = None,
        target_prefixes: Sequence[str] = (),
    ) -> Document:
        """Turn texts that are already cut into pieces into sequences.

        Args:
            texts: the pieces of each text.
            is_html: whether the translations are to be escaped.
            prefix: as for `encode`.
            suffix: as for `encode`.
            target_prefixes: as for `encode`.

        Returns:
            As `encode`.

        Raises:
            TextTooLongError: as `encode`.
        """
        begins = (
            self._tokenizer.encode_target_batch(target_prefixes) if target_prefixes else [()] * len(texts)
        )
        keyed = [_keys(pieces, tuple(begin)) for pieces, begin in zip(texts, begins, strict=True)]
        unique = dict.fromkeys(key for keys in keyed for key in keys if key)
        # One by one: SentencePiece's batch call starts a thread, which on a busy machine costs up to 15 ms.
        # No text needs a NUL, and tokenizers differ in what they make of it.
        cased = [self._restored(sentence.replace("\0", " ")) for sentence, _ in unique]
        ids = [self._tokenizer.encode(sentence) for sentence, _ in cased]
        prefix = self._tokens.source_prefix_ids if prefix is None else prefix
        suffix = self._tokens.source_suffix_ids if suffix is None else suffix
        # Those without ids have only characters that the normaliser drops (zero width, control): copied.
        decoded = [
            (key, pieces_ids, capitals)
            for key, pieces_ids, (_, capitals) in zip(unique, ids, cased, strict=True)
            if pieces_ids
        ]
        numbers = {key: number for number, (key, _, _) in enumerate(decoded)}
        sequences = tuple((*prefix, *pieces_ids, *suffix) for _, pieces_ids, _ in decoded)
        check_tokens([len(sequence) for sequence in sequences], self._limits)
        parts = tuple(
            tuple(
                piece.text if key is None else numbers.get(key, escape(piece.text) if is_html else piece.text)
                for piece, key in zip(pieces, keys, strict=True)
            )
            for pieces, keys in zip(texts, keyed, strict=True)
        )
        return Document(
            parts,
            sequences,
            tuple(begin for (_, begin), _, _ in decoded),
            tuple(capitals for _, _, capitals in decoded),
            is_html,
        )

    def _restored(self, sentence: str) -> tuple[str, bool]:
        return (sentence, False) if self._truecaser is None else self._truecaser.restore(sentence)

    def decode(
        self, document: Document, results: Sequence[SequenceResult], hypotheses: int
    ) -> list[TextTranslation]:
        """Turn results into texts, with everything that was copied in its place.

        Hypothesis n of a text is made of hypothesis n of each of its sentences.

        Args:
            document: what `encode` gave.
            results: of its sequences, in order.
            hypotheses: how many translations each text gets.

        Returns:
            One for each text.
        """
        decoded = [[self._tokenizer.decode(h.tokens) for h in result.hypotheses] for result in results]
        for index in compress(range(len(decoded)), document.capitals):
            decoded[index] = [text.upper() for text in decoded[index]]
        if document.is_html:
            decoded = [[escape(text) for text in texts] for texts in decoded]
        return [_assemble(parts, results, decoded, hypotheses) for parts in document.texts]


def _keys(pieces: Sequence[Piece], begin: tuple[int, ...]) -> list[tuple[str, tuple[int, ...]] | None]:
    """Name what is to be translated: each sentence and how its translation begins; None for the rest."""
    keys: list[tuple[str, tuple[int, ...]] | None] = []
    for piece in pieces:
        keys.append((piece.text, begin) if piece.is_sentence else None)
        begin = () if piece.is_sentence else begin
    return keys


def _assemble(
    parts: Sequence[str | int],
    results: Sequence[SequenceResult],
    decoded: Sequence[Sequence[str]],
    hypotheses: int,
) -> TextTranslation:
    used = [part for part in parts if isinstance(part, int)]
    texts, scores = [], []
    for rank in range(hypotheses):
        # A search may find fewer hypotheses than asked for; its last one stands in.
        texts.append(
            "".join(p if isinstance(p, str) else decoded[p][min(rank, len(decoded[p]) - 1)] for p in parts)
        )
        found = [results[i].hypotheses[min(rank, len(decoded[i]) - 1)].score for i in used]
        scores.append(sum(found) / len(found) if found else 0.0)
    reasons = Counter(results[i].finish_reason for i in used)
    return TextTranslation(tuple(texts), tuple(scores), "length" if reasons["length"] else "eos")
