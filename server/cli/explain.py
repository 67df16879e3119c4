"""What `dragoman explain` does: one text through a model, and what can be said of how it came out."""

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from export.bundle import BundleError, mean_probability
from server.cli.exit_codes import EXIT_BAD_BUNDLE, EXIT_USAGE, code_of, fail, show
from server.cli.given_settings import read_settings
from server.engine.observer import NullObserver
from server.engine.options import DecodingOptions
from server.engine.sequence import SequenceResult
from server.errors import DragomanError, InvalidRequestError
from server.service.models.loading import load_model
from server.service.models.served_model import ServedModel, text_side
from server.service.request_limits import RequestLimits, check_texts, request_limits
from server.service.text.codec import Reading, TextCodec, TextTranslation
from server.service.text.explanation.confidence import Confident
from server.service.text.explanation.explained import fields_of
from server.service.text.jobs import ModelInput
from server.service.text.options import TextOptions, Way
from server.service.translation.decoding_options import choose_each, with_token_scores
from server.service.translation.file_translation import choose_direction
from server.service.translation.request import RequestedOptions

_WIDTH = 4
"""Alternatives of a token, and translations that a search keeps."""
_MOST_TOKENS = 64
"""Of a sentence whose tokens get alternatives: each is a search of its own."""
_SHADES = "·░▒▓█"
_MOST_COLUMNS = 40
"""Of a map of attention in a terminal."""
_SOURCE, _TARGET = "source", "target"


def explain(bundle: Path, text: str, *, as_json: bool, **how: Any) -> int:
    """Translate a text and print how it came about; gives the exit code. `how`: see `Explainer.explained`."""
    settings = read_settings("explain", {"bundle": (bundle,)})
    if settings is None:
        return EXIT_USAGE
    try:
        model = load_model(settings, NullObserver())
        try:
            found = Explainer(model, request_limits(settings, model.manifest)).explained(text, **how)
        finally:
            model.engine.close(0.0)
    except BundleError as error:
        return fail("explain", EXIT_BAD_BUNDLE, f"cannot load bundle {bundle}: {error}")
    except DragomanError as error:
        return fail("explain", code_of(error), str(error))
    said = json.dumps(found, ensure_ascii=False, indent=1) + "\n" if as_json else written(found)
    return show("explain", said)


