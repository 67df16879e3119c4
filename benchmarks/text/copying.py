"""How often do names, numbers and unknown words survive translation unchanged?

Puts each of them into plain sentences, translates with a bundle and counts the translations that hold it
letter by letter; a decimal may have a comma. None of the names and sentences is from a corpus.

    python benchmarks/text/copying.py [BUNDLE] [--direction fr-en] [--beam-size 4] [--show]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from export.bundle import load_manifest
from server.service.translation.file_translation import translate_lines

_NAMES = {
    "first names": [
        "Wanjiru",
        "Siobhan",
        "Grzegorz",
        "Aleksandra",
        "Thandiwe",
        "Bartholomew",
        "Xiomara",
        "Dmitri",
        "Ngozi",
        "Ingeborg",
    ],
    "full names": [
        "Anna Kowalczyk",
        "Ravi Subramaniam",
        "Maria Gonzalez",
        "John Whitaker",
        "Fatima Haddad",
        "Lars Henriksen",
        "Chloe Dubois",
        "Emeka Okafor",
        "Yuki Tanaka",
        "Oliver Blackwood",
    ],
    "accented names": [
        "Łódź",
        "Reykjavík",
        "Zoë",
        "São Paulo",
        "Çelik",
        "Dvořák",
        "Ångström",
        "Brașov",
        "Škoda",
        "Muñoz",
    ],
    "unknown words": [
        "Quorvex",
        "Blimtal",
        "Zanturo",
        "Ferripok",
        "Drumashel",
        "Oktavian",
        "Pelmora",
        "Vistagon",
        "Hurgelt",
        "Myxandra",
    ],
}
_NUMBERS = {
    "integers": ["7", "12", "45", "99", "300", "1004", "7777", "15320", "482019", "90000001"],
    "decimals": ["3.5", "19.99", "0.25", "100.01", "7.77", "12.125", "99.9", "1.05", "45.60", "250.75"],
    "times": ["7:05", "17:45", "12:00", "23:59", "9:30", "6:15", "18:10", "11:11", "20:20", "0:45"],
    "codes": ["B-12", "LH2047", "XK-470", "A4", "MX1100", "Q7", "R2D2", "TX-55", "G20", "BMW320"],
}
_SENTENCES = {
    "en": {
        "names": ("{} lives in Berlin.", "I met {} yesterday.", "Do you know {}?", "My friend works for {}."),
        "integers": ("I have {} books.", "The number is {}.", "We need {} chairs.", "She counted to {}."),
        "decimals": ("It costs {} euros.", "The answer is {}.", "He paid {} dollars.", "It weighs {} kilos."),
        "times": ("The train leaves at {}.", "Come at {}.", "We met at {}.", "The meeting starts at {}."),
        "codes": ("My room is {}.", "Where is {}?", "He bought the {}.", "We are waiting for {}."),
    },
    "de": {
        "names": (
            "{} lebt in Berlin.",
            "Ich habe {} getroffen.",
            "Kennst du {}?",
            "Mein Freund arbeitet für {}.",
        ),
        "integers": (
            "Ich habe {} Bücher.",
            "Die Nummer ist {}.",
            "Wir brauchen {} Stühle.",
            "Sie zählte bis {}.",
        ),
        "decimals": (
            "Es kostet {} Euro.",
            "Die Antwort ist {}.",
            "Er zahlte {} Dollar.",
            "Es wiegt {} Kilo.",
        ),
        "times": ("Der Zug fährt um {} ab.", "Komm um {}.", "Wir trafen uns um {}.", "Es beginnt um {}."),
        "codes": ("Mein Zimmer ist {}.", "Wo ist {}?", "Er hat den {} gekauft.", "Wir warten auf {}."),
    },
    "es": {
        "names": ("{} vive en Berlín.", "Conocí a {} ayer.", "¿Conoces a {}?", "Mi amigo trabaja para {}."),
        "integers": ("Tengo {} libros.", "El número es {}.", "Necesitamos {} sillas.", "Contó hasta {}."),
        "decimals": ("Cuesta {} euros.", "La respuesta es {}.", "Pagó {} dólares.", "Pesa {} kilos."),
        "times": (
            "El tren sale a las {}.",
            "Ven a las {}.",
            "Nos vimos a las {}.",
            "La reunión es a las {}.",
        ),
        "codes": ("Mi habitación es la {}.", "¿Dónde está {}?", "Compró el {}.", "Estamos esperando a {}."),
    },
    "fr": {
        "names": (
            "{} habite à Berlin.",
            "J'ai rencontré {} hier.",
            "Connais-tu {} ?",
            "Il travaille pour {}.",
        ),
        "integers": (
            "J'ai {} livres.",
            "Le numéro est {}.",
            "Il nous faut {} chaises.",
            "Elle a compté jusqu'à {}.",
        ),
        "decimals": (
            "Ça coûte {} euros.",
            "La réponse est {}.",
            "Il a payé {} dollars.",
            "Ça pèse {} kilos.",
        ),
        "times": ("Le train part à {}.", "Viens à {}.", "On s'est vus à {}.", "La réunion commence à {}."),
        "codes": ("Ma chambre est la {}.", "Où est {} ?", "Il a acheté le {}.", "Nous attendons {}."),
    },
}


def main() -> None:
    """Run the probe and print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundle", nargs="?", type=Path, default=Path("bundles/en-de"))
    parser.add_argument("--beam-size", type=int, default=1)
    parser.add_argument(
        "--guard", choices=("off", "mend"), default="mend", help="off: the model alone, not as it is served"
    )
    parser.add_argument("--show", action="store_true", help="print what did not survive")
    parser.add_argument("--direction", help="of a bundle that has several; its first unless given")
    arguments = parser.parse_args()
    language = (arguments.direction or next(load_manifest(arguments.bundle).pairs)[0]).split("-")[0]
    if language not in _SENTENCES:
        parser.error(f"there are no sentences for {language}, only for {', '.join(_SENTENCES)}")
    sentences = _SENTENCES[language]
    kinds = [(kind, words, sentences["names"]) for kind, words in _NAMES.items()]
    kinds += [(kind, words, sentences[kind]) for kind, words in _NUMBERS.items()]
    probes = [
        (kind, word, sentence.format(word))
        for kind, words, frames in kinds
        for word in words
        for sentence in frames
    ]
    translated = translate_lines(
        arguments.bundle,
        [text for _, _, text in probes],
        beam_size=arguments.beam_size,
        length_penalty=1.0,
        split=False,
        guard=arguments.guard,
        direction=arguments.direction,
    )
    lost = [
        (probe, text)
        for probe, text in zip(probes, translated, strict=True)
        if probe[1] not in text and (probe[0] != "decimals" or probe[1].replace(".", ",") not in text)
    ]
    print("| | unchanged |\n|---|---|")
    for kind, _, _ in kinds:
        total = sum(probe[0] == kind for probe in probes)
        print(f"| {kind} | {100 * (total - sum(probe[0] == kind for probe, _ in lost)) / total:.0f} % |")
    if arguments.show:
        for (_, _, source), text in lost:
            print(f"{source}  ->  {text}")


if __name__ == "__main__":
    main()
