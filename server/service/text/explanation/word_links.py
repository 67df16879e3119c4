"""The words of a sentence and of its translation, and which of them belong together."""

from server.service.text.explanation.attention import Looks, of_words
from server.service.text.model_text import ModelText
from server.service.text.protection.alignment import WordAligner
from server.service.text.protection.linking import link_words
from server.service.text.protection.words import Word, find_words
from server.service.text.sentences import Delivered


class SentenceWords:
    """Words of a sentence and its translation, compared by the lexical tables. Used by one thread."""

    def __init__(self, kept: Delivered, aligner: WordAligner) -> None:
        """Find and compare the words.

        Args:
            kept: the sentence.
            aligner: of the model that translated it.
        """
        self._kept = kept
        segment, target = kept.segment, kept.target
        self._ours, self._theirs = (
            find_words(segment.text, segment.spans),
            find_words(target.text, target.spans),
        )
        self._left = [index for index, word in enumerate(self._ours) if not word.is_mark]
        self._right = [index for index, word in enumerate(self._theirs) if not word.is_mark]
        self._compared = aligner.compare(
            [segment.text[self._ours[index].start : self._ours[index].end] for index in self._left],
            [target.text[self._theirs[index].start : self._theirs[index].end] for index in self._right],
        )

    @property
    def is_certain(self) -> bool:
        """Whether the tables leave nothing for the model's attention to say."""
        return self._compared.is_certain

    def links(self, model: ModelText, looks: Looks = ()) -> list[tuple[Word, Word, float]]:
        """Link the words, each pair with the weight of an `Alignment`.

        Args:
            model: that translated the sentence.
            looks: its attention; without it, the tables speak alone.
        """
        attention = None
        if looks:
            words = (
                [self._ours[index] for index in self._left],
                [self._theirs[index] for index in self._right],
            )
            attention = of_words(self._kept, looks, model, *words)
        weighted = self._compared.links(attention)
        weights = {(self._left[one], self._right[other]): weight for one, other, weight in weighted}
        known = [(one, other) for one, other, _ in weighted]
        pairs = link_words(self._kept.segment, self._kept.target, self._ours, self._theirs, lambda *_: known)
        return [
            (
                self._ours[one],
                self._theirs[other],
                1.0 if self._ours[one].span >= 0 else weights.get((one, other), 1.0),
            )
            for one, other in pairs
        ]
