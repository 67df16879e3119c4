"""From a bundle on disk to a model that translates: verify, load, start, and prove it on golden sentences."""

import time

from export.bundle import MANIFEST_NAME, BundleError, Manifest, hash_file, verify_bundle
from model.tokenizer import Tokenizer, TokenizerError
from server.engine.sequence import DecodingOptions, EngineLimits, EngineObserver
from server.engine.worker import WorkerPool
from server.errors import DragomanError
from server.runtime.onnx_runtime import ModelRuntime
from server.service.model import ServedModel, TranslationEngine
from server.settings import Settings

_WARM_UP_TIMEOUT_S = 300.0
_CLOSE_TIMEOUT_S = 5.0


def load_model(settings: Settings, observer: EngineObserver) -> ServedModel:
    """Verify a bundle, load it, start the engine, and translate the bundle's golden sentences.

    Args:
        settings: with the bundle's directory.
        observer: told what the engine does.

    Returns:
        A model whose engine runs; whoever asked for it closes the engine.

    Raises:
        BundleError: the bundle is refused; the message is one line that names the file and the reason.
    """
    started_s = time.monotonic()
    manifest = verify_bundle(settings.bundle)
    sha256 = hash_file(settings.bundle / MANIFEST_NAME)
    target = manifest.tokenizer.target
    try:
        tokenizer = Tokenizer.load(
            settings.bundle / manifest.tokenizer.source, settings.bundle / target if target else None
        )
    except TokenizerError as error:
        raise BundleError(manifest.tokenizer.source, f"cannot be loaded: {error}") from error
    # All that requests may choose: a graph that does not load must stop the start, not a request.
    widths = [width for width in manifest.graphs.beam_widths if width <= settings.max_beam_size]
    runtime = ModelRuntime.load(settings.bundle, manifest, beam_widths=widths)
    limits = EngineLimits(
        workers=settings.engine_workers,
        max_rows=settings.max_rows,
        max_queue_sentences=settings.max_queue_sentences,
        max_queue_tokens=settings.max_queue_tokens,
        max_batch_tokens=settings.max_batch_tokens,
        max_source_tokens=manifest.limits.max_source_tokens,
        max_target_tokens=manifest.limits.max_target_tokens,
    )
    engine = WorkerPool(runtime, limits, observer)
    engine.start()
    try:
        translate_golden(manifest, tokenizer, engine)
    except BaseException:
        engine.close(_CLOSE_TIMEOUT_S)
        raise
    duration_s = time.monotonic() - started_s
    return ServedModel(manifest, sha256, tokenizer, engine, duration_s)


def translate_golden(manifest: Manifest, tokenizer: Tokenizer, engine: TranslationEngine) -> None:
    """Translate the bundle's golden sentences, text to text: catches what no checksum and no shape does.

    Args:
        manifest: with the sentences.
        tokenizer: as loaded.
        engine: as started.

    Raises:
        BundleError: a sentence comes out differently, or not at all.
    """
    tokens = manifest.special_tokens
    for number, golden in enumerate(manifest.golden, start=1):
        source = (*tokens.source_prefix_ids, *tokenizer.encode(golden.source), *tokens.source_suffix_ids)
        options = DecodingOptions(max_decoding_length=manifest.limits.max_target_tokens)
        try:
            (future,) = engine.submit(f"golden-{number}", [source], options)
            result = future.result(_WARM_UP_TIMEOUT_S)
        except (DragomanError, TimeoutError) as error:
            raise BundleError(manifest.graphs.encoder, f"golden sentence {number} fails: {error}") from error
        if result.hypotheses[0].tokens != golden.target_ids:
            raise BundleError(
                MANIFEST_NAME,
                f"golden sentence {number} is not translated as the bundle says; export it again",
            )
