"""A folder of glossaries is read whole or refused, with the file, the line and a remedy."""

from pathlib import Path

import pytest

from server.errors import GlossaryRefusedError
from server.service.text.glossary import files
from server.service.text.glossary.files import read_file, read_folder


def write(folder: Path, name: str, content: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_folder_is_read(tmp_path: Path) -> None:
    write(
        tmp_path,
        "medicine.en-de.tsv",
        b"\xef\xbb\xbf# terms\r\n\r\nboard\tPlatine\tPlatinen\r\n  ward \tStation\t\r\n",
    )
    write(tmp_path, "medicine.en-pt-BR.tsv", "ward\tala")
    write(tmp_path, "law_2.zh-Hans-en.tsv", "")
    write(tmp_path, ".medicine.en-de.tsv", "no tab")
    write(tmp_path, "README.md", "not one of them")
    found = read_folder(tmp_path)
    assert set(found) == {
        ("medicine", "en", "de"), ("medicine", "en", "pt-br"), ("law_2", "zh-hans", "en"),
    }  # fmt: skip
    entries = found["medicine", "en", "de"].entries
    assert [(one.source, one.target, one.forms) for one in entries] == [
        ("board", "Platine", ("Platinen",)),
        ("ward", "Station", ()),
    ]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("board\tPlatine\nward", "line 2: has no tab; write the term, a tab and its translation"),
        ("board\t", "line 1: the target has no letter or digit; write the term"),
        (b"# \xc3\xa9\nb\xe9b\xe9\tbaby", "line 2: is not UTF-8; save the file as UTF-8"),
        ("a\tb\n\nA\tb\na\tc", "line 4: has the source of line 1 again; write one line"),
    ],
)
def test_what_is_wrong_is_said_with_line_and_remedy(
    tmp_path: Path, content: bytes | str, complaint: str
) -> None:
    path = write(tmp_path, "x.en-de.tsv", content)
    with pytest.raises(GlossaryRefusedError) as refused:
        read_folder(tmp_path)
    assert str(refused.value).startswith(f"{path} line ")
    assert complaint in str(refused.value)


@pytest.mark.parametrize("name", ["medicine.tsv", "medicine.en.tsv", "my terms.en-de.tsv", "x.en_de.tsv"])
def test_a_file_without_name_or_pair_is_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, name, "a\tb")
    with pytest.raises(GlossaryRefusedError, match=r"call it NAME\.SOURCE-TARGET\.tsv"):
        read_folder(tmp_path)


def test_two_files_of_one_name_and_pair_are_refused(tmp_path: Path) -> None:
    first, second = (write(tmp_path, f"a.en-{code}.tsv", "a\tb") for code in ("pt-BR", "pt_BR"))
    with pytest.raises(GlossaryRefusedError) as refused:
        read_folder(tmp_path)
    assert str(refused.value) == (
        f"{second}: has the name and languages of {first.name}; put their terms into one file"
    )


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(GlossaryRefusedError, match="give a folder of glossaries"):
        read_folder(tmp_path / "none")
    with pytest.raises(GlossaryRefusedError, match="cannot be read"):
        read_file(tmp_path)


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "x.en-de.tsv", "".join(f"a{n}\tb\n" for n in range(9)))
    monkeypatch.setattr(files, "MAX_ENTRIES", 8)
    with pytest.raises(GlossaryRefusedError, match="more than 8 entries"):
        read_file(path)
    monkeypatch.setattr(files, "MAX_ENTRIES", 4)
    with pytest.raises(GlossaryRefusedError, match="more than 8 lines"):
        read_file(path)
    monkeypatch.setattr(files, "MAX_FILE_BYTES", 20)
    with pytest.raises(GlossaryRefusedError, match="larger than"):
        read_file(path)
