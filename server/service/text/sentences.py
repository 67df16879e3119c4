"""One sentence through the model: masks and their ladder, clauses, shape, checks and mending, tags.

The ladder for protected spans, each rung for what the one before could not keep: the masks that the exporter
measured, other masks, decoding that must write each mask once, and last a cut at the spans, which always
holds. What a check finds is mended once, and the better of both translations is kept.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from server.engine.sequence import FinishReason, SequenceResult
from server.service.text.drafts import (
    CUT_RUNG,
    Draft,
    Hypothesis,
    Run,
    cleaned,
    distinct,
    inner_part,
    is_better,
    join_drafts,
    map_text,
    says_nothing,
    without_spans,
)
from server.service.text.glossary.enforcement import TermUse, whole_sentence, with_terms
from server.service.text.glossary.substitution import TermSubstitution, term_links
from server.service.text.jobs import Job, ModelInput, together
from server.service.text.model_text import ModelText
from server.service.text.options import Way
from server.service.text.output.checks import (
    SINGLE_MARKS,
    Checked,
    marks_agree,
    numbers_agree,
    without_loops,
)
from server.service.text.output.ordinals import localized
from server.service.text.protection.linking import Links
from server.service.text.protection.masks import between, masked, masks_for, unmasked
from server.service.text.protection.patterns import find_numbers
from server.service.text.protection.projection import place_tags
from server.service.text.protection.symbols import MARKS, SINGLE_QUOTED, before_letter, pairs_to_tags, spaced
from server.service.text.protection.writing import write
from server.service.text.segment import Segment, Span, Tag, Target, is_usual

_MIN_WORDS_TO_CUT = 8
_OF_WORDS = ("numbers", "names", "marks")  # alarms that say which words went wrong: no need to cut
_BLOCKED_NGRAM = 3
_MOST_ATTEMPTS = 2
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Delivered:
    """A sentence and its best translation before they are written.

    Attributes:
        segment: the sentence.
        target: its translation.
        placed: the tags of the sentence in the translation.
        written: pieces that the model wrote for it; see `Hypothesis`.
        runs: of the model that the translation was made of.
    """

    segment: Segment
    target: Target
    placed: tuple[tuple[int, Tag], ...]
    written: tuple[tuple[str, float], ...] = ()
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class TranslatedSentence:
    """What became of a sentence.

    Attributes:
        texts: as the client gets them, best first.
        scores: of each.
        finish_reason: `length` if the model did not come to an end.
        guards: reason and outcome of each alarm: `mended`, or `kept` if nothing better was found.
        rung: how far its spans went down the ladder: 0 for the first masks, 3 for a cut at the spans.
        terms: what became of the terms of a glossary in it.
        delivered: what the best of `texts` was written from, if it was to be kept.
    """

    texts: tuple[str, ...]
    scores: tuple[float, ...]
    finish_reason: FinishReason
    guards: tuple[tuple[str, str], ...] = ()
    rung: int = 0
    terms: tuple[TermUse, ...] = ()
    delivered: Delivered | None = None


class SentenceTranslator:
    """Translates sentences with one model. Immutable; thread-safe."""

    def __init__(self, model: ModelText) -> None:
        """Keep the model's side of it.

        Args:
            model: what the text layer knows of it.
        """
        self._model = model

    def translate(self, segment: Segment, way: Way, begin: tuple[int, ...] = ()) -> Job[TranslatedSentence]:
        """Translate a sentence.

        Args:
            segment: without anything at its ends that is copied.
            way: of its request.
            begin: target ids that the translation begins with.

        Returns:
            A job.
        """
        matches = way.glossary.find(segment, way.source) if way.glossary is not None else []
        draft = whole_sentence(segment, matches) or (yield from self._draft(segment, way, begin))
        fired = dict.fromkeys((*draft.hypotheses[0].alarms, *draft.mended))
        if way.guard == "mend" and draft.hypotheses[0].alarms:
            draft = yield from self._mended(segment, way, begin, draft)
            fired = {reason: None for reason in fired if reason not in draft.withdrawn}
        if way.guard != "off":
            draft = self._with_ordinals(segment, way, draft)
        left = draft.hypotheses[0].alarms
        guards = [(reason, "kept" if reason in left else "mended") for reason in fired]
        links: Links = self._model.aligner.links
        terms: tuple[TermUse, ...] = ()
        if matches:
            draft, terms = yield from with_terms(
                segment,
                draft,
                matches,
                TermSubstitution(segment, self._model.aligner, way.target, self._model.decoded(begin)),
                lambda masked: self._draft(masked, way, begin),
            )
            links = term_links(links, segment, matches)
            if not all(term.satisfied for term in terms):
                guards.append(("glossary", "kept"))
        texts = [self._written(segment, one.target, links) for one in draft.hypotheses]
        scores = [one.score for one in draft.hypotheses]
        kept = (
            (tuple(texts), tuple(scores))
            if way.every_hypothesis or way.guard == "off"
            else distinct(texts, scores)
        )
        delivered = None
        if way.keep:
            best = draft.hypotheses[0]
            placed = tuple(self._placed(segment, best.target, links))
            delivered = Delivered(segment, best.target, placed, best.written, best.runs)
        return TranslatedSentence(*kept, draft.finish_reason, tuple(guards), draft.rung, terms, delivered)

    def _with_ordinals(self, segment: Segment, way: Way, draft: Draft) -> Draft:
        def changed(text: str) -> str:
            return localized(text, segment.text, way.source, way.target)

        return replace(
            draft,
            hypotheses=tuple(replace(one, target=map_text(one.target, changed)) for one in draft.hypotheses),
        )

    def _draft(
        self, segment: Segment, way: Way, begin: tuple[int, ...], limit: int | None = None
    ) -> Job[Draft]:
        """Translate a segment whole, or in clauses if it is longer than the model does well."""
        borders = self._model.clause_borders(segment, way.source, limit)
        if not borders:
            return (yield from self._whole(segment, way, begin))
        parts = segment.cut(borders)
        jobs = [self._clause(part, way, begin if not number else ()) for number, part in enumerate(parts)]
        return join_drafts(parts, (yield from together(jobs)))

    def _clause(self, part: Segment, way: Way, begin: tuple[int, ...]) -> Job[Draft]:
        start, end = inner_part(part)
        core = part.cut([border for border in (start, end) if 0 < border < len(part.text)])
        inner = core[1 if start else 0] if start < end else part
        if not _LETTER.search(_outside(inner)):
            return Draft((Hypothesis(Target(inner.text, inner.spans), 0.0),), "eos")
        draft = yield from self._whole(inner, way, begin)
        alarms = draft.hypotheses[0].alarms
        if way.guard == "mend" and ("loop" in alarms or "overlong" in alarms):
            tried = yield from self._whole(inner, way, begin, ngram=_BLOCKED_NGRAM)
            if is_better(tried.hypotheses[0], draft.hypotheses[0]):
                draft = replace(tried, mended=alarms)
        return draft

    def _whole(self, segment: Segment, way: Way, begin: tuple[int, ...], ngram: int = 0) -> Job[Draft]:
        """Translate a segment; its spans climb down the ladder."""
        templates = self._model.masks(len(segment.spans))
        for rung, template in enumerate((*templates[:2], *templates[:1])):
            if not segment.spans and rung:
                break
            masks = masks_for(segment.text, len(segment.spans), template)
            required = self._model.target_ids(masks) if rung == len(templates[:2]) else ()
            text = masked(segment, masks)
            for source, capitals in self._model.forms(text, as_it_stands=way.guard == "off"):
                ids = self._model.source_ids(source)
                if not ids or (way.guard != "off" and self._model.is_gibberish(source, ids)):
                    return Draft((Hypothesis(Target(segment.text, segment.spans), 0.0),), "eos")
                (result,) = yield [ModelInput(way.framed(ids), begin, required, ngram)]
                draft = self._read(segment, masks, source, ids, result, way, capitals)
                if way.guard != "mend" or not says_nothing(draft, segment.text):
                    break
            if draft is not None:
                return replace(draft, rung=rung) if rung else draft
        return replace((yield from self._around_spans(segment, way, begin)), rung=CUT_RUNG)

    def _read(
        self,
        segment: Segment,
        masks: Sequence[str],
        source: str,
        source_ids: Sequence[int],
        result: SequenceResult,
        way: Way,
        capitals: bool,
    ) -> Draft | None:
        """Turn what the model wrote into hypotheses; None if the best one lost a mask."""
        found: list[Hypothesis] = []
        for number, one in enumerate(result.hypotheses):
            output = self._model.decoded(one.tokens)
            target = unmasked(output, segment, masks)
            if target is None:
                if not number:
                    return None
                continue
            if capitals:
                target = map_text(target, str.upper)
            alarms: tuple[str, ...] = ()
            coverage = 0.0
            if way.guard != "off":
                target = self._model.shaped(segment, target, way.source, way.target)
                cut = result.finish_reason == "length" and not number and not way.may_be_cut
                read = (source, output, source_ids, one.tokens, result.source_tokens, cut)
                checked = Checked(*read, (way.source, way.target))
                if not number:
                    alarms = self._alarms(segment, target, checked, way)
                    coverage = self._model.checks.coverage(checked) if alarms else 0.0
            written = self._model.written(one.tokens, one.token_scores) if one.token_scores else ()
            runs = (Run(way.framed(source_ids), tuple(one.tokens)),) if way.keep else ()
            found.append(Hypothesis(cleaned(target), one.score, alarms, coverage, written, runs))
        return Draft(tuple(found), result.finish_reason)

    def _alarms(self, segment: Segment, target: Target, checked: Checked, way: Way) -> tuple[str, ...]:
        found = self._model.checks.alarms(checked)
        is_plain = is_usual(segment.text) and is_usual(target.text)
        if not is_plain and not numbers_agree(segment, target, (way.source, way.target)):
            found.append("numbers")
        if self._model.names.lost(segment, target, way.source):
            found.append("names")
        if not is_plain and not marks_agree(segment, target):
            found.append("marks")
        return tuple(found)

    def _around_spans(self, segment: Segment, way: Way, begin: tuple[int, ...]) -> Job[Draft]:
        """Translate the parts between the spans each on its own."""
        parts = between(segment)
        words = [part for part in parts if isinstance(part, Segment) and _LETTER.search(part.text)]
        jobs = [self._clause(part, way, begin if not number else ()) for number, part in enumerate(words)]
        drafts = iter((yield from together(jobs)))
        pieces: list[tuple[Segment, Draft]] = []
        for part in parts:
            if isinstance(part, Span):
                own = segment.text[part.start : part.end]
                kept = Target(own, (replace(part, start=0, end=len(own)),))
                pieces.append((Segment(own, kept.spans), Draft((Hypothesis(kept, 0.0),), "eos")))
            elif _LETTER.search(part.text):
                pieces.append((part, next(drafts)))
            else:
                pieces.append((part, Draft((Hypothesis(Target(part.text.strip()), 0.0),), "eos")))
        return join_drafts([part for part, _ in pieces], [draft for _, draft in pieces])

    def _mended(self, segment: Segment, way: Way, begin: tuple[int, ...], draft: Draft) -> Job[Draft]:
        """Try against the most serious alarm, and once more against another one that is left.

        What the first try protected, or where it cut, the second one does, too.
        """
        kept, limit = segment, None
        for _ in range(_MOST_ATTEMPTS):
            best = draft.hypotheses[0]
            if not best.alarms:
                break
            lost = self._lost(kept, best, way)
            if lost:
                kept = replace(kept, spans=tuple(sorted([*kept.spans, *lost], key=lambda span: span.start)))
            elif best.alarms[0] not in _OF_WORDS and len(_WORD.findall(segment.text)) >= _MIN_WORDS_TO_CUT:
                limit = max(6, len(self._model.source_ids(segment.text)) // 2 + 1)
            tried = yield from self._mend(kept, lost, way, begin, draft, limit)
            tried = without_spans(tried, segment)
            if not is_better(tried.hypotheses[0], best):
                break
            draft = replace(tried, withdrawn=(*draft.withdrawn, *tried.withdrawn))
        best = draft.hypotheses[0]
        if "loop" in best.alarms:
            best = replace(best, target=map_text(best.target, without_loops))
        if "marks" in best.alarms:
            best = self._with_own_marks(segment, best)
        if not best.target.text.strip():
            best = replace(best, target=Target(segment.text, segment.spans))
        return replace(draft, hypotheses=(best, *draft.hypotheses[1:]))

    def _lost(self, segment: Segment, best: Hypothesis, way: Way) -> list[Span]:
        """Find the words that a translation must be made to keep, if that is its most serious alarm."""
        if best.alarms[0] == "numbers":
            return find_numbers(segment)
        return self._model.names.lost(segment, best.target, way.source) if best.alarms[0] == "names" else []

    def _mend(
        self,
        segment: Segment,
        lost: Sequence[Span],
        way: Way,
        begin: tuple[int, ...],
        draft: Draft,
        limit: int | None,
    ) -> Job[Draft]:
        """Try once more, in the way that helps against the most serious alarm.

        Args:
            segment: a sentence, with spans for all that is to be kept.
            lost: those of them that are new.
            way: of its request.
            begin: target ids that the translation begins with.
            draft: with an alarm.
            limit: tokens of a clause; None for as many as the model does well.
        """
        best = draft.hypotheses[0]
        reason = best.alarms[0]
        if reason == "marks":
            tagged = pairs_to_tags(replace(segment, tags=()))
            if tagged.tags:
                tried = yield from self._draft(tagged, way, begin, limit)
                return replace(
                    tried,
                    hypotheses=tuple(
                        replace(one, target=self._with_pairs(tagged, one.target)) for one in tried.hypotheses
                    ),
                )
        if lost:
            tried = yield from self._draft(segment, way, begin, limit)
            new, old = tried.hypotheses[0].target.text, best.target.text
            are_short = all(segment.text[span.start : span.end].isupper() for span in lost)
            told = reason != "names" or are_short or bool(self._model.names.translated)
            if not told and self._model.accounts_worse(segment.text, new, old):
                # The name was translated: `Noël` to `Christmas`.
                left = tuple(alarm for alarm in best.alarms if alarm != reason)
                same = (replace(best, alarms=left), *draft.hypotheses[1:])
                return replace(draft, hypotheses=same, withdrawn=(reason,))
            return tried
        if limit is not None and reason not in _OF_WORDS:
            return (yield from self._draft(segment, way, begin, limit))
        return (yield from self._whole(segment, way, begin, ngram=_BLOCKED_NGRAM))

    def _with_pairs(self, tagged: Segment, target: Target) -> Target:
        """Put quotes and brackets that were tags back as text."""
        placed = place_tags(tagged, target, self._model.aligner.links)
        return target.edited([(at, at, tag.output) for at, tag in placed])

    def _with_own_marks(self, segment: Segment, best: Hypothesis) -> Hypothesis:
        """Put the source's pairs of quotes and brackets in the place of those that were written."""
        tagged = pairs_to_tags(replace(segment, tags=()))
        if not tagged.tags or MARKS.search(_outside(tagged)):
            return best
        bare = map_text(best.target, lambda text: MARKS.sub("", text))
        if SINGLE_QUOTED.search(segment.text):
            bare = map_text(bare, lambda text: SINGLE_MARKS.sub("", text))
        alarms = tuple(alarm for alarm in best.alarms if alarm != "marks")
        return replace(best, target=self._with_pairs(tagged, bare), alarms=alarms)

    def _written(self, segment: Segment, target: Target, links: Links) -> str:
        if not segment.tags and not target.spans and segment.escape == "none":
            return target.text
        return write(target.text, target.spans, self._placed(segment, target, links), segment.escape)

    def _placed(self, segment: Segment, target: Target, links: Links) -> list[tuple[int, Tag]]:
        placed = place_tags(segment, target, links) if segment.tags else []
        text = target.text
        moved = sorted(((before_letter(at, tag, text), tag) for at, tag in placed), key=lambda one: one[0])
        return [(at, spaced(at, tag, text)) for at, tag in moved]


def _outside(segment: Segment) -> str:
    return segment.edited([(span.start, span.end, "") for span in segment.spans]).text
