"""Languages of short texts: what people type first."""

import threading

import pytest

from server.service.text.detection.detector import rank
from server.service.text.languages import Detection

SHIPPED = ("en", "de", "fr", "es")
OPENERS = {
    "en": """
        Hello | Hi | Hi there | Good morning | Good afternoon | Good evening | Good night | Goodbye |
        Bye | See you later | See you tomorrow | Thank you | Thanks | Thanks a lot | Thank you very much
        | You're welcome | Welcome | Please | Sorry | Excuse me | I'm sorry | Yes | Yes, please | No,
        thanks | How are you? | What's your name? | My name is Tom | Nice to meet you | Where are you
        from? | I don't know | I don't understand | Help | Help me | Cheers | Congratulations | Happy
        birthday | Merry Christmas | Happy New Year | Have a nice day | Good luck | Take care | I love
        you | What time is it? | How much is it? | Of course | Maybe | Okay | Let's go | Wait | Stop |
        Come in | Sit down | What's up? | Hey guys | Dear customer | Water | Friend | Today | Tomorrow |
        Door | Window | Key | House | Bread | Mother | Brother | Monday | School | Small | Beautiful |
        To work | The dog | Search | Save | Settings | Delete | Next | Close | Open | Password |
        Username
    """,
    "de": """
        Hallo | Hallo zusammen | Guten Morgen | Guten Tag | Guten Abend | Gute Nacht | Auf Wiedersehen |
        Tschüss | Bis bald | Bis später | Bis morgen | Danke | Danke schön | Vielen Dank | Bitte | Bitte
        schön | Gern geschehen | Willkommen | Entschuldigung | Verzeihung | Es tut mir leid | Ja | Nein
        | Nein danke | Ja, bitte | Wie geht's? | Wie geht es dir? | Wie heißt du? | Ich heiße Anna |
        Freut mich | Woher kommst du? | Ich weiß nicht | Ich verstehe nicht | Hilfe | Prost | Herzlichen
        Glückwunsch | Alles Gute zum Geburtstag | Frohe Weihnachten | Frohes neues Jahr | Schönen Tag
        noch | Viel Glück | Viel Spaß | Pass auf dich auf | Ich liebe dich | Wie spät ist es? | Was
        kostet das? | Natürlich | Vielleicht | Los geht's | Warte | Komm herein | Setz dich | Was ist
        los? | Grüß Gott | Servus | Moin | Liebe Kunden | Sehr geehrte Damen und Herren | Wasser |
        Freund | Heute | Morgen | Tür | Fenster | Schlüssel | Haus | Brot | Mutter | Bruder | Montag |
        Schule | Klein | Schön | Arbeiten | Der Hund | Suchen | Speichern | Einstellungen | Löschen |
        Abbrechen | Weiter | Schließen | Öffnen | Passwort | Benutzername | Guten Appetit | Gute
        Besserung | Mahlzeit
    """,
    "fr": """
        Bonjour | Salut | Bonsoir | Bonne nuit | Bonne journée | Au revoir | À bientôt | À demain | À
        plus tard | Merci | Merci beaucoup | De rien | Je vous en prie | Bienvenue | S'il vous plaît |
        S'il te plaît | Excusez-moi | Désolé | Je suis désolé | Oui | Non | Non merci | Oui, merci |
        Comment ça va ? | Ça va ? | Comment allez-vous ? | Comment tu t'appelles ? | Je m'appelle Paul |
        Enchanté | D'où venez-vous ? | Je ne sais pas | Je ne comprends pas | Au secours | À l'aide |
        Santé | Félicitations | Joyeux anniversaire | Joyeux Noël | Bonne année | Bonne chance | Prends
        soin de toi | Je t'aime | Quelle heure est-il ? | Combien ça coûte ? | Bien sûr | Peut-être |
        D'accord | Allons-y | Attends | Entrez | Asseyez-vous | Qu'est-ce qui se passe ? | Coucou | Cher
        client | Mesdames et messieurs | Eau | Ami | Aujourd'hui | Demain | Porte | Fenêtre | Clé |
        Maison | Mère | Frère | Lundi | École | Petit | Belle | Travailler | Le chien |
        Rechercher | Enregistrer | Paramètres | Supprimer | Annuler | Suivant | Fermer | Ouvrir | Mot de
        passe | Bon appétit | À tes souhaits | Allô | Voilà
    """,
    "es": """
        Hola | Hola amigos | Buenos días | Buenas tardes | Buenas noches | Adiós | Hasta luego | Hasta
        mañana | Hasta pronto | Gracias | Muchas gracias | De nada | Por favor | Bienvenido |
        Bienvenidos | Perdón | Disculpe | Lo siento | Sí | No, gracias | Sí, por favor | ¿Cómo estás? |
        ¿Qué tal? | ¿Cómo te llamas? | Me llamo Ana | Mucho gusto | Encantado | ¿De dónde eres? | No lo
        sé | No entiendo | Ayuda | Socorro | Salud | Felicidades | Feliz cumpleaños | Feliz Navidad |
        Feliz año nuevo | Que tengas un buen día | Buena suerte | Cuídate | Te quiero | ¿Qué hora es? |
        ¿Cuánto cuesta? | Claro | Por supuesto | Quizás | Tal vez | Vale | Vamos | Espera | Adelante |
        Siéntate | ¿Qué pasa? | Estimado cliente | Señoras y señores | Agua | Amigo | Hoy | Mañana |
        Puerta | Ventana | Llave | Casa | Pan | Madre | Hermano | Lunes | Escuela | Pequeño | Hermosa |
        Trabajar | El perro | Buscar | Guardar | Ajustes | Eliminar | Cancelar | Siguiente | Cerrar |
        Abrir | Contraseña | Buen provecho | Buen viaje | Oye | Bueno
    """,
}


