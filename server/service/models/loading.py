"""From a bundle on disk to a model that translates: verify, load, start, and prove it on golden sentences."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from export.bundle import (
    MANIFEST_NAME,
    BundleError,
    Manifest,
    hash_file,
    load_manifest,
    verify_bundle,
    verify_hashes,
)
from export.lexicon import Lexicon
from model.tokenizer import Tokenizer, TokenizerError
from server.engine.observer import EngineObserver
from server.runtime.onnx.attention_pass import AttentionPass
from server.runtime.onnx.sessions import file_states
from server.service.models.engine_start import start_engine, start_threads
from server.service.models.self_test import check_golden_text
from server.service.models.served_model import ServedModel, check_together
from server.service.text.model_text import Measured
from server.service.text.output.checks import Thresholds
from server.service.text.protection.masks import DEFAULT_MASKS
from server.service.text.truecasing import Truecaser
from server.settings import Settings

HASHED_BESIDE = 64 << 20
"""Size from which on a file, which can only be one of weights, is hashed while it is loaded: 885 MB take 4 s
without the processor's instructions for SHA-256. Nothing is served before."""

_CLOSE_TIMEOUT_S = 5.0


def load_models(settings: Settings, observer: EngineObserver) -> list[ServedModel]:
    """Load every bundle of the settings, in order; the caller closes the engines.

    Raises:
        BundleError: one is refused; its `bundle` says which.
        SettingError: two of them cannot be served together, or as `load_model`.
    """
    models: list[ServedModel] = []
    bundle = settings.bundle[0]
    try:
        manifests = []
        for bundle in settings.bundle:
            manifests.append(load_manifest(bundle))
        check_together(manifests)  # before any is loaded for nothing
        for bundle in settings.bundle:
            models.append(load_model(settings, observer, bundle, served=True))
    except BaseException as error:
        for model in models:
            model.engine.close(_CLOSE_TIMEOUT_S)
        if isinstance(error, BundleError):
            error.bundle = bundle
        raise
    return models


def load_model(
    settings: Settings, observer: EngineObserver, bundle: Path | None = None, *, served: bool = False
) -> ServedModel:
    """Verify a bundle, load it, start the engine, and translate the bundle's golden sentences.

    Args:
        settings: of the server.
        observer: told what the engine does.
        bundle: its directory; None takes the first of the settings.
        served: whether requests come from one event loop, which the engine is attached to; only then its
            workers may be processes.

    Returns:
        A model whose engine runs; the caller closes the engine.

    Raises:
        BundleError: the bundle is refused; the message is one line that names the file and the reason.
        SettingError: `max_kv_cache_mib` cannot hold the caches of one sentence of the largest size, or the
            device cannot be used.
        EngineDeadError: an engine process has ended, by the system's hand for instance.
    """
    started_s = time.monotonic()
    bundle = bundle or settings.bundle[0]
    states = file_states(bundle)
    manifest = verify_bundle(bundle, hashed_below=HASHED_BESIDE)
    sha256 = hash_file(bundle / MANIFEST_NAME)
    try:
        tokenizer = Tokenizer.load(*manifest.tokenizer.paths(bundle))
    except TokenizerError as error:
        raise BundleError(manifest.tokenizer.source, f"cannot be loaded: {error}") from error
    observer = observer.of_model(manifest.name)
    with ThreadPoolExecutor(1) as pool:
        verified = pool.submit(verify_hashes, bundle, manifest, range(HASHED_BESIDE, sys.maxsize))
        try:
            if served:
                engine = start_engine(settings, bundle, manifest, states, observer)
            else:
                engine = start_threads(settings, bundle, manifest, observer)
        except Exception:
            verified.result()  # a damaged file may be the reason
            raise
    try:
        verified.result()
        check_golden_text(manifest, tokenizer)
        measured = read_measured(bundle, manifest, tokenizer)
    except BaseException:
        engine.close(_CLOSE_TIMEOUT_S)
        raise
    duration_s = time.monotonic() - started_s
    truecaser = Truecaser(tokenizer) if settings.truecase and manifest.translates else None
    return ServedModel(manifest, sha256, tokenizer, engine, duration_s, bundle, truecaser, measured)


def read_measured(bundle: Path, manifest: Manifest, tokenizer: Tokenizer) -> Measured:
    """Read what the exporter has measured of a model for the text layer; without that, defaults hold.

    Raises:
        BundleError: the lexical tables are damaged or of another model.
    """
    text = manifest.text
    attention = None if manifest.attention is None else AttentionPass(bundle, manifest)
    if text is None:
        return Measured(confidence=manifest.confidence, attention=attention)
    sizes = tokenizer.source_vocab_size, tokenizer.target_vocab_size
    limits = text.checks
    return Measured(
        tuple(mask.template for mask in text.masks) or DEFAULT_MASKS,
        tuple(mask.template for mask in sorted(text.masks, key=lambda mask: -mask.both_copied))
        or DEFAULT_MASKS,
        text.comfortable_source_tokens,
        Thresholds(
            limits.from_source_tokens, limits.min_length_ratio, limits.max_length_ratio, limits.min_coverage
        ),
        Lexicon.load(bundle / text.lexicon, *sizes),
        manifest.confidence,
        attention,
        text.lost_characters,
        frozenset(text.translated_names),
    )
