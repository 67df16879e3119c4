"""Firefox's models as its server of Remote Settings has them, on loopback."""

import hashlib
import json
from pathlib import Path

import zstandard

from tests.export.fetch.mirror import Mirror

FIREFOX = Path(__file__).resolve().parents[2] / "integration" / "families" / "firefox"
FIREFOX_FILES = {
    "model": "model.ende.intgemm.alphas.bin",
    "vocab": "vocab.spm",
    "lex": "lex.6.3.ende.s2t.bin",
}
RECORDS = "/buckets/main/collections/translations-models-v2/records"


def record(
    kind: str, name: str, content: bytes, version: str = "3.0", **changes: object
) -> dict[str, object]:
    """A record as Firefox's server has them, of a file that it sends compressed."""
    sent = zstandard.compress(content)
    return {
        "name": name,
        "schema": 1749570042331,
        "version": version,
        "fileType": kind,
        "architecture": "tiny",
        "sourceLanguage": "en",
        "targetLanguage": "de",
        "decompressedHash": hashlib.sha256(content).hexdigest(),
        "decompressedSize": len(content),
        "filter_expression": "",
        "attachment": {
            "hash": hashlib.sha256(sent).hexdigest(),
            "size": len(sent),
            "filename": f"{name}.zst",
            "location": f"main/translations-models-v2/{version}-{name}.zst",
            "mimetype": "application/zstd",
        },
        "id": "9d3fa8f8-50fc-4465-8191-a2a63fc4c40b",
        "last_modified": 1749570511392,
    } | changes


def serve_firefox(mirror: Mirror, *records: dict[str, object]) -> None:
    """Let a server have records, and the files of the model that all of them are of."""
    root = {
        "project_name": "Remote Settings",
        "capabilities": {"attachments": {"base_url": f"{mirror.url}/cdn/"}},
    }
    mirror.files |= {"/": json.dumps(root).encode(), RECORDS: json.dumps({"data": records}).encode()}
    for name in FIREFOX_FILES.values():
        sent = zstandard.compress((FIREFOX / name).read_bytes())
        mirror.files[f"/cdn/main/translations-models-v2/3.0-{name}.zst"] = sent


def firefox_records() -> list[dict[str, object]]:
    """What a server has: an older model, one of nightly versions, another pair, and a whole one."""
    whole = {kind: (FIREFOX / name).read_bytes() for kind, name in FIREFOX_FILES.items()}
    return [
        *(record(kind, FIREFOX_FILES[kind], content) for kind, content in whole.items()),
        *(record(kind, FIREFOX_FILES[kind], b"older", "2.10") for kind in whole),
        *(
            record(kind, FIREFOX_FILES[kind], b"n", "4.0", filter_expression="env.channel == 'nightly'")
            for kind in whole
        ),
        *(record(kind, FIREFOX_FILES[kind], b"a", "4.0a1") for kind in whole),
        *(record(kind, f"{kind}.enfr", content, targetLanguage="fr") for kind, content in whole.items()),
        record("model", "model.enzh.bin", b"x", "5.0", targetLanguage="zh-Hans"),
        record("lex", "lex.enzh.bin", b"x", "5.0", targetLanguage="zh-Hans"),
    ]
