"""Makes up what is the same in every language: masks, placeholders, addresses, numbers with units, codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

MASKS = ("PH{n}", "PH{n}", "PH{n}", "Q{n}", "Q{n}", "XX{n}")
"""What the server writes for a span that must survive, with a number; the first choice comes most often."""

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_NAMES = [
    "name",
    "user",
    "count",
    "file",
    "path",
    "id",
    "title",
    "date",
    "size",
    "total",
    "email",
    "url",
    "host",
    "port",
    "version",
    "item",
    "order",
]
_UNITS = [
    "km",
    "m",
    "cm",
    "mm",
    "µm",
    "kg",
    "g",
    "mg",
    "t",
    "l",
    "ml",
    "h",
    "min",
    "s",
    "ms",
    "GB",
    "MB",
    "KB",
    "TB",
    "kB",
    "Mbit/s",
    "MHz",
    "GHz",
    "kHz",
    "Hz",
    "W",
    "kW",
    "kWh",
    "V",
    "A",
    "mA",
    "Ω",
    "°C",
    "°F",
    "K",
    "Pa",
    "hPa",
    "bar",
    "m²",
    "m³",
    "km/h",
    "dB",
    "px",
    "pt",
    "dpi",
    "%",
    "‰",
]
_MONEY = ["€", "$", "£", "¥", "EUR", "USD", "GBP", "CHF"]
_DOMAINS = ["com", "org", "net", "de", "fr", "es", "io", "eu", "co.uk"]
_ENDINGS = ["txt", "pdf", "json", "xml", "yml", "log", "html", "csv", "png", "zip", "cfg", "py", "exe"]
_SEPARATORS = (",", ".", " ", "'", "\u00a0")


def _pick(options: Sequence[str], rng: np.random.Generator) -> str:
    return options[int(rng.integers(len(options)))]


def _digits(most: int, rng: np.random.Generator) -> str:
    """Draw a number of 1 to ``most`` digits that does not begin with 0."""
    count = int(rng.integers(1, most + 1))
    return str(int(rng.integers(10 ** (count - 1), 10**count)))


def _word(rng: np.random.Generator) -> str:
    return "".join(_pick(_LETTERS, rng) for _ in range(int(rng.integers(2, 9))))


def _number(rng: np.random.Generator) -> str:
    """Draw a number: with thousands set apart, with decimals, with both, or a plain one."""
    draw = rng.random()
    if draw < 0.3:
        return _digits(5, rng)
    separator = _pick(_SEPARATORS, rng)
    point = "." if separator == "," else ","
    decimals = point + "".join(_pick("0123456789", rng) for _ in range(int(rng.integers(1, 4))))
    if draw < 0.55:
        return _digits(3, rng) + decimals
    groups = "".join(f"{separator}{int(rng.integers(1000)):03}" for _ in range(int(rng.integers(1, 3))))
    return _digits(3, rng) + groups + (decimals if draw > 0.8 else "")


def _with_unit(rng: np.random.Generator) -> str:
    return f"{_number(rng)}{_pick(('', ' ', ' '), rng)}{_pick(_UNITS, rng)}"


def _price(rng: np.random.Generator) -> str:
    money, number = _pick(_MONEY, rng), _number(rng)
    return _pick((f"{money}{number}", f"{money} {number}", f"{number} {money}"), rng)


def _date(rng: np.random.Generator) -> str:
    year, month, day = int(rng.integers(1900, 2100)), int(rng.integers(1, 13)), int(rng.integers(1, 29))
    return _pick((f"{year}-{month:02}-{day:02}", f"{day}.{month}.{year}", f"{day:02}/{month:02}/{year}"), rng)


def _url(rng: np.random.Generator) -> str:
    path = "".join(f"/{_word(rng)}" for _ in range(int(rng.integers(0, 4))))
    query = f"?{_pick(_NAMES, rng)}={_digits(3, rng)}" if rng.random() < 0.2 else ""
    start = _pick(("https://", "http://", "https://www.", "www."), rng)
    return f"{start}{_word(rng)}.{_pick(_DOMAINS, rng)}{path}{query}"


def _email(rng: np.random.Generator) -> str:
    user = _word(rng) + _pick(("", ".", "_", "-"), rng) + _word(rng)
    return f"{user}@{_word(rng)}.{_pick(_DOMAINS, rng)}"


def _file(rng: np.random.Generator) -> str:
    name = f"{_word(rng)}.{_pick(_ENDINGS, rng)}"
    return _pick((name, f"/{_word(rng)}/{name}", f"C:\\{_word(rng)}\\{name}", f"~/{name}"), rng)


def _placeholder(rng: np.random.Generator) -> str:
    name = _pick(_NAMES, rng)
    forms = ("{%s}", "{{%s}}", "${%s}", "%%(%s)s", "<%s>", "[%s]", "$%s", ":%s")
    if rng.random() < 0.35:
        return _pick(("%s", "%d", "%1$s", "%2$s", "{0}", "{1}", "%@"), rng)
    return _pick(forms, rng) % name


def _code(rng: np.random.Generator) -> str:
    letters = "".join(_pick(_LETTERS, rng).upper() for _ in range(int(rng.integers(1, 4))))
    version = ".".join(_digits(2, rng) for _ in range(int(rng.integers(2, 4))))
    camel = _word(rng) + _word(rng).capitalize()
    forms = (f"{letters}-{_digits(4, rng)}", letters + _digits(4, rng), f"v{version}", version, camel)
    return _pick((*forms, f"{camel}()", f"--{_word(rng)}", f"#{_digits(4, rng)}", f"@{_word(rng)}"), rng)


_KINDS: tuple[Callable[[np.random.Generator], str], ...] = (
    *(_number, _with_unit, _with_unit, _price, _date, _url, _email, _file, _placeholder, _placeholder, _code),
)


def literal(rng: np.random.Generator) -> str:
    """Draw something that no translation changes."""
    return _KINDS[int(rng.integers(len(_KINDS)))](rng)


def masks(count: int, rng: np.random.Generator) -> list[str]:
    """Draw different masks of one form, numbered from 1 on as the server does, or at random."""
    form = _pick(MASKS, rng)
    if rng.random() < 0.8:
        numbers = list(range(1, count + 1))
    else:
        numbers = (rng.choice(99, size=count, replace=False) + 1).tolist()
    return [form.replace("{n}", str(number)) for number in numbers]
