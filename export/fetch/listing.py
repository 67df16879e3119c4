"""What there is for a pair of languages, on the hub and in the indexes of Argos and of Firefox."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NamedTuple

from export.fetch import firefox
from export.fetch.argos import read_index
from export.fetch.download import FetchError

_OWNER = "Helsinki-NLP"
_MOST = 200
_CONNECT_S = 10.0
_MANY_LANGUAGES = (
    ("nllb-200-distilled-600M", "cc-by-nc-4.0", "200 languages"),
    ("m2m100_418M", "mit", "100 languages"),
)


class Offer(NamedTuple):
    """A model that ``dragoman pull`` can fetch."""

    name: str
    license: str
    note: str


def print_offers(source: str, target: str) -> bool:
    """Print which models of a pair can be fetched, and on stderr why some places could not be asked.

    Returns:
        Whether any could.
    """
    offers, problems = list_offers(source, target)
    width = max(len(offer.name) for offer in offers)
    for offer in offers:
        sys.stdout.write(f"{offer.name:{width}}  {offer.license:12}  {offer.note}\n")
    for problem in problems:
        sys.stderr.write(f"dragoman pull: {problem}".replace("\n", " ") + "\n")
    return len(problems) < len(_PLACES)


def list_offers(source: str, target: str) -> tuple[list[Offer], list[str]]:
    """List models of a pair: those of two languages as their places name them, then those of many.

    Args:
        source: language code, as models are named by: ``en``.
        target: language code.

    Returns:
        What there is, and why some places could not be asked.
    """
    offers: list[Offer] = []
    problems = []
    for ask in _PLACES:
        try:
            offers += ask(source, target)
        except FetchError as error:
            problems.append(str(error))
    return [*offers, *(Offer(*one) for one in _MANY_LANGUAGES)], problems


def _on_hub(source: str, target: str) -> Iterator[Offer]:
    try:
        import huggingface_hub
    except ImportError:
        raise FetchError("the hub: pip install huggingface_hub to ask it") from None
    ending = f"-{source}-{target}"
    try:
        # Once, as the list is tried for 23 seconds.
        huggingface_hub.get_session().head(huggingface_hub.constants.ENDPOINT, timeout=_CONNECT_S)
        found = list(
            huggingface_hub.HfApi().list_models(author=_OWNER, search=f"{source}-{target}", limit=_MOST)
        )
    except Exception as error:  # noqa: BLE001 - its exceptions differ from version to version
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise FetchError(f"the hub cannot be asked: {reason}") from None
    for one in found:
        if one.id.startswith(f"{_OWNER}/opus-mt") and one.id.endswith(ending):
            licenses = [tag.partition(":")[2] for tag in one.tags or [] if tag.startswith("license:")]
            yield Offer(one.id, ", ".join(licenses) or "none stated", f"{one.downloads or 0:,} downloads")


def _of_firefox(source: str, target: str) -> Iterator[Offer]:
    found = [one for one in firefox.read_index() if (one.source, one.target) == (source, target)]
    if found:
        newest = max(found, key=lambda one: one.rank)
        note = f"version {newest.version}, {newest.architecture}, {newest.size:,} bytes"
        yield Offer(newest.name, firefox.LICENSE, note)


def _in_index(source: str, target: str) -> Iterator[Offer]:
    found = [one for one in read_index() if (one.source, one.target) == (source, target)]
    if found:
        newest = max(found, key=lambda one: one.age)
        yield Offer(newest.name, "none stated", f"version {newest.version}")


_PLACES = (_on_hub, _in_index, _of_firefox)
