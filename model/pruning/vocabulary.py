"""A checkpoint with the words of some languages only (Abdaoui et al., 2020, "Load What You Need").

Of a multilingual model's 256,000 words a language uses a tenth, and the projection to words takes most of a
decoder step. Rows of embeddings and projection that no text of these languages needs are taken out; nothing
is trained. A text that is cut as before gets the same translation, as long as that needs none of the others.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from model.checkpoint import (
    Checkpoint,
    CheckpointConfig,
    CheckpointError,
    Direction,
    Language,
    SpecialTokens,
    load_checkpoint,
    model_tensors,
    write_directory,
)
from model.config import TransformerConfig
from model.data.corpus import read_lines
from model.evaluation.evaluation import translate
from model.tokenizer import END, PADDING, START, UNKNOWN, Tokenizer, read_vocabulary
from model.vocabulary.trimming import needed_pieces, read_pieces, trimmed_pieces

_SOURCE_ROWS = ("source_embedding.tokens.weight",)
_TARGET_ROWS = ("target_embedding.tokens.weight", "projection.weight", "projection.bias")
_EACH_HELD_OUT = 20
"""One line of so many is not counted, and shows how well the words of the others serve a new text."""

_TRANSLATED = 60
"""Held-out lines that both models translate: a billion weights take minutes for them."""

_LONGEST = 60
"""Tokens of a line that is translated, which bounds the time."""


@dataclass(frozen=True)
class Trimmed:
    """What became of a model.

    Attributes:
        words: rows of the target embedding, before and after.
        parameters: before and after.
        lines: that were held out.
        cut_alike: of them, into the same pieces as before.
        more_tokens: by which they are longer, as a share.
        direction: in which held-out lines were translated.
        translated: of them, at most 60 of the first text.
        translated_alike: of these, into the same text as before.
    """

    words: tuple[int, int]
    parameters: tuple[int, int]
    lines: int
    cut_alike: int
    more_tokens: float
    direction: str
    translated: int
    translated_alike: int

    def as_text(self) -> str:
        """Say it in one line."""
        return (
            f"{self.words[0]:,} -> {self.words[1]:,} words, {self.parameters[0]:,} -> {self.parameters[1]:,} "
            f"parameters; of held-out lines {self.cut_alike} of {self.lines} are cut as before "
            f"({self.more_tokens:.2%} more tokens), {self.translated_alike} of {self.translated} translated "
            f"as before ({self.direction})"
        )


@dataclass
class _Ids:
    """One list of ids, of one side or of both.

    Attributes:
        models: names of the SentencePiece files that cut text for it.
        listed: name of the list of pieces and ids, if ids are not places in the SentencePiece file.
        used: ids that must stay, that of unknown pieces among them.
        unknown: id of pieces that are not in the list.
        new_of: new id of each that stays.
    """

    models: list[str]
    listed: str | None
    used: set[int]
    unknown: int
    new_of: dict[int, int] = field(default_factory=dict)


def trim_vocabulary(
    directory: Path,
    out: Path,
    sources: Sequence[Path],
    targets: Sequence[Path],
    languages: Sequence[str] = (),
    min_agreement: float = 0.9,
) -> Trimmed:
    """Write the checkpoint of a model that has the words of some texts only.

    Args:
        directory: the checkpoint of a Transformer; not changed.
        out: the new one, which must not exist.
        sources: text of the languages that it will translate from, plain or gzip.
        targets: text of those that it will translate to.
        languages: codes of those that stay; a model of more than two must be told. Held-out lines are
            translated from the first of them to the second.
        min_agreement: share of these lines that must get the same translation.

    Returns:
        What was taken away.

    Raises:
        CheckpointError: the checkpoint is damaged or of another kind, has not these languages, or
            translates too many lines differently without the words.
        CorpusError: a text cannot be read.
        TokenizerError: the tokenizer is damaged.
        ValueError: ``out`` exists.
    """
    if out.exists():
        raise ValueError(f"{out} exists; remove it or choose another --out")
    read = load_checkpoint(directory)
    model, config = read.transformer, _with_languages(directory, read.config, languages)
    if config.tokenizer == "byte_level" or model.config.source_features:
        raise CheckpointError(f"{directory}: only vocabularies of SentencePiece pieces are trimmed")
    (source, source_held), (target, target_held) = _divided(sources), _divided(targets)
    tables = _tables(directory, config, read.tokenizer, (source, target))
    copies = _trim_files(directory, tables, config.special_tokens.pad_id)
    new_config = _renumbered(config, tables[0].new_of, tables[-1].new_of)
    tensors = _rows(model_tensors(model), tables)
    if (recipe := directory / "recipe.toml").exists():
        copies["recipe.toml"] = recipe
    texts = {"config.json": new_config.model_dump_json(indent=1) + "\n"}
    aside = out.with_name(f".{out.name}.unchecked")
    shutil.rmtree(aside, ignore_errors=True)
    try:
        write_directory(aside, {"model.safetensors": tensors}, texts, copies)
        found = _compared(read, load_checkpoint(aside), tables, (source_held, target_held))
        if found.translated_alike < max(1, found.translated) * min_agreement:
            raise CheckpointError(
                f"{found.as_text()}: less than --min-agreement {min_agreement:g}; give more text"
            )
        aside.rename(out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return found


def _divided(paths: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Read texts; returns the lines whose words count, and those that are held out."""
    lines = [line for path in paths for line in read_lines(path)]
    return [line for i, line in enumerate(lines) if i % _EACH_HELD_OUT], lines[::_EACH_HELD_OUT]


