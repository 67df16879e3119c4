"""How flags read durations, and how often something is done in one."""

import math

import typer

from server.units import in_seconds


def duration(given: object) -> float:
    """Read a duration, in seconds if it has no unit."""
    try:
        seconds = float(in_seconds(given))  # type: ignore[arg-type]
    except ValueError as error:
        raise typer.BadParameter(f"{given}: {error}") from None
    if not 0 <= seconds < math.inf:
        raise typer.BadParameter(f"{given}: must be 0 or more")
    return seconds


def some_time(given: object) -> float:
    """Read a duration of at least a millisecond."""
    if (seconds := duration(given)) < 0.001:
        raise typer.BadParameter(f"{given}: must be at least 1ms")
    return seconds


def some_rate(given: object) -> float:
    """Read how often a second, at least once in a thousand of them."""
    try:
        rate = float(given)  # type: ignore[arg-type]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if not 0.001 <= rate < math.inf:
        raise typer.BadParameter(f"{given}: must be a number of at least 0.001")
    return rate
