"""What a full stop means after some words: abbreviations and first words of sentences of four languages.

The lists hold what a general splitter gets wrong or cannot know. Languages that are not listed are judged by
all lists together.
"""

import re
from dataclasses import dataclass
from functools import cache

from server.service.text.detection.word_lists import words


@dataclass(frozen=True, slots=True)
class Abbreviations:
    """Words of one language, without their last full stop, in lower case.

    Attributes:
        titles: are followed by what they belong to, whatever its case: `Dr.`.
        numbered: are followed by a number or a name: `Abb.`.
        final: may end a sentence: `etc.`.
        starters: first words of sentences that are no names, so that one behind `etc.` begins a sentence.
        ordinal_stops: whether a number with a full stop is an ordinal (`3. Mai`).
    """

    titles: frozenset[str]
    numbered: frozenset[str]
    final: frozenset[str]
    starters: frozenset[str]
    ordinal_stops: bool = False


_ENGLISH = Abbreviations(
    words("mr mrs ms messrs dr drs prof mt rev hon gov sen rep gen col capt cpt cmdr lt sgt maj adm"),
    words(
        "nos p pp vol vols fig figs ch chap sec sect art eq eqs ed eds tab ref refs approx ca cf esp vs v"
        " tel jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat est min max incl"
    ),
    words("st ave rd blvd etc al jr sr inc ltd co corp bros dept lbs lb oz ft yd hrs hr mins secs"),
    words(
        "the a an this that these those i he she it we you they there here his her its our your their my"
        " mine and but or so if when while then although because since after before as at in on for from"
        " with what who why where how which whose is are was were do does did can could will would shall"
        " should may might must has have had not no yes please let now today tomorrow yesterday later once"
        " all some every each both many most one two three however also even still just only maybe perhaps"
        " thank thanks"
    ),
)
_GERMAN = Abbreviations(
    words("hr hrn fr frl dr prof dipl mag ing st sankt freundl geb gest verh gez bzw sog hl kgl"),
    words(
        "nr nrn s abb abs art anm aufl bd bde kap tab tel vgl ca evtl ggf inkl exkl zzgl abzgl max min"
        " mind jan feb mär apr jun jul aug sep sept okt nov dez mo di mi do fr sa so hrsg ausg ziff lt gem"
        " bspw insb insbes allg ehem urspr rd"
    ),
    words("usw etc uvm str pl mio mrd std sek tsd ff f jh jhd chr co geb"),
    words(
        "der die das den dem des ein eine einen einem einer dies diese dieser dieses jene jener ich du er"
        " sie es wir ihr man mein meine dein deine sein seine ihre unser unsere euer in im an am auf aus"
        " bei mit nach von vom vor zu zum zur für durch gegen ohne um über unter seit bis wenn als aber und"
        " oder doch denn dann da dort hier heute gestern morgen so was wer wie wo warum wann welche welcher"
        " ist sind war waren hat haben hatte kann können wird werden muss soll nicht kein keine ja nein nun"
        " jetzt auch alle alles viele einige jeder jede trotzdem deshalb dabei damit dazu danach bitte komm"
        " danke vielleicht leider"
    ),
    ordinal_stops=True,
)
_FRENCH = Abbreviations(
    words("m mm mme mmes mlle mlles mgr me dr drs pr st ste sts stes"),
    words(
        "p pp art chap fig vol éd env tél cf ex par av bd boul fax réf no nos janv févr fév avr juil sept"
        " oct nov déc lun mar mer jeu ven sam dim min max"
    ),
    words("etc cie sté apr h"),
    words(
        "le la les l un une des du de ce cet cette ces c il elle ils elles on je tu nous vous j mon ma mes"
        " ton ta son sa ses notre nos votre vos leur leurs et mais ou or donc car si quand lorsque comme"
        " alors puis à au aux en dans sur sous par pour avec sans chez depuis avant après qui que quoi où"
        " comment pourquoi quel quelle est sont était a ont ne non oui ici là voilà voici aujourd hier"
        " demain tout toute tous toutes chaque plusieurs quelques aussi merci prenez appelez cela ça celui"
        " celle ceux y soyez il"
    ),
)
_SPANISH = Abbreviations(
    words("sr sra srta sres sras dr dra dres prof profa d dª dña don ing lic arq sta sto fr mons gral cnel"),
    words(
        "n núm núms nº p pp pág págs art arts cap fig vol ed tel tfno aprox avda av c cf ej máx mín incl"
        " ene feb mar abr jun jul ago sep sept oct nov dic lun mié jue vie sáb dom s ss ud uds vd vds"
    ),
    words("etc cía jr ltda"),
    words(
        "el la los las un una unos unas lo este esta estos estas ese esa eso aquel aquella él ella ellos"
        " ellas yo tú usted ustedes nosotros mi mis tu tus su sus nuestro nuestra le les se me te nos y"
        " pero o si cuando como entonces después antes de del a al en con sin por para desde hasta sobre"
        " entre que qué quién quien cuál dónde donde cómo cuándo es son era fue hay está están ha han no sí"
        " ya hoy ayer mañana todo toda todos todas cada muchos muchas algunos también solo más así aquí"
        " allí ahí gracias porque"
    ),
)
_LISTED = {"en": _ENGLISH, "de": _GERMAN, "fr": _FRENCH, "es": _SPANISH}
# Also written with the full stop of an ordinal.
_ORDINAL_STOPS = words("cs da et fi hr hu is lv nb nn no pl sk sl sr tr")