def _with_languages(directory: Path, config: CheckpointConfig, asked: Sequence[str]) -> CheckpointConfig:
    """Leave out all languages but those that are asked for; the first two are the first direction."""
    known = {code for one in config.all_directions for code in (one.source, one.target)}
    if not asked and len(known) > 2:
        raise CheckpointError(
            f"{directory}: has {len(known)} languages; name those that stay with --languages"
        )
    if not asked:
        return config
    missing = sorted(set(asked) - known)
    if missing:
        some = ", ".join(sorted(known)[:20])
        raise CheckpointError(f"{directory}: has no language {missing[0]}; it has {some}")
    place = {code: i for i, code in enumerate(asked)}
    languages = sorted(
        (one for one in config.languages if one.code in place), key=lambda one: place[one.code]
    )
    directions = sorted(
        (one for one in config.directions if {one.source, one.target} <= set(asked)),
        key=lambda one: (place[one.source], place[one.target]),
    )
    if len(languages) < 2 and not directions and (config.languages or config.directions):
        raise CheckpointError(f"{directory}: translates nothing between {', '.join(asked)}")
    kept = config.model_copy(update={"languages": languages, "directions": directions})
    first = kept.all_directions[0]
    return kept.model_copy(update={"source_language": first.source, "target_language": first.target})


def _tables(
    directory: Path, config: CheckpointConfig, tokenizer: Tokenizer, texts: Sequence[Sequence[str]]
) -> list[_Ids]:
    """Count the ids of each side, special ones included; one list for both sides if they share it."""
    special, files = config.special_tokens, config.tokenizer_files
    framed: list[Direction | Language] = [*config.directions, *config.languages]
    source = {special.pad_id, *special.source_prefix_ids, *special.source_suffix_ids}
    target = {special.pad_id, special.unk_id, special.bos_id, special.eos_id, special.decoder_start_id}
    target |= {*special.target_prefix_ids, *special.suppressed_ids, config.transformer.pad_id}
    for one in framed:
        source |= {*one.source_prefix_ids, *one.source_suffix_ids}
        target |= {*one.target_prefix_ids}
    source |= {id for row in tokenizer.encode_batch(texts[0]) for id in row} | {config.transformer.pad_id}
    target |= {id for row in tokenizer.encode_target_batch(texts[1]) for id in row}
    unknown = special.unk_id
    if config.joint_vocabulary:
        return [_Ids([name for name in files[:2] if name], files.vocabulary, source | target, unknown)]
    assert files.target is not None
    if files.vocabulary is not None:
        unknown = read_vocabulary(directory / files.vocabulary)[UNKNOWN]
    return [
        _Ids([files.source], files.vocabulary, source | {unknown}, unknown),
        _Ids([files.target], files.target_vocabulary, target, special.unk_id),
    ]


