"""What `dragoman serve`, `translate` and `generate` do; each returns an exit code."""

import contextlib
import os
import signal
import socket
import stat
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from prometheus_client import CollectorRegistry
from tqdm import tqdm

from export.bundle import BundleError
from model.features.encoded import to_base64
from model.features.files import FeaturesError, read_features
from server.api.admin import AdminPages, admin_application
from server.app import Application, create_app
from server.cli.exit_codes import (
    EXIT_BAD_BUNDLE,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_USAGE,
    EXIT_WORKERS_LOST,
    code_of,
    discard_output,
    fail,
    fail_at_stream,
)
from server.cli.given_settings import read_settings
from server.engine.observer import NullObserver
from server.errors import (
    DragomanError,
    EngineDeadError,
    GlossaryRefusedError,
    InvalidOptionError,
    SettingError,
)
from server.http.server import listen, make_server
from server.logs import configure_logging
from server.metrics.registry import Metrics
from server.process_tuning import return_large_blocks, tune_interpreter
from server.service.clients.api_keys import read_keys
from server.service.models.loading import load_model, load_models
from server.service.models.served_model import ServedModel
from server.service.text.glossary.files import read_file, read_folder
from server.service.translation.file_route import (
    FileLeg,
    choose_route,
    generation_leg,
    translation_through,
)
from server.service.translation.file_translation import (
    FileTranslator,
    LineError,
    read_lines,
    without_limits,
)
from server.service.translation.request import TranslationRequest
from server.settings import NO_PIVOT, Settings

_CLOSE_TIMEOUT_S = 2.0


def serve(flags: Mapping[str, Any]) -> int:
    """Serve bundles until SIGTERM or Ctrl-C; gives the exit code.

    `flags` are the settings of the command line, None where a flag was not given.
    """
    settings = read_settings("serve", flags)
    if settings is None:
        return EXIT_USAGE
    configure_logging(settings.log_level)
    # A terminal that is closed sends SIGHUP, too.
    reloads = hasattr(signal, "SIGHUP") and (sys.stdin is None or not sys.stdin.isatty())
    if reloads:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nothing to reload yet
    return_large_blocks()
    tune_interpreter()
    metrics = Metrics(CollectorRegistry(), settings.commit)
    try:
        if settings.api_keys_file is not None:
            read_keys(settings.api_keys_file)  # before a model is loaded for nothing
        if settings.glossaries is not None:
            read_folder(settings.glossaries)  # likewise
        models = load_models(settings, metrics)
    except BundleError as error:
        return _refuse("serve", error.bundle or settings.bundle[0], error)
    except (SettingError, GlossaryRefusedError) as error:
        return fail("serve", EXIT_USAGE, str(error))
    except EngineDeadError as error:
        return fail("serve", EXIT_FAILED, str(error))
    addresses = [(settings.host, settings.port)]
    if settings.admin_port is not None:
        addresses.append((settings.admin_host, settings.admin_port))
    with contextlib.ExitStack() as opened:
        opened.callback(_close, models)
        listeners = []
        for host, port in addresses:
            try:
                listeners.append(opened.enter_context(listen(host, port)))
            except OSError as error:
                return fail(
                    "serve",
                    EXIT_FAILED,
                    f"cannot listen on {host} port {port}: {error.strerror or str(error)}",
                )
        try:
            app = create_app(settings, models, metrics)
        except (SettingError, GlossaryRefusedError) as error:
            return fail("serve", EXIT_USAGE, str(error))
        models.clear()  # a reload lets one go, and nothing else may hold it
        return _run(settings, app, metrics, reloads, *listeners)


def _close(models: Sequence[ServedModel]) -> None:
    for model in models:
        model.engine.close(_CLOSE_TIMEOUT_S)


def _run(
    settings: Settings,
    app: Application,
    metrics: Metrics,
    reloads: bool,
    listener: socket.socket,
    admin_listener: socket.socket | None = None,
) -> int:
    def exchange(name: str | None = None) -> Coroutine[Any, Any, list[ServedModel]]:
        started: Coroutine[Any, Any, list[ServedModel]] = app.state.reload(name)
        return started

    def count_refusal(status: int) -> None:
        metrics.answered(None, "_OTHER", status, 0.0, 0)

    server = make_server(app, settings, app.state.lifecycle, count_refusal)
    if admin_listener is not None:
        state = app.state
        pages = AdminPages(
            settings, state.lifecycle, state.access, lambda: state.router, exchange, server.end
        )
        server.add_admin(admin_application(pages, metrics), admin_listener)
    if reloads:
        server.reload_on_hangup(exchange)

    def is_lost() -> bool:
        return not all(slot.model.engine.stats().alive for slot in app.state.router.slots)

    server.end_when(is_lost)
    # The server takes Ctrl-C while it runs. One more after the end would meet an interpreter that is closing.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    server.run(sockets=[listener])
    if server.is_lost:
        return fail("serve", EXIT_WORKERS_LOST, "the workers of a model died again and again; see the log")
    return 0


