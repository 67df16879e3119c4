"""From a bundle on disk to a model that translates: verify, load, start, and prove it on golden sentences."""

import functools
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from export.bundle import MANIFEST_NAME, BundleError, Manifest, hash_file, load_manifest, verify_bundle
from model.tokenizer import Tokenizer, TokenizerError
from server.engine.cache_budget import largest_request_bytes, with_chosen_rows
from server.engine.fork_server import fork_server
from server.engine.process_pool import ProcessPool
from server.engine.sequence import DecodingOptions, EngineLimits, EngineObserver
from server.engine.shortlist import Shortlist
from server.engine.worker import WorkerPool
from server.errors import DeviceError, DragomanError, SettingError
from server.runtime.device import OnnxDevice, cuda, has_cuda
from server.runtime.onnx_runtime import ModelRuntime
from server.runtime.session import ModelSpec
from server.runtime.sizes import usual_size
from server.service.model import ServedModel, TranslationEngine, check_together
from server.service.truecasing import Truecaser
from server.settings import Settings

MAX_SOLO_THREADS = 4
"""Threads of a worker that has the machine to itself: one row has too little work for more."""

SOLO_WEIGHTS = 6_000_000
"""Weights that a decoder step must read for more threads to pay. With 3.4 million (6+2 layers of 256, 6,000
words) a step takes 0.4 ms on one thread and no less on two, which spin while a request is read and answered;
with 10 million (the same and 32,000 words) two take 0.8 of the time."""

_log = logging.getLogger("dragoman.service")

_WARM_UP_TIMEOUT_S = 300.0
_WARM_UP_STEPS = 4
"""Of a batch of one size: the third is recorded; see `server.runtime.device_sessions`."""
_CLOSE_TIMEOUT_S = 5.0


def load_models(settings: Settings, observer: EngineObserver) -> list[ServedModel]:
    """Load every bundle of the settings.

    Args:
        settings: with the bundles' directories.
        observer: told what the engines do.

    Returns:
        A model for each, in order; whoever asked for them closes the engines.

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
        A model whose engine runs; whoever asked for it closes the engine.

    Raises:
        BundleError: the bundle is refused; the message is one line that names the file and the reason.
        SettingError: `max_kv_cache_mib` cannot hold the caches of one sentence of the largest size, or the
            device cannot be used.
        EngineDeadError: an engine process has ended, by the system's hand for instance.
    """
    started_s = time.monotonic()
    bundle = bundle or settings.bundle[0]
    manifest = verify_bundle(bundle)
    sha256 = hash_file(bundle / MANIFEST_NAME)
    try:
        tokenizer = Tokenizer.load(*manifest.tokenizer.paths(bundle))
    except TokenizerError as error:
        raise BundleError(manifest.tokenizer.source, f"cannot be loaded: {error}") from error
    observer = observer.of_model(manifest.name)
    engine: TranslationEngine
    if served:
        engine = _start_engine(settings, bundle, manifest, sha256, observer)
    else:
        engine = _start_threads(settings, bundle, manifest, observer)
    try:
        check_golden_text(manifest, tokenizer)
    except BaseException:
        engine.close(_CLOSE_TIMEOUT_S)
        raise
    duration_s = time.monotonic() - started_s
    truecaser = Truecaser(tokenizer) if settings.truecase else None
    return ServedModel(manifest, sha256, tokenizer, engine, duration_s, bundle, truecaser)


def _limits(settings: Settings, manifest: Manifest, workers: int) -> EngineLimits:
    """Say what an engine of so many workers takes on."""
    return EngineLimits(
        workers=workers,
        max_rows=settings.max_rows,
        max_queue_sentences=settings.max_queue_sentences,
        max_queue_tokens=settings.max_queue_tokens,
        max_batch_tokens=settings.max_batch_tokens,
        max_source_tokens=manifest.limits.max_source_tokens,
        max_target_tokens=manifest.limits.max_target_tokens,
        max_cache_bytes=settings.kv_cache_bytes,
    )


def _start_engine(
    settings: Settings, bundle: Path, manifest: Manifest, sha256: str, observer: EngineObserver
) -> WorkerPool | ProcessPool:
    """Start workers for an event loop, in processes of their own if that pays; on CUDA there is one."""
    on_cuda = is_for_cuda(settings, manifest)
    if not _takes_processes(settings, manifest, on_cuda=on_cuda):
        return _start_threads(settings, bundle, manifest, observer)
    limits = _limits(settings, manifest, 1 if on_cuda else settings.engine_workers)
    device = "cuda" if on_cuda else "cpu"
    make = functools.partial(
        _start_in_process, settings.model_copy(update={"device": device}), bundle, sha256, limits.workers
    )
    try:
        # A session on CUDA cannot be forked.
        return ProcessPool(fork_server().start(make, limits.workers, after_fork=on_cuda), limits, observer)
    except DeviceError as error:
        if settings.device == "cuda":
            raise
        _log.warning("%s; going on with the processor", error)
    return _start_engine(settings.model_copy(update={"device": "cpu"}), bundle, manifest, sha256, observer)