def _trim_files(directory: Path, tables: Sequence[_Ids], pad_id: int) -> dict[str, Path | bytes]:
    """Choose the ids that stay, and write the tokenizer's files."""
    written: dict[str, Path | bytes] = {}
    for table in tables:
        listed = None if table.listed is None else read_vocabulary(directory / table.listed)
        kept, stays = set(table.used), {}
        for name in table.models:
            proto = read_pieces(directory / name)
            ids = [*range(len(proto.pieces))]
            if listed is not None:
                # What is not listed stays unknown: it has no row, so it costs none.
                ids = [listed.get(piece.piece, table.unknown) for piece in proto.pieces]
            used = [place for place, id in enumerate(ids) if id in table.used]
            places = needed_pieces(proto, used)
            kept.update(ids[place] for place in places)
            stays[name] = proto, ids, places
        if listed is not None:
            kept.update(listed[piece] for piece in (UNKNOWN, END, PADDING, START) if piece in listed)
        first = None if listed is None else pad_id  # the same on both sides
        order = sorted(kept, key=lambda id: (id != first, id))
        table.new_of = {old: new for new, old in enumerate(order)}
        for name, (proto, ids, places) in stays.items():
            places |= {place for place, id in enumerate(ids) if id in kept}
            written[name] = trimmed_pieces(proto, places)
        if listed is not None and table.listed is not None:
            names = {piece: table.new_of[id] for piece, id in listed.items() if id in table.new_of}
            written[table.listed] = json.dumps(names, ensure_ascii=False).encode()
    return written


def _renumbered(config: CheckpointConfig, source: dict[int, int], target: dict[int, int]) -> CheckpointConfig:
    """Give every id that a checkpoint states its new number."""

    def renumber(part: SpecialTokens | Direction | Language) -> Any:
        changes: dict[str, Any] = {}
        for name, value in part:
            new_of = source if name.startswith("source_") else target
            if name.endswith("_ids"):
                changes[name] = [new_of[id] for id in value]
            elif name.endswith("_id"):
                changes[name] = new_of[value]
        return part.model_copy(update=changes)

    model = config.transformer
    sizes = {"source_vocab_size": len(source), "target_vocab_size": len(target)}
    new = TransformerConfig.model_validate(model.model_dump() | sizes | {"pad_id": target[model.pad_id]})
    return config.model_copy(
        update={
            "model": new,
            "special_tokens": renumber(config.special_tokens),
            "directions": [renumber(one) for one in config.directions],
            "languages": [renumber(one) for one in config.languages],
            "metrics": {},
        }
    )


def _compared(
    old: Checkpoint, new: Checkpoint, tables: Sequence[_Ids], held_out: tuple[list[str], list[str]]
) -> Trimmed:
    """Say what was taken away, and what held-out lines of both sides become of it."""
    direction = new.config.all_directions[0]
    (same,) = (one for one in old.config.all_directions if one.name == direction.name)
    cut = zip(held_out[0], old.tokenizer.encode_batch(held_out[0]), strict=True)
    asked = [line for line, ids in cut if 0 < len(ids) <= _LONGEST][:_TRANSLATED]
    were, are = (
        translate(one.model, one.tokenizer, asked, one.config.special_tokens, its)
        for one, its in ((old, same), (new, direction))
    )
    return Trimmed(
        (old.config.model.target_vocab_size, new.config.model.target_vocab_size),
        (_parameters(old), _parameters(new)),
        sum(map(len, held_out)),
        *_cut_alike(old.tokenizer, new.tokenizer, tables, held_out),
        direction.name,
        len(asked),
        sum(was == now for was, now in zip(were, are, strict=True)),
    )


def _parameters(read: Checkpoint) -> int:
    return sum(map(torch.numel, model_tensors(read.transformer).values()))


def _rows(tensors: dict[str, torch.Tensor], tables: Sequence[_Ids]) -> dict[str, torch.Tensor]:
    """Take the rows that stay out of embeddings and projection."""
    taken = dict(tensors)
    for side, names in ((0, _SOURCE_ROWS), (-1, _TARGET_ROWS)):
        rows = torch.tensor([*tables[side].new_of])
        taken |= {name: tensors[name][rows] for name in names if name in tensors}
    return taken


def _cut_alike(
    old: Tokenizer, new: Tokenizer, tables: Sequence[_Ids], texts: Sequence[Sequence[str]]
) -> tuple[int, float]:
    """Count lines that are cut as before, and by which share all are longer."""
    alike = before = after = 0
    for side, lines in enumerate(texts):
        new_of = tables[-side].new_of
        encode = [one.encode_target_batch if side else one.encode_batch for one in (old, new)]
        for was, now in zip(encode[0](lines), encode[1](lines), strict=True):
            alike += [new_of.get(id) for id in was] == now
            before, after = before + len(was), after + len(now)
    return alike, after / max(1, before) - 1
