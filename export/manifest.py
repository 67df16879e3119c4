"""The schema of ``manifest.json``, format version 1. A leaf: pydantic and the standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from export.languages import BeamWidth, Count, Direction, FileName, Framed, Framing, Language, Part, TokenId
from export.sections.architecture import Architecture
from export.sections.attention import Attention
from export.sections.confidence import Confidence
from export.sections.shortlist import Shortlist
from export.sections.text import TextMeasures

FORMAT_VERSION = 1
MANIFEST_NAME = "manifest.json"
TRANSLATION = "translation"
MAX_PURPOSE = 300
REQUIRED_DOCUMENTS = ("MODEL_CARD.md", "NOTICE")

Precision = Literal["fp32", "fp16", "int8"]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class SpecialTokens(Part):
    """Ids with a meaning.

    The encoder reads ``source_prefix_ids + pieces + source_suffix_ids``; decoding starts at
    ``decoder_start_id`` and ends at ``eos_id``.
    """

    pad_id: TokenId
    unk_id: TokenId
    bos_id: TokenId
    eos_id: TokenId
    decoder_start_id: TokenId
    source_prefix_ids: tuple[TokenId, ...] = ()
    source_suffix_ids: tuple[TokenId, ...] = ()
    target_prefix_ids: tuple[TokenId, ...] = Field(default=(), description="every target begins with them")
    suppressed_ids: tuple[TokenId, ...] = Field(default=(), description="never written")
    forced_end: bool = Field(
        default=False, description="a target that reaches its length limit gets the end token as its last one"
    )


class Limits(Part):
    """Longest sequences the graphs can take; the source counts its prefix and suffix."""

    max_source_tokens: Count
    max_target_tokens: Count


class Graphs(Part):
    """ONNX files; ``decoders`` maps a beam width, as a decimal string, to the graph made for it.

    ``multi_step`` makes several greedy steps of few sentences, ``beam_multi_step`` several
    steps of a beam search, by beam width; other precisions than int8 have none.
    ``opset`` is that of the decoders, which no other graph exceeds.
    """

    opset: Count
    encoder: FileName
    decoders: dict[BeamWidth, FileName]
    multi_step: FileName | None = None
    beam_multi_step: dict[BeamWidth, FileName] = Field(default_factory=dict)

    @property
    def all_multi_step(self) -> tuple[str, ...]:
        """Names of the files that make several steps at once."""
        return (*(() if self.multi_step is None else (self.multi_step,)), *self.beam_multi_step.values())

    @property
    def beam_widths(self) -> tuple[int, ...]:
        """Beam widths that the bundle can decode with, ascending."""
        return tuple(sorted(int(width) for width in self.decoders))


class TokenizerFiles(Part):
    """SentencePiece models; without ``target`` the source's serves both sides.

    With ``vocabulary``, as in MarianMT, ids do not come from the SentencePiece models, which only cut text
    into pieces, but from a JSON object of piece to id; ``target_vocabulary`` is that of the target side if it
    has its own. Pieces of kind ``byte_level``, as in BART, are of bytes within words (``model.byte_level``).
    """

    kind: Literal["sentencepiece", "marian", "byte_level"]
    source: FileName
    target: FileName | None = None
    vocabulary: FileName | None = None
    target_vocabulary: FileName | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.kind == "marian") != (self.vocabulary is not None):
            raise ValueError("a vocabulary goes with kind marian, and only with it")
        if self.target_vocabulary is not None and self.vocabulary is None:
            raise ValueError("target_vocabulary goes with vocabulary")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all files there are."""
        files = (self.source, self.target, self.vocabulary, self.target_vocabulary)
        return tuple(name for name in files if name is not None)

    def paths(self, directory: Path) -> tuple[Path, Path | None, Path | None, Path | None, bool]:
        """Paths of the files and their kind, as ``model.tokenizer.Tokenizer.load`` takes them."""

        def path(name: str | None) -> Path | None:
            return None if name is None else directory / name

        return (
            directory / self.source,
            path(self.target),
            path(self.vocabulary),
            path(self.target_vocabulary),
            self.kind == "byte_level",
        )


class FileEntry(Part):
    """Identity of one file."""

    sha256: Sha256
    size_bytes: int = Field(ge=0)


class Parity(Part):
    """fp32 ONNX graphs against PyTorch on real sentences."""

    largest_logit_difference: float = Field(ge=0)
    sentences: int = Field(ge=0)
    same_tokens: int = Field(ge=0, description="sentences whose greedy tokens agree")


