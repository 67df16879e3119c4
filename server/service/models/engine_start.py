"""How the workers of a model are started: processes or threads, on which device, with which limits."""

import functools
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from export.bundle import MANIFEST_NAME, BundleError, Manifest, load_manifest
from server.engine.dispatch.dispatcher import Dispatcher
from server.engine.dispatch.fork_server import fork_server
from server.engine.dispatch.worker_threads import WorkerThreads
from server.engine.ipc.channel import WorkerPorts
from server.engine.kv_cache.budget import ExtraBytes, largest_request_bytes, with_chosen_rows
from server.engine.limits import EngineLimits
from server.engine.observer import EngineObserver
from server.engine.scheduling.placement import FEW_ROWS
from server.engine.shortlist.lexical_table import Shortlist, extra_bytes_of
from server.engine.worker.loop import Worker
from server.errors import DeviceError, SettingError
from server.runtime.device.device import OnnxDevice, cuda, has_cuda
from server.runtime.model_runtime import ModelRuntime
from server.runtime.model_spec import ModelSpec
from server.runtime.onnx.sessions import FileStates, file_states
from server.service.models.self_test import translate_golden, warm_up
from server.settings import Settings

MAX_SOLO_THREADS = 4
"""Threads of a worker that has the machine to itself: one row has too little work for more."""

SOLO_WEIGHTS = 6_000_000
"""Weights that a decoder step must read for more threads to pay; see docs/experiments/processes.md."""

TOGETHER_WEIGHTS = 100_000_000
"""Weights from which on one worker with a thread for each core beats workers that each read all weights at
every step: they are more than caches hold."""


_log = logging.getLogger("dragoman.service")