LONG_FORMS = {
    "en": {
        "e.g.": "for example", "i.e.": "that is", "approx.": "about", "incl.": "including",
        "excl.": "excluding", "dept.": "department", "vs.": "against", "a.k.a.": "also known as",
        "tel.": "telephone",
    },
    "de": {
        "z.B.": "zum Beispiel", "d.h.": "das heißt", "u.a.": "unter anderem", "i.d.R.": "in der Regel",
        "bzw.": "beziehungsweise", "ggf.": "gegebenenfalls", "evtl.": "eventuell", "bspw.": "beispielsweise",
        "inkl.": "inklusive", "vgl.": "vergleiche", "sog.": "sogenannt", "Nr.": "Nummer",
        "zzt.": "zurzeit", "z.Zt.": "zurzeit", "z.T.": "zum Teil",
        "zzgl.": "zuzüglich", "abzgl.": "abzüglich",
        "exkl.": "ohne", "MwSt.": "Mehrwertsteuer", "v.a.": "vor allem", "mind.": "mindestens",
        "insb.": "insbesondere", "insbes.": "insbesondere", "Tel.": "Telefon", "Abb.": "Abbildung",
        "Std.": "Stunden", "Mio.": "Millionen", "Mrd.": "Milliarden", "o.ä.": "oder ähnlich",
        "Jh.": "Jahrhundert", "Jhd.": "Jahrhundert", "Jhdt.": "Jahrhundert",
        "u.U.": "unter Umständen", "i.A.": "im Auftrag", "allg.": "allgemein", "ehem.": "ehemalig",
    },
    "fr": {
        "p.ex.": "par exemple", "parex.": "par exemple", "c.-à-d.": "c'est-à-dire", "env.": "environ",
        "càd.": "c'est-à-dire", "tél.": "téléphone", "av.": "avenue", "réf.": "référence",
    },
    "es": {
        "p.ej.": "por ejemplo", "aprox.": "aproximadamente", "núm.": "número", "pág.": "página",
        "Sra.": "señora", "Sr.": "señor", "Srta.": "señorita", "Sres.": "señores", "Dra.": "doctora",
        "Avda.": "avenida", "tel.": "teléfono", "Ud.": "usted", "Uds.": "ustedes", "máx.": "máximo",
        "mín.": "mínimo", "incl.": "incluido", "EE.UU.": "Estados Unidos",
    },
}  # fmt: skip
"""What abbreviations stand for, written without the white space within them."""

LONG_BEFORE_NUMBERS = {
    "en": {
        "Jan.": "January", "Feb.": "February", "Apr.": "April", "Aug.": "August", "Sep.": "September",
        "Sept.": "September", "Oct.": "October", "Nov.": "November", "Dec.": "December",
    },
    "de": {"mind.": "mindestens"},
}  # fmt: skip
"""The same of those that mean it before a number only: `Dec. 3`, but `Ask Jan.`"""

LONG_BESIDE = {
    "de": (
        (re.compile(r"(?<![\w-])([A-ZÄÖÜ][a-zß-ÿ]{2,30})(?:[*:_]|/-?)in(nen)?(?!\w)"), r"\1in\2"),
        (re.compile(r"(?<![\w-])([A-ZÄÖÜ][a-zß-ÿ]{2,30})Innen(?!\w)"), r"\1innen"),
        (re.compile(r"(?<=[a-zß-ÿ]e)[*:/][nrs](?!\w)"), ""),
        (re.compile(r"(?<=[ijnr])[*:](?=e[nrs]?(?!\w))"), ""),
        (re.compile(r"(?<![\w.])[Cc]a\.(?= ?\w)"), "etwa"),
    ),
    "en": (
        # `No. 5` is known from laws; `oh no. 2 of them` is none.
        (re.compile(r"(?<![\w.])(?<![Oo]h )(?<!said )(?<!says )(?<!say )no\.(?= ?\d)"), "number"),
        (re.compile(r"(?<![\w.])(?<![.!?…:] )No\.(?= ?\d)"), "number"),
        (re.compile(r"(?<=\d )hrs(?!\w|\. [a-z])"), "hours"),
        (re.compile(r"(?<![^\s(])w/o(?= ?\w)"), "without"),
        (re.compile(r"(?<![^\s(])w/(?= ?\w)"), "with"),
    ),
    "fr": ((re.compile(r"(?<![\w.])[Nn][°º](?= ?\d)"), "numéro"),),
    "es": (
        (re.compile(r"(?<![\w.])[Nn](?:\.[º°]|[º°])(?= ?\d)"), "número"),
        (re.compile(r"(?<![\w.])ss?\.(?= ?[IVX]+(?!\w))"), "siglo"),
    ),
}
"""What others stand for beside what follows or precedes them: `no. 5`, `w/o x`, `Kolleg*innen`."""


@cache
def abbreviations(language: str) -> Abbreviations:
    """Look up what is known of a language.

    Args:
        language: ISO 639 code; another one is judged by all lists together.
    """
    known = _LISTED.get(language)
    if known:
        return known
    lists = _LISTED.values()
    titles = frozenset().union(*(one.titles for one in lists))
    numbered = frozenset().union(*(one.numbered for one in lists))
    final = frozenset().union(*(one.final for one in lists))
    starters = frozenset().union(*(one.starters for one in lists))
    return Abbreviations(titles, numbered - titles, final, starters, language in _ORDINAL_STOPS)
