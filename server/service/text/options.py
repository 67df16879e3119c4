"""How the texts of a request are treated: every option, defined once.

A field of `TextOptions` is the definition of an option, as in `server.engine.options`. Derived from it are
the fields of `POST /translate`, flags of `dragoman translate` and the table in docs/text.md.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from export.bundle import Framing
from server.engine.options import define, options_of
from server.errors import InvalidOptionError
from server.service.text.glossary.entries import Glossary
from server.service.text.languages import base_language

MAX_PROTECTED = 100
"""Words and patterns that a request may name."""
MAX_PROTECTED_CHARS = 200
"""Characters of one of them."""
_PATTERN_BYTES = 1 << 20
_NO_FRAMING = Framing((), (), ())


@dataclass(frozen=True, slots=True)
class TextOptions:
    """What happens to a text before and after the model. Immutable; thread-safe."""

    guard: Literal["off", "flag", "mend"] = define(
        "mend",
        "What is done about suspicious translations: nothing, checks only, or checks and another try.",
        unset="mend, or the server's `guard`",
        shown_range='`"off"`, `"flag"`, `"mend"`',
    )
    protect: tuple[str, ...] = define(
        (),
        "Words that come out as they are, and patterns between slashes: `/[A-Z]{2}-\\d+/` (RE2's syntax).",
        unset="none",
        shown_range=f"{MAX_PROTECTED} of {MAX_PROTECTED_CHARS} characters",
        is_text=True,
    )
    split_lines: bool = define(
        False, "Every line is a sentence of its own, also one that seems to go on.", has_flag=False
    )
    translate_attributes: bool = define(
        True, "Of HTML, `alt`, `title`, `placeholder` and `aria-label` are translated, too.", has_flag=False
    )
    warnings: bool = define(
        False, "Whether to answer what the checks found in each translation.", has_flag=False
    )
    alignments: bool = define(
        False, "Whether to answer which words of each translation stand for which of its source."
    )

    confidence: bool = define(
        False, "Whether to answer how sure the model is of each sentence and word of the translation."
    )

    attention: bool = define(
        False, "Whether to answer where the model looked in the source for each piece that it wrote."
    )

    @property
    def explains(self) -> bool:
        """Whether more is to be said of a translation than its text."""
        return self.alignments or self.confidence or self.attention

    @property
    def protected_words(self) -> tuple[str, ...]:
        """What is protected as it stands."""
        return tuple(one for one in self.protect if not _is_pattern(one))

    @property
    def protected_patterns(self) -> tuple[Any, ...]:
        """Compiled patterns of what is protected, with `finditer` as in `re`. They match in linear time."""
        return tuple(_compile(one[1:-1]) for one in self.protect if _is_pattern(one))

    def validate(self) -> None:
        """Check what is protected: its number, its length, and whether patterns are such.

        Raises:
            InvalidOptionError: something is wrong; the message names the option and the place.
        """
        if len(self.protect) > MAX_PROTECTED:
            raise InvalidOptionError(f"protect has {len(self.protect)} entries; the most is {MAX_PROTECTED}")
        for number, one in enumerate(self.protect, start=1):
            if not one.strip():
                raise InvalidOptionError(f"protect: entry {number} is empty")
            if len(one) > MAX_PROTECTED_CHARS:
                raise InvalidOptionError(
                    f"protect: entry {number} has {len(one)} characters; the most is {MAX_PROTECTED_CHARS}"
                )
            if _is_pattern(one):
                self._check_pattern(one[1:-1], number)

    @staticmethod
    def _check_pattern(pattern: str, number: int) -> None:
        try:
            found = _compile(pattern)
        except ValueError:
            raise InvalidOptionError(f"protect: entry {number} is not a pattern in RE2's syntax") from None
        if found.search("") is not None:
            raise InvalidOptionError(f"protect: entry {number} also matches an empty text")


TEXT_OPTIONS = options_of(TextOptions)
"""Every option there is."""


def _is_pattern(one: str) -> bool:
    return len(one) > 2 and one[0] == one[-1] == "/"


@functools.lru_cache(1000)
def _compile(pattern: str) -> Any:
    """Compile a pattern with RE2, which takes linear time whatever a client writes (Cox 2010, "RE2").

    Raises:
        ValueError: it is not a pattern, or one that takes too much memory.
    """
    import re2  # with the first pattern that a client sends: few do

    options = re2.Options()
    options.max_mem = _PATTERN_BYTES
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError("not a pattern") from error


@dataclass(frozen=True, slots=True)
class Way:
    """How the sentences of a request are translated.

    Attributes:
        source: language of the text; `de` whether the bundle says `de` or `deu_Latn`.
        target: language of the translation.
        framing: ids around every sentence, which tell a multilingual model the direction.
        hypotheses: translations wanted of each.
        guard: `off` leaves the model's words alone, `flag` checks them, `mend` also tries again.
        every_hypothesis: whether hypotheses that differ in marks alone are kept, too.
        may_be_cut: whether the client limits lengths, so that a cut translation is no fault of the model.
        glossary: terms of the request.
        keep: whether to keep of each sentence what its translation is explained with.
    """

    source: str
    target: str
    framing: Framing = _NO_FRAMING
    hypotheses: int = 1
    guard: str = "mend"
    every_hypothesis: bool = False
    may_be_cut: bool = False
    glossary: Glossary | None = None
    keep: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", base_language(self.source))
        object.__setattr__(self, "target", base_language(self.target))

    def framed(self, ids: Sequence[int]) -> tuple[int, ...]:
        """Put around the ids of a sentence what tells the model the direction."""
        return (*self.framing.source_prefix, *ids, *self.framing.source_suffix)