def _limits(settings: Settings) -> EngineLimits:
    """Say what an engine takes on."""
    return EngineLimits(
        max_rows=settings.max_rows,
        max_queue_sentences=settings.max_queue_sentences,
        max_queue_tokens=settings.max_queue_tokens,
        max_batch_tokens=settings.max_batch_tokens,
        max_cache_bytes=settings.kv_cache_bytes,
    )


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A model with all that its workers have in common."""

    manifest: Manifest
    runtime: ModelRuntime
    limits: EngineLimits
    shortlist: Shortlist | None
    warms_up: bool

    def build(self, ports: WorkerPorts) -> Worker:
        """Make a worker and see that it translates.

        Raises:
            BundleError: it does not translate as the bundle says.
        """
        worker = Worker(self.runtime, self.limits, ports, self.shortlist)
        translate_golden(self.manifest, worker)
        if self.warms_up:
            warm_up(self.manifest, worker)
        return worker


def start_engine(
    settings: Settings, bundle: Path, manifest: Manifest, states: FileStates, observer: EngineObserver
) -> Dispatcher:
    """Start workers for an event loop, in processes of their own if that pays; on CUDA there is one.

    Args:
        settings: of the server.
        bundle: its directory, verified.
        manifest: of the bundle.
        states: of its files, noted before they were verified.
        observer: told what the engine does.

    Raises:
        BundleError, SettingError, EngineDeadError: as `load_model`.
    """
    on_cuda = is_for_cuda(settings, manifest)
    if not _takes_processes(settings, manifest, on_cuda=on_cuda):
        return start_threads(settings, bundle, manifest, observer)
    count, device = 1 if on_cuda else settings.engine_workers, "cuda" if on_cuda else "cpu"
    load = functools.partial(
        _load_in_process, settings.model_copy(update={"device": device}), bundle, states, count
    )
    try:
        # A session on CUDA cannot be forked.
        workers = fork_server().start(load, count, after_fork=on_cuda)
        return Dispatcher(workers, _limits(settings), observer)
    except DeviceError as error:
        if settings.device == "cuda":
            raise
        _log.warning("%s; going on with the processor", error)
    return start_engine(settings.model_copy(update={"device": "cpu"}), bundle, manifest, states, observer)


def start_threads(
    settings: Settings, bundle: Path, manifest: Manifest, observer: EngineObserver
) -> Dispatcher:
    """Start workers that are threads of this process; arguments and errors as of `start_engine`."""
    device = choose_device(settings, manifest)
    count = 1 if device or _step_weights(manifest) >= TOGETHER_WEIGHTS else settings.engine_workers
    loaded = _load(settings, bundle, manifest, device, count)
    workers = WorkerThreads(loaded.build, count, loaded.runtime.terminate, time.monotonic)
    together = FEW_ROWS if _solo_threads(count, manifest) > 1 else 1
    return Dispatcher(workers, _limits(settings), observer, rows_together=together)


def _load_in_process(
    settings: Settings, bundle: Path, states: FileStates, count: int
) -> Callable[[WorkerPorts], Worker]:
    """Load the graphs in a process that is there for this model; gives what builds a worker."""
    if file_states(bundle) != states:
        raise BundleError(MANIFEST_NAME, "changed while it was loaded")
    manifest = load_manifest(bundle)
    device = choose_device(settings, manifest)
    return _load(settings, bundle, manifest, device, count, processes=True).build


def _load(
    settings: Settings,
    bundle: Path,
    manifest: Manifest,
    device: OnnxDevice | None,
    count: int,
    *,
    processes: bool = False,
) -> _Loaded:
    """Load the graphs, and choose what each of so many workers takes on.

    Args:
        settings: of the server.
        bundle: its directory, verified.
        manifest: of the bundle.
        device: where it runs; None for the processor.
        count: of the workers.
        processes: whether every worker has a process of its own.
    """
    # All that requests may choose: a graph that does not load must stop the start, not a request.
    widths = [width for width in manifest.graphs.beam_widths if width <= settings.max_beam_size]
    runtime = ModelRuntime(
        bundle,
        manifest,
        intra_op_threads=1 if processes or device or count > 1 else settings.engine_workers,
        solo_threads=1 if processes else _solo_threads(count, manifest),
        device=device,
        beam_widths=widths,
        shortlist=settings.shortlist,
        multi_step=processes,
        weights_cache=settings.weights_cache_folder,
    )
    limits = replace(_limits(settings), max_cache_bytes=settings.kv_cache_bytes // count)
    shortlist = _read_shortlist(bundle, manifest, runtime)
    extra_bytes = extra_bytes_of(shortlist, runtime.spec)
    if not limits.max_rows:
        limits = with_chosen_rows(runtime.spec, limits, extra_bytes)
    _check_cache_bound(settings, runtime.spec, limits, extra_bytes)
    # For requests; `dragoman translate` would only wait for it.
    return _Loaded(manifest, runtime, limits, shortlist, warms_up=device is not None and processes)


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

    Raises:
        SettingError: CUDA was asked for, and the bundle is not for it: attention on CUDA is for fp16.
    """
    fits = manifest.precision == "fp16"
    if settings.device == "cuda" and not fits:
        raise SettingError(
            f"setting device: CUDA takes bundles of precision fp16, and this one is {manifest.precision}; "
            "export it with --precision fp16, or use --device cpu"
        )
    return settings.device == "cuda" or (settings.device == "auto" and fits and has_cuda())


def choose_device(settings: Settings, manifest: Manifest) -> OnnxDevice | None:
    """Choose where a bundle runs in this process; None is the processor.

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
    settings: Settings, spec: ModelSpec, limits: EngineLimits, extra_bytes: ExtraBytes
) -> None:
    """Refuse a bound under which a request that is allowed could never be decoded."""
    needed_bytes, bound = largest_request_bytes(spec, limits, extra_bytes), limits.max_cache_bytes
    if bound is not None and needed_bytes > bound:
        shares = (settings.max_kv_cache_mib << 20) // bound
        share = "" if shares == 1 else f", of which there is one of {shares} equal shares"
        raise SettingError(
            f"setting max_kv_cache_mib: {settings.max_kv_cache_mib} MiB cannot hold the caches of one "
            f"sentence of {spec.max_source_tokens} source and {spec.max_target_tokens} target tokens "
            f"with max_rows {limits.max_rows}, {needed_bytes} bytes{share}; raise it to "
            f"{-(-needed_bytes * shares >> 20)} or lower max_rows"
        )


def _solo_threads(workers: int, manifest: Manifest) -> int:
    """Choose the threads of a worker that has the machine to itself."""
    return min(workers, MAX_SOLO_THREADS) if _step_weights(manifest) >= SOLO_WEIGHTS else 1


def _step_weights(manifest: Manifest) -> int:
    """Count the weights that a decoder step reads; the keys and values of the source are there."""
    model = manifest.architecture
    layer = 6 * model.d_model**2 + 2 * model.d_model * model.decoder_ffn_dim
    return model.decoder_layers * layer + model.d_model * model.vocab_size
