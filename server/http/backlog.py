"""Ends listening without a reset: the kernel resets every connection that is not accepted when it closes."""

import contextlib
import ctypes
import socket
import struct

_SO_ATTACH_FILTER = 26
# Classic BPF over a TCP segment: load the flags, drop what has SYN, keep the rest.
_DROP_SYN = (
    (0x30, 0, 0, 13),  # load byte 13
    (0x45, 0, 1, 0x02),  # if it has SYN go on, else skip one
    (0x06, 0, 0, 0),  # drop
    (0x06, 0, 0, 0xFFFFFFFF),  # keep
)


def drop_new_connections(listener: socket.socket) -> None:
    """Let the kernel begin no connection any more; those it has begun can still be accepted.

    A client repeats its first packet after a second, and finds another server or none. Where the kernel knows
    no socket filters nothing changes.

    Args:
        listener: a listening TCP socket.
    """
    program = b"".join(struct.pack("HBBI", *instruction) for instruction in _DROP_SYN)
    held = ctypes.create_string_buffer(program, len(program))
    with contextlib.suppress(OSError):
        listener.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HP", len(_DROP_SYN), ctypes.addressof(held))
        )