@pytest.mark.parametrize("language", SHIPPED)
def test_everyday_openers_are_known(language: str) -> None:
    openers = [" ".join(opener.split()) for opener in OPENERS[language].split("|")]
    assert len(openers) > 70
    found = {opener: rank(opener, SHIPPED)[0].language for opener in openers}
    assert {opener: guess for opener, guess in found.items() if guess != language} == {}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("BUENAS NOCHES", "es"),
        ("guten morgen", "de"),
        ("Ｈｅｌｌｏ ｔｈｅｒｅ", "en"),
        ("Bonjour\nà tous", "fr"),
    ],
)
def test_neither_case_nor_line_ends_matter(text: str, language: str) -> None:
    assert rank(text, SHIPPED)[0].language == language


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Where did you leave the keys of the cellar?", "en"),
        ("Im Keller steht noch eine Kiste mit alten Büchern.", "de"),
        ("La cave est fermée à clé depuis hier.", "fr"),
        ("En el sótano queda una caja con libros viejos.", "es"),
    ],
)
def test_the_confidence_of_a_sentence_is_high(text: str, language: str) -> None:
    best = rank(text, SHIPPED)[0]
    assert best.language == language
    assert best.confidence >= 95


def test_a_word_of_several_languages_gets_no_high_confidence() -> None:
    assert rank("no", SHIPPED)[0].confidence < 80
    assert rank("pardon", SHIPPED)[0].confidence < 95


@pytest.mark.parametrize(
    "text", ["これは日本語の文です。", "Dove sono le chiavi della cantina?", "Где ключи от подвала?"]
)
def test_a_text_in_no_candidate_gets_a_low_confidence(text: str) -> None:
    assert rank(text, SHIPPED)[0].confidence < 20


def test_languages_without_a_list_of_words_are_known_by_their_spelling() -> None:
    served = (*SHIPPED, "it", "ru", "ja", "pt-BR", "nb")
    assert rank("Dove sono le chiavi della cantina?", served)[0].language == "it"
    assert rank("Где ключи от подвала?", served)[0].language == "ru"
    assert rank("これは日本語の文です。", served)[0].language == "ja"
    assert rank("Onde estão as chaves do porão? Não as vejo.", served)[0].language == "pt-BR"
    assert rank("Jeg vet ikke hvor nøklene til kjelleren er.", served)[0].language == "nb"


@pytest.mark.parametrize("text", ["", "   ", "123 456", "😀", "\u200b"])
def test_without_letters_nothing_is_guessed(text: str) -> None:
    assert rank(text, ["en", "de"]) == [Detection("en", 0), Detection("de", 0)]


def test_codes_of_three_letters_and_scripts_are_understood() -> None:
    found = rank("Dove sono le chiavi della cantina?", ["eng_Latn", "ita_Latn", "deu_Latn"])
    assert (found[0].language, found[0].confidence) == ("ita_Latn", 100)


def test_languages_unknown_to_the_model_come_last() -> None:
    assert [guess.language for guess in rank("hello there", ["x-klingon", "en"])] == [
        "en",
        "x-klingon",
    ]


@pytest.mark.parametrize("text", ["\ud800 broken half", "a\x00b\r\nc", "\u2028line", "x" * 100_000])
def test_any_text_is_taken(text: str) -> None:
    assert len(rank(text, SHIPPED)) == 4


def test_several_threads_may_ask_at_once() -> None:
    found: list[Detection] = []
    threads = [
        threading.Thread(target=lambda: found.append(rank("Guten Abend", SHIPPED)[0])) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1
