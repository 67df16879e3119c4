"""How a sentence is decoded: every option, defined once.

A field of `DecodingOptions` is the definition of an option: its type, default, range and one line of help.
Derived from it are the check of ranges, the fields of `POST /translate`, what a request states
(`server.service.translation.request`), the flags of `dragoman translate` and the table in docs/decoding.md.
How options fit together is code, in `DecodingOptions.validate`.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_type_hints

from server.errors import InvalidOptionError

_MOST = 1_000_000
MAX_REQUIRED_TOKENS = 256
"""Tokens that all sequences of `required` may have together."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `at_least`, or above `above`, to `at_most`; None is no bound."""

    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None

    def __contains__(self, value: float) -> bool:
        """Tell whether a number is in the range; NaN is in none."""
        low = (
            value > self.above if self.above is not None else self.at_least is None or value >= self.at_least
        )
        return low and (self.at_most is None or value <= self.at_most)

    def __str__(self) -> str:
        """Say the range in words."""
        if self.above is not None:
            return f"above {self.above} and at most {self.at_most}"
        return f"between {self.at_least} and {self.at_most}"


@dataclass(frozen=True, slots=True)
class Option:
    """The definition of an option.

    Attributes:
        help: one line for the HTTP schema, `--help` and the documentation.
        range: of its numbers; None for options that are no number.
        unset: what holds where a request does not choose, in words; None if that is the default.
        shown_range: the range in words for the documentation, where a model or a type decides it.
        field_name: of its HTTP field.
        has_field: whether requests over HTTP may state it.
        has_flag: whether `dragoman translate` has a flag for it.
        is_text: stated as text, one for all texts or one for each; the engine has its tokens.
        for_pivot: whether a request's choice holds, too, for the text between two models.
        name: in the engine, in flags and in documents; this and what follows is what the dataclass says.
        type: of its values in the engine.
        default: of the engine.
    """

    help: str
    range: Range | None = None
    unset: str | None = None
    shown_range: str | None = None
    field_name: str = ""
    has_field: bool = True
    has_flag: bool = True
    is_text: bool = False
    for_pivot: bool = False
    name: str = ""
    type: Any = None
    default: Any = None

    @property
    def shown_default(self) -> str:
        """What holds without it, in words."""
        if self.unset is not None:
            return self.unset
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default).lower()


def define(default: T, help: str, **more: Any) -> T:
    """Define a field of `DecodingOptions`; typed as its default, as `dataclasses.field` is."""
    made: T = dataclasses.field(default=default, metadata={"option": Option(help, **more)})
    return made