class Explainer:
    """Explains translations of one model. Used from one thread."""

    def __init__(self, model: ServedModel, limits: RequestLimits) -> None:
        """Keep a loaded model with a running engine, and the limits of a request."""
        self._model = model
        self._limits = limits
        self._codec = TextCodec(text_side(model, limits), limits)
        self._sources = model.tokenizer.source_pieces()
        self._targets = model.tokenizer.target_pieces()
        self._width = max((width for width in limits.usable_widths if width <= _WIDTH), default=1)

    def explained(
        self, text: str, source: str | None, target: str | None, *, beam_size: int, is_html: bool
    ) -> dict[str, Any]:
        """Translate a text, and say how.

        Args:
            text: any text that a request may hold.
            source: its language; None takes the bundle's first direction that fits.
            target: language of the translation; None takes that direction's.
            beam_size: hypotheses that the search keeps; 1 is greedy.
            is_html: whether the text is HTML.

        Raises:
            DragomanError: the text, the languages or the options do not fit the model.
        """
        check_texts([text], self._limits)
        manifest = self._model.manifest
        if any("\ud800" <= one <= "\udfff" for one in text):  # how Python reads bytes that are none
            raise InvalidRequestError("the text is not valid UTF-8")
        if not manifest.translates:
            raise InvalidRequestError(
                f"{manifest.name} does not translate (its task is {manifest.task}): dragoman generate"
            )
        source, target = choose_direction(manifest, source, target)
        measured = self._model.measured
        treated = TextOptions(
            alignments=measured.lexicon is not None,
            confidence=measured.confidence is not None,
            attention=measured.attention is not None,
        )
        reading = Reading(treated, is_html=is_html)
        way = Way(source, target, manifest.framing(source, target), keep=True)
        requested = RequestedOptions(beam_size=beam_size)
        started_s = time.monotonic()
        document = self._codec.read([text], way, reading)
        runs: list[tuple[ModelInput, DecodingOptions, SequenceResult]] = []
        while document.inputs:
            chosen = with_token_scores(choose_each(requested, self._limits, document.inputs))
            each = [chosen] * len(document.inputs) if isinstance(chosen, DecodingOptions) else chosen
            futures = self._model.engine.submit("explain", [one.ids for one in document.inputs], each)
            results = [future.result() for future in futures]
            for one, own, result in zip(document.inputs, each, results, strict=True):
                runs.append((one, own, result))
            document.resume(results)
        (translation,) = self._codec.explained([text], document, document.translations(1), reading)
        total_s = time.monotonic() - started_s
        return {
            "text": text,
            "translation": translation.hypotheses[0],
            _SOURCE: source,
            _TARGET: target,
            "seconds": round(total_s, 4),
            "checks": [
                {"found": reason, "outcome": outcome, "count": count}
                for (reason, outcome), count in document.guards.items()
            ],
            **_explanation(text, translation),
            "model_runs": [self._run(*run) for run in runs],
        }

    def _run(self, one: ModelInput, options: DecodingOptions, result: SequenceResult) -> dict[str, Any]:
        """Say what the model read and wrote in one run, and what else it might have written."""
        best = result.hypotheses[0]
        tokens = [*best.tokens] + [None] * (len(best.token_scores) - len(best.tokens))
        # What decoding was told to begin with is a part of the tokens.
        alternatives = self._alternatives(one, best.tokens) if len(tokens) <= _MOST_TOKENS else []
        rest = self._others(one, options, best.tokens)
        steps = []
        for place, (token, log) in enumerate(zip(tokens, best.token_scores, strict=True)):
            own = alternatives[place] if place < len(alternatives) else []
            steps.append(
                {
                    "token": self._name(token),
                    "probability": round(math.exp(log), 4),
                    "instead": [each for each in own if each["token"] != self._name(token)],
                }
            )
        written_pieces = [("", log) for log in best.token_scores]
        return {
            "read": [self._sources[token] for token in one.ids if isinstance(token, int)],
            "wrote": steps,
            "mean_probability": round(mean_probability(written_pieces), 4),
            "ended": result.finish_reason,
            "beam_size": options.beam_size,
            "dropped": rest,
            "seconds": {
                "queue": round(result.queue_s, 5),
                "encode": round(result.encode_s, 5),
                "decode": round(result.decode_s, 5),
            },
        }

    def _alternatives(self, one: ModelInput, tokens: Sequence[int]) -> list[list[dict[str, Any]]]:
        """Find the likeliest tokens at every place, by a search of one step behind those before it."""
        width = self._width
        options = [
            DecodingOptions(
                width,
                num_hypotheses=width,
                max_decoding_length=place + 1,
                target_prefix=tuple(tokens[:place]),
                return_token_scores=True,
            )
            for place in range(len(tokens) + 1)
            if place + 1 <= self._limits.max_target_tokens
        ]
        futures = self._model.engine.submit("explain", [one.ids] * len(options), options)
        found = []
        for place, future in enumerate(futures):
            found.append(
                [
                    {
                        "token": self._name(each.tokens[place] if place < len(each.tokens) else None),
                        "probability": round(math.exp(each.token_scores[-1]), 4),
                    }
                    for each in future.result().hypotheses
                ]
            )
        return found

    def _others(self, one: ModelInput, options: DecodingOptions, best: Sequence[int]) -> list[dict[str, Any]]:
        """Give the other translations of a search that keeps several, the likeliest first."""
        width = max(self._width, options.beam_size)
        if width == 1:
            return []
        wide = DecodingOptions(
            width,
            num_hypotheses=width,
            max_decoding_length=options.max_decoding_length,
            target_prefix=options.target_prefix,
            return_scores=True,
        )
        (future,) = self._model.engine.submit("explain", [one.ids], wide)
        return [
            {"text": self._model.tokenizer.decode(each.tokens), "score": round(each.score, 4)}
            for each in future.result().hypotheses
            if each.tokens != tuple(best)
        ]

    def _name(self, token: int | None) -> str:
        return "(end)" if token is None else self._targets[token]