def translate(
    flags: Mapping[str, Any],
    request: TranslationRequest,
    pair: tuple[str | None, str | None],
    *,
    errors: Literal["replace", "fail"],
    glossary: Path | None,
    progress: bool | None,
) -> int:
    """Translate standard input to standard output, line by line; gives the exit code.

    Args:
        flags: settings given on the command line; None where a flag was not given.
        request: how lines are translated.
        pair: from which language to which; None fits all.
        errors: what becomes of a line that is not UTF-8.
        glossary: file of terms; None for none.
        progress: whether to draw a progress bar; None if standard error is a terminal.
    """

    def choose(settings: Settings) -> Sequence[FileLeg]:
        pivot = None if settings.pivot_language == NO_PIVOT else settings.pivot_language
        legs = choose_route(settings.bundle, *pair, pivot)
        if request.text_options.explains and (len(legs) > 1 or request.every_hypothesis):
            raise InvalidOptionError(
                "what explains lines needs one bundle for the direction, and no n-best list"
            )
        return legs

    return _through_models("translate", flags, choose, request, errors, progress, glossary)


def generate(
    flags: Mapping[str, Any],
    request: TranslationRequest,
    *,
    errors: Literal["replace", "fail"],
    progress: bool | None,
    features: Path | None = None,
) -> int:
    """Give standard input, line by line, to a model of another task; gives the exit code.

    The arguments are those of `translate`; `features` is an .npz file to read instead, for a model whose
    sources are feature vectors.
    """
    given, of_features = None, features is not None

    def choose(settings: Settings) -> Sequence[FileLeg]:
        return (generation_leg(settings.bundle[0], of_features=of_features),)

    if features is not None:
        try:
            given = [f"{to_base64(one)}\n".encode() for one in read_features(features)]
        except FeaturesError as error:
            return fail("generate", EXIT_USAGE, str(error))
    request = replace(request, are_features=of_features)
    return _through_models("generate", flags, choose, request, errors, progress, given=given)


def _through_models(
    command: str,
    flags: Mapping[str, Any],
    choose: Callable[[Settings], Sequence[FileLeg]],
    request: TranslationRequest,
    errors: Literal["replace", "fail"],
    progress: bool | None,
    glossary: Path | None = None,
    given: list[bytes] | None = None,
) -> int:
    settings = read_settings(command, flags)
    if settings is None:
        return EXIT_USAGE
    return_large_blocks()
    models: dict[Path, ServedModel] = {}
    bundle = settings.bundle[0]

    def complain(complaint: str) -> None:
        """Say on standard error what became of a line; above the progress bar, if there is one."""
        tqdm.write(f"dragoman {command}: {complaint}", file=sys.stderr)

    try:
        request.text_options.validate()
        if glossary is not None:
            request = replace(request, glossary=read_file(glossary))
        legs = choose(settings)
        chosen = {leg.bundle for leg in legs}
        taken = tuple(dict.fromkeys(bundle for bundle in settings.bundle if bundle in chosen))
        settings = without_limits(settings.model_copy(update={"bundle": taken}))
        for bundle in settings.bundle:
            models[bundle] = load_model(settings, NullObserver(), bundle)
        if legs:
            request = replace(request, source=legs[0].source, target=legs[-1].target)
        through = translation_through(legs, models.values(), settings)
        return _stream(command, FileTranslator(through, request, errors, complain), progress, given)
    except BundleError as error:
        return _refuse(command, error.bundle or bundle, error)
    except (LineError, DragomanError) as error:
        return fail(command, code_of(error), str(error))
    except KeyboardInterrupt:
        discard_output()
        return EXIT_INTERRUPTED
    finally:
        for model in models.values():
            model.engine.close(0.0)


def _stream(
    command: str, translator: FileTranslator, progress: bool | None, given: list[bytes] | None
) -> int:
    """Write what becomes of the given lines; of those of standard input if there are none."""
    if sys.stdout is None or (given is None and sys.stdin is None):
        closed = "output" if sys.stdout is None else "input"
        return fail(command, EXIT_FAILED, f"standard {closed} is closed: give < FILE and > FILE")
    source, output = None if given is not None else sys.stdin.fileno(), sys.stdout.buffer
    try:
        with tqdm(
            total=sum(map(len, given or ())) if source is None else _file_size(source),
            unit="B",
            unit_scale=True,
            desc="translating",
            file=sys.stderr,
            disable=None if progress is None else not progress,
        ) as bar:
            for line in translator.run([given or []] if source is None else read_lines(source)):
                output.write(line.text.encode("utf-8"))
                if line.is_last_of_batch:
                    output.flush()
                bar.update(line.source_bytes)
        output.flush()
    except OSError as error:
        return fail_at_stream(command, error)
    return 0


def _file_size(file_descriptor: int) -> int | None:
    """Size of a regular file for the progress bar; a pipe has none."""
    status = os.fstat(file_descriptor)
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _refuse(command: str, bundle: Path, error: BundleError) -> int:
    return fail(command, EXIT_BAD_BUNDLE, f"cannot load bundle {bundle}: {error}")
