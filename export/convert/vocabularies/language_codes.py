"""What models call their languages, in the codes that people use (BCP 47, RFC 5646).

NLLB writes ISO 639-3 and a script (``eng_Latn``), mBART ISO 639-1 and a region (``en_XX``), M2M100 two or
three letters. The shortest code that tells one language of a model from the others is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from export.convert.huggingface_files import HuggingFaceError
from export.convert.vocabularies.vocabulary import ImportNames

_M2M100 = """
af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht
hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps
pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu
"""

_MBART = """
ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP
nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN
mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI
"""

# Two letters of ISO 639-1 for three of 639-3. Where a model knows one language of a macrolanguage, as Iranian
# Persian or Standard Malay, it stands for it.
_TWO_LETTERS = """
afr:af aka:ak als:sq amh:am arb:ar asm:as ayr:ay azj:az bak:ba bam:bm bel:be ben:bn bod:bo bos:bs bul:bg
cat:ca ces:cs cym:cy dan:da deu:de dzo:dz ell:el eng:en epo:eo est:et eus:eu ewe:ee fao:fo fij:fj fin:fi
fra:fr fuv:ff gaz:om gla:gd gle:ga glg:gl grn:gn guj:gu hat:ht hau:ha heb:he hin:hi hrv:hr hun:hu hye:hy
ibo:ig ind:id isl:is ita:it jav:jv jpn:ja kan:kn kas:ks kat:ka kaz:kk khk:mn khm:km kik:ki kin:rw kir:ky
kmr:ku knc:kr kon:kg kor:ko lao:lo lim:li lin:ln lit:lt ltz:lb lug:lg lvs:lv mal:ml mar:mr mkd:mk mlt:mt
mri:mi mya:my nld:nl nno:nn nob:nb npi:ne nya:ny oci:oc ory:or pan:pa pbt:ps pes:fa plt:mg pol:pl por:pt
quy:qu ron:ro run:rn rus:ru sag:sg san:sa sin:si slk:sk slv:sl smo:sm sna:sn snd:sd som:so sot:st spa:es
srd:sc srp:sr ssw:ss sun:su swe:sv swh:sw tam:ta tat:tt tel:te tgk:tg tgl:tl tha:th tir:ti tsn:tn tso:ts
tuk:tk tur:tr twi:tw uig:ug ukr:uk urd:ur uzn:uz vie:vi wol:wo xho:xh ydd:yi yor:yo zho:zh zsm:ms zul:zu
"""

M2M100 = _M2M100.split()
"""Languages of M2M100 in the order of their ids, which its files may not state."""

MBART = _MBART.split()
"""Those of mBART-50; the first 25 are mBART-25's."""

_SHORT = dict(entry.split(":") for entry in _TWO_LETTERS.split())


def ordered_codes(directory: Path, theirs: Iterable[str], names: ImportNames) -> dict[str, str]:
    """Map a model's own codes to what they are called here, those that the importer names first, as named.

    Args:
        directory: named in errors.
        theirs: the model's codes.
        names: what the importer says: a code of either kind, or ``pt=por_Latn``.

    Raises:
        HuggingFaceError: the model has no such language.
    """
    called = common_codes(theirs)
    order: dict[str, str] = {}
    for wanted in (*(names.sources or ()), *(names.targets or ())):
        shown, _, code = wanted.partition("=")
        order[_find(directory, code or shown, called)] = shown.replace("_", "-")
    if not order and "en" in called.values():
        order[_find(directory, "en", called)] = "en"
    return order | {code: shown for code, shown in called.items() if code not in order}


def _find(directory: Path, asked: str, called: Mapping[str, str]) -> str:
    wanted = asked.replace("-", "_").casefold()
    for theirs, common in called.items():
        if wanted in (theirs.casefold(), common.replace("-", "_").casefold()):
            return theirs
    some = ", ".join(sorted(called.values())[:20])
    raise HuggingFaceError(f"{directory}: has no language {ascii(asked)[:60]}; it has {some} and so on")


def common_codes(theirs: Iterable[str]) -> dict[str, str]:
    """Map a model's own codes to common ones; two that would be alike keep their script or region."""
    parts = {code: code.split("_", 1) for code in theirs}
    alike = Counter(_short(language) for language, *_ in parts.values())
    return {
        code: _short(language) if alike[_short(language)] == 1 else "-".join((_short(language), *rest))
        for code, (language, *rest) in parts.items()
    }


def _short(language: str) -> str:
    return _SHORT.get(language, language)