def _explanation(text: str, translation: TextTranslation) -> dict[str, Any]:
    """Say which words stand for which, and how sure the model is, with the words themselves."""
    ours, theirs = text.encode(), translation.hypotheses[0].encode()
    found = translation.explanation

    def part(of: bytes, ends: tuple[int, int]) -> str:
        return of[slice(*ends)].decode("utf-8")

    def sure(each: Sequence[Confident]) -> list[dict[str, Any]]:
        return [{"text": part(theirs, one.target), "confidence": round(one.confidence, 3)} for one in each]

    alignments = [
        {
            _SOURCE: list(one.source),
            _TARGET: list(one.target),
            "weight": round(one.weight, 4),
            "words": [part(ours, one.source), part(theirs, one.target)],
        }
        for one in found.alignments
    ]
    confidence = {"sentences": sure(found.confidence.sentences), "words": sure(found.confidence.words)}
    looks = fields_of(found, TextOptions(attention=True))["attention"]
    return {"alignments": alignments, "confidence": confidence, "attention": looks}


def _heat_map(look: dict[str, Any]) -> list[str]:
    """Draw where the model looked: a line for each piece that it wrote, a column for each that it read."""
    source, target = look["sourcePieces"][:_MOST_COLUMNS], look["targetPieces"]
    width = max(map(len, target), default=0)
    # Names of columns stand above them, one below the other, each beginning where its column is.
    lines = [
        "Where the model looked (a line for each piece that it wrote, a column for each that it read;",
        "the darker, the more it looked there):",
    ]
    for place, piece in reversed(list(enumerate(source))):
        lines.append(f"  {'':>{width}}  {' | ' * place} {piece}")
    for piece, weights in zip(target, look["weights"], strict=True):
        cells = "".join(
            f" {_SHADES[min(int(share * len(_SHADES)), len(_SHADES) - 1)]} "
            for share in weights[:_MOST_COLUMNS]
        )
        best = max(range(len(weights)), key=weights.__getitem__)
        lines.append(f"  {piece:>{width}}  {cells}  {weights[best]:.0%} {look['sourcePieces'][best]}")
    return lines


def written(found: dict[str, Any]) -> str:
    """Write an explanation for people."""
    lines = [
        f"{found[_SOURCE]}: {found['text']}",
        f"{found[_TARGET]}: {found['translation']}",
        "",
        f"It took {1000 * found['seconds']:.1f} ms.",
    ]
    for one in found["checks"]:
        lines.append(f"A check found: {one['found']} ({one['outcome']}).")
    sure = found["confidence"]
    if sure["sentences"]:
        lines += ["", "How sure the model is (1 is certain):"]
        lines += [f"  {one['confidence']:.2f}  {one['text'].strip()}" for one in sure["sentences"]]
        lines += ["  " + "  ".join(f"{one['text']} {one['confidence']:.2f}" for one in sure["words"])]
    if found["alignments"]:
        lines += ["", "Which word stands for which, and how sure that is:"]
        width = max(len(one["words"][0]) for one in found["alignments"])
        for one in found["alignments"]:
            bar = "#" * round(10 * one["weight"])
            lines.append(
                f"  {one['words'][0]:>{width}} -> {one['words'][1]:<{width}} {one['weight']:.2f} {bar}"
            )
    for look in found["attention"]:
        lines += ["", *_heat_map(look)]
    for number, run in enumerate(found["model_runs"], start=1):
        lines += ["", f"Run {number} of the model. It read: {' '.join(run['read'])}"]
        lines += ["It wrote, piece by piece (probability, and what it might have written instead):"]
        for step in run["wrote"]:
            others = ", ".join(f"{each['token']} {each['probability']:.2f}" for each in step["instead"][:3])
            lines.append(f"  {step['token']:<16} {step['probability']:.2f}   {others}")
        if run["dropped"]:
            lines.append("Translations that were dropped for it (mean log-probability, 0 is best):")
            lines += [f"  {each['score']:6.2f}  {each['text']}" for each in run["dropped"]]
    return "\n".join(lines) + "\n"
