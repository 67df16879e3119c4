"""A request's texts on their way through a model and back. No waiting: who decodes, decides when."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from server.engine.sequence import SequenceResult
from server.service.request_limits import RequestLimits, check_tokens
from server.service.text.blocks import is_plain_sentence, sentences_of
from server.service.text.explanation.explained import NOTHING, Explanation, explain, needs_looks
from server.service.text.glossary.enforcement import TermUse, merged
from server.service.text.jobs import Job, ModelInput, together
from server.service.text.model_text import ModelText
from server.service.text.options import TextOptions, Way
from server.service.text.protection.patterns import compile_protected
from server.service.text.protection.signatures import keep_signatures
from server.service.text.reading.html import read_attributes, read_html
from server.service.text.reading.plain import read_plain
from server.service.text.segment import Segment
from server.service.text.sentences import SentenceTranslator, TranslatedSentence


@dataclass(frozen=True, slots=True)
class TextTranslation:
    """The translations of one text.

    Attributes:
        hypotheses: best first, at least one and at most as many as were asked for.
        scores: of each hypothesis, the mean of its sentences' scores; 0.0 if nothing was translated.
        finish_reason: `length` if a sentence of the best one was ended by `max_decoding_length`, else `eos`.
        warnings: what the checks found and could not mend, each once.
        terms: what became of the terms of a glossary, each entry once.
        explanation: what was asked for of the best one.
    """

    hypotheses: tuple[str, ...]
    scores: tuple[float, ...]
    finish_reason: str
    warnings: tuple[str, ...] = ()
    terms: tuple[TermUse, ...] = ()
    explanation: Explanation = NOTHING


@dataclass(frozen=True, slots=True)
class Reading:
    """How texts are read.

    Attributes:
        options: of the request.
        is_html: whether they are HTML.
        markup_language: of the texts, as `lang` in the markup has it; "" for that of the way.
        split: whether a line may hold several sentences.
        whole: whether a text is one input of the model, just as it is; nothing else holds then.
    """

    options: TextOptions = field(default_factory=TextOptions)
    is_html: bool = False
    markup_language: str = ""
    split: bool = True
    whole: bool = False


_Piece = str | TranslatedSentence


class Document:
    """The texts of a request between two looks at the model. Used by one thread at a time.

    Attributes:
        inputs: what is to be decoded next, with the model's specials; nothing if all is translated.
        pieces: of each text in order, once all is translated: what is copied, and sentences.
        guards: how often a check fired, by reason and outcome.
    """

    def __init__(self, job: Job[list[list[_Piece]]]) -> None:
        """Start the job.

        Args:
            job: translates all texts.
        """
        self._job = job
        self.pieces: list[list[_Piece]] = []
        self.inputs: list[ModelInput] = []
        self.guards: Counter[tuple[str, str]] = Counter()
        self._advance(None)

    def resume(self, results: Sequence[SequenceResult]) -> None:
        """Go on with the results of `inputs`, in order."""
        self._advance(results)

    def _advance(self, results: Sequence[SequenceResult] | None) -> None:
        try:
            self.inputs = next(self._job) if results is None else self._job.send(results)
        except StopIteration as ended:
            self.inputs = []
            self.pieces = ended.value
            self.guards = Counter(
                guard
                for pieces in self.pieces
                for piece in pieces
                if not isinstance(piece, str)
                for guard in piece.guards
            )

    def translations(self, hypotheses: int, *, fill: bool = False) -> list[TextTranslation]:
        """Put the texts together; hypothesis n of a text is made of hypothesis n of each of its sentences.

        Args:
            hypotheses: most translations of each text.
            fill: whether each has as many, the last one several times if there are no others.

        Returns:
            One for each text.
        """
        return [_assembled(pieces, hypotheses, fill=fill) for pieces in self.pieces]


class TextCodec:
    """Reads texts and starts their translation. Thread-safe."""

    def __init__(self, model: ModelText, limits: RequestLimits) -> None:
        """Keep what is needed.

        Args:
            model: what the text layer knows of it.
            limits: what a request may hold.
        """
        self._model = model
        self._limits = limits
        self._translator = SentenceTranslator(model)

    def read(
        self, texts: Sequence[str], way: Way, reading: Reading, target_prefixes: Sequence[str] = ()
    ) -> Document:
        """Turn texts into a document whose first inputs are ready to decode.

        Args:
            texts: of one request.
            way: how they are translated.
            reading: how they are read.
            target_prefixes: for each text what the translation of its first sentence begins with.

        Raises:
            TextTooLongError: the request has too many tokens.
        """
        begins = self._model.target_ids(target_prefixes) if target_prefixes else ((),) * len(texts)
        options = reading.options
        protect = (*compile_protected(options.protected_words), *options.protected_patterns)
        read = self._whole if reading.whole else self._text
        jobs = [read(text, way, reading, protect, begin) for text, begin in zip(texts, begins, strict=True)]
        document = Document(together(jobs))
        check_tokens([len(one.ids) for one in document.inputs], self._limits)
        return document

    def explained(
        self,
        texts: Sequence[str],
        document: Document,
        translations: Sequence[TextTranslation],
        reading: Reading,
    ) -> list[TextTranslation]:
        """Add to translations what the options of their texts ask for.

        Args:
            texts: as `read` was given.
            document: of these texts, with everything translated.
            translations: of the document.
            reading: as `read` was given.

        Raises:
            InvalidOptionError: the model's attention would be too long an answer.
            InferenceError: the graph for it failed.
        """
        found = explain(texts, document.pieces, self._model, reading.options, is_html=reading.is_html)
        return [replace(one, explanation=own) for one, own in zip(translations, found, strict=True)]

    def looks_for(self, options: TextOptions) -> bool:
        """Tell whether `explained` runs a graph of the model for these options."""
        return needs_looks(self._model, options)

    def _whole(
        self, text: str, way: Way, _reading: Reading, _protect: Sequence[Any], begin: tuple[int, ...]
    ) -> Job[list[_Piece]]:
        """Give a text to the model as it is, and take what it writes as it is."""
        source = self._model.whole(text, way.framing)
        if not source:
            return [""]
        (result,) = yield [ModelInput(source, begin)]
        best = result.hypotheses[: way.hypotheses]
        texts = tuple(self._model.decoded(one.tokens) for one in best)
        return [TranslatedSentence(texts, tuple(one.score for one in best), result.finish_reason)]

    def _text(
        self,
        text: str,
        way: Way,
        reading: Reading,
        protect: Sequence[Any],
        begin: tuple[int, ...],
    ) -> Job[list[_Piece]]:
        if is_plain_sentence(text):
            blocks: Sequence[str | Segment] = (Segment(text),)
        elif reading.is_html:
            if reading.options.translate_attributes:
                # First of all, for tags carry their attributes wherever they go.
                found = read_attributes(text, reading.markup_language or way.source)
                values = yield from self._blocks(found, way, reading, protect, ())
                text = _assembled(values, 1).hypotheses[0]
            blocks = read_html(text, reading.markup_language or way.source)
        else:
            blocks = read_plain(text, every_line=reading.options.split_lines, language=way.source)
        if len(blocks) > 1:
            blocks = keep_signatures(blocks, way.source)
        return (yield from self._blocks(blocks, way, reading, protect, begin))

    def _blocks(
        self,
        blocks: Sequence[str | Segment],
        way: Way,
        reading: Reading,
        protect: Sequence[Any],
        begin: tuple[int, ...],
    ) -> Job[list[_Piece]]:
        vocabulary = self._model.vocabulary
        pieces: list[str | Segment] = []
        for block in blocks:
            if isinstance(block, str):
                pieces.append(block)
            else:
                pieces += sentences_of(block, way.source, vocabulary, protect, split=reading.split)
        jobs = []
        for piece in pieces:
            if isinstance(piece, Segment):
                jobs.append(self._translator.translate(piece, way, begin))
                begin = ()
        translated = iter((yield from together(jobs)))
        return [next(translated) if isinstance(piece, Segment) else piece for piece in pieces]


def _assembled(pieces: Sequence[_Piece], hypotheses: int, *, fill: bool = False) -> TextTranslation:
    used = [piece for piece in pieces if not isinstance(piece, str)]
    most = hypotheses if fill else max((len(one.texts) for one in used), default=1)
    count = min(hypotheses, most)
    texts, scores = [], []
    for rank in range(count):
        # A sentence may have fewer translations than another; its last one stands in.
        texts.append(
            "".join(
                piece if isinstance(piece, str) else piece.texts[min(rank, len(piece.texts) - 1)]
                for piece in pieces
            )
        )
        found = [one.scores[min(rank, len(one.scores) - 1)] for one in used]
        scores.append(sum(found) / len(found) if found else 0.0)
    cut = any(one.finish_reason == "length" for one in used)
    warnings = dict.fromkeys(reason for one in used for reason, outcome in one.guards if outcome == "kept")
    terms = merged(term for one in used for term in one.terms)
    return TextTranslation(tuple(texts), tuple(scores), "length" if cut else "eos", tuple(warnings), terms)