class Score(Part):
    """Corpus scores of one precision, greedy decoding."""

    bleu: float
    chrf: float


class Quality(Part):
    """Scores on the dev set, the gate of every precision but fp32."""

    set: str
    sentences: int = Field(ge=0)
    signature_bleu: str
    signature_chrf: str
    scores: dict[Precision, Score]
    by_direction: dict[str, dict[Precision, Score]] = Field(
        default={}, description="of a model of several directions: en-de"
    )
    bleu_loss: float = Field(description="fp32 minus the bundle's own precision")
    loss_accepted_by_flag: bool = False


class Agreement(Part):
    """The bundle's precision against fp32, the gate where no reference translations were given."""

    set: str
    sentences: int = Field(ge=0)
    same_tokens: int = Field(ge=0, description="sentences whose greedy tokens agree")
    bleu: float = Field(description="of the translations, with those of fp32 as references")
    loss_accepted_by_flag: bool = False


class Generation(Part):
    """How the model's makers meant it to be decoded: options of requests that do not choose.

    None leaves the choice to the server.
    """

    beam_size: Count | None = None
    length_penalty: float | None = None
    early_stopping: bool | Literal["never"] | None = Field(
        default=None, description="a value asks for the stopping rule of Hugging Face transformers"
    )
    max_decoding_length: Count | None = None
    min_decoding_length: Count | None = Field(
        default=None, description="shorter where a request's own bounds leave no room for it"
    )
    no_repeat_ngram_size: Count | None = None


class Calibration(Part):
    """Where int8 activation ranges come from."""

    method: str
    weight_bits: int = Field(ge=2, le=8)
    sentences: int = Field(ge=1)
    sample: str
    sample_sha256: Sha256


class Golden(Part):
    """A sentence that the server translates at load and compares; greedy, without the end token.

    Its source ids have the prefix and suffix of its direction, and its target ids the prefix.
    """

    source: str = ""
    target: str
    source_ids: tuple[TokenId, ...] = ()
    source_features: str = Field(default="", description="instead of text and ids, as a request has them")
    target_ids: tuple[TokenId, ...]
    target_prefix_ids: tuple[TokenId, ...] = Field(
        default=(), description="what the translation was made to begin with; target_ids begin with it"
    )


