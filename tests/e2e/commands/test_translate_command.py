"""`dragoman translate` as a process: files, pipes, and every way in which they end."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.factories import parallel_text, renamed
from tests.support.server_process import command


def translate(bundle: Path, source: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command("translate", bundle, "--workers", "1", *options),
        input=source,
        capture_output=True,
        timeout=120,
    )


def test_a_file_comes_out_line_by_line(tiny_bundle: Path, tmp_path: Path) -> None:
    sentences, _ = parallel_text(300, seed=3)
    lines = [*sentences[:150], "", "  ", f"  {sentences[150]}  {sentences[151]}", *sentences[152:]]
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("\n".join(lines), encoding="utf-8")
    with source.open("rb") as reading, target.open("wb") as writing:
        ended = subprocess.run(
            command("translate", tiny_bundle, "--progress"),
            stdin=reading,
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=120,
        )
    assert ended.returncode == 0
    assert b"100%" in ended.stderr
    translated = target.read_text(encoding="utf-8").split("\n")
    assert len(translated) == len(lines)
    assert translated[150:152] == ["", "  "]
    assert translated[152].startswith("  ")
    again = translate(tiny_bundle, (lines[0] + "\n" + lines[-1] + "\n").encode())
    assert again.stdout.decode().split("\n")[:2] == [translated[0], translated[-1]]
    assert again.stderr == b""  # no progress bar where nobody looks


def test_options_reach_the_engine(tiny_bundle: Path) -> None:
    assert translate(tiny_bundle, b"the cat sees a bird.\n", "--beam-size", "4").returncode == 0
    refused = translate(tiny_bundle, b"the cat\n", "--beam-size", "3")
    assert refused.returncode == 2
    assert refused.stderr == b"dragoman translate: beam_size must be one of 1, 2, 4\n"


def test_a_seed_gives_the_same_lines_however_they_arrive(tiny_bundle: Path) -> None:
    sentences, _ = parallel_text(40, seed=9)
    options = ("--sampling-topk", "0", "--sampling-temperature", "1.5", "--seed")
    text = "\n".join(sentences).encode()
    first = translate(tiny_bundle, text, *options, "1").stdout.split(b"\n")
    backwards = "\n".join(sentences[::-1]).encode()
    assert translate(tiny_bundle, backwards, *options, "1").stdout.split(b"\n") == first[::-1]
    assert translate(tiny_bundle, text, *options, "2").stdout.split(b"\n") != first
    searched = translate(tiny_bundle, text, "--beam-size", "4", "--early-stopping", "never")
    assert searched.returncode == 0


@pytest.mark.parametrize("options", [["--split"], ["--no-split"]])
def test_lines_may_stay_whole(tiny_bundle: Path, options: list[str]) -> None:
    ended = translate(tiny_bundle, b"the cat sees a bird. the bird sees a cat.\r\n", *options)
    assert ended.returncode == 0
    assert ended.stdout.endswith(b"\r\n")


def test_of_a_directory_of_bundles_the_one_with_the_direction_is_taken(
    tiny_bundle: Path, tmp_path: Path
) -> None:
    renamed(tiny_bundle, tmp_path / "a", "first", "fr-en")
    renamed(tiny_bundle, tmp_path / "b", "second", "en-de", "en-fr")
    said = translate(tiny_bundle, b"the cat sees a bird.\n").stdout
    for options in (("--source", "en"), ("--target", "de"), ("--target", "en"), ()):
        # The text is English whatever the bundle calls it, so that only an unguarded run translates it.
        ended = translate(tmp_path, b"the cat sees a bird.\n", "--guard", "off", *options)
        assert ended.stdout == said
    refused = translate(tmp_path, b"the cat\n", "--source", "de")
    assert (refused.returncode, refused.stderr) == (
        2,
        b"dragoman translate: no bundle translates from de to any language; there are fr-en, en-de, en-fr\n",
    )
    (tmp_path / "a" / "manifest.json").write_text("{")
    broken = translate(tmp_path, b"the cat\n", "--target", "de")
    assert broken.returncode == 3
    assert broken.stderr.startswith(
        f"dragoman translate: cannot load bundle {tmp_path / 'a'}: manifest.json".encode()
    )


def test_n_best_lists_feed_distillation(tiny_bundle: Path, tmp_path: Path) -> None:
    sentences, references = parallel_text(20, seed=11)
    lines = "\n".join([*sentences[:9], "", *sentences[9:]]).encode() + b"\n"
    best = translate(tiny_bundle, lines, "--beam-size", "4").stdout.decode().splitlines()
    listed = translate(tiny_bundle, lines, "--beam-size", "4", "--n-best", "4")
    assert listed.returncode == 0, listed.stderr
    rows = [row.split(" ||| ") for row in listed.stdout.decode().splitlines()]
    assert [int(number) for number, _, _ in rows] == [number for number in range(21) for _ in range(4)]
    assert [text for _, text, _ in rows[::4]] == best
    for i in range(0, len(rows), 4):
        scores = [float(score) for _, _, score in rows[i : i + 4]]
        assert scores == sorted(scores, reverse=True)
    (tmp_path / "n-best").write_bytes(listed.stdout)
    (tmp_path / "de").write_text("\n".join([*references[:9], "-", *references[9:]]) + "\n", encoding="utf-8")
    asked = command("distill", tmp_path / "n-best", "--reference", tmp_path / "de")
    chosen = subprocess.run(asked, capture_output=True, text=True, timeout=120)
    assert chosen.returncode == 0, chosen.stderr
    found = chosen.stdout.split("\n")[:-1]
    assert len(found) == 21
    assert found[9] == ""
    assert all(text in {row[1] for row in rows[4 * i : 4 * i + 4]} for i, text in enumerate(found))
    (tmp_path / "de").write_text("one line\n")
    refused = subprocess.run(asked, capture_output=True, timeout=120)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1].endswith(b"ends before line 2 of the other file")


def test_bytes_that_are_no_text_name_their_line(tiny_bundle: Path) -> None:
    ended = translate(tiny_bundle, b"the cat.\n\xff\xfe\n", "--errors", "fail")
    assert (ended.returncode, ended.stderr) == (1, b"dragoman translate: line 2: not valid UTF-8 at byte 1\n")
    assert ended.stdout == translate(tiny_bundle, b"the cat.\n").stdout


def test_a_line_that_is_no_text_loses_only_itself(tiny_bundle: Path) -> None:
    good = translate(tiny_bundle, b"the cat.\nthe bird.\n")
    ended = translate(tiny_bundle, b"the cat.\ncaf\xe9\r\nthe bird.\n")
    assert ended.returncode == 0
    cat, bird = good.stdout.splitlines(keepends=True)
    assert ended.stdout == cat + "caf\ufffd\r\n".encode() + bird
    assert ended.stderr == (
        b"dragoman translate: line 2: not valid UTF-8 at byte 4; it is written as it is, untranslated\n"
    )


def test_a_pair_without_a_bundle_goes_through_english(tiny_bundle: Path, tmp_path: Path) -> None:
    sentences, _ = parallel_text(80, seed=5)
    text = "\n".join([*sentences[:40], "", *sentences[40:]]).encode()
    first = renamed(tiny_bundle, tmp_path / "a", "first", "fr-en")
    second = renamed(tiny_bundle, tmp_path / "b", "second", "en-de")
    pair = ("--source", "fr", "--target", "de", "--guard", "off")
    middle = translate(first, text, "--guard", "off").stdout
    wanted = translate(second, middle, "--guard", "off").stdout
    assert translate(tmp_path, text, *pair).stdout == wanted
    given = subprocess.run(
        command("translate", second, first, "--workers", "1", *pair),
        input=text,
        capture_output=True,
        timeout=120,
    )
    assert (given.returncode, given.stdout) == (0, wanted)
    refused = translate(tmp_path, text, *pair, "--pivot-language", "none")
    assert refused.returncode == 2
    assert refused.stderr.startswith(b"dragoman translate: no bundle translates from fr to de; there are ")


def test_what_is_to_be_protected_is_checked(tiny_bundle: Path) -> None:
    refused = translate(tiny_bundle, b"the cat\n", "--protect", "cat", "--protect", "/(/")
    assert refused.returncode == 2
    assert refused.stderr == b"dragoman translate: protect: entry 2 is not a pattern in RE2's syntax\n"


def test_a_line_longer_than_the_model_reads_is_translated_in_parts(tiny_bundle: Path) -> None:
    ended = translate(tiny_bundle, b"the cat.\n" + b"the cat sees a bird and " * 100 + b"\nthe cat.\n")
    assert ended.returncode == 0
    first, long, last = ended.stdout.decode().splitlines()
    assert first == last
    assert len(long.split()) > 100


def test_a_line_of_more_sentences_than_may_wait_is_translated(
    tiny_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences, _ = parallel_text(60, seed=13)
    alone = translate(tiny_bundle, "\n".join(sentences).encode()).stdout.decode().splitlines()
    for setting, value in (("REQUEST_TOKENS", 100), ("QUEUE_TOKENS", 200), ("QUEUE_SENTENCES", 11)):
        monkeypatch.setenv(f"DRAGOMAN_MAX_{setting}", str(value))
    ended = translate(tiny_bundle, f"{sentences[0]}\n{' '.join(sentences)}\n{sentences[1]}\n".encode())
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert ended.stdout.decode().splitlines() == [alone[0], " ".join(alone), alone[1]]


def test_a_language_comes_out_of_itself_byte_for_byte(tiny_bundle: Path, tmp_path: Path) -> None:
    renamed(tiny_bundle, tmp_path / "a", "first", "en-de")
    renamed(tiny_bundle, tmp_path / "b", "second", "de-en")
    text = "Der Bus fährt heute nicht.\r\n\n  the cat\nund".encode()
    for options in (("--target", "de"), ("--target", "de-AT", "--guard", "off")):
        ended = translate(tmp_path, text, "--source", "de", *options)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, text, b"")


def test_a_reader_that_has_had_enough_is_no_error(tiny_bundle: Path) -> None:
    process = subprocess.Popen(
        command("translate", tiny_bundle),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin and process.stdout and process.stderr
    process.stdin.write(b"the cat sees a bird.\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"die Katze sieht eine Amsel.\n"  # while the input is still open
    process.stdout.close()
    process.stdin.write(b"the cat sees a bird.\n" * 100)
    process.stdin.flush()
    assert process.wait(30) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_ctrl_c_ends_it_without_a_traceback(tiny_bundle: Path) -> None:
    reader, writer = os.pipe()
    process = subprocess.Popen(
        command("translate", tiny_bundle), stdin=reader, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout and process.stderr
    os.write(writer, b"the cat sees a bird.\n")
    assert process.stdout.readline()
    started_s = time.monotonic()
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130
    assert time.monotonic() - started_s < 10
    assert process.stderr.read() == b""
    for descriptor in (reader, writer):
        os.close(descriptor)
    process.stdout.close()
    process.stderr.close()


def test_a_bad_bundle_is_refused_with_code_3(tmp_path: Path) -> None:
    ended = translate(tmp_path / "nothing", b"x\n")
    assert ended.returncode == 3
    assert ended.stderr.count(b"\n") == 1


def test_alignments_make_each_line_one_of_json(repository: Path) -> None:
    """With a bundle that has tables; the tiny one has none, and is refused."""
    ended = translate(
        repository / "bundles" / "en-de", b"The red car.\n\nDas ist ein Haus.\n", "--alignments"
    )
    first, empty, copied = map(json.loads, ended.stdout.splitlines())
    assert first["translatedText"] == "Das rote Auto."
    assert {"source": [8, 11], "target": [9, 13]}.items() <= first["alignments"][2].items()
    assert empty == {"translatedText": "", "alignments": []}
    assert copied["alignments"] == []


def test_alignments_need_tables(tiny_bundle: Path) -> None:
    ended = translate(tiny_bundle, b"a\n", "--alignments")
    assert ended.returncode == 2
    assert b"`dragoman measure` adds them" in ended.stderr
