"""The way of a file: which models it goes through."""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from export.bundle import BundleError, Manifest, load_manifest
from server.errors import InvalidRequestError, UnsupportedLanguageError
from server.service.models.served_model import ServedModel
from server.service.request_limits import request_limits
from server.service.text.languages import Directions
from server.service.translation.file_translation import Translate, choose_direction, list_directions
from server.service.translation.model_slot import ModelSlot
from server.service.translation.router import Router
from server.service.translation.translator import Translator
from server.settings import Settings


@dataclass(frozen=True, slots=True)
class FileLeg:
    """The directory of a bundle and the direction that it translates, as two language codes."""

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
    able = {bundle: one for bundle, one in manifests.items() if one.translates}
    if not able:
        one = next(iter(manifests.values()))
        raise UnsupportedLanguageError(
            f"{one.name} does not translate (its task is {one.task}): dragoman generate"
        )
    if leg := _first(able, source, target):
        return (leg,)
    pairs = [pair for manifest in able.values() for pair in manifest.pairs]
    if source is not None and target is not None:
        known = Directions(pairs)
        with contextlib.suppress(UnsupportedLanguageError):
            if known.find(source, "source") == known.find(target, "target"):
                return ()
        if pivot is not None:
            opening, closing = _first(able, source, pivot), _first(able, pivot, target)
            if opening and closing:
                return opening, closing
    raise UnsupportedLanguageError(
        f"no bundle translates from {source or 'any language'} to {target or 'any language'}; there are "
        f"{list_directions(pairs)}"
    )


def generation_leg(bundle: Path, *, of_features: bool = False) -> FileLeg:
    """Give the leg of a model of another task, which is given feature vectors or text.

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


def translation_through(
    legs: Sequence[FileLeg], models: Iterable[ServedModel], settings: Settings
) -> Translate | None:
    """Give what translates requests from the first leg's source to the last one's target; None without legs.

    The models are those of the legs' bundles, in the order in which they were given.
    """
    if not legs:
        return None
    translators = [
        Translator(model, request_limits(settings, model.manifest), settings.text_threads) for model in models
    ]
    if not translators[0].model.manifest.translates:
        return partial(translators[0].translate, source=legs[0].source, target=legs[0].target)
    between = (legs[0].target, legs[-1].source) if len(legs) > 1 else ()
    return Router([ModelSlot(translator) for translator in translators], between).translate


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