def options_of(kind: type) -> tuple[Option, ...]:
    """List the options that a dataclass defines, in order."""
    types = get_type_hints(kind)
    found = []
    for field in dataclasses.fields(kind):
        option, name = field.metadata["option"], field.name
        own = {"name": name, "type": types[name], "default": field.default}
        found.append(dataclasses.replace(option, **own, field_name=option.field_name or name))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """How a sentence is decoded, in CTranslate2's words; docs/decoding.md has the exact meanings.

    Lengths are in target tokens and count `target_prefix`. Immutable; thread-safe.
    """

    beam_size: int = define(
        1,
        "Hypotheses kept at each step; 1 is greedy search.",
        range=Range(1, at_most=_MOST),
        unset="the bundle's, or 1",
        shown_range="widths of the bundle",
        for_pivot=True,
    )
    length_penalty: float = define(
        1.0,
        "Exponent of the length by which a hypothesis' log-probability is divided.",
        range=Range(-10, at_most=10),
        unset="the bundle's, or 1",
        for_pivot=True,
    )
    num_hypotheses: int = define(
        1,
        "Translations to return, best first; LibreTranslate's `alternatives` + 1.",
        range=Range(1, at_most=_MOST),
        shown_range="up to the widest beam",
        has_flag=False,
    )
    max_decoding_length: int = define(
        256,
        "Target tokens after which a sentence ends.",
        range=Range(1, at_most=_MOST),
        unset="by the source",
        shown_range="1 to the model's limit",
    )
    min_decoding_length: int = define(
        0,
        "Target tokens before which the end token is forbidden (CTranslate2: 1).",
        range=Range(0, at_most=_MOST),
        shown_range="0 to the model's limit",
        unset="the bundle's, or 0",
    )
    return_scores: bool = define(
        False, "Whether to answer the score of each translation.", field_name="scores", has_flag=False
    )
    return_token_scores: bool = define(
        False,
        "Whether to keep the log-probability of every token of each translation.",
        has_field=False,
        has_flag=False,
    )
    patience: float = define(
        1.0,
        "Beam search goes on until `beam_size` times this many hypotheses have ended.",
        range=Range(above=0, at_most=10),
        for_pivot=True,
    )
    early_stopping: bool | Literal["never"] | None = define(
        None,
        "Search as transformers' `generate` does with this value, not as CTranslate2 does.",
        unset="the bundle's, or absent",
        shown_range='`true`, `false`, `"never"`',
        for_pivot=True,
    )
    repetition_penalty: float = define(
        1.0,
        "Factor against tokens that the translation already has; 1 is none.",
        range=Range(0.1, at_most=10),
        for_pivot=True,
    )
    no_repeat_ngram_size: int = define(
        0,
        "Sequences of so many tokens occur only once; 0 allows all.",
        range=Range(0, at_most=100),
        for_pivot=True,
        unset="the bundle's, or 0",
    )
    target_prefix: tuple[int, ...] = define(
        (),
        "What the translation begins with; for an array of texts also an array.",
        unset="none",
        shown_range="fits the longest target",
        has_flag=False,
        is_text=True,
    )
    model_prefix_tokens: int = define(
        0,
        "Tokens of the prefix that the model begins every target with (`forced_bos_token_id`): transformers' "
        "rules count them in a score's length, and the others not, which are a prompt.",
        has_field=False,
        has_flag=False,
    )
    required: tuple[tuple[int, ...], ...] = define(
        (),
        "Token sequences that the translation must contain exactly once each; none may overlap or contain "
        "another.",
        has_field=False,
        has_flag=False,
    )
    sampling_topk: int = define(
        1,
        "Draw each token from so many best ones; 1 takes the best, 0 draws from all.",
        range=Range(0, at_most=1000),
    )
    sampling_topp: float = define(
        1.0,
        "Of these, draw from the fewest that have this probability together.",
        range=Range(above=0, at_most=1),
    )
    sampling_temperature: float = define(
        1.0, "Divides scores before drawing; 0 takes the best.", range=Range(0, at_most=100)
    )
    seed: int = define(
        0,
        "The same seed draws the same translation of a sentence.",
        range=Range(0, at_most=2**32 - 1),
        unset="a new one",
    )

    @property
    def samples(self) -> bool:
        """Whether tokens are drawn at random."""
        return self.sampling_topk != 1 and self.sampling_temperature > 0

    @property
    def follows_transformers(self) -> bool:
        """Whether beam search keeps transformers' rules; without beams there is no difference."""
        return self.early_stopping is not None and not self.samples

    @property
    def prompt_tokens(self) -> int:
        """Tokens of `target_prefix` that are a prompt to transformers."""
        return len(self.target_prefix) - self.model_prefix_tokens

    @property
    def max_ended(self) -> int:
        """Hypotheses after which CTranslate2's beam search ends."""
        return math.floor(self.beam_size * self.patience + 0.5)

    def validate(self) -> None:
        """Check every option and how they fit together.

        Raises:
            InvalidOptionError: an option is out of range; the message names it.
        """
        for name, allowed in _RANGES:
            if getattr(self, name) not in allowed:
                raise InvalidOptionError(f"{name} must be {allowed}")
        if self.num_hypotheses > self.beam_size:
            raise InvalidOptionError("num_hypotheses must be between 1 and beam_size")
        if self.min_decoding_length > self.max_decoding_length:
            raise InvalidOptionError("min_decoding_length must be between 0 and max_decoding_length")
        if len(self.target_prefix) > self.max_decoding_length:
            raise InvalidOptionError("target_prefix is longer than max_decoding_length")
        if not 0 <= self.model_prefix_tokens <= len(self.target_prefix):
            raise InvalidOptionError("model_prefix_tokens must be between 0 and the length of target_prefix")
        if self.max_ended < self.num_hypotheses:
            raise InvalidOptionError("num_hypotheses must be at most beam_size * patience")
        if self.early_stopping not in (None, False, True, "never"):
            raise InvalidOptionError("early_stopping must be false, true or never")
        if self.required:
            _check_required(self)


OPTIONS = options_of(DecodingOptions)
"""Every option there is."""

_RANGES = [(one.name, one.range) for one in OPTIONS if one.range is not None]


def fit_together(sequences: Sequence[tuple[int, ...]]) -> bool:
    """Tell whether token sequences can be `required` together.

    They must not be empty or more than `MAX_REQUIRED_TOKENS` together, and none may contain another, equal
    it, or end with what another begins with: writing one would then write another, too.
    """
    if not all(sequences) or sum(map(len, sequences)) > MAX_REQUIRED_TOKENS:
        return False
    beginnings: dict[tuple[int, ...], set[int]] = {}
    for number, one in enumerate(sequences):
        for length in range(1, len(one) + 1):
            beginnings.setdefault(one[:length], set()).add(number)
    whole = {one: number for number, one in enumerate(sequences)}
    for number, one in enumerate(sequences):
        if any(beginnings.get(one[start:], set()) - {number} for start in range(len(one))):
            return False
        inside = {one[start:end] for start in range(len(one)) for end in range(start + 1, len(one) + 1)}
        if any(whole.get(part, number) != number for part in inside):
            return False
    return True


def _check_required(options: DecodingOptions) -> None:
    if not fit_together(options.required):
        raise InvalidOptionError("required has sequences that overlap, are empty or have too many tokens")
    prefix = options.target_prefix
    for one in options.required:
        at = [start for start in range(len(prefix)) if prefix[start : start + len(one)] == one]
        if len(at) > 1:
            raise InvalidOptionError("target_prefix has a required sequence more than once")
