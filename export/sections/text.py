"""The manifest's section `text`: what the server's text layer must know of the model."""

from __future__ import annotations

from pydantic import Field

from export.languages import Count, FileName, Part


class Mask(Part):
    """A word that stands for something else while a sentence is translated, and how it fares."""

    template: str = Field(
        pattern=r"^[A-Za-z]{1,20}\{n\}$",
        description="``{n}`` is the number of the mask in its sentence, from 1",
    )
    copied: float = Field(ge=0, le=1, description="share of dev sentences with one that keep it once")
    both_copied: float = Field(ge=0, le=1, description="share of those with two that keep both")
    agreement: float = Field(ge=0, le=100, description="chrF against the translations without masks")

    def word(self, number: int) -> str:
        """Write the mask with this number."""
        return self.template.replace("{n}", str(number))


class OutputChecks(Part):
    """Limits that a translation with ``from_source_tokens`` or more source tokens keeps, unless it is odd.

    Lengths are in tokens, the source with prefix and suffix, the target without the end token.
    """

    from_source_tokens: Count
    min_length_ratio: float = Field(ge=0, description="target by source")
    max_length_ratio: float = Field(gt=0)
    min_coverage: float = Field(le=0, description="of ``export.lexicon.coverage``")
    false_alarms: float = Field(ge=0, le=1, description="share of all dev sentences beyond a limit")


class TextMeasures(Part):
    """What the server's text layer must know of the model, measured on the dev set."""

    lexicon: FileName
    lexicon_origin: str = Field(description="text that it was learnt from")
    set: str
    sentences: int = Field(ge=0)
    masks: tuple[Mask, ...] = Field(description="the best one for a single span first")
    comfortable_source_tokens: Count | None = Field(
        description="longer texts are translated worse whole than in parts; None: none are, up to the limit"
    )
    checks: OutputChecks
    translated_names: tuple[str, ...] = Field(
        default=(), description="names and abbreviations that have another form in the other language"
    )
    lost_characters: str = Field(
        default="", description="characters with a piece of their own that seldom come out"
    )
