"""A real server with glossaries: named and inline, answers, errors, reload; and `dragoman translate`."""

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.server_process import RunningServer, command, free_port, serving, wait_for

DOG = "The dog is sleeping in the garden."
PETS = "# pets\ndog\tKläffer\tKläffern\ncat\tMieze\n"


@dataclass(frozen=True)
class Stage:
    """A server of en-de, de-en and en-fr with a folder of glossaries."""

    server: RunningServer
    admin_port: int
    folder: Path

    def translate(self, q: str | list[str], **fields: Any) -> httpx.Response:
        body = {"q": q, "source": "en", "target": "de", **fields}
        return httpx.post(f"{self.server.url}/translate", json=body, timeout=60)

    def reload(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command("reload", "--admin-port", self.admin_port), capture_output=True, text=True, timeout=120
        )


@pytest.fixture(scope="module")
def stage(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder, admin_port = tmp_path_factory.mktemp("glossaries"), free_port()
    (folder / "pets.en-de.tsv").write_text(PETS, encoding="utf-8")
    bundles = [repository / "bundles" / pair for pair in ("en-de", "de-en", "en-fr")]
    log = tmp_path_factory.mktemp("server") / "log"
    with serving(bundles, log, glossaries=folder, admin_port=admin_port) as server:
        yield Stage(server, admin_port, folder)


def test_a_named_glossary(stage: Stage) -> None:
    plain = stage.translate(DOG).json()
    assert plain == {"translatedText": "Der Hund schläft im Garten."}
    answer = stage.translate(DOG, glossary="pets").json()
    assert answer == {
        "translatedText": "Der Kläffer schläft im Garten.",
        "glossary": [{"term": "dog", "target": "Kläffer", "satisfied": True}],
    }


@pytest.mark.parametrize(
    "glossary", [{"dog": "Kläffer"}, [{"source": "dog", "target": "Kläffer", "forms": ["Kläffern"]}]]
)
def test_entries_of_the_request(stage: Stage, glossary: Any) -> None:
    answer = stage.translate([DOG, "Good morning."], glossary=glossary).json()
    assert answer["translatedText"] == ["Der Kläffer schläft im Garten.", "Guten Morgen."]
    assert [len(terms) for terms in answer["glossary"]] == [1, 0]


def test_a_form_may_name_a_glossary(stage: Stage) -> None:
    form = {"q": DOG, "source": "en", "target": "de", "glossary": "pets"}
    answer = httpx.post(f"{stage.server.url}/translate", data=form, timeout=60).json()
    assert answer["translatedText"] == "Der Kläffer schläft im Garten."


def test_the_cache_keeps_terms_apart(stage: Stage) -> None:
    for _ in range(2):
        found = [
            stage.translate("I see the dog.", **fields).json()["translatedText"]
            for fields in ({}, {"glossary": {"dog": "Kläffer"}}, {"glossary": {"dog": "beller"}}, {})
        ]
        assert found[0] == found[3]
        assert "Kläffer" in found[1]
        assert "beller" in found[2]


def test_sentences_without_a_term_and_neighbors_are_as_ever(stage: Stage) -> None:
    texts = ["I like tea.", DOG, "Where is the train station?", "He reads a book about a dog."]
    plain = stage.translate(texts).json()["translatedText"]
    together = stage.translate(texts, glossary="pets").json()["translatedText"]
    alone = [stage.translate(text, glossary="pets").json()["translatedText"] for text in texts]
    assert together == alone
    assert (together[0], together[2]) == (plain[0], plain[2])


def test_tags_stay_on_their_words(stage: Stage) -> None:
    html = 'The <b>dog</b> is sleeping in the <a href="/x">garden</a>.'
    answer = stage.translate(html, format="html", glossary={"dog": "Kläffer", "garden": "Park"}).json()
    assert answer["translatedText"] == 'Der <b>Kläffer</b> schläft im <a href="/x">Park</a>.'


def test_a_word_of_another_kind_is_forced(stage: Stage) -> None:
    answer = stage.translate("He takes part in the meeting.", glossary={"takes part": "partizipiert"}).json()
    assert "partizipiert" in answer["translatedText"]
    assert answer["glossary"][0]["satisfied"]


def test_every_alternative_has_the_term(stage: Stage) -> None:
    answer = stage.translate(DOG, glossary="pets", alternatives=3).json()
    assert all("Kläffer" in text for text in (answer["translatedText"], *answer["alternatives"]))


def test_a_source_that_was_found_out_takes_what_there_is(stage: Stage) -> None:
    texts = [DOG, "Der Hund schläft im Garten."]
    answer = stage.translate(texts, source="auto", glossary="pets").json()
    assert answer["translatedText"] == ["Der Kläffer schläft im Garten.", texts[1]]


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"glossary": "birds"}, "glossary: there is none of this name"),
        ({"glossary": "../pets"}, "glossary: there is none of this name"),
        ({"glossary": "pets", "target": "fr"}, "glossary: this one is not for en to fr"),
        ({"glossary": "pets", "source": "de", "target": "fr"}, "glossary: de to fr is translated through en"),
        ({"glossary": {"dog": ""}}, "glossary: entry 1: the target has no letter or digit"),
        ({"glossary": {f"a{n}": "b" for n in range(101)}}, "glossary has 101 entries; the most is 100"),
        (
            {"glossary": [{"source": "a", "target": "b"}] * 2},
            "glossary: entries 1 and 2 have the same source",
        ),
        ({"glossary": 3}, "glossary: "),
        ({"glossary": [{"source": "a"}]}, "glossary: "),
        ({"glossary": {"a": 3}}, "glossary: "),
    ],
)
def test_what_is_wrong_is_a_clear_400(stage: Stage, fields: dict[str, Any], complaint: str) -> None:
    response = stage.translate(**({"q": DOG} | fields))
    assert (response.status_code, response.json()["code"]) == (400, "invalid_option")
    assert response.json()["error"].startswith(complaint)


