"""A request's texts as token sequences, and the sequences' results as texts again. No waiting."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from export.bundle import SpecialTokens
from model.tokenizer import Tokenizer
from server.engine.sequence import SequenceResult
from server.service.admission import RequestLimits, check_tokens
from server.service.markup import escape, split_markup
from server.service.request import TextTranslation
from server.service.segmentation import Piece, split_sentences


@dataclass(frozen=True, slots=True)
class Document:
    """The texts of a request, cut into pieces.

    Attributes:
        texts: for each text its pieces in order: a string to copy, or the index of a sequence.
        sequences: token ids with the model's specials; equal sentences share one.
        is_html: whether translations are escaped on their way back.
    """

    texts: tuple[tuple[str | int, ...], ...]
    sequences: tuple[tuple[int, ...], ...]
    is_html: bool


class TextCodec:
    """Splits, tokenises and puts together again. Thread-safe."""

    def __init__(self, tokenizer: Tokenizer, tokens: SpecialTokens, limits: RequestLimits) -> None:
        """Keep what is needed.

        Args:
            tokenizer: of the model.
            tokens: what the model expects around a source sentence.
            limits: what a request may hold.
        """
        self._tokenizer = tokenizer
        self._tokens = tokens
        self._limits = limits

    def encode(self, texts: Sequence[str], language: str, *, is_html: bool) -> Document:
        """Turn texts into sequences for the engine.

        Args:
            texts: of one request.
            language: their language.
            is_html: whether they are HTML.

        Returns:
            A document whose sequences are ready to submit; none if there is nothing to translate.

        Raises:
            TextTooLongError: a sentence or the request has too many tokens.
        """
        split = split_markup if is_html else split_sentences
        return self.encode_pieces([split(text, language) for text in texts], is_html=is_html)

    def encode_pieces(self, texts: Sequence[Sequence[Piece]], *, is_html: bool = False) -> Document:
        """Turn texts that are already cut into pieces into sequences.

        Args:
            texts: the pieces of each text.
            is_html: whether the translations are to be escaped.

        Returns:
            As `encode`.

        Raises:
            TextTooLongError: as `encode`.
        """
        unique = dict.fromkeys(piece.text for pieces in texts for piece in pieces if piece.is_sentence)
        # One by one: SentencePiece's batch call starts a thread, which on a busy machine costs up to 15 ms.
        # No text needs a NUL, and tokenizers differ in what they make of it.
        ids = [self._tokenizer.encode(sentence.replace("\0", " ")) for sentence in unique]
        prefix, suffix = self._tokens.source_prefix_ids, self._tokens.source_suffix_ids
        numbers: dict[str, int] = {}
        sequences: list[tuple[int, ...]] = []
        for sentence, pieces_ids in zip(unique, ids, strict=True):
            if (
                pieces_ids
            ):  # only characters that the normaliser drops (zero width, control): copied, not decoded
                numbers[sentence] = len(sequences)
                sequences.append((*prefix, *pieces_ids, *suffix))
        check_tokens([len(sequence) for sequence in sequences], self._limits)
        parts = tuple(
            tuple(
                numbers.get(piece.text, escape(piece.text) if is_html else piece.text)
                if piece.is_sentence
                else piece.text
                for piece in pieces
            )
            for pieces in texts
        )
        return Document(parts, tuple(sequences), is_html)

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
        if document.is_html:
            decoded = [[escape(text) for text in texts] for texts in decoded]
        return [_assemble(parts, results, decoded, hypotheses) for parts in document.texts]


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
