"""How a sentence is decoded: every option and its range."""

import math
from dataclasses import dataclass
from typing import Literal

from server.errors import InvalidOptionError

EarlyStopping = bool | Literal["never"]
"""Values of transformers' option of this name."""


@dataclass(frozen=True, slots=True)
class DecodingOptions:
    """How a sentence is decoded, in CTranslate2's words; docs/decoding.md has the exact meanings.

    Lengths are in target tokens and count `target_prefix`.

    Attributes:
        beam_size: hypotheses kept at each step; 1 is greedy search. When sampling, the rows that a sentence
            takes, at least `num_hypotheses`.
        length_penalty: exponent a of the final score `log P / length**a`; 0 ranks by plain log-probability.
        num_hypotheses: how many of the best hypotheses to return, at most `beam_size`; when sampling, how
            many to draw.
        max_decoding_length: decoder steps after which a sentence ends, the one that yields the end token
            counted.
        min_decoding_length: target tokens before which the end token is not allowed; 0 allows empty targets
            (CTranslate2's default is 1).
        return_scores: whether greedy search also accumulates log-probabilities (beam search always does).
        patience: CTranslate2's beam search goes on until `beam_size * patience` hypotheses have ended.
        early_stopping: None ends beam search as CTranslate2 does; False, True and "never" do everything as
            transformers' beam search with that value.
        repetition_penalty: divides scores above zero of tokens that were written before, multiplies those
            below; 1 changes nothing.
        no_repeat_ngram_size: length of token sequences that may occur only once; 0 allows all.
        target_prefix: tokens that the target begins with; they are returned, too.
        model_prefix_tokens: how many of these the model begins every target with. Transformers' rules count
            them in a score's length (`forced_bos_token_id`), and the others not: they are a prompt.
        sampling_topk: draw from this many best tokens; 1 takes the best without drawing, 0 draws from all.
        sampling_topp: of these, draw from the fewest that reach this probability together.
        sampling_temperature: divides scores before drawing; 0 takes the best without drawing.
        seed: what draws depend on, together with the source tokens of the sentence.
    """

    beam_size: int = 1
    length_penalty: float = 1.0
    num_hypotheses: int = 1
    max_decoding_length: int = 256
    min_decoding_length: int = 0
    return_scores: bool = False
    patience: float = 1.0
    early_stopping: EarlyStopping | None = None
    repetition_penalty: float = 1.0
    no_repeat_ngram_size: int = 0
    target_prefix: tuple[int, ...] = ()
    model_prefix_tokens: int = 0
    sampling_topk: int = 1
    sampling_topp: float = 1.0
    sampling_temperature: float = 1.0
    seed: int = 0

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
        if self.beam_size < 1:
            raise InvalidOptionError("beam_size must be at least 1")
        if not 1 <= self.num_hypotheses <= self.beam_size:
            raise InvalidOptionError("num_hypotheses must be between 1 and beam_size")
        if not math.isfinite(self.length_penalty):
            raise InvalidOptionError("length_penalty must be a finite number")
        if self.max_decoding_length < 1:
            raise InvalidOptionError("max_decoding_length must be at least 1")
        if not 0 <= self.min_decoding_length <= self.max_decoding_length:
            raise InvalidOptionError("min_decoding_length must be between 0 and max_decoding_length")
        if len(self.target_prefix) > self.max_decoding_length:
            raise InvalidOptionError("target_prefix is longer than max_decoding_length")
        if not 0 <= self.model_prefix_tokens <= len(self.target_prefix):
            raise InvalidOptionError("model_prefix_tokens must be between 0 and the length of target_prefix")
        if not 0 < self.patience < math.inf:
            raise InvalidOptionError("patience must be above 0")
        if self.max_ended < self.num_hypotheses:
            raise InvalidOptionError("num_hypotheses must be at most beam_size * patience")
        if self.early_stopping not in (None, False, True, "never"):
            raise InvalidOptionError("early_stopping must be false, true or never")
        if not 0 < self.repetition_penalty < math.inf:
            raise InvalidOptionError("repetition_penalty must be above 0")
        if self.no_repeat_ngram_size < 0:
            raise InvalidOptionError("no_repeat_ngram_size must be at least 0")
        if self.sampling_topk < 0:
            raise InvalidOptionError("sampling_topk must be at least 0")
        if not 0 < self.sampling_topp <= 1:
            raise InvalidOptionError("sampling_topp must be above 0 and at most 1")
        if not 0 <= self.sampling_temperature < math.inf:
            raise InvalidOptionError("sampling_temperature must be at least 0")
        if self.seed < 0:
            raise InvalidOptionError("seed must be at least 0")
