"""Who signs a letter: the name below `Best regards,` is kept, for a model takes a lone name for a word."""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from server.service.text.detection.word_lists import is_common
from server.service.text.segment import Segment, Span

# What a line of a few words has that ends a letter.
_CLOSING = re.compile(
    r"\b(?:regards|wishes|sincerely|yours|cheers|love|thanks|thank you|best|see you"
    r"|gr(?:ü|ue)(?:ß|ss)en?|gruß|dank|danke|hochachtungsvoll|herzlichst|bis (?:bald|dann|morgen)"
    r"|saludos?|atentamente|cordialmente|abrazos?|besos|gracias|hasta (?:pronto|luego|mañana)"
    r"|cordialement|salutations|amicalement|amitiés|bis(?:ous?|es)|merci|bien à (?:vous|toi)"
    r"|à (?:bientôt|demain))\b",
    re.IGNORECASE,
)
_MOST_WORDS = 6
_NAME = re.compile(
    r"(?!(?:The|Your|Our|Das|Die|Der|Ihre?|Dein|Euer|Unser|El|La|Los|Las|Su|Tu|Le|Les|Votre|Ton|Notre"
    r"|Dear|H[ae]llo|Hi|Liebe[rs]?|Hola|Querid[oa]s?|Bonjour|Chère?s?|Merry|Happy|God)\b)"
    r"[^\W\d_][\w'’\-]{0,20}\.?(?: [^\W\d_][\w'’\-]{0,20}\.?){0,2}"
)
_NO_NAME = re.compile(
    r"team|service|support|staff|office|equipo|équipe|dienst|management|\bps\b", re.IGNORECASE
)
_ENDS_SENTENCE = (".", "!", "?")


def keep_signatures(blocks: Sequence[str | Segment], language: str) -> Sequence[str | Segment]:
    """Keep the names that sign letters.

    A name stands in the block behind a closing: one with a comma (`Thanks,`), or the last but one of a text
    whose block before is a sentence.

    Args:
        blocks: of a text, and what is copied between them, in order.
        language: of the text; two words that it uses every day are none: `Best Wishes`.

    Returns:
        The same, names all span.
    """
    segments = [(place, block) for place, block in enumerate(blocks) if isinstance(block, Segment)]
    kept = list(blocks)
    for number, ((_, closing), (place, name)) in enumerate(pairwise(segments), start=1):
        line = closing.text.strip()
        if not _NAME.fullmatch(name.text) or name.spans or _NO_NAME.search(name.text):
            continue
        words = name.text.split(" ")
        if not all(word[0].isupper() for word in words):
            continue
        if len(words) > 1 and all(is_common(word, language) for word in words):
            continue
        if line.count(" ") >= _MOST_WORDS or not _CLOSING.search(line):
            continue
        if any(0 < tag.at < len(name.text) for tag in name.tags):
            continue
        ends_letter = (
            number == len(segments) - 1
            and number > 1
            and segments[number - 2][1].text.rstrip().endswith(_ENDS_SENTENCE)
        )
        if line.endswith(",") or ends_letter:
            kept[place] = replace(name, spans=(Span(0, len(name.text)),))
    return kept
