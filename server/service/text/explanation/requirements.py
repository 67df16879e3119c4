"""What a model must have for its translations to be explained; without it a request is refused."""

from server.errors import InvalidOptionError
from server.service.text.model_text import Measured
from server.service.text.options import TextOptions


def check_explanations(options: TextOptions, measured: Measured, *, samples: bool = False) -> None:
    """Check that a model has what its translations are to be explained with.

    Args:
        options: of a request.
        measured: what the exporter has measured of the model.
        samples: whether tokens are drawn.

    Raises:
        InvalidOptionError: something is missing; the message names the option and the remedy.
    """
    if options.confidence and samples:
        raise InvalidOptionError(
            "confidence is of the model's best choice; it says nothing about a drawn one"
        )
    if options.confidence and measured.confidence is None:
        raise InvalidOptionError(
            "confidence: this model is not calibrated; `dragoman measure` does that, with a dev set"
        )
    if options.alignments and measured.lexicon is None:
        raise InvalidOptionError(
            "alignments: this model has no lexical tables to align words with; `dragoman measure` adds them"
        )
    if options.attention and measured.attention is None:
        raise InvalidOptionError(
            "attention: this model has no graph that tells where it looks; `dragoman measure --attention` "
            "adds one"
        )
