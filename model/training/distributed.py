"""The processes of one training run: torchrun starts them, each takes its share of every batch."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

_TIMEOUT = timedelta(hours=1)
"""Of a collective: process 0 may learn a vocabulary and tokenise a large corpus while the others wait."""

_LOST = re.compile(r"gloo|nccl|connection (closed|reset|refused)|broken pipe|timed out|process group", re.I)


class LostProcessError(Exception):
    """Another process of the run is gone; the message says what to do."""


class Processes:
    """This process among those of the run; alone unless torchrun started it. Owned by the training thread.

    Attributes:
        rank: number of this process, from 0; process 0 writes and reports.
        count: how many there are.
        local_rank: number on this machine, which is the number of its GPU.
    """

    def __init__(self, rank: int = 0, count: int = 1, local_rank: int = 0) -> None:
        self.rank = rank
        self.count = count
        self.local_rank = local_rank

    @classmethod
    def join(cls, device: str) -> Processes:
        """Meet the other processes if torchrun started this one; otherwise be alone.

        Args:
            device: "cpu" or "cuda", of the model.
        """
        count = int(os.environ.get("WORLD_SIZE", "1"))
        if count == 1:
            return cls()
        if not dist.is_initialized():
            if device == "cuda":
                torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            backend = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo"
            dist.init_process_group(backend, timeout=_TIMEOUT)
        return cls(dist.get_rank(), count, int(os.environ["LOCAL_RANK"]))

    @property
    def first(self) -> bool:
        """Whether this is the process that writes and reports."""
        return self.rank == 0

    def wrap(self, module: nn.Module) -> nn.Module:
        """Let the backward pass of ``module`` average gradients over all processes."""
        if self.count == 1:
            return module
        return DistributedDataParallel(module, broadcast_buffers=False, gradient_as_bucket_view=True)

    def local(self, module: nn.Module) -> contextlib.AbstractContextManager[None]:
        """Keep gradients of a wrapped module to this process, for all batches of an update but the last."""
        if isinstance(module, DistributedDataParallel):
            return module.no_sync()
        return contextlib.nullcontext()

    def add(self, values: Sequence[float]) -> list[float]:
        """Sum numbers over all processes, each in its place."""
        if self.count == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(total)
        return total.tolist()

    def gather(self, value: Any) -> list[Any]:
        """Collect a value of every process, in the order of their ranks."""
        if self.count == 1:
            return [value]
        found: list[Any] = [None] * self.count
        dist.all_gather_object(found, value)
        return found

    def seed(self, seed: int) -> None:
        """Let every process but the first draw random numbers of its own: dropout differs between them."""
        if self.rank:
            torch.manual_seed(1_000 * seed + self.rank)

    def wait(self) -> None:
        """Return when every process has come here."""
        if self.count > 1:
            dist.barrier()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Turn the backend's errors about a process that is gone into one that says so.

        Raises:
            LostProcessError: another process is gone.
        """
        try:
            yield
        except RuntimeError as error:
            if self.count == 1 or isinstance(error, torch.OutOfMemoryError) or not _LOST.search(str(error)):
                raise
            raise LostProcessError(
                f"process {self.rank} of {self.count}: another process of this run is gone "
                "(killed, or out of memory?)"
            ) from error

    def leave(self) -> None:
        """End the operating system's process, with code 0, if it is one of several.

        Gloo's threads outlive ``destroy_process_group`` once there was a DistributedDataParallel, and one
        that lets go of a tensor while the interpreter winds down aborts the process: rarely, but torchrun
        then calls a run that is complete a failure.
        """
        if self.count > 1:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)


def random_states(processes: Processes) -> dict[str, Tensor]:
    """Collect the states of all random numbers: ``rng.cpu`` of process 0, ``rng.cpu.1`` and so on."""
    own = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        own["cuda"] = torch.cuda.get_rng_state()
    states = {}
    for rank, found in enumerate(processes.gather(own)):
        for device, state in found.items():
            states[f"rng.{device}.{rank}" if rank else f"rng.{device}"] = state
    return states


def restore_random_state(processes: Processes, states: dict[str, Tensor], seed: int) -> None:
    """Put back this process's state; one that has none, because there were fewer, starts from ``seed``."""
    processes.seed(seed)
    suffix = f".{processes.rank}" if processes.rank else ""
    if f"rng.cpu{suffix}" in states:
        torch.set_rng_state(states[f"rng.cpu{suffix}"])
    if torch.cuda.is_available() and f"rng.cuda{suffix}" in states:
        torch.cuda.set_rng_state(states[f"rng.cuda{suffix}"])
