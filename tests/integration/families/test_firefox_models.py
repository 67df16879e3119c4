"""A model with an SSRU decoder, trained by Marian itself: imported, it writes what Marian wrote."""

import random
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from export.convert.huggingface_files import HuggingFaceError
from export.convert.import_command import import_model
from export.convert.marian_native.from_marian import import_marian, is_marian
from export.convert.marian_native.packed import read_packed
from export.convert.vocabularies.vocabulary import ImportNames
from export.shortlist.lexical_table import Candidates
from export.shortlist.marian import read_marian_shortlist
from model.checkpoint import load_checkpoint
from model.tokenizer import TokenizerError
from server.engine.options import DecodingOptions
from tests.integration.hugging_face import Served, fp32_options

MARIAN = Path(__file__).parent / "firefox"
NPZ, BIN, SHORTLIST = "model.npz", "model.ende.intgemm.alphas.bin", "lex.6.3.ende.s2t.bin"
NAMES = ImportNames(sources=["en"], targets=["de"])
SOURCES = (MARIAN / "source.txt").read_text(encoding="utf-8").splitlines()


def written(file: str, beams: int) -> list[tuple[list[str], float]]:
    """What Marian wrote: pieces and their log-probability."""
    rows = [line.split("\t") for line in (MARIAN / "marian.tsv").read_text(encoding="utf-8").splitlines()]
    return [(text.split(), float(score)) for name, k, text, score in rows if (name, k) == (file, str(beams))]


def model(directory: Path, *files: str) -> Path:
    directory.mkdir()
    for file in (*files, "vocab.spm"):
        shutil.copy(MARIAN / file, directory / file)
    return directory


def read(directory: Path, out: Path) -> None:
    import_marian(directory, out, NAMES, lambda line: None)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("file", [NPZ, BIN])
def test_200_of_200_outputs_are_marians(tmp_path: Path, file: str) -> None:
    options = fp32_options(MARIAN / "source.txt")
    import_model(
        str(model(tmp_path / "m", file)), tmp_path / "bundle", None, NAMES, options, lambda line: None
    )
    served = Served(tmp_path / "bundle")
    try:
        assert served.manifest.architecture.details is not None
        assert served.manifest.architecture.details.decoder_mixer == "ssru"
        assert served.manifest.batch_invariant
        for beams in (1, 4):
            options_of_marian = DecodingOptions(
                beam_size=beams, max_decoding_length=60, length_penalty=1.0, early_stopping=False
            )
            found = served.generate(SOURCES, options_of_marian)
            expected, pieces = [text for text, _ in written(file, beams)], served.tokenizer.target_pieces()
            assert [[pieces[token] for token in row] for row in found] == expected
            assert len({tuple(row) for row in found}) > 150, "targets differ"
    finally:
        served.close()


@pytest.mark.parametrize("file", [NPZ, BIN])
def test_probabilities_are_marians(tmp_path: Path, file: str) -> None:
    read(model(tmp_path / "m", file), tmp_path / "out")
    checkpoint = load_checkpoint(tmp_path / "out")
    special, tokenizer = checkpoint.config.special_tokens, checkpoint.tokenizer
    ids = {piece: number for number, piece in enumerate(tokenizer.target_pieces())}
    for source, (pieces, score) in list(zip(SOURCES, written(file, 1), strict=True))[:60]:
        row = [*tokenizer.encode(source), *special.source_suffix_ids]
        target = [ids[piece] for piece in pieces] + [special.eos_id]
        given = torch.tensor([[special.decoder_start_id, *target[:-1]]])
        with torch.inference_mode():
            logits = checkpoint.model(torch.tensor([row]), torch.tensor([len(row)]), given)
        found = logits.log_softmax(-1)[0, torch.arange(len(target)), target].sum()
        assert float(found) == pytest.approx(score, abs=2e-5)


def test_its_shortlist_is_marians(tmp_path: Path) -> None:
    """Marian fills the candidates of a sentence up to a multiple of eight; so does the test."""
    read(model(tmp_path / "m", NPZ), tmp_path / "out")
    checkpoint = load_checkpoint(tmp_path / "out")
    special, tokenizer = checkpoint.config.special_tokens, checkpoint.tokenizer
    pieces = tokenizer.target_pieces()
    table = read_marian_shortlist(MARIAN / SHORTLIST, len(pieces), len(pieces), [], is_shared=True)
    expected = [line.split("\t")[0].split() for line in (MARIAN / "marian.lex.tsv").read_text().splitlines()]
    for source, wanted in zip(SOURCES, expected, strict=True):
        row = [*tokenizer.encode(source), *special.source_suffix_ids]
        allowed = set(Candidates(table).of(row))
        allowed.update(list(set(range(len(pieces))) - allowed)[: -len(allowed) % 8])
        bans = torch.full((len(pieces),), -torch.inf)
        bans[sorted(allowed)] = 0
        found = [special.decoder_start_id]
        while len(found) <= len(wanted) + 1 and found[-1] != special.eos_id:
            with torch.inference_mode():
                given = torch.tensor([row]), torch.tensor([len(row)]), torch.tensor([found])
                found.append(int((checkpoint.model(*given)[0, -1] + bans).argmax()))
        assert [pieces[token] for token in found[1:-1]] == wanted
    assert expected != [text for text, _ in written(NPZ, 1)], "the shortlist matters"


