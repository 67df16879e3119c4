"""Another model in the place of the one being served, while requests come.

It is loaded and proven beside the old one, then new requests get it from one turn of the event loop to the
next; those under way finish with the old one, whose memory is then freed. Whatever is wrong with the new one,
the old one goes on.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Literal

from export.bundle import BundleError
from server.errors import (
    BundleRefusedError,
    DragomanError,
    ReloadFailedError,
    ReloadInProgressError,
    SettingError,
    UnknownModelError,
)
from server.service.models.served_model import ServedModel
from server.service.translation.model_slot import ModelSlot, close_translator
from server.service.translation.translator import Translator

ReloadOutcome = Literal["success", "refused", "failed"]

_log = logging.getLogger("dragoman.service")


class Reloads:
    """Reads bundles again and serves what is there now, one after the other. Used from one event loop."""

    def __init__(
        self,
        slots: Sequence[ModelSlot],
        load: Callable[[ModelSlot], ServedModel],
        translator_of: Callable[[ServedModel], Translator],
        check: Callable[[ModelSlot, ServedModel], None],
        announce: Callable[[], None],
        count: Callable[[ReloadOutcome], None],
        finish_s: float,
    ) -> None:
        """Keep what is needed.

        Args:
            slots: of the models that are served.
            load: verifies and loads the bundle of a slot, starts its engine and translates its golden
                sentences; called on a thread.
            translator_of: makes the translator over a loaded model.
            check: told which model is about to be served where; may refuse it with a SettingError.
            announce: told that another model is served from now on.
            count: told how each reload ended.
            finish_s: how long requests under way may take with the old model.
        """
        self._slots = tuple(slots)
        self._load = load
        self._translator_of = translator_of
        self._check = check
        self._announce = announce
        self._count = count
        self._finish_s = finish_s
        self._loader: threading.Thread | None = None
        self._task: asyncio.Task[list[ServedModel]] | None = None

    async def reload(self, name: str | None = None) -> list[ServedModel]:
        """Reload one model, or one after the other, so that there is one more in memory than usual.

        It goes on when its caller is cancelled, and with the others when one is refused.

        Args:
            name: of a model that is served; None reloads all.

        Returns:
            The models that were loaded.

        Raises:
            UnknownModelError: no model of this name is served.
            ReloadInProgressError: another reload has not ended.
            BundleRefusedError: the old model goes on serving; the message says what is wrong with the bundle.
            ReloadFailedError: for another reason than the bundle.
        """
        if self._task is not None:
            raise ReloadInProgressError("another reload has not ended yet")
        chosen = [slot for slot in self._slots if name in (None, _name(slot))]
        if not chosen:
            names = ", ".join(map(_name, self._slots))
            raise UnknownModelError(f"no model of this name is served; there are: {names}")
        self._task = asyncio.create_task(self._reload_each(chosen))
        self._task.add_done_callback(self._ended)
        return await asyncio.shield(self._task)

    async def close(self, timeout_s: float) -> None:
        """Give a reload up that is in progress, at the server's end; a load may still take `timeout_s`.

        It cannot be stopped: Python does not like to end inside ONNX Runtime.
        """
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._loader is not None:
            await asyncio.to_thread(self._loader.join, timeout_s)

    def _ended(self, task: asyncio.Task[list[ServedModel]]) -> None:
        self._task = None
        if not task.cancelled():
            task.exception()  # awaiting callers get it; without any, the log has it

    async def _reload_each(self, slots: Sequence[ModelSlot]) -> list[ServedModel]:
        loaded: list[ServedModel] = []
        refusals: list[tuple[str, DragomanError]] = []
        for slot in slots:
            try:
                loaded.append(await self._reload_one(slot))
            except (BundleRefusedError, ReloadFailedError) as error:
                refusals.append((_name(slot), error))
        if not refusals:
            return loaded
        if len(slots) == 1:
            raise refusals[0][1]
        message = "; ".join(f"{name}: {error}" for name, error in refusals)
        if loaded:
            message += f"; reloaded: {', '.join(model.manifest.name for model in loaded)}"
        failed = all(isinstance(error, ReloadFailedError) for _, error in refusals)
        raise (ReloadFailedError if failed else BundleRefusedError)(message)

    async def _reload_one(self, slot: ModelSlot) -> ServedModel:
        """Load, prove and swap; ends when the old model's memory is free."""
        old = _describe(slot.model)
        _log.info("reloading", extra={"old": old})
        outcome: ReloadOutcome = "failed"
        try:
            translator = await self._prepare(slot)
            outcome = "success"
        except (BundleError, SettingError) as error:
            outcome = "refused"
            _log.error("the bundle is refused, the old model goes on serving: %s", error, extra={"old": old})
            raise BundleRefusedError(str(error)) from error
        except Exception as error:
            _log.exception("the reload failed, the old model goes on serving", extra={"old": old})
            raise ReloadFailedError(
                "the new model could not be started; the server's log says why"
            ) from error
        finally:
            self._count(outcome)
        model = translator.model
        slot.replace(translator)
        self._announce()
        _log.info("reloaded", extra={"old": old, "new": _describe(model)})
        await slot.finish_old(self._finish_s)
        _log.info("the old model is gone", extra={"old": old})
        return model

    async def _prepare(self, slot: ModelSlot) -> Translator:
        """Load beside what is served, up to a translator that is as fast with its first request as ever."""
        model = await self._load_beside(slot)
        translator = self._translator_of(model)
        try:
            await translator.warm_up()
            self._check(slot, model)
        except BaseException:
            await close_translator(translator, 0.0)
            raise
        return translator

    async def _load_beside(self, slot: ModelSlot) -> ServedModel:
        """Load on a thread that does not hold up the end of the process, as those of an executor would."""
        loop = asyncio.get_running_loop()
        loaded: asyncio.Future[ServedModel] = loop.create_future()

        def hand_over(model: ServedModel | None, error: BaseException | None) -> None:
            if model is not None and loaded.cancelled():
                model.engine.close(0.0)  # idle: its threads end at once
            elif model is not None:
                loaded.set_result(model)
            elif error is not None and not loaded.cancelled():
                loaded.set_exception(error)

        def work() -> None:
            model: ServedModel | None = None
            failure: BaseException | None = None
            try:
                model = self._load(slot)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the caller must hear of it
                failure = error
            # If the loop is closed, the process ends, and the engine with it.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(hand_over, model, failure)

        self._loader = threading.Thread(target=work, name="dragoman-reload", daemon=True)
        self._loader.start()
        return await loaded


def _name(slot: ModelSlot) -> str:
    return slot.model.manifest.name


def _describe(model: ServedModel) -> str:
    return f"{model.manifest.name} {model.manifest.version} ({model.sha256[:12]})"