class Manifest(Part):
    """``manifest.json``: the only thing that decides what the server does with a bundle."""

    format_version: Literal[1]
    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    version: str = Field(min_length=1, max_length=100)
    created: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}$")
    task: str = Field(
        default=TRANSLATION,
        pattern=r"^[a-z][a-z0-9-]{0,39}$",
        description="what the model does; `POST /translate` serves translation, `POST /generate` the others",
    )
    purpose: str = Field(
        default="", max_length=MAX_PURPOSE, description="one line: the text that it is good for"
    )
    segmentation: Literal["sentences", "none"] = Field(
        default="sentences", description="whether texts are cut into sentences, or read whole as they are"
    )
    directions: tuple[Direction, ...] = ()
    languages: tuple[Language, ...] = Field(
        default=(), description="of a model that translates each into every other; it states no directions"
    )
    special_tokens: SpecialTokens
    limits: Limits
    precision: Precision
    batch_invariant: bool
    architecture: Architecture
    graphs: Graphs
    tokenizer: TokenizerFiles
    files: dict[FileName, FileEntry]
    parity: Parity | None = None
    quality: Quality | None = None
    agreement: Agreement | None = None
    generation: Generation = Generation()
    calibration: Calibration | None = None
    shortlist: Shortlist | None = None
    text: TextMeasures | None = None
    confidence: Confidence | None = None
    attention: Attention | None = None
    golden: tuple[Golden, ...] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        size = self.architecture
        if "1" not in self.graphs.decoders:
            raise ValueError("graphs.decoders has no graph for beam width 1")
        stated = size.details.head_dim if size.details else None
        if size.head_dim != (stated or size.d_model / size.decoder_heads):
            raise ValueError(
                "architecture: decoder_heads x head_dim is not d_model, nor head_dim the stated one"
            )
        if not self.graphs.beam_multi_step.keys() <= self.graphs.decoders.keys() - {"1"}:
            raise ValueError("graphs.beam_multi_step has a beam width that graphs.decoders has not, or 1")
        if self.shortlist is not None and self.shortlist.decoders.keys() != self.graphs.decoders.keys():
            raise ValueError("shortlist.decoders and graphs.decoders have different beam widths")
        tables = [] if self.shortlist is None else [self.shortlist.table]
        tables += [] if self.text is None else [self.text.lexicon]
        for file in (*self.all_graph_files, *tables, *self.tokenizer_files, *REQUIRED_DOCUMENTS):
            if file not in self.files:
                raise ValueError(f"files does not list {file}")
        if MANIFEST_NAME in self.files:
            raise ValueError("files lists the manifest itself")
        if bool(self.directions) == bool(self.languages) or len(self.languages) == 1:
            raise ValueError("it needs either directions or several languages")
        if len({language.code for language in self.languages}) != len(self.languages):
            raise ValueError("two languages have the same code")
        if not self.translates and (len(self.directions) != 1 or self.segmentation != "none"):
            raise ValueError("a task other than translation needs one direction and segmentation none")
        measures = self.text or self.shortlist or self.confidence or self.attention
        if size.source_features and (self.translates or measures):
            raise ValueError("features are no text: no translation, no measures of text and no shortlist")
        tokens = self.special_tokens
        framed: tuple[Framed, ...] = (*self.directions, *self.languages)
        source = [*tokens.source_prefix_ids, *tokens.source_suffix_ids]
        for part in framed:
            source += [*part.source_prefix_ids, *part.source_suffix_ids]
        target = [tokens.pad_id, tokens.unk_id, tokens.bos_id, tokens.eos_id, tokens.decoder_start_id]
        target += [*tokens.target_prefix_ids, *tokens.suppressed_ids]
        for part in framed:
            target += part.target_prefix_ids
        for golden in self.golden:
            source += golden.source_ids
            target += golden.target_ids
            if golden.target_ids[: len(golden.target_prefix_ids)] != golden.target_prefix_ids:
                raise ValueError("a golden sentence does not begin with its target prefix")
        if max(source, default=0) >= size.source_vocab_size or max(target) >= size.vocab_size:
            raise ValueError("a token id lies outside the vocabulary")
        return self

    @property
    def graph_files(self) -> tuple[str, ...]:
        """Names of the ONNX files that translate."""
        graphs = (self.graphs.encoder, *self.graphs.decoders.values(), *self.graphs.all_multi_step)
        if self.shortlist is None:
            return graphs
        return (*graphs, self.shortlist.columns, *self.shortlist.decoders.values())

    @property
    def all_graph_files(self) -> tuple[str, ...]:
        """Names of all ONNX files."""
        return (*self.graph_files, *(() if self.attention is None else (self.attention.graph,)))

    @property
    def tokenizer_files(self) -> tuple[str, ...]:
        """Names of the tokenizer's files."""
        return self.tokenizer.names

    @property
    def translates(self) -> bool:
        """Whether its task is translation."""
        return self.task == TRANSLATION

    @property
    def pairs(self) -> Iterator[tuple[str, str]]:
        """Source and target of every direction, those of many languages included."""
        for direction in self.directions:
            yield direction.source, direction.target
        codes = [language.code for language in self.languages]
        yield from ((source, target) for source in codes for target in codes if source != target)

    @property
    def sources(self) -> tuple[str, ...]:
        """Languages that can be translated from."""
        codes = [direction.source for direction in self.directions]
        return tuple(dict.fromkeys([*codes, *(language.code for language in self.languages)]))

    def framing(self, source: str, target: str) -> Framing:
        """Give the ids that go around a text to translate it in a direction.

        Raises:
            KeyError: the bundle has no such direction.
        """
        for direction in self.directions:
            if (direction.source, direction.target) == (source, target):
                return self._framing(direction, direction)
        if source == target:
            raise KeyError((source, target))
        return self._framing(self._by_code[source], self._by_code[target])

    @cached_property
    def _by_code(self) -> dict[str, Language]:
        return {language.code: language for language in self.languages}

    def _framing(self, source: Framed, target: Framed) -> Framing:
        tokens = self.special_tokens
        return Framing(
            (*tokens.source_prefix_ids, *source.source_prefix_ids),
            (*tokens.source_suffix_ids, *source.source_suffix_ids),
            (*tokens.target_prefix_ids, *target.target_prefix_ids),
        )


def refusal(fields: Mapping[str, Any]) -> str | None:
    """Say which of some fields of a manifest is refused, and why, long before the others are known."""
    try:
        Manifest.model_validate(fields)
    except ValidationError as error:
        for one in error.errors(include_url=False):
            if one["type"] != "missing":
                return f"{'.'.join(map(str, one['loc']))} {ascii(one['input'])[:120]}: {one['msg']}"
    return None
