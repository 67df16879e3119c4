"""Links between the words of a sentence and those of its translation."""

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from server.service.text.protection.words import Word
from server.service.text.segment import Segment, Target

Links = Callable[[Sequence[str], Sequence[str]], list[tuple[int, int]]]
"""Finds which words of a translation stand for which of its source: takes those of the source, in order and
without punctuation marks, and those of the translation; gives pairs of an index in each."""

_KINDS_OF_MARKS = {
    mark: marks[0]
    for marks in ("\"'«»“”„‚‘’‹›", ".!?…。！？", "-–—―", ",،、，", ":：", ";；")
    for mark in marks
}


def link_words(
    segment: Segment, target: Target, source: list[Word], words: list[Word], links: Links | None
) -> list[tuple[int, int]]:
    """Link words as they are found, spans by what they write, marks of one kind in order.

    Args:
        segment: a sentence.
        target: its translation.
        source: words of the sentence.
        words: words of the translation.
        links: finds them; None links equal words alone.

    Returns:
        Pairs of an index in the source and one in the target, ascending.
    """
    ours = [index for index, word in enumerate(source) if not word.is_mark]
    theirs = [index for index, word in enumerate(words) if not word.is_mark]
    our_texts = [segment.text[source[index].start : source[index].end] for index in ours]
    their_texts = [target.text[words[index].start : words[index].end] for index in theirs]
    found = links(our_texts, their_texts) if links else []
    pairs = {
        (ours[one], theirs[other])
        for one, other in found
        if source[ours[one]].span < 0 and words[theirs[other]].span < 0
    }
    our_marks, their_marks = _marks(segment, source), _marks(target, words)
    for one, other in _in_order(_colons(our_marks), _colons(their_marks), once=True):
        # What is before a colon is before it in any language.
        pairs = {(ours, theirs) for ours, theirs in pairs if (ours < one) == (theirs < other)}
    ours_linked, theirs_linked = {one for one, _ in pairs}, {other for _, other in pairs}
    left = [
        (text.casefold(), index)
        for text, index in zip(our_texts, ours, strict=True)
        if index not in ours_linked and source[index].span < 0
    ]
    right = [
        (text.casefold(), index)
        for text, index in zip(their_texts, theirs, strict=True)
        if index not in theirs_linked and words[index].span < 0
    ]
    pairs.update(_in_order(left, right, once=True))
    pairs.update(_in_order(_spans(segment, source), _spans(target, words)))
    if (
        source
        and words
        and source[-1].is_mark
        and words[-1].is_mark
        and our_marks[-1][0] == their_marks[-1][0]
    ):
        # `15. Mai` has a full stop, too, but it ends no sentence.
        pairs.add((our_marks.pop()[1], their_marks.pop()[1]))
    pairs.update(_in_order(our_marks, their_marks))
    return sorted(pairs)


_Keyed = Sequence[tuple[object, int]]


def _in_order(left: _Keyed, right: _Keyed, *, once: bool = False) -> Iterator[tuple[int, int]]:
    """Pair what has the same key, the first with the first; or only what has a key that is there once."""
    places: defaultdict[object, deque[int]] = defaultdict(deque)
    for key, index in right:
        places[key].append(index)
    counts = Counter(key for key, _ in left)
    for key, index in left:
        if places[key] and (not once or (counts[key] == 1 and len(places[key]) == 1)):
            yield index, places[key].popleft()


def _spans(text: Segment | Target, words: list[Word]) -> _Keyed:
    return [
        ((text.text[word.start : word.end], text.spans[word.span].output), index)
        for index, word in enumerate(words)
        if word.span >= 0
    ]


def _colons(marks: _Keyed) -> _Keyed:
    return [(kind, index) for kind, index in marks if kind == ":"]


def _marks(text: Segment | Target, words: list[Word]) -> list[tuple[object, int]]:
    marks = [(text.text[word.start], index) for index, word in enumerate(words) if word.is_mark]
    return [(_KINDS_OF_MARKS.get(mark, mark), index) for mark, index in marks]


def cut_words(
    segment: Segment, target: Target, source: list[Word], words: list[Word], pairs: list[tuple[int, int]]
) -> tuple[list[Word], list[Word], list[list[int]]]:
    """Cut source words at tags inside of them, and target words that are the same words.

    Args:
        segment: a sentence.
        target: its translation.
        source: words of the sentence.
        words: words of the translation.
        pairs: of `link_words`.

    Returns:
        The source's words, the target's, and for each of the target's the source's that it stands for.
    """
    offsets = sorted({tag.at for tag in segment.tags})
    inner = []
    for word in source:
        cuts = offsets[bisect_left(offsets, word.start + 1) : bisect_left(offsets, word.end)]
        inner.append([] if word.span >= 0 else [cut - word.start for cut in cuts])
    linked: list[list[int]] = [[] for _ in words]
    for one, other in pairs:
        linked[other].append(one)

    def text(word: Word, of: Segment | Target) -> str:
        return of.text[word.start : word.end].casefold()

    new_source: list[Word] = []
    first: list[int] = []
    for word, cuts in zip(source, inner, strict=True):
        first.append(len(new_source))
        new_source += _pieces(word, cuts)
    new_words: list[Word] = []
    links: list[list[int]] = []
    for word, ones in zip(words, linked, strict=True):
        cuts = inner[ones[0]] if len(ones) == 1 else []
        if cuts and text(word, target) == text(source[ones[0]], segment):
            new_words += _pieces(word, cuts)
            links += [[first[ones[0]] + piece] for piece in range(len(cuts) + 1)]
        else:
            new_words.append(word)
            links.append([first[one] + piece for one in ones for piece in range(len(inner[one]) + 1)])
    return new_source, new_words, links


def _pieces(word: Word, cuts: list[int]) -> list[Word]:
    if not cuts:
        return [word]
    starts = [word.start, *(word.start + cut for cut in cuts)]
    return [
        replace(word, start=start, end=end)
        for start, end in zip(starts, [*starts[1:], word.end], strict=True)
    ]
