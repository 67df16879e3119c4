"""Who may send text, and how much: the key of a request, and what its owner has left.

Without keys and without a limit there is no `Access`, and requests pay nothing for it.
"""

import ipaddress
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import Scope

from server.errors import (
    AbortedError,
    BadKeyError,
    DeadlineExceededError,
    MissingKeyError,
    QuotaExceededError,
    RateLimitedError,
    TextTooLongError,
)
from server.http.errors import ClientDisconnectedError
from server.http.request_record import record_of
from server.metrics.registry import Metrics
from server.service.clients.api_keys import ClientLimits, KeyFile
from server.service.clients.quotas import Allowances
from server.settings import Settings

KEY_FIELD = "api_key"
GUARDED_PATHS = ("/translate", "/generate", "/detect", "/models")
"""Whose routes ask an `Access`. A test asks every route without a key."""

_SCHEME = b"bearer"
_NO_FIELDS: Mapping[str, Any] = {}
_NO_STRING = b"\0"  # is nobody's key, but it was meant as one
# An IPv6 customer has a whole network of this length, and each address in it would be another client.
_IPV6_CUSTOMER_BITS = 64


@dataclass(frozen=True, slots=True)
class Client:
    """Who sends a request: the name of its key, or without keys its address, and the limits to keep."""

    name: str
    limits: ClientLimits


class Access:
    """Knows clients by key or address, and holds them to their limits. Used from the event loop."""

    def __init__(self, keys: KeyFile | None, requests_per_minute: int | None, metrics: Metrics) -> None:
        """Start with nothing spent.

        Args:
            keys: without them, everybody may send text.
            requests_per_minute: of every client whose key has no such limit of its own.
            metrics: where requests are counted by the name of their key.
        """
        self.keys = keys
        self._default = requests_per_minute
        self._metrics = metrics
        self._allowances = Allowances()
        self.keys_changed()

    def keys_changed(self) -> None:
        """Publish the names of the keys after the file was read again."""
        if self.keys is not None:
            self._metrics.set_keys(self.keys.ring.names)

    def authenticate(self, scope: Scope) -> Client | None:
        """Look at the headers before anything of the body is read; gives the client, if they say who it is.

        Raises:
            BadKeyError: there is a key, and it is not one of ours.
        """
        if self.keys is None or (key := _bearer(scope)) is None:
            return None
        return self._find(scope, key, self.keys)

    def identify(self, scope: Scope, fields: Mapping[str, Any] = _NO_FIELDS) -> Client:
        """Find out who sends a request.

        Args:
            scope: ASGI scope; the request's record gets the name of the key.
            fields: of the request, where LibreTranslate's clients put their key.

        Raises:
            MissingKeyError: there is no key, and there must be one.
            BadKeyError: the key is not one of ours.
        """
        if self.keys is None:
            return Client(_address(scope), ClientLimits(self._default))
        client = self.authenticate(scope)
        if client is not None:
            return client
        key = _key_in(fields) or _key_in_query(scope["query_string"])  # which JSON's fields do not have
        if key is None:
            raise MissingKeyError(
                f"an API key is needed: as the field {KEY_FIELD}, or in the header Authorization: Bearer"
            )
        return self._find(scope, key, self.keys)

    def admit(self, scope: Scope, fields: Mapping[str, Any], client: Client | None = None) -> Client:
        """Find out who sends a request unless `authenticate` has, and count it. Raises as `identify`.

        Raises:
            RateLimitedError: the client has to wait.
        """
        if client is None:
            client = self.identify(scope, fields)
        try:
            self._allowances.take_request(client.name, client.limits, time.monotonic())
        except RateLimitedError:
            self.count(client, "rate_limited")
            raise
        return client

    @contextmanager
    def charge(self, client: Client, characters: int) -> Iterator[None]:
        """Count the characters of all texts of a request, which the block translates; what fails is free.

        Raises:
            QuotaExceededError: the client has sent enough for today.
            TextTooLongError: it is more than the client may send on any day.
        """
        try:
            day_ends_s = self._allowances.take_characters(
                client.name, client.limits, characters, time.monotonic()
            )
        except (QuotaExceededError, TextTooLongError):
            self.count(client, "over_quota")
            raise
        self.count(client, "admitted", characters)
        try:
            yield
        except (DeadlineExceededError, AbortedError, ClientDisconnectedError):
            raise  # work was done; otherwise a short deadline would be a way to have it done for nothing
        except Exception:
            self._allowances.give_back(client.name, characters, day_ends_s)
            raise

    def count(self, client: Client, result: str, characters: int = 0) -> None:
        """Count a request, with the characters that it pays for."""
        if self.keys is not None:  # addresses are no labels
            self._metrics.key_used(client.name, result, characters)

    def _find(self, scope: Scope, key: bytes, keys: KeyFile) -> Client:
        found = keys.ring.find(key)
        if found is None:
            raise BadKeyError("this API key is not valid")
        record_of(scope).key = found.name
        limits = found.limits
        if limits.requests_per_minute is None and self._default is not None:
            limits = ClientLimits(self._default, limits.characters_per_day)
        return Client(found.name, limits)


def make_access(settings: Settings, metrics: Metrics) -> Access | None:
    """Build what the settings ask for; None if everybody may send as much as they like.

    Raises:
        SettingError: the file of keys cannot be used.
    """
    if settings.api_keys_file is None and settings.requests_per_minute is None:
        return None
    keys = None if settings.api_keys_file is None else KeyFile(settings.api_keys_file)
    return Access(keys, settings.requests_per_minute, metrics)


def document_keys(document: dict[str, Any]) -> None:
    """Say in the OpenAPI document which routes want a key; Swagger UI then has a field for it."""
    document.setdefault("components", {})["securitySchemes"] = {
        "api_key": {"type": "http", "scheme": "bearer"}
    }
    for path in GUARDED_PATHS:
        for operation in document["paths"].get(path, {}).values():
            operation["security"] = [{"api_key": []}]


def _bearer(scope: Scope) -> bytes | None:
    for name, value in scope["headers"]:
        if name == b"authorization":
            scheme, _, key = value.partition(b" ")
            # Other authentication schemes belong in a proxy.
            if scheme.lower() == _SCHEME and (key := key.strip()):
                return bytes(key)
    return None


def _key_in(fields: Mapping[str, Any]) -> bytes | None:
    key = fields.get(KEY_FIELD)
    if key is None or key == "":
        return None
    return key.encode("utf-8") if isinstance(key, str) else _NO_STRING


def _key_in_query(query: bytes) -> bytes | None:
    if not query:
        return None
    # Of bytes, parse_qsl refuses whatever is not ASCII.
    fields = parse_qsl(query.decode("ascii", "replace"), errors="surrogateescape")
    return next(
        (value.encode("utf-8", "surrogateescape") for name, value in fields if name == KEY_FIELD), None
    )


def _address(scope: Scope) -> str:
    host: str = (scope.get("client") or ("", 0))[0]
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address), _IPV6_CUSTOMER_BITS), strict=False))