def _start_threads(
    settings: Settings, bundle: Path, manifest: Manifest, observer: EngineObserver
) -> WorkerPool:
    """Start workers that are threads of this process."""
    return _start_workers(settings, bundle, manifest, functools.partial(WorkerPool, observer=observer))


def _start_workers(
    settings: Settings,
    bundle: Path,
    manifest: Manifest,
    make_pool: Callable[..., WorkerPool],
    *,
    processes: int = 0,
) -> WorkerPool:
    """Load the graphs, start the workers, and translate the golden sentences.

    Args:
        settings: of the server.
        bundle: its directory, verified.
        manifest: of the bundle.
        make_pool: given the runtime, the limits and a shortlist, makes the pool.
        processes: number of the engine processes of which this is one; 0 if the workers are threads.
    """
    device = choose_device(settings, manifest)
    workers = settings.engine_workers if device is None and not processes else 1
    # All that requests may choose: a graph that does not load must stop the start, not a request.
    widths = [width for width in manifest.graphs.beam_widths if width <= settings.max_beam_size]
    runtime = ModelRuntime.load(
        bundle,
        manifest,
        solo_threads=_solo_threads(workers, manifest),
        device=device,
        beam_widths=widths,
        shortlist=settings.shortlist,
        bursts=bool(processes),
    )
    limits = _limits(settings, manifest, workers)
    if processes:  # the line, and what bounds it, are the server's
        share = settings.kv_cache_bytes // processes
        unbounded = {"max_queue_sentences": sys.maxsize, "max_queue_tokens": sys.maxsize}
        limits = replace(limits, max_cache_bytes=share, **unbounded)
    shortlist = _read_shortlist(bundle, manifest, runtime)
    if not limits.max_rows:
        limits = with_chosen_rows(runtime.spec, limits, shortlist)
    _check_cache_bound(settings, runtime.spec, limits, shortlist)
    pool = make_pool(runtime, limits, shortlist=shortlist)
    pool.start()
    try:
        translate_golden(manifest, pool)
        if device is not None and processes:  # for requests; `dragoman translate` would only wait for it
            warm_up(manifest, pool)
    except BaseException:
        pool.close(_CLOSE_TIMEOUT_S)
        raise
    return pool


def _start_in_process(
    settings: Settings, bundle: Path, sha256: str, processes: int, make_pool: Callable[..., WorkerPool]
) -> WorkerPool:
    """Do what `_start_workers` does, in a process that is there for this model."""
    manifest = verify_bundle(bundle)
    if hash_file(bundle / MANIFEST_NAME) != sha256:
        raise BundleError(MANIFEST_NAME, "changed while it was loaded")
    return _start_workers(settings, bundle, manifest, make_pool, processes=processes)


def _takes_processes(settings: Settings, manifest: Manifest, *, on_cuda: bool) -> bool:
    """Choose whether every worker gets a process of its own."""
    can = hasattr(os, "memfd_create")
    if settings.engine_processes is None:
        workers = settings.engine_workers
        return can and (on_cuda or (workers > 1 and _solo_threads(workers, manifest) == 1))
    if settings.engine_processes and not can:
        raise SettingError("setting engine_processes: this system has no memfd_create; only Linux has")
    return settings.engine_processes


def is_for_cuda(settings: Settings, manifest: Manifest) -> bool:
    """Choose whether a bundle runs on CUDA, if that can be used; does not try.

    Args:
        settings: with `device`.
        manifest: of the bundle; attention on CUDA is for fp16.

    Raises:
        SettingError: CUDA was asked for, and the bundle is not for it.
    """
    fits = manifest.precision == "fp16"
    if settings.device == "cuda" and not fits:
        raise SettingError(
            f"setting device: CUDA takes bundles of precision fp16, and this one is {manifest.precision}; "
            "export it with --precision fp16, or use --device cpu"
        )
    return settings.device == "cuda" or (settings.device == "auto" and fits and has_cuda())


def choose_device(settings: Settings, manifest: Manifest) -> OnnxDevice | None:
    """Choose where a bundle runs in this process.

    Args:
        settings: with `device`.
        manifest: of the bundle.

    Returns:
        A device, or None for the processor.

    Raises:
        SettingError: CUDA was asked for and cannot be used, or not with this bundle.
    """
    if not is_for_cuda(settings, manifest):
        return None
    try:
        return cuda()
    except DeviceError as error:
        if settings.device == "cuda":
            raise
        _log.warning("%s; going on with the processor", error)
        return None


