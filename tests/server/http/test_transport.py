import asyncio
from typing import Any

from server.http.transport import ConnectionTransport


class Wire:
    """A transport that notes what is done to it."""

    def __init__(self) -> None:
        self.done: list[Any] = []

    def write(self, data: bytes) -> None:
        self.done.append(data)

    def close(self) -> None:
        self.done.append("close")

    def abort(self) -> None:
        self.done.append("abort")

    def is_closing(self) -> bool:
        return "close" in self.done


def after(*calls: tuple[str, Any]) -> list[Any]:
    """What a transport sees after these calls in one turn of the loop, and the rest of that turn."""

    async def main() -> list[Any]:
        wire = Wire()
        transport = ConnectionTransport(wire, asyncio.get_running_loop(), lambda: False)  # type: ignore[arg-type]
        for name, argument in calls:
            getattr(transport, name)(*([] if argument is None else [argument]))
        await asyncio.sleep(0)
        assert transport.is_closing() == ("close" in wire.done)
        return wire.done

    return asyncio.run(main())


def test_head_and_body_leave_together() -> None:
    assert after(("write", b"head "), ("write", b"body"), ("write", b"")) == [b"head body"]


def test_nothing_is_written_for_nothing() -> None:
    assert after(("write", b"")) == []


def test_closing_sends_first() -> None:
    assert after(("write", b"last words"), ("close", None)) == [b"last words", "close"]


def test_aborting_does_not() -> None:
    assert after(("write", b"lost"), ("abort", None)) == ["abort"]


def test_much_does_not_wait() -> None:
    large = b"x" * (1 << 16)
    assert after(("write", b"a"), ("write", large), ("write", b"b")) == [b"a" + large, b"b"]
