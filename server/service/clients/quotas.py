"""How much each client may still send: requests by a token bucket, characters by the day. `now` comes in.

Nothing here asks the wall clock, which jumps; nothing is kept over a restart.
"""

from collections import OrderedDict
from dataclasses import dataclass

from server.errors import QuotaExceededError, RateLimitedError, TextTooLongError
from server.service.clients.api_keys import ClientLimits

MAX_CLIENTS = 1 << 16
"""Clients that are remembered, 0.2 KB each; beyond it, those are forgotten that were quiet longest."""

_MINUTE_S = 60.0
_DAY_S = 86_400.0


@dataclass(slots=True)
class _Spent:
    """What a client has used up.

    Attributes:
        full_at_s: when its bucket of requests will be full again: one number instead of a level and its time.
        day_ends_s: when its characters begin anew.
        characters: spent this day.
    """

    full_at_s: float = float("-inf")
    day_ends_s: float = float("-inf")
    characters: int = 0


class Allowances:
    """What every client has spent. Used from the event loop."""

    def __init__(self, max_clients: int = MAX_CLIENTS) -> None:
        """Start with nothing spent; so many clients are remembered."""
        self._max_clients = max_clients
        self._spent: OrderedDict[str, _Spent] = OrderedDict()

    def __len__(self) -> int:
        """Clients that are remembered now."""
        return len(self._spent)

    def take_request(self, client: str, limits: ClientLimits, now_s: float) -> None:
        """Count a request, if the client may send one now; a full bucket holds the requests of a minute.

        Args:
            client: who sends it.
            limits: of the client.
            now_s: monotonic time.

        Raises:
            RateLimitedError: it may not; says when it may.
        """
        if limits.requests_per_minute is None:
            return
        spent = self._remember(client)
        each_s = _MINUTE_S / limits.requests_per_minute
        full_at_s = max(spent.full_at_s, now_s) + each_s
        # Up to a microsecond late: N times 60 / N s need not add up to a minute, the less so the larger the
        # time they are added to.
        if full_at_s - now_s > _MINUTE_S + 1e-6:
            raise RateLimitedError(
                f"only {limits.requests_per_minute} requests a minute are allowed",
                full_at_s - now_s - _MINUTE_S,
            )
        spent.full_at_s = full_at_s

    def take_characters(self, client: str, limits: ClientLimits, characters: int, now_s: float) -> float:
        """Count characters, if the client may send so many today. Its day begins with its first request.

        Args:
            client: who sends them.
            limits: of the client.
            characters: of all texts of a request.
            now_s: monotonic time.

        Returns:
            When the day ends that they count for.

        Raises:
            QuotaExceededError: it may not; says when its next day begins.
            TextTooLongError: it may not on any day.
        """
        allowed = limits.characters_per_day
        if allowed is None:
            return float("-inf")
        if characters > allowed:
            raise TextTooLongError(f"{characters} characters; only {allowed} a day are allowed")
        spent = self._remember(client)
        if now_s >= spent.day_ends_s:
            spent.characters, spent.day_ends_s = 0, now_s + _DAY_S
        if spent.characters + characters > allowed:
            raise QuotaExceededError(
                f"only {allowed} characters a day are allowed; {allowed - spent.characters} are left",
                spent.day_ends_s - now_s,
            )
        spent.characters += characters
        return spent.day_ends_s

    def give_back(self, client: str, characters: int, day_ends_s: float) -> None:
        """Undo `take_characters`, which gave `day_ends_s`: nothing was translated."""
        spent = self._spent.get(client)
        if spent is not None and spent.day_ends_s == day_ends_s:
            spent.characters = max(0, spent.characters - characters)

    def _remember(self, client: str) -> _Spent:
        spent = self._spent.get(client)
        if spent is None:
            spent = self._spent[client] = _Spent()
            if len(self._spent) > self._max_clients:
                self._spent.popitem(last=False)
        else:
            self._spent.move_to_end(client)
        return spent
