"""W3C trace context: the `traceparent` header that says which trace a request belongs to."""

import re

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


def read_traceparent(value: bytes) -> str | None:
    """Read a `traceparent` header.

    Args:
        value: as received.

    Returns:
        Its first four fields, `version-trace-parent-flags`; None if it is none, and is to be ignored.
    """
    if not 55 <= len(value) <= 256 or not value.isascii():
        return None
    found = _TRACEPARENT.fullmatch(str(value, "ascii"))
    if found is None:
        return None
    version, trace, parent, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or not int(trace, 16) or not int(parent, 16):
        return None
    return f"{version}-{trace}-{parent}-{flags}"
