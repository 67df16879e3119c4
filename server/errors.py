"""Every error that the server raises on purpose.

Each class has a constant `reason`, a snake_case word that travels to the client as the `code` of the error
body and to the metrics as a label. How a reason becomes an HTTP status is decided in one table of
`server.http.errors`; nothing here knows HTTP. Messages are written for the person who sent the request and
never hold the text to translate.
"""

from typing import ClassVar


class DragomanError(Exception):
    """Base of everything the server raises on purpose; caught where an answer is formed."""

    reason: ClassVar[str] = "internal"


class InvalidRequestError(DragomanError):
    """The request cannot be served as it is written."""

    reason = "invalid_request"


class MalformedBodyError(InvalidRequestError):
    """The body is not valid JSON, form data or UTF-8."""

    reason = "malformed"


class InvalidOptionError(InvalidRequestError):
    """A decoding option is out of range or contradicts another."""

    reason = "invalid_option"


class UnsupportedLanguageError(InvalidRequestError):
    """The loaded bundle does not translate this direction."""

    reason = "unsupported_language"


class TooManyTextsError(InvalidRequestError):
    """More texts in one request than the server accepts."""

    reason = "too_many_texts"


class TextTooLongError(InvalidRequestError):
    """A text has more characters or tokens than the server or the model accepts."""

    reason = "text_too_long"


class BodyTooLargeError(DragomanError):
    """The body has more bytes than the server reads."""

    reason = "body_too_large"


class UnsupportedMediaTypeError(DragomanError):
    """The body's media type is none that the route accepts."""

    reason = "unsupported_media_type"


class MissingKeyError(DragomanError):
    """The server wants an API key and the request has none."""

    reason = "missing_key"


class BadKeyError(DragomanError):
    """The API key is not one of the server's."""

    reason = "bad_key"


class ForbiddenError(DragomanError):
    """This caller may not use this port."""

    reason = "forbidden"


class OverloadedError(DragomanError):
    """The server could serve this request later.

    Attributes:
        retry_after_s: seconds after which a new attempt is worth while.
    """

    reason = "overloaded"

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        """Keep the delay beside the message.

        Args:
            message: one sentence for the caller.
            retry_after_s: seconds after which a new attempt is worth while.
        """
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RateLimitedError(OverloadedError):
    """This client sent more than its share."""

    reason = "rate_limited"


class QuotaExceededError(RateLimitedError):
    """This client has sent what it may send in a day."""

    reason = "quota_exceeded"


class QueueFullError(OverloadedError):
    """The queue has no room for the whole request."""

    reason = "queue_full"


class UnavailableError(DragomanError):
    """The server cannot serve any request now."""

    reason = "unavailable"


class NotReadyError(UnavailableError):
    """The bundle is still being loaded."""

    reason = "not_ready"


class DrainingError(UnavailableError):
    """The server is shutting down and takes no new work."""

    reason = "draining"


class OutOfMemoryError(UnavailableError):
    """The machine had no memory for this sentence or its neighbours; later it may have."""

    reason = "out_of_memory"


class EngineDeadError(UnavailableError):
    """Lost workers cannot be replaced; only a restart brings the engine back."""

    reason = "engine_dead"


class DeadlineExceededError(DragomanError):
    """The request's deadline passed before its result was ready."""

    reason = "deadline_exceeded"


class UnknownModelError(DragomanError):
    """No model of this name is served."""

    reason = "unknown_model"


class ReloadInProgressError(DragomanError):
    """Another reload has not ended yet."""

    reason = "reload_in_progress"


class BundleRefusedError(DragomanError):
    """The bundle that was to be served now cannot be; what was served before still is."""

    reason = "bundle_refused"


class GlossaryRefusedError(DragomanError):
    """A glossary of the folder cannot be used; those that were there before still are."""

    reason = "glossary_refused"


class ReloadFailedError(DragomanError):
    """A new model could not be started, and the bundle is not known to be at fault."""

    reason = "reload_failed"


class AbortedError(DragomanError):
    """The request was aborted, mostly because the client went away."""

    reason = "aborted"


class InferenceError(DragomanError):
    """The runtime failed; the rows of this run are lost, the session stays usable."""

    reason = "internal"


class SettingError(DragomanError):
    """A setting cannot work with this bundle, which is not served. The message says which and why."""


class DeviceError(SettingError):
    """The device that was asked for cannot be used on this machine. The message says why."""
