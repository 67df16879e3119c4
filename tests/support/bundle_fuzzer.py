"""Damages a bundle by chance and loads it as the server does, again and again; a process that may crash.

    python -m tests.support.bundle_fuzzer BUNDLE FIRST_SEED COUNT

For each seed it writes a line before (the seed and what was done) and a line after (what came of it).
BUNDLE is left as it was found, unless the process dies.
"""

import contextlib
import copy
import json
import random
import resource
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from export.bundle import BundleError, hash_file
from server.engine.options import DecodingOptions
from server.errors import SettingError
from server.metrics.registry import Metrics
from server.service.models.loading import load_model
from server.settings import Settings

MEMORY_BYTES = 6 << 30
SENTENCES = (
    "every tired bird finds the lamp.",
    "the red flower knows a city and the cat loves a bird today.",
)
NUMBERS = (0, -1, 1, 2, 3, 7, 255, 2**31 - 1, 2**31, 2**63, 10**30, 1e308, 0.5, -0.0)
VALUES = (None, True, False, "", "x", "../x", "/etc/hostname", "\u202e\n", "a" * 5000, [], {}, [[]], *NUMBERS)
Damage = Callable[[random.Random], str]


class Fuzzer:
    """One bundle, damaged and mended. Owned by one thread."""

    def __init__(self, bundle: Path) -> None:
        self.bundle = bundle
        self.whole = {path.name: path.read_bytes() for path in sorted(bundle.iterdir())}
        self.manifest: dict[str, Any] = json.loads(self.whole["manifest.json"])
        self.expected = self.translate()

    def translate(self) -> list[tuple[int, ...]]:
        """Load the bundle as it is now, golden sentences included, and translate others."""
        settings = Settings(
            bundle=self.bundle, workers=1, max_rows=4, max_beam_size=1, max_kv_cache_mib=64, device="cpu"
        )
        model = load_model(settings, Metrics(CollectorRegistry()))
        try:
            suffix = model.manifest.special_tokens.source_suffix_ids
            prefix = model.manifest.framing(*next(model.manifest.pairs)).source_prefix
            longest = min(60, model.manifest.limits.max_target_tokens)
            found = []
            for number, sentence in enumerate(SENTENCES):
                source = (*prefix, *model.tokenizer.encode(sentence), *suffix)
                options = DecodingOptions(max_decoding_length=longest)
                (future,) = model.engine.submit(str(number), [source], options)
                found.append(future.result(60).hypotheses[0].tokens)
            return found
        finally:
            model.engine.close(2.0)

    def run(self, seed: int) -> None:
        """Damage the bundle, load it, say what came of it, mend it."""
        draw = random.Random(seed)
        kinds = (
            self.bytes,
            self.cut,
            self.manifest_bytes,
            self.field,
            self.fields,
            self.swap,
            self.link,
            self.signed,
        )
        try:
            done = draw.choices(kinds, weights=(3, 2, 2, 8, 2, 2, 2, 2))[0](draw)
            say(f"{seed} {done}")
            try:
                found = self.translate()
            except (BundleError, SettingError) as error:
                line = str(error)
                said = "refused" if line.isprintable() and len(line) < 700 else f"refused with {line!r}"
            except Exception as error:  # noqa: BLE001 - that is what is looked for
                said = f"raised {type(error).__name__}: {error}".replace("\n", " ")
            else:
                said = "same" if found == self.expected else "other"
            say(said)
        finally:
            self.mend()

    def mend(self) -> None:
        for path in self.bundle.iterdir():
            if (
                path.is_symlink()
                or path.name not in self.whole
                or not path.is_file()
                or path.stat().st_nlink > 1
            ):
                path.unlink()
        for name, content in self.whole.items():
            path = self.bundle / name
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)

    def a_file(self, draw: random.Random) -> Path:
        return self.bundle / draw.choice([name for name in self.whole if name != "manifest.json"])

    def bytes(self, draw: random.Random) -> str:
        path = self.a_file(draw)
        path.write_bytes(flipped(path.read_bytes(), draw))
        return f"bytes of {path.name}"

    def cut(self, draw: random.Random) -> str:
        path = self.a_file(draw)
        content = path.read_bytes()
        path.write_bytes(shortened(content, draw))
        return f"length of {path.name}"

    def manifest_bytes(self, draw: random.Random) -> str:
        change = draw.choice((flipped, shortened))
        (self.bundle / "manifest.json").write_bytes(change(self.whole["manifest.json"], draw))
        return f"{change.__name__} manifest"

    def field(self, draw: random.Random) -> str:
        return self.change_fields(draw, 1)

    def fields(self, draw: random.Random) -> str:
        return self.change_fields(draw, draw.randint(2, 5))

    def change_fields(self, draw: random.Random, count: int) -> str:
        manifest, changed = with_other_fields(self.manifest, draw, count)
        (self.bundle / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        return changed

    def swap(self, draw: random.Random) -> str:
        one, other = self.a_file(draw), self.a_file(draw)
        one_bytes, other_bytes = one.read_bytes(), other.read_bytes()
        one.write_bytes(other_bytes)
        other.write_bytes(one_bytes)
        if draw.random() < 0.7:
            self.sign(one, other)
        return f"swap {one.name} {other.name}"

    def link(self, draw: random.Random) -> str:
        path = self.a_file(draw)
        kind = draw.choice(("symlink", "hardlink", "directory", "missing", "more", "outside"))
        if kind == "more":
            (self.bundle / "more.bin").write_bytes(b"x")
            return "more.bin"
        path.unlink()
        if kind in ("symlink", "hardlink"):
            aside = self.bundle.with_name("aside")
            aside.write_bytes(self.whole[path.name])
            path.symlink_to(aside) if kind == "symlink" else path.hardlink_to(aside)
        elif kind == "outside":
            path.symlink_to("/etc/hostname")
        elif kind == "directory":
            path.symlink_to(self.bundle, target_is_directory=True)
        return f"{kind} {path.name}"

    def signed(self, draw: random.Random) -> str:
        """A forger states the hash of what he wrote: the parsers have to bear it."""
        path = self.a_file(draw)
        change = draw.choice((flipped, shortened))
        path.write_bytes(change(path.read_bytes(), draw))
        self.sign(path)
        return f"signed {change.__name__} {path.name}"

    def sign(self, *paths: Path) -> None:
        manifest = copy.deepcopy(self.manifest)
        for path in paths:
            manifest["files"][path.name] = {"sha256": hash_file(path), "size_bytes": path.stat().st_size}
        (self.bundle / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def with_other_fields(values: Any, draw: random.Random, count: int) -> tuple[Any, str]:
    """Copy JSON with so many values removed or replaced; says which, too."""
    values, changed = copy.deepcopy(values), []
    for _ in range(count):
        at = draw.choice(list(places(values)))
        parent: Any = values
        for step in at[:-1]:
            parent = parent[step]
        old = parent[at[-1]]
        what = draw.random()
        if what < 0.1 and isinstance(parent, dict):
            del parent[at[-1]]
            changed.append(f"without {at}")
            continue
        new: Any = copy.deepcopy(draw.choice(VALUES))
        if what < 0.5 and type(old) is int:
            new = max(0, old + draw.choice((-1, 1, 2, 16)))
        elif what < 0.5 and isinstance(old, list):
            new = [*old, draw.randrange(360)]
        parent[at[-1]] = new
        changed.append(f"{at}: {str(old)[:20]} -> {str(new)[:20]}")
    return values, ascii("; ".join(changed))


def flipped(content: bytes, draw: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice((1, 1, 1, 8, 64))):
        at = draw.randrange(len(changed))
        changed[at] = draw.choice((changed[at] ^ (1 << draw.randrange(8)), draw.randrange(256)))
    return bytes(changed)


def shortened(content: bytes, draw: random.Random) -> bytes:
    at = draw.choice((draw.randrange(len(content)), len(content) - 1, 0))
    return draw.choice((content[:at], content[at:], content + content[:at][:100] + b"x"))


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path to a value inside a value."""
    if at:
        yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in inner:
        yield from places(child, (*at, key))


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    fuzzer = Fuzzer(Path(sys.argv[1]))
    first, count = int(sys.argv[2]), int(sys.argv[3])
    with contextlib.suppress(KeyboardInterrupt):
        for seed in range(first, first + count):
            fuzzer.run(seed)
