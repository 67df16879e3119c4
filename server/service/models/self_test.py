"""What a model shows before it serves: the golden sentences of its bundle, and a warm-up on a device."""

from export.bundle import MANIFEST_NAME, BundleError, Golden, Manifest
from model.features.encoded import from_base64
from model.features.files import FeaturesError
from model.tokenizer import Tokenizer
from server.engine.options import DecodingOptions
from server.engine.source import Source, source_of
from server.engine.worker.loop import Worker
from server.errors import DragomanError
from server.runtime.device.device import bucket_size

_WARM_UP_STEPS = 4
"""Of a batch of one size: the third is recorded; see `server.runtime.device.sessions`."""


def check_golden_text(manifest: Manifest, tokenizer: Tokenizer) -> None:
    """Tokenize the bundle's golden sentences and write their translations: the half that needs no engine.

    Raises:
        BundleError: ids or text are not what the manifest says.
    """
    around = {manifest.framing(source, target)[:2] for source, target in manifest.pairs}
    for number, golden in enumerate(manifest.golden, start=1):
        ids = tokenizer.encode(golden.source)
        if not golden.source_features and golden.source_ids not in {
            (*prefix, *ids, *suffix) for prefix, suffix in around
        }:
            raise _differs(number, "tokenised")
        if tokenizer.decode(golden.target_ids) != golden.target:
            raise _differs(number, "written")


def translate_golden(manifest: Manifest, worker: Worker) -> None:
    """Translate the bundle's golden sentences with a worker that does not run yet, ids to ids.

    It catches what no checksum and no shape does. The first is translated alone, the others of each target
    language together: a large model reads its weights once for all.

    Raises:
        BundleError: a sentence comes out differently, or not at all.
    """
    longest = manifest.limits.max_target_tokens
    batches: dict[tuple[bool, tuple[int, ...]], list[int]] = {}
    for number, golden in enumerate(manifest.golden):
        batches.setdefault((number == 0, golden.target_prefix_ids), []).append(number)
    for (_, prefix), numbers in batches.items():
        options = DecodingOptions(max_decoding_length=longest, target_prefix=prefix)
        sources = [golden_source(manifest, manifest.golden[number]) for number in numbers]
        try:
            results = worker.decode(sources, options)
        except DragomanError as error:
            raise BundleError(manifest.graphs.encoder, f"golden sentences fail: {error}") from error
        for number, result in zip(numbers, results, strict=True):
            if result.hypotheses[0].tokens != manifest.golden[number].target_ids:
                raise _differs(number + 1, "translated")


def golden_source(manifest: Manifest, golden: Golden) -> Source:
    """Give what the encoder reads of a golden sentence.

    Raises:
        BundleError: it is of another kind or size than the model reads.
    """
    size, longest = manifest.architecture.source_features, manifest.limits.max_source_tokens
    if not size:
        return golden.source_ids
    try:
        return source_of(from_base64(golden.source_features, size, longest))
    except FeaturesError as error:
        raise BundleError(MANIFEST_NAME, f"the features of a golden sentence: {error}") from None


def warm_up(manifest: Manifest, worker: Worker) -> None:
    """Let a device meet every batch bucket of short sentences, so that no request waits for its kernels.

    The worker does not run yet; beams are as wide as for requests that do not choose.
    """
    if not manifest.golden:
        return
    source = golden_source(manifest, max(manifest.golden, key=lambda golden: len(golden.target_ids)))
    for width in {1, manifest.generation.beam_size or 1}:
        options = DecodingOptions(beam_size=width, max_decoding_length=_WARM_UP_STEPS)
        most = worker.limits.max_rows // width
        for size in sorted({min(bucket_size(count), most) for count in range(1, most + 1)}):
            worker.decode([source] * size, options)


def _differs(number: int, what: str) -> BundleError:
    return BundleError(
        MANIFEST_NAME, f"golden sentence {number} is not {what} as the bundle says; export it again"
    )
