"""What the service needs of a loaded model: the seam between text and token ids."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from export.bundle import Manifest
from model.tokenizer import Tokenizer
from server.engine.limits import EngineStats
from server.engine.options import DecodingOptions
from server.engine.sequence import SequenceResult
from server.errors import SettingError
from server.service.request_limits import RequestLimits
from server.service.text.model_text import Measured, ModelText
from server.service.text.truecasing import Truecaser


class TranslationEngine(Protocol):
    """Token ids in, token ids out; `server.engine.dispatch.dispatcher` has the real one. Thread-safe."""

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Told once which event loop requests come from, on its thread and before the first of them."""
        ...

    def submit(
        self,
        request_id: str,
        sources: Sequence[Sequence[int | bytes]],
        options: DecodingOptions | Sequence[DecodingOptions],
        deadline_s: float | None = None,
    ) -> list[Future[SequenceResult]]:
        """Queue sentences, all or none, with one way to decode for all or for each; futures end once."""
        ...

    def check_room(self, active: int) -> None:
        """Raise QueueFullError without room for one more than those of `active` requests not here yet."""
        ...

    def abort(self, request_id: str) -> None:
        """Drop whatever of a request has not ended yet."""
        ...

    def decoding(self, request_id: str) -> bool:
        """Tell whether a sentence of a request has left the queue and has not ended."""
        ...

    def stats(self) -> EngineStats:
        """Say what the engine is doing now."""
        ...

    def close(self, timeout_s: float) -> None:
        """Stop the threads; what has not ended is aborted."""
        ...


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A bundle in memory with its engine running.

    Attributes:
        manifest: of the bundle.
        sha256: SHA-256 of its manifest, which holds those of all other files.
        tokenizer: text to ids and back.
        engine: ids to ids.
        load_duration_s: seconds from verification to the last golden sentence.
        bundle: directory that it was loaded from, and where a reload looks.
        truecaser: undoes capitals; None if they are translated as they are.
        measured: what the exporter has measured of it for the text layer.
    """

    manifest: Manifest
    sha256: str
    tokenizer: Tokenizer
    engine: TranslationEngine
    load_duration_s: float
    bundle: Path = Path()
    truecaser: Truecaser | None = None
    measured: Measured = field(default_factory=Measured)


def text_side(model: ServedModel, limits: RequestLimits) -> ModelText:
    """Give the text layer what it needs of a model.

    Args:
        model: a loaded model.
        limits: of a request to it.
    """
    features = model.manifest.architecture.source_features
    return ModelText(model.tokenizer, limits.max_source_tokens, model.truecaser, model.measured, features)


def check_together(manifests: Sequence[Manifest]) -> None:
    """Check that every direction, and every name, stands for one model.

    Args:
        manifests: of all that is served.

    Raises:
        SettingError: two of them share a direction or a name.
    """
    names: set[str] = set()
    translators: dict[tuple[str, str], str] = {}
    for manifest in manifests:
        if manifest.name in names:
            raise SettingError(
                f"setting bundle: two bundles are called {manifest.name}; give one of them another name"
            )
        names.add(manifest.name)
        for source, target in manifest.pairs if manifest.translates else ():
            other = translators.setdefault((source, target), manifest.name)
            if other != manifest.name:
                raise SettingError(
                    f"setting bundle: {other} and {manifest.name} both translate {source} to "
                    f"{target}; serve only one of them"
                )
