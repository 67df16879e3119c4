"""The way of a file: which models it goes through, and which of its lines come out as they went in."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from export.bundle import BundleError, Manifest, load_manifest
from server.errors import InvalidOptionError, InvalidRequestError, UnsupportedLanguageError
from server.service.models.served_model import ServedModel
from server.service.request_limits import RequestLimits
from server.service.text.detection import triage
from server.service.text.explanation.explained import NOTHING, as_json
from server.service.text.languages import Directions
from server.service.translation.decoding_options import check_options
from server.service.translation.file_translation import (
    LineError,
    LineOptions,
    LineTranslator,
    TranslatedLine,
    choose_direction,
    list_directions,
)
from server.service.translation.request import RequestedOptions

_MOST_NAMED = 100


@dataclass(frozen=True, slots=True)
class FileLeg:
    """A bundle and the direction that it translates.

    Attributes:
        bundle: its directory.
        source: language code.
        target: language code.
    """

    bundle: Path
    source: str
    target: str


def choose_route(
    bundles: Sequence[Path], source: str | None, target: str | None, pivot: str | None
) -> tuple[FileLeg, ...]:
    """Choose the first bundle that has a direction, or the first two that have it with a language between.

    Args:
        bundles: directories.
        source: language to translate from; None fits all.
        target: language to translate to, likewise.
        pivot: language between two bundles, if source and target are stated; None takes one bundle only.

    Returns:
        One leg or two; none if both are the same language of a bundle, whose lines come back unchanged.

    Raises:
        BundleError: a manifest is refused; its `bundle` says whose.
        UnsupportedLanguageError: no bundle has the direction.
    """
    manifests = {bundle: _manifest_of(bundle) for bundle in bundles}
    others = {bundle: one for bundle, one in manifests.items() if not one.translates}
    if len(others) == len(manifests):
        one = next(iter(others.values()))
        raise UnsupportedLanguageError(
            f"{one.name} does not translate (its task is {one.task}): dragoman generate"
        )
    manifests = {bundle: one for bundle, one in manifests.items() if bundle not in others}
    if leg := _first(manifests, source, target):
        return (leg,)
    pairs = [pair for manifest in manifests.values() for pair in manifest.pairs]
    if source is not None and target is not None:
        if _are_one(Directions(pairs), source, target):
            return ()
        if pivot is not None:
            opening, closing = _first(manifests, source, pivot), _first(manifests, pivot, target)
            if opening and closing:
                return opening, closing
    raise UnsupportedLanguageError(
        f"no bundle translates from {source or 'any language'} to {target or 'any language'}; there are "
        f"{list_directions(pairs)}"
    )


def generation_leg(bundle: Path, *, of_features: bool = False) -> FileLeg:
    """Give the leg of a model of another task than translation.

    Args:
        bundle: its directory.
        of_features: whether it is given feature vectors, and no text.

    Raises:
        BundleError: the manifest is refused.
        UnsupportedLanguageError: the model translates.
        InvalidRequestError: it reads the other kind of source.
    """
    manifest = _manifest_of(bundle)
    if manifest.translates:
        raise UnsupportedLanguageError(f"{manifest.name} translates: dragoman translate")
    if of_features != bool(manifest.architecture.source_features):
        reads = "text, on standard input" if of_features else "features: --features FILE.npz"
        raise InvalidRequestError(f"{manifest.name} reads {reads}")
    ((source, target),) = manifest.pairs
    return FileLeg(bundle, source, target)


@dataclass(frozen=True, slots=True)
class _OnItsWay:
    """What is known of a line before it is translated.

    Attributes:
        size: in bytes, with its end.
        instead: what is written in its place; None for its translation.
        fault: what is wrong with it, for people; empty if nothing is.
    """

    size: int
    instead: str | None = None
    fault: str = ""


class FileTranslator:
    """Translates a stream of lines with one model, or with two in a row. One run at a time.

    A line that is clearly not in the source language (`server.service.text.detection.triage`) is written as
    it is, unless the guard is off.
    """

    def __init__(
        self,
        legs: Sequence[tuple[FileLeg, ServedModel, RequestLimits]],
        requested: RequestedOptions,
        options: LineOptions,
        errors: Literal["replace", "fail"] = "replace",
        report: Callable[[str], None] = lambda _complaint: None,
    ) -> None:
        """Prepare a run.

        Args:
            legs: as chosen, with the models; without any, lines come back as they are.
            requested: decoding options for all lines; of two models, they are the second's.
            options: how lines are read and written; the languages are those of the legs.
            errors: `replace` writes a line that is not UTF-8 as it is, with U+FFFD for what is no text;
                `fail` ends the run there.
            report: told of each such line; of the first hundred by number, of the rest how many they are.

        Raises:
            InvalidOptionError: an option is out of range for a model, or a glossary is given for two models;
                the message names it.
        """
        if options.text.explains and (len(legs) > 1 or options.n_best):
            raise InvalidOptionError(
                "what explains lines needs one bundle for the direction, and no n-best list"
            )
        self._translators = []
        if options.glossary is not None and len(legs) > 1:
            raise InvalidOptionError(
                f"glossary: {legs[0][0].source} to {legs[-1][0].target} is translated through "
                f"{legs[0][0].target}; a glossary needs a model of the pair itself"
            )
        for leg, model, limits in legs:
            is_last = leg is legs[-1][0]
            own = requested if is_last else requested.for_pivot()
            check_options(own, limits)
            how = replace(options, source=leg.source, target=leg.target, n_best=options.n_best and is_last)
            self._translators.append(LineTranslator(model, limits, own, how))
        self._pair = (legs[0][0].source, legs[-1][0].target) if legs else None
        self._options = options
        self._errors = errors
        self._report = report

    def run(self, arrived: Iterable[list[bytes]]) -> Iterator[TranslatedLine]:
        """Translate all lines of a source.

        Args:
            arrived: lines with their ends, as many at a time as there are; iterated on a thread of its own.

        Yields:
            One translation for each line, in order; empty lines stay empty.

        Raises:
            LineError: a line has too many tokens, or the engine failed on it, or it is not UTF-8 and errors
                are to fail. All before it were yielded.
        """
        # As long as there are lines between the reader and here, which the translators' queues bound.
        on_their_way: deque[_OnItsWay] = deque()
        stream: Iterable[list[bytes]] = self._examined(arrived, on_their_way)
        lines = _untranslated(stream)
        for translator in self._translators:
            lines = translator.run(stream)
            stream = _batches_of(lines)
        complaints = 0
        for number, line in enumerate(lines):
            known = on_their_way.popleft()
            if known.fault:
                if self._errors == "fail":
                    raise LineError(number + 1, known.fault)
                complaints += 1
                if complaints <= _MOST_NAMED:
                    self._report(f"line {number + 1}: {known.fault}; it is written as it is, untranslated")
            text = line.text
            if known.instead is not None:
                text = known.instead
                if self._options.text.explains:
                    text = as_json(text.rstrip("\r\n"), NOTHING, self._options.text)
                elif self._options.n_best:
                    text = f"{number} ||| {text.rstrip()} ||| 0\n"
            yield TranslatedLine(text, known.size, line.is_last_of_batch)
        if complaints > _MOST_NAMED:
            self._report(f"{complaints - _MOST_NAMED} more lines were not valid UTF-8")

    def _examined(
        self, arrived: Iterable[list[bytes]], on_their_way: deque[_OnItsWay]
    ) -> Iterator[list[bytes]]:
        """Put an empty line in the place of each that is not to be translated, and note what is known."""
        for batch in arrived:
            notes = [self._examine(raw) for raw in batch]
            on_their_way.extend(notes)
            yield [
                raw if note.instead is None else raw[len(raw.rstrip(b"\r\n")) :]
                for raw, note in zip(batch, notes, strict=True)
            ]

    def _examine(self, raw: bytes) -> _OnItsWay:
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            fault = f"not valid UTF-8 at byte {error.start + 1}"
            return _OnItsWay(len(raw), raw.decode("utf-8", "replace"), fault)
        if self._pair is None:
            return _OnItsWay(len(raw), text)
        if self._options.text.guard == "off":
            return _OnItsWay(len(raw))
        found = triage.check(text, *self._pair, is_html=False)
        return _OnItsWay(len(raw), None if found.source is not None else text)


def _manifest_of(bundle: Path) -> Manifest:
    try:
        return load_manifest(bundle)
    except BundleError as error:
        error.bundle = bundle
        raise


def _first(manifests: dict[Path, Manifest], source: str | None, target: str | None) -> FileLeg | None:
    for bundle, manifest in manifests.items():
        try:
            return FileLeg(bundle, *choose_direction(manifest, source, target))
        except UnsupportedLanguageError:
            continue
    return None


def _are_one(directions: Directions, source: str, target: str) -> bool:
    try:
        return directions.find(source, "source") == directions.find(target, "target")
    except UnsupportedLanguageError:
        return False


def _untranslated(arrived: Iterable[list[bytes]]) -> Iterator[TranslatedLine]:
    """Stand in for a model: of every line it is known already what is written."""
    for batch in arrived:
        for place, raw in enumerate(batch, start=1):
            yield TranslatedLine("", len(raw), place == len(batch))


def _batches_of(lines: Iterable[TranslatedLine]) -> Iterator[list[bytes]]:
    """Hand lines from one model to the next, as many at a time as came out together."""
    batch: list[bytes] = []
    for line in lines:
        batch.append(line.text.encode("utf-8"))
        if line.is_last_of_batch:
            yield batch
            batch = []
