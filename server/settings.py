"""Settings of the server: a command-line flag beats a `DRAGOMAN_...` variable, which beats the default here.

Nothing else reads the environment. Durations and sizes may have units. A leaf: imports only `server.units`.
"""

import math
import os
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from server.units import in_bytes, in_mebibytes, in_seconds

Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, BeforeValidator(in_seconds), Field(gt=0, allow_inf_nan=False)]
WholeSeconds = Annotated[int, BeforeValidator(in_seconds), Field(ge=1)]

NO_PIVOT = "none"
"""As `pivot_language`: no pair is translated through another language."""

_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#@*,\s]+")
_CGROUP_CPU_MAX = Path("/sys/fs/cgroup/cpu.max")


def usable_cores(cpu_max: Path = _CGROUP_CPU_MAX) -> int:
    """Count the cores this process may really use, at least 1.

    The scheduler's affinity knows `taskset` and cpusets but not a container's CPU quota, so both are asked:
    the cgroup v2 file `cpu.max` reads `<quota or "max"> <period>`.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = cpu_max.read_text(encoding="ascii").split()
        if quota != "max":
            cores = min(cores, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):
        pass
    return max(1, cores)


def _bundles_in(path: Path) -> list[Path]:
    """List the bundles that a directory holds; one that is a bundle, or holds none, stands for itself."""
    if (path / "manifest.json").exists():
        return [path]
    # What an export is still writing is hidden.
    held = sorted(
        file.parent for file in path.glob("*/manifest.json") if not file.parent.name.startswith(".")
    )
    return held or [path]


class Settings(BaseSettings):
    """Everything an operator can choose; docs/operations.md explains each. Frozen; thread-safe."""

    model_config = SettingsConfigDict(env_prefix="DRAGOMAN_", frozen=True, extra="forbid")

    bundle: Annotated[tuple[Path, ...], NoDecode, Field(min_length=1)] = (Path("bundles"),)
    pivot_language: Annotated[str, Field(min_length=1, max_length=40)] = "en"
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8000
    workers: Annotated[int, Field(ge=0, le=1024)] = 0
    engine_processes: bool | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    max_rows: Annotated[int, Field(ge=0)] = 0
    shortlist: bool = True
    max_kv_cache_mib: Annotated[int, BeforeValidator(in_mebibytes), Field(ge=1)] = 2048
    cache_bytes: Annotated[int, BeforeValidator(in_bytes), Field(ge=0)] = 64 << 20
    weights_cache: Annotated[str, Field(min_length=1)] = "auto"
    max_batch_tokens: Positive = 1024
    max_queue_sentences: Positive = 2048
    max_queue_tokens: Positive = 65536
    max_texts: Positive = 1000
    max_text_chars: Positive = 5000
    max_request_tokens: Positive = 16384
    max_body_bytes: Annotated[int, BeforeValidator(in_bytes), Field(ge=1)] = 1 << 20
    request_timeout_s: Seconds = 30.0
    drain_timeout_s: Seconds = 25.0
    drain_delay_s: Annotated[float, BeforeValidator(in_seconds), Field(ge=0, allow_inf_nan=False)] = 0.0
    close_timeout_s: WholeSeconds = 2
    header_timeout_s: Seconds = 10.0
    body_timeout_s: Seconds = 30.0
    keep_alive_s: WholeSeconds = 75
    default_beam_size: Positive | None = None
    max_beam_size: Positive = 8
    truecase: bool = True
    guard: Literal["off", "flag", "mend"] = "mend"
    glossaries: Path | None = None
    text_threads: Positive = 2
    api_keys_file: Path | None = None
    requests_per_minute: Positive | None = None
    cors_origins: str | None = None
    admin_port: Annotated[int, Field(ge=0, le=65535)] | None = None
    admin_host: Literal["127.0.0.1", "::1"] = "127.0.0.1"
    otel_endpoint: Annotated[str, Field(pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*)?$")] | None = None
    otel_sample_ratio: Annotated[float, Field(ge=0, le=1)] = 1.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    commit: str = "unknown"

    @field_validator("bundle", mode="before")
    @classmethod
    def _split_bundles(cls, given: object) -> object:
        if isinstance(given, str):
            return tuple(part.strip() for part in given.split(",") if part.strip())
        return (given,) if isinstance(given, Path) else given

    @field_validator("bundle", mode="after")
    @classmethod
    def _find_bundles(cls, given: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(bundle for path in given for bundle in _bundles_in(path))

    @field_validator("cors_origins")
    @classmethod
    def _check_origins(cls, origins: str | None) -> str | None:
        for origin in (origins or "").split(","):
            if origins and origin.strip() != "*" and not _ORIGIN.fullmatch(origin.strip()):
                raise ValueError("an origin is scheme://host or scheme://host:port without a path; or *")
        return origins

    @field_validator("drain_delay_s")
    @classmethod
    def _check_delay(cls, delay_s: float, info: ValidationInfo) -> float:
        timeout_s = info.data.get("drain_timeout_s", delay_s)
        if delay_s > timeout_s:
            raise ValueError(
                f"{delay_s:g} s count inside drain_timeout_s, which is {timeout_s:g} s; raise that"
            )
        return delay_s

    @property
    def allowed_origins(self) -> tuple[str, ...]:
        """`cors_origins` one by one, in the small letters that browsers send."""
        return tuple(origin.strip().lower() for origin in (self.cors_origins or "").split(",") if origin)

    @property
    def kv_cache_bytes(self) -> int:
        """What the keys and values of one model may take."""
        return (self.max_kv_cache_mib << 20) // len(self.bundle)

    @property
    def weights_cache_folder(self) -> Path | None:
        """Where packed weights lie; None if every session packs its own."""
        if self.weights_cache == "none":
            return None
        if self.weights_cache != "auto":
            return Path(self.weights_cache)
        caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return Path(caches, "dragoman") if os.path.isabs(caches) else None

    @property
    def engine_workers(self) -> int:
        """Worker threads to start: `workers`, or one for each usable core."""
        return self.workers or usable_cores()
