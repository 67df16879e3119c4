"""What in a text is no language: placeholders, addresses, paths, code, and numbers that models garble.

Every pattern runs in linear time: none has a repeated group that can match in two ways, and what may start at
every character is bounded in length.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from server.service.text.segment import Segment, Span, is_of_word

# Placeholders of programs: printf, Go, Python, ICU, Fluent, Angular, Vue, Rails, i18next, Qt, Swift, XLIFF,
# DTD, Smarty, PHP, Drupal, Mailchimp, CMake.
_PLACEHOLDER = "|".join([
    r"\{\{\{[^{}\n]{0,200}\}\}\}",
    r"\{\{[^{}\n]{0,200}\}\}",
    r"<%[^%\n]{0,200}%>",
    r"\{%[^%\n]{0,200}%\}",
    r"\[%[^%\n]{0,200}%\]",
    r"<\?(?:php|=)[^?\n]{0,200}\?>",
    r"\*\|[^|*\n]{1,80}\|\*",
    r"[$#%@]\{[^{}\n]{0,200}\}",
    r"\{ ?[A-Z]{2,20}\([^{}\n]{0,200}\) ?\}|\{ ?-[a-z][\w\-]{0,60} ?\}",
    r"\{ ?\$[\w.\-\[\]>|]{1,80} ?\}",
    r"\{[/#@~^!?]\w[\w.]{0,60}\}",
    r"\{[A-Za-z_][\w.\-\[\]]*(?:[:!,][^{}\n]{0,100})?\}",
    r"\{\d*(?:[:!,][^{}\n]{0,100})?\}",
    r"\$(?:t\([^()\n]{0,200}\)|\([\w.:\-]{1,80}\))",
    r"\\\([a-z]\w{0,60}(?:\.\w{1,60}){0,8}\)",
    r"&(?:#\d{2,6}|#x[0-9a-fA-F]{2,6}|amp|lt|gt|quot|apos|nbsp);|(?<!\w)&[A-Za-z][\w.\-]{1,60};",
    r"%\([A-Za-z_]\w*\)[-#0+]*+\d*+(?:\.\d++)?+[a-zA-Z]",
    r"%<[A-Za-z_]\w{0,60}>[sdif]",
    r"%(?:\d+\$|\[\d{1,2}\])[-#0+]*+\d*+(?:\.\d++)?+(?:hh?|ll?|[zjt])?[sdifgeuxXocvq@]",
    r"%[A-Za-z_]\w{1,60}%(?:\\[\w\-]{1,60}(?:\.\w{1,20}){0,3}){0,20}",  # %APPDATA%\x
    r"%%|'[{}]'",
    r"(?<![\d%])%[-#0+]*+\d*+(?:\.\d++)?+(?:hh?|ll?|[zjt])?[sdifgeuxXocpvqn@](?![A-Za-z])",
    r"(?<![\d\w%])%L?\d(?!\w|[.,]?\d| %)",
    r"(?<![\d\w%])(?<!\d[ \u00a0\u202f])%[a-z_]{3,40}(?![\w%])",
    r"(?<!\w)(?P<fence>##?|@@?|\$\$?)[A-Z][A-Z0-9_]{1,60}(?P=fence)(?!\w)",
    r"(?<!\w)(?P<double>##|@@)\w{2,60}(?P=double)(?!\w)",
    r"__[A-Z][A-Z0-9_]*__",
    r"<<[A-Za-z_]\w{0,60}>>",
    r"(?<![\w:])@:(?:\w{1,60}\.)*\w{1,60}",
    r"(?<![\w:/.]):[A-Za-z_]\w*(?![\w:])",
    r"\[\[?%?[A-Z][A-Z0-9_]+%?\]?\]",
    r"\[[a-z_]{2,30}:[a-z_:\-]{2,60}\]",
    r"<[A-Z][A-Z0-9_]+>",
    r"</?(?:x|ph|bx|ex|bpt|ept|it|mrk)\b[^<>\n]{0,200}>",
    r"</?\d+/?>",
    r"</?[a-z][\w\-]{0,30}(?:\s[\w\-]{1,30}=\"[^\"<>\n]{0,100}\"){0,10}\s?/?>",
    r"<(?:[@#!:]|[at]:)[^\s<>]{1,100}>",  # of chats: `<@U04AB9XYZ>`, `<#C02|releases>`, `<:name:123>`
    r"\\[A-Za-z]{1,4}\[\w{0,20}\]",  # of RPG Maker: `\C[2]`
    r"[\w.+\-]{0,60}\{'[^'{}\n]{1,20}'\}(?:[\w\-]{1,60}(?:\.\w{1,20}){0,3})?",  # of Vue: `me{'@'}x.org`
    r"\[[\w.\-#]{1,40}\|https?://[^\s\[\]|]{1,500}\]",  # of Jira
    r"\$[A-Za-z_]\w*(?:->\w{1,60}){0,5}",
])  # fmt: skip
# Formulas of TeX, and its commands whose arguments are names.
MATH = (
    r"\$\$[^$\n]{1,300}\$\$|(?<![\w$\\])\$(?![\s).,:;!?])(?:[^\s$]{1,40}|(?=[^$\n]{0,200}[\\^_=<>+])[^$\n]{1,200})"
    r"(?<!\s)(?<!US)\$(?![\w$])|\\\([^\n]{1,300}?\\\)|\\\[(?=[^\n\]^=_]{0,300}[\^=_])[^\n\]]{1,300}\\\]"
)
_TEX = (
    r"\\(?:begin|end|cite[a-z]{0,10}|[a-zA-Z]{0,6}ref|label|url|input|include|includegraphics|usepackage|documentclass"
    r"|bibliography(?:style)?|[vh]space)\*?(?:\[[^\[\]\n]{0,200}\])?\{[^{}\n]{0,200}\}"
)
_ADDRESS = "|".join([
    r"(?<![\w+.\-])[A-Za-z][A-Za-z0-9+.\-]{1,20}://[^\s<>\"“”«»]+",
    r"(?:mailto|tel|sip|data|urn|magnet|doi):(?=[^\s\d])[^\s<>\"“”«»]+",
    r"(?<![\w.])10\.\d{4,9}/[^\s<>\"“”«»]+|(?<!\w)arXiv:\d{4}\.\d{4,5}(?:v\d)?",  # DOI
    r"(?<![\w.])www\.[^\s<>\"“”«»]+",
    r"(?<![\w.+\-])\w[\w.+\-']{0,63}@[A-Za-z0-9\-]{1,63}(?:\.[A-Za-z0-9\-]{1,63}){1,8}"
    r"(?::[\w~.\-]{0,100}/[\w~./\-]{1,200})?",  # git@host:folder/file
    r"(?<![\w.@])(?:[a-z0-9\-]{1,63}\.){1,4}(?:com|org|net|io|dev|info|gov|edu|eu|de|fr|es|uk|ch|at|example)(?![\w.\-]\w|\w)"
    r"(?:/[^\s<>\"“”«»]*)?",
])  # fmt: skip
_HANDLE = "|".join([
    r"(?<![\w&/])@[A-Za-z_][\w.\-]{0,60}\w(?:@[A-Za-z0-9\-]{1,63}(?:\.[A-Za-z0-9\-]{1,63}){1,4})?",
    r"(?<![\w&/])#(?=\w{0,60}[^\W\d_])\w+",
])  # fmt: skip
_PATH = "|".join([
    # `C:\Program Files\x.exe`, but not `C:\x and D:\y`.
    r"(?<!\w)[A-Za-z]:\\[^\s<>\"|?*]+(?:(?: [A-Z(][^\s<>\"|?*\\/:.,;]{0,30}){1,3}\\[^\s<>\"|?*]+){0,9}",
    r"\\{2,4}[\w.\-]+\\[^\s<>\"|?*]+",
    r"(?<![\w/.:<])(?:~|\.{1,2})?(?:/[\w.@+\-]+){2,40}/?",
    r"(?<![\w/.:<])(?:~|\.{1,2})/[\w.@+\-]+/?",
    # Of one part: `/tmp`, `/help`, a command of a chat; not `and /or`, `5 /day`.
    r"(?<![^\s(\"'“„«‘])(?<!\d\s)/(?!(?:and|or|und|oder|et|ou|y|o)\b)[a-z][\w\-]{1,30}(?![\w/])",
    r"(?<![\w/.\-])(?:(?:src|lib|bin|dist|node_modules)/|(?:app|assets|build|config|docs|home|include|public|static|tests?|usr|var|vendor)"
    r"/[\w.\-]{1,60}/)[\w.\-]{1,60}(?:/[\w.\-]{1,60}){0,20}/?",
    r"(?<![\w/.\-])(?:application|audio|font|image|text|video)/(?=[a-z][\w.+\-]*[a-z0-9](?!\w))(?!(?:audio|image|text|video|or)\b)"
    r"[\w.+\-]{2,60}",
    # Of Git: `origin/main`, `feature/login-form`; not `origin/destination`.
    r"(?<![\w/.\-])(?:origin|upstream|refs|feature|feat|bugfix|hotfix|fix|release|chore)"
    r"/(?=(?:main|master|develop|HEAD)(?!\w)|[\w./]{0,60}[\d_\-])[\w.\-]{1,60}(?:/[\w.\-]{1,60}){0,5}",
    r"(?<![\w/.\-])[\w\-]{1,60}(?:[/.][\w\-]{1,60}){0,20}\.(?:py|js|ts|jsx|tsx|json|ya?ml|toml|ini|cfg|conf|md|txt|csv|tsv|xml|html?"
    r"|css|(?<=\w\w\.)[ch]|cpp|hpp|cs|java|kt|go|rs|rb|php|sh|bat|ps1|sql|log|pdf|docx?|xlsx?|pptx?|odt|png|jpe?g|gif|svg|webp|mp[34]|wav|zip"
    r"|gz|tgz|tar|7z|exe|dll|so|dmg|apk|iso|po|srt|vtt)(?![\w\-])",
])  # fmt: skip
_FREE = r"(?<![^\s(\[“\"'])"
_PROGRAMS = (
    *("docker compose", "docker-compose", "docker", "git", "npm", "yarn", "pnpm", "pip3", "pip", "apt-get"),
    *("apt", "dnf", "brew", "kubectl", "systemctl"),
)
_PROGRAM = f"(?:{'|'.join(_PROGRAMS)})"
_PROGRAM_ENDS = tuple(f"{name} " for name in _PROGRAMS)
_OF_LETTERS = re.compile(r"et al\.|[ACGTU]{10}|IBAN|IS[BS]N|BIC|[IVXLCDM]{3}")
_SUBCOMMAND = (
    "up|down|pull|push|run|build|exec|logs|ps|restart|install|update|upgrade|remove|start|stop|status|enable"
    "|disable|clone|commit|checkout|merge|rebase|fetch|stash|add|init|test|ci|apply|get|delete"
)
_CODE = "|".join([
    r"```[^`]{1,2000}```|``(?![^`\n]{1,500}''[^`])[^`\n]{1,500}``|`[^`\n]{1,500}`",
    r"(?<!\w)HK(?:EY_[A-Z_]{4,20}|LM|CU|CR)(?:\\[\w\-]{1,60}(?:\.\w{1,20}){0,3}){1,20}",  # Windows' registry
    # Options: `--level=3`, `-f`; settings: `DEBUG=true`; files: `.env`.
    rf"{_FREE}--[A-Za-z][\w\-]{{1,40}}(?:=[\w./:\-]{{0,100}}\w)?|{_FREE}-[A-Za-z](?![\w'’])",
    rf"{_FREE}[A-Z_][A-Z0-9_]{{1,60}}=[\w./:\-]{{0,100}}\w",
    rf"{_FREE}\.[a-z]{{2,20}}(?!\w)",
    # Names in programs: `my_name(x)`, `print()`, `C#`; forums: `r/cooking`.
    r"(?<!\w)(?![^\W\d_]{2,40}_innen(?!\w))[A-Za-z][A-Za-z0-9]{0,60}(?:_[A-Za-z0-9]{1,60}){1,10}(?:\([^()\n]{0,100}\)|(?!\w))",
    r"(?<![\w.])[A-Za-z]\w{0,60}\(\)",
    r"(?<![\w.])[A-Za-z][\w\-]{0,30}\((?=[^()]{0,60}\d)[\d.,%+\-/ ]{3,60}\)",  # rgba(0, 0, 0, 0.5)
    rf"{_FREE}(?:sudo )?{_PROGRAM}(?: (?:{_SUBCOMMAND}))+(?: --?[A-Za-z][\w\-]*)*(?![\w\-])"
    r"(?: [@\w]{0,40}[\-_.\d/@=][\w.\-/@=]{0,100}(?<=\w))?",  # `geo-tools`, `x==2`; not the next word
    r"(?<![\w\-])[A-Za-z_][\w\-]{0,40}=\"[^\"\n]{0,100}\"",
    r"(?<!\w)(?:[A-Z]{2,5})?\.NET(?!\w)|(?<!\w)(?:C\+\+(?:\d\d)?|[CF]#)(?![\w#+])",
    r"(?<![\w/])[ru]/[A-Za-z]\w{2,30}(?![\w/])",
])  # fmt: skip
# Numbers that are more than digits, with what belongs to them: currency, separators, units, dates, times.
_CURRENCY = "€$£¥₹₽₩₺₿¢"
_UNIT = (
    r"(?:%%?(?![%({$])|‰|°[CF]?|[kKMGTP]?i?[BW]h?|[kMGT]?Hz|px|pt|dpi|rpm|bpm|fps|[kMG]?bit/s|[kMG]?bps|km/h|mph|m/s|kn|"
    r"[kcmµμn]?m[²³23]?|k?g|mg|µg|[mcdh]?[lL]|ms|µs|ns|kV|mV|kW|MW|kJ|kcal|mA|hPa|Pa|bar|dB|[mµn]M|mol|Ω|″|′)"
    r"(?:/(?:[cm]?m[²³23]|kg|min|[mcd]?[lL]|[hsd])(?!\w))?"
)
# No sign of a placeholder: `20 %{key}`, `12 $t(x)`.
_SUFFIX = rf"(?:[{_CURRENCY}](?![\w({{])|{_UNIT}(?!\w))"
# `5 p.m.`, but not the German `um 8 am Montag`, `um 8 am besten`; the full stop may be that of the sentence.
_STOP_OF_SENTENCE = r"[\"'”’»)\]\s]*$|\s+(?!Mon|Tue|Wed|Thu|Fri|Sat|Sun|[A-Z]{2,4}(?!\w))[A-ZÀ-Þ¿¡]"
_HALF_DAY = (
    rf"(?:[apAP]\. ?[mM](?:\.(?!{_STOP_OF_SENTENCE}))?|[aApP]M|pm|am(?! (?:[A-ZÄÖÜ\d]|\w{{2,20}}en(?!\w))))"
)
_NUMBER = "|".join([
    # n = 5, a != b
    r"(?<![\w.])(?:[A-Za-z]\w{0,20}(?P<gap> ?)(?:[<>=≤≥]|[!=<>]=)(?P=gap)[+\-−]?\d[\d.,]*(?<=\d)"
    r"|[A-Za-z](?P<space> ?)(?:[<>=≤≥≠]|[!=<>]=)(?P=space)[A-Za-z])(?![\w'’])",
    # 1 < 2, 2 + 2 = 4
    r"(?<![\w.,])\d[\d.,]{0,20}(?: (?:[<>=≤≥+*÷−]|[!=<>]=) [+\-−]?\d[\d.,]{0,20}(?<=\d)){1,8}(?!\w)",
    r"(?<![\w.,])\d{1,2} ?h ?\d\d(?!\w)",
    # 1920×1080, 3 x 4 m, M8 x 40 mm
    r"(?<![\w.,])[A-Z]?\d+(?:[.,]\d+)?(?: ?[×✕x] ?\d+(?:[.,]\d+)?){1,3}"
    rf"(?:[ \u00a0\u202f]?{_SUFFIX})?(?!\w)",
    r"(?:(?<!\w)IBAN:? )?[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![\w])",
    r"(?<!\w)(?:IBAN|IS[BS]N)(?!\w)",
    r"(?<!\w)BIC(?!\w)(?:(?:[ \-][Cc]ode)?:? [A-Z]{6}[A-Z0-9]{2}(?:[A-Z0-9]{3})?(?!\w))?",
    r"\+\d{1,3}(?:[ .\-/]?(?:\d{1,5}|\(\d{1,5}\))){2,6}"  # telephone
    r"(?!\w|[.,]\d)(?! ?(?:[°€£](?!\d)|[%$](?![\w({])))",
    r"(?<![\w.,])0\d(?:[ .]\d\d){4}(?![\w])",
    r"(?<![\w.,])\d{3}[\-. ]\d{3}[\-. ]\d{4}(?!\w)",
    r"(?<![\w.,])\d{1,4}[/.\-]\d{1,2}[/.\-]\d{2,4}(?:T\d\d:\d\d(?::\d\d)?Z?)?(?!\w|[/\-]\d)",  # date
    r"(?<![\w.,])[vV]?\d{1,9}\.\d{1,9}\.\d{1,9}(?:\.\d{1,9})?"  # version
    r"(?:[\-+][A-Za-z0-9]{1,40}(?:\.[A-Za-z0-9]{1,40}){0,4})?(?!\w|,\d)",
    r"(?<!\w)[vV]\d{1,9}(?:\.\d{1,9}){0,3}(?!\w)",
    rf"(?<![\w.,:])\d{{1,2}}(?::\d\d(?::\d\d)?(?:[.,]\d+)?(?: ?{_HALF_DAY})?| ?{_HALF_DAY})(?!\w)",  # time
    # $100k–$150k; 49,– €
    rf"[{_CURRENCY}]\d[\d.,]*(?:[kKmM]|bn)?[-–][{_CURRENCY}]?\d[\d.,]*(?<=\d)(?:[kKmM]|bn)?(?!\w)",
    rf"(?<![\w.,])\d{{1,6}}[.,][-–—](?: ?[{_CURRENCY}])?(?![\w-])",
    rf"(?:[{_CURRENCY}]|(?<!\w)(?:US|C|A|HK)\$|(?<!\w)(?:EUR|USD|GBP|CHF) ?)"
    r" ?[+\-−]?\d[\d.,'’\u00a0\u202f]*\d",
    rf"[{_CURRENCY}] ?\d(?!\d)",
    r"(?<![\w.,])\d[\d.,'’]{0,20} ?(?:EUR|USD|GBP|CHF)(?!\w)",
    r"(?<![\w.,])[+\-−]?\d{1,3}(?:[ \u00a0\u202f]\d{3}){1,6}(?:[.,]\d+)?(?![\w])"
    rf"(?:[ \u00a0\u202f]?{_SUFFIX})?",
    r"(?<![\w.,])[+\-−±~≈<>≤≥]?\d+(?:[.,'’]\d+)+"
    rf"(?:[ \u00a0\u202f]?{_SUFFIX})?(?![\w])",
    rf"(?<![\w.,])[+\-−±~≈<>≤≥]?\d+[ \u00a0\u202f]?{_SUFFIX}",
    r"(?<![\w.,])\d+(?:[-–]\d+){1,8}(?![\w])",
    r"(?<![\w.,])\d{4,}(?![\w])",
])  # fmt: skip
# Roman numerals that are no words: `XVIII`, `MMXXIV`, neither `VI` nor `MIX`.
_UNDER_100 = "(?:X[CL]|L?X{0,3})(?:I[XV]|V?I{0,3})"
_ROMAN = (
    rf"(?<![\w.'’\-])(?:(?=[IVXL]{{3}}){_UNDER_100}|(?=[IVXLCDM]{{4}})M{{1,3}}(?:C[MD]|D?C{{0,3}}){_UNDER_100})"
    r"(?![\w\-])"
)
# Article and serial numbers, hashes, keys (`sk-4f9a1b`): letters and digits in one word; symbols of ions.
_SERIAL = "|".join([
    r"(?<!\w)et al\.",
    r"(?<![\w/])(?:c/o|m/[wf]/[dx])(?![\w/])",
    r"(?<![^\W_])(?P<same>[A-Za-z])(?P=same){3,}(?![^\W_])",  # ffffff
    r"(?<!\w)(?:[ACGT]{10,1000}|[ACGU]{10,1000})(?!\w)",  # bases of DNA and RNA
    r"(?<![\w\-])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![\w\-])",
    # Every part is in capitals or has a digit: `MX-7040b`, but neither `13-year-old` nor `CO2-Steuer`.
    r"(?<![\w\-])(?=[A-Z\-]{0,80}\d)(?=[\d\-]{0,80}[A-Z])[A-Z0-9]{2,40}"
    r"(?:-(?:[A-Z0-9]{1,40}|(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{1,40})(?![A-Za-z0-9])){1,8}(?![\w\-])",
    r"(?<![\w\-])(?=\w{0,80}\d)(?=\w{0,80}[A-Za-z])(?!\d{1,4}(?:st|nd|rd|th|er|re|e|o|a|è|ème|h|s|x)(?!\w)|\d{1,9}[a-z]{3,}(?!\w))[A-Za-z0-9]{3,128}(?![\w\-])",
    r"(?<![\w\-])[A-Z]{1,3}\d{1,4}(?![\w\-])",
    r"(?<![\w\-])[A-Za-z]{1,8}[\-_](?=[A-Za-z]{0,40}\d{1,40}[A-Za-z]{1,40}\d)[A-Za-z0-9]{6,128}(?![\w\-])",
    r"(?<![^\W_])(?=[A-Za-z]{1,12}[₀-₉])[A-Za-z₀-₉]{2,24}[⁺⁻]?(?!\w)",  # H₂O
    r"[⌘⌥⇧⌃]{1,4}[A-Z0-9]?(?!\w)",
    r"(?<!\w)[A-Z][a-z]?\d*[+\-](?![\w])(?=[\s.,:;?!)”»\"]|$)",
])  # fmt: skip

# Behind addresses and paths, which they would cut short: `com.example.Main`, `os.path`.
_DOTTED = "|".join([
    r"(?<![\w.])[a-z][a-z0-9]{0,60}(?:\.[a-z][a-z0-9]{0,60}){1,10}\.[A-Z]\w{0,60}(?:\(\))?",
    r"(?<![\w.@])[a-z_][a-z0-9_]{1,60}(?:\.(?:[a-z_][a-z0-9_]{1,60}|[A-Z]{2,60})){1,10}(?:\(\)|(?![\w(]))",
])  # fmt: skip

# Of houses: `Lindenweg 4`, `14 Thistledown Close`, `12 rue des Lilas`, `calle Mayor 3`.
_CAPITAL = r"[A-ZÀ-ÖØ-Þ][\w\-]{1,30}"
_STREET = "|".join([
    r"(?<![\w\-])[A-ZÄÖÜ][\w\-]{1,40}(?:straße|strasse|str\.|weg|gasse|allee|stieg|damm|ufer|platz)"
    r" \d{1,4}(?: ?[a-h])?(?![\w.,:]\d|\w)",
    r"(?<![\w.,])\d{1,5}[A-Za-z]? (?:[A-Z][\w'’]{1,30} ){1,2}"
    r"(?:Street|St|Road|Rd|Close|Lane|Avenue|Ave|Drive|Court|Square|Terrace|Crescent)(?![\w'’])",
    r"(?<![\w.,])\d{1,5}(?: bis| ter)?,? (?:rue|avenue|boulevard|chemin|allée|impasse)"
    rf" (?:d[eu] |des |de la |(?:de l|d)['’])?{_CAPITAL}(?: {_CAPITAL})?",
    r"(?<!\w)(?:[Cc]alle|[Aa]venida|[Pp]laza|[Pp]aseo|[Cc]/|[Aa]vda\.|[Pp]za\.) (?:del? |de las? |de los )?"
    rf"{_CAPITAL}(?: {_CAPITAL})?,? (?:n\.?º )?\d{{1,4}}(?![\w.,:]\d|\w)",
])  # fmt: skip

_ALWAYS = re.compile(
    "|".join(
        [
            _CODE,
            MATH,
            _TEX,
            r"(?<!\w)_{3,}(?!\w)|(?<!\S)(?:\.{4,}|(?:\. ){3,}\.)(?!\S)",  # a line to fill in, or to a number
            f"(?P<address>{_ADDRESS})",
            _PLACEHOLDER,
            f"(?P<path>{_PATH})",
            _HANDLE,
            _STREET,
            _NUMBER,
            _SERIAL,
            _ROMAN,
            _DOTTED,
        ]
    )
)
_PLAIN_NUMBER = re.compile(r"\d+")
_PLAIN = re.compile(r"\d[\d.,:'’]*")
_FEW_DIGITS = 6
# A text without any of these holds nothing of the above; most texts have none.
_SOME = re.compile(
    r"[\d{}%$@#`\\/<\[_:+=€£¥°&|₀-₉⌘⌥⇧⌃]|www\.|\.\w|\.\.\.\.|\. \.|\(\)|([A-Za-z])\1{3}"
    rf"|{_OF_LETTERS.pattern}|{_FREE}(?:--?[A-Za-z]|{_PROGRAM} )"
)
_LAST = ".,;:!?…'\"’”»)]}"
_OPENING = {")": "(", "]": "[", "}": "{"}


def find_spans(text: str, protect: Sequence[Any] = ()) -> list[Span]:
    """Find what must come back as it is.

    Args:
        text: of one block.
        protect: what else the client wants to keep: patterns, of `re` or with its `finditer`.

    Returns:
        Disjoint spans, ascending; none is empty.
    """
    found = [span for span in _matches(text) if not _is_plain_number(text, *span)]
    for pattern in protect:
        found += [match.span() for match in pattern.finditer(text) if match.end() > match.start()]
    if not found:
        return []
    return [Span(start, end) for start, end in _whole_words(text, found)]


def has_spans_of_letters(text: str) -> bool:
    """Tell whether a text of nothing but letters may hold spans: commands, bases of DNA, `et al.`, `XVI`."""
    return any(name in text for name in _PROGRAM_ENDS) or _OF_LETTERS.search(text) is not None


def _matches(text: str) -> list[tuple[int, int]]:
    if not _SOME.search(text):
        return []
    return [
        _end_of_address(text, *match.span()) if match.lastgroup in ("address", "path") else match.span()
        for match in _ALWAYS.finditer(text)
    ]


def _is_plain_number(text: str, start: int, end: int) -> bool:
    """Tell whether a model mostly copies it: few digits, and no more than separators between them."""
    found = text[start:end]
    if _PLAIN.fullmatch(found) is None or found.isdigit():
        return False
    return sum(map(str.isdigit, found)) <= _FEW_DIGITS


def find_numbers(segment: Segment) -> list[Span]:
    """Find the numbers outside of a segment's spans, which a model mostly copies.

    Args:
        segment: a sentence.

    Returns:
        Disjoint spans, ascending.
    """
    kept = [(span.start, span.end) for span in segment.spans]
    # Without the words of the spans: no number grows into one that it touches.
    text = segment.edited([(start, end, "\n" * (end - start)) for start, end in kept]).text
    found = [*_matches(text), *(match.span() for match in _PLAIN_NUMBER.finditer(text))]
    free = [(start, end) for start, end in found if "\n" not in text[start:end]]
    return [Span(start, end) for start, end in _whole_words(text, free)]


def compile_protected(words: Iterable[str]) -> list[re.Pattern[str]]:
    """Turn what a client names into patterns: words as they stand, bounded by word borders.

    Args:
        words: of the request.

    Returns:
        One pattern for each of them, as they may overlap.
    """
    return [
        re.compile(
            (r"(?<!\w)" if word[0].isalnum() else "")
            + re.escape(word)
            + (r"(?!\w)" if word[-1].isalnum() else "")
        )
        for word in dict.fromkeys(words)
        if word.strip()
    ]


def _end_of_address(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave the marks behind an address or path to the sentence, and brackets that it does not open."""
    too_many = {
        closing: text.count(closing, start, end) - text.count(opening, start, end)
        for closing, opening in _OPENING.items()
    }
    while end > start + 1 and text[end - 1] in _LAST:
        mark = text[end - 1]
        if mark in too_many:
            if too_many[mark] <= 0:
                break
            too_many[mark] -= 1
        end -= 1
    return start, end


def _whole_words(text: str, found: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Take letters that touch a span into it: a mask must stand alone. Join what overlaps or touches.

    No character is looked at twice, however many spans a word has.
    """
    wide: list[tuple[int, int]] = []
    for start, end in sorted(found):
        first = wide[-1][1] if wide else 0
        if end <= first:
            continue
        if is_of_word(text[start]):
            while start > first and is_of_word(text[start - 1]):
                start -= 1
        while end < len(text) and is_of_word(text[end]):
            end += 1
        if not is_of_word(text[start]):
            while start > first and text[start - 1].isalpha() and text[start] != "<":
                start -= 1
        if wide and start <= first:
            wide[-1] = wide[-1][0], end
        else:
            wide.append((start, end))
    return wide