def test_8_bit_matrices_are_the_rounded_ones() -> None:
    with np.load(MARIAN / NPZ) as theirs:
        exact = {name: theirs[name] for name in theirs}
    found = read_packed(MARIAN / BIN)
    assert found.keys() == exact.keys(), "alphas are left out"
    rounded = 0
    for name, array in exact.items():
        if name != "special:model.yml" and not np.array_equal(found[name], array):
            scale = np.float32(127) / np.abs(array).max()
            assert np.array_equal(found[name], np.rint(array * scale) / scale), name
            rounded += 1
    assert rounded == 6 + 2 * (2 + 4 + 2)


def packed(items: dict[str, tuple[int, tuple[int, ...], bytes]]) -> bytes:
    """Write a binary model of items: type, shape and data."""
    names = {name: name.encode() + b"\0" for name in items}
    head = struct.pack("<2Q", 1, len(items))
    for name, (kind, shape, data) in items.items():
        head += struct.pack("<4Q", len(names[name]), kind, len(shape), len(data))
    head += b"".join(names.values())
    head += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, shape, _ in items.values())
    padding = -(len(head) + 8) % 256
    return head + struct.pack("<Q", padding) + bytes(padding) + b"".join(data for *_, data in items.values())


def scaled(values: NDArray[np.int8], scale: float) -> bytes:
    return values.tobytes() + struct.pack("<f", scale) + bytes(60)


def test_tables_lie_as_their_shape_says_and_matrices_do_not(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.int8)
    items = {"Wemb": (0x10001, (2, 3), scaled(values, 4)), "l_W1": (0x10001, (2, 3), scaled(values, 2))}
    (tmp_path / "x.bin").write_bytes(packed(items))
    found = read_packed(tmp_path / "x.bin")
    assert np.array_equal(found["Wemb"], values.reshape(2, 3) / 4)
    assert np.array_equal(found["l_W1"], values.reshape(3, 2).T / 2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it ends at byte 0"),
        (struct.pack("<2Q", 2, 0), "version 2"),
        (struct.pack("<2Q", 1, 2**60), "1152921504606846976 arrays"),
        (struct.pack("<2Q", 1, 9000), "it ends at byte 16"),
        (struct.pack("<6Q", 1, 1, 2**63, 0x404, 1, 4), "a name of 9223372036854775808 bytes"),
        (struct.pack("<6Q", 1, 1, 2, 0x404, 2**62, 4) + b"a\0", "a shape of 4611686018427387904 axes"),
        (packed({"a": (0x404, (2,), b"1234")}), "a states a shape of 2 numbers, 4 bytes follow"),
        (packed({"a": (0x404, (2**31 - 1,) * 8, b"1234")}), "a states a shape of"),
        (packed({"a": (0x404, (-1,), b"1234")}), r"a shape \[-1\]"),
        (packed({"a": (0x402, (1,), b"12")}), "a has numbers of type 0x402"),
        (packed({"a": (0x10001, (1, 1), b"1" + struct.pack("<f", 0))}), "the scale 0.0"),
        (packed({"a": (0x10001, (1,), b"1" + struct.pack("<f", 1))}), "a shape of 1 axes"),
        (packed({"\x1b[2J": (0x404, (1,), b"1234")}), r"the name \\x1b\[2J"),
        (packed({"a": (0x404, (1,), b"1234")}), "no model of Marian: it has no special:model.yml"),
    ],
)
def test_a_hostile_file_is_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / BIN).write_bytes(content)
    assert is_marian(tmp_path)
    with pytest.raises(HuggingFaceError, match=message) as caught:
        read(tmp_path, tmp_path / "out")
    assert str(caught.value).isprintable()


def test_150_damaged_files_are_refused_or_read(tmp_path: Path) -> None:
    ends = {"refused": 0, "read": 0}
    directory, whole = model(tmp_path / "m", BIN), (MARIAN / BIN).read_bytes()
    for seed in range(150):
        draw, content = random.Random(seed), bytearray(whole)
        if draw.random() < 0.2:
            del content[draw.randrange(len(content)) :]
        for _ in range(draw.choice((1, 3, 20))):
            end = 4000 if draw.random() < 0.6 else len(content)
            content[draw.randrange(min(end, len(content)))] = draw.randrange(256)
        (directory / BIN).write_bytes(content)
        try:
            read(directory, tmp_path / "out")
            ends["read"] += 1
        except (HuggingFaceError, TokenizerError) as error:
            assert str(error).isprintable() and len(str(error)) < 1000, seed
            ends["refused"] += 1
    assert min(ends.values()) > 15, ends
