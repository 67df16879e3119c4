"""What the service needs of a loaded model: the seam between text and token ids."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from export.bundle import Manifest
from model.tokenizer import Tokenizer
from server.engine.dispatch.dispatcher import Dispatcher
from server.errors import SettingError
from server.service.request_limits import RequestLimits
from server.service.text.model_text import Measured, ModelText
from server.service.text.truecasing import Truecaser


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
    engine: Dispatcher
    load_duration_s: float
    bundle: Path = Path()
    truecaser: Truecaser | None = None
    measured: Measured = field(default_factory=Measured)


def text_side(model: ServedModel, limits: RequestLimits) -> ModelText:
    """Give the text layer what it needs of a model and of the limits of a request to it."""
    features = model.manifest.architecture.source_features
    return ModelText(model.tokenizer, limits.max_source_tokens, model.truecaser, model.measured, features)


def check_together(manifests: Sequence[Manifest]) -> None:
    """Check that every direction, and every name, stands for one model.

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