def test_a_reload_reads_the_folder_again(stage: Stage) -> None:
    pets, birds = stage.folder / "pets.en-de.tsv", stage.folder / "birds.en-de.tsv"
    try:
        birds.write_text("eagle\tAar\n", encoding="utf-8")
        assert stage.reload().returncode == 0
        answer = stage.translate("The eagle is flying.", glossary="birds").json()
        assert "Aar" in answer["translatedText"]
        pets.write_text("dog", encoding="utf-8")
        refused = stage.reload()
        assert refused.returncode == 3
        assert "pets.en-de.tsv line 1: has no tab" in refused.stderr
        assert "Kläffer" in stage.translate(DOG, glossary="pets").json()["translatedText"]
        pets.write_text("dog\tBeller\n", encoding="utf-8")
        os.kill(stage.server.process.pid, signal.SIGHUP)
        wait_for(lambda: "Beller" in stage.translate(DOG, glossary="pets").text)
    finally:
        birds.unlink()
        pets.write_text(PETS, encoding="utf-8")
        wait_for(lambda: stage.reload().returncode == 0)


def test_a_bad_folder_does_not_serve(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "x.en-de.tsv").write_text("a\tb\nc\n", encoding="utf-8")
    arguments = ("serve", repository / "bundles" / "en-de", "--glossaries", tmp_path, "--port", 0)
    done = subprocess.run(command(*arguments), capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "x.en-de.tsv line 2: has no tab; write the term, a tab and its translation" in done.stderr


def test_a_file_of_lines_takes_a_glossary(repository: Path, tmp_path: Path) -> None:
    terms = tmp_path / "terms"
    terms.write_text(PETS, encoding="utf-8")

    def translate(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command("translate", *arguments), input=f"{DOG}\n", capture_output=True, text=True, timeout=60
        )

    done = translate(repository / "bundles" / "en-de", "--glossary", terms)
    assert done.stdout == "Der Kläffer schläft im Garten.\n"
    terms.write_text("dog", encoding="utf-8")
    assert "line 1: has no tab" in translate(repository / "bundles" / "en-de", "--glossary", terms).stderr
    terms.write_text(PETS, encoding="utf-8")
    through = ("--source", "de", "--target", "fr", "--glossary", terms)
    assert "a glossary needs a model of the pair itself" in translate(repository / "bundles", *through).stderr