def _read_shortlist(bundle: Path, manifest: Manifest, runtime: ModelRuntime) -> Shortlist | None:
    """Load the table of candidates, if the bundle has one and it is to be used."""
    if manifest.shortlist is None or runtime.columns is None:
        return None
    table, size = bundle / manifest.shortlist.table, manifest.architecture.vocab_size
    return Shortlist.load(table, size, [manifest.special_tokens.eos_id], runtime.columns)


def _check_cache_bound(
    settings: Settings, spec: ModelSpec, limits: EngineLimits, shortlist: Shortlist | None
) -> None:
    """Refuse a bound under which a request that is allowed could never be decoded."""
    needed_bytes, bound = largest_request_bytes(spec, limits, shortlist), limits.max_cache_bytes
    if bound is not None and needed_bytes > bound:
        shares = (settings.max_kv_cache_mib << 20) // bound
        share = "" if shares == 1 else f", of which there is one of {shares} equal shares"
        raise SettingError(
            f"setting max_kv_cache_mib: {settings.max_kv_cache_mib} MiB cannot hold the caches of one "
            f"sentence of {limits.max_source_tokens} source and {limits.max_target_tokens} target tokens "
            f"with max_rows {limits.max_rows}, {needed_bytes} bytes{share}; raise it to "
            f"{-(-needed_bytes * shares >> 20)} or lower max_rows"
        )


def check_golden_text(manifest: Manifest, tokenizer: Tokenizer) -> None:
    """Tokenise the bundle's golden sentences and write their translations: the half that needs no engine.

    Args:
        manifest: with the sentences.
        tokenizer: as loaded.

    Raises:
        BundleError: ids or text are not what the manifest says.
    """
    suffix = manifest.special_tokens.source_suffix_ids
    prefixes = {manifest.source_prefix(pair.source, pair.target) for pair in manifest.directions}
    for number, golden in enumerate(manifest.golden, start=1):
        ids = tokenizer.encode(golden.source)
        if golden.source_ids not in {(*prefix, *ids, *suffix) for prefix in prefixes}:
            raise _differs(number, "tokenised")
        if tokenizer.decode(golden.target_ids) != golden.target:
            raise _differs(number, "written")


def translate_golden(manifest: Manifest, engine: TranslationEngine) -> None:
    """Translate the bundle's golden sentences, ids to ids: catches what no checksum and no shape does.

    Args:
        manifest: with the sentences.
        engine: as started.

    Raises:
        BundleError: a sentence comes out differently, or not at all.
    """
    for number, golden in enumerate(manifest.golden, start=1):
        options = DecodingOptions(max_decoding_length=manifest.limits.max_target_tokens)
        try:
            (future,) = engine.submit(f"golden-{number}", [golden.source_ids], options)
            result = future.result(_WARM_UP_TIMEOUT_S)
        except (DragomanError, TimeoutError) as error:
            raise BundleError(manifest.graphs.encoder, f"golden sentence {number} fails: {error}") from error
        if result.hypotheses[0].tokens != golden.target_ids:
            raise _differs(number, "translated")


def warm_up(manifest: Manifest, pool: WorkerPool) -> None:
    """Let a device meet every size of a batch of short sentences: no request waits for what is built then.

    Args:
        manifest: with a golden sentence, and the beam width of requests that do not choose.
        pool: as started.
    """
    if not manifest.golden:
        return
    source = max(manifest.golden, key=lambda golden: len(golden.target_ids)).source_ids
    for width in {1, manifest.generation.beam_size or 1}:
        options = DecodingOptions(beam_size=width, max_decoding_length=_WARM_UP_STEPS)
        most = pool.limits.max_rows // width
        for size in sorted({min(usual_size(count), most) for count in range(1, most + 1)}):
            for future in pool.submit(f"warm-up-{width}-{size}", [source] * size, options):
                future.result(_WARM_UP_TIMEOUT_S)


def _differs(number: int, what: str) -> BundleError:
    return BundleError(
        MANIFEST_NAME, f"golden sentence {number} is not {what} as the bundle says; export it again"
    )


def _solo_threads(workers: int, manifest: Manifest) -> int:
    """Choose the threads of a worker that has the machine to itself."""
    model = manifest.architecture
    layer = 6 * model.d_model**2 + 2 * model.d_model * model.decoder_ffn_dim  # keys of the source are there
    weights = model.decoder_layers * layer + model.d_model * model.vocab_size
    return min(workers, MAX_SOLO_THREADS) if weights >= SOLO_WEIGHTS else 1
