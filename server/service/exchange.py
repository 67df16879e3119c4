"""Reloads of all models, or of one by its name: one reload at a time, each model by itself."""

import asyncio
from collections.abc import Sequence

from server.errors import (
    BundleRefusedError,
    DragomanError,
    ReloadFailedError,
    ReloadInProgressError,
    UnknownModelError,
)
from server.service.model import ServedModel
from server.service.reloading import Reloader


class Exchange:
    """Lets operators exchange models. Used from one event loop."""

    def __init__(self, reloaders: Sequence[Reloader]) -> None:
        """Keep what is needed.

        Args:
            reloaders: one for each model.
        """
        self._reloaders = tuple(reloaders)
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
            ReloadFailedError: likewise, for another reason than the bundle.
        """
        if self._task is not None:
            raise ReloadInProgressError("another reload has not ended yet")
        chosen = [reloader for reloader in self._reloaders if name in (None, reloader.name)]
        if not chosen:
            names = ", ".join(reloader.name for reloader in self._reloaders)
            raise UnknownModelError(f"no model of this name is served; there are: {names}")
        self._task = asyncio.create_task(_reload_each(chosen))
        self._task.add_done_callback(self._ended)
        return await asyncio.shield(self._task)

    async def close(self, timeout_s: float) -> None:
        """Give a reload up that is in progress; for the end of the server.

        Args:
            timeout_s: how long a load may still take.
        """
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for reloader in self._reloaders:
            await reloader.close(timeout_s)

    def _ended(self, task: asyncio.Task[list[ServedModel]]) -> None:
        self._task = None
        if not task.cancelled():
            task.exception()  # whoever waits hears of it, and if nobody does, the log has it


async def _reload_each(reloaders: Sequence[Reloader]) -> list[ServedModel]:
    loaded: list[ServedModel] = []
    refusals: list[tuple[str, DragomanError]] = []
    for reloader in reloaders:
        try:
            loaded.append(await reloader.reload())
        except (BundleRefusedError, ReloadFailedError) as error:
            refusals.append((reloader.name, error))
    if not refusals:
        return loaded
    if len(reloaders) == 1:
        raise refusals[0][1]
    message = "; ".join(f"{name}: {error}" for name, error in refusals)
    if loaded:
        message += f"; reloaded: {', '.join(model.manifest.name for model in loaded)}"
    failed = all(isinstance(error, ReloadFailedError) for _, error in refusals)
    raise (ReloadFailedError if failed else BundleRefusedError)(message)
