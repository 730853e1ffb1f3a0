"""The words of each language for signs and abbreviations, and its endings of ordinals.

One entry per language; Japanese has none, because its romaniser reads the text as it is.
"""

import dataclasses
from collections.abc import Mapping

SIGNS = "&@%#$£°"


@dataclasses.dataclass(frozen=True)
class Wording:
    signs: tuple[str, ...]  # the words for SIGNS, in that order
    # The endings that make a number an ordinal, as a regular expression; empty: no ordinals.
    ordinal: str = ""
    # What num2words puts between units and cents; in amounts without cents, everything from it on
    # is dropped.
    joint: str = ", "
    abbreviations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    ends_with_point: bool = True  # an abbreviation counts only with a point after it


def _wording(signs: str, *, abbreviations: str = "", **more) -> Wording:
    """A `Wording` from `signs`, separated by bars, and abbreviations as "short=long", separated by
    commas."""
    pairs = (pair.split("=") for pair in abbreviations.split(",") if pair)
    return Wording(tuple(signs.split("|")), abbreviations={k: v for k, v in pairs}, **more)


WORDINGS: dict[str, Wording] = {
    "en": _wording(
        "and|at|percent|hash|dollar|pound|degree",
        ordinal="st|nd|rd|th",
        abbreviations="mrs=misess,mr=mister,dr=doctor,st=saint,co=company,jr=junior,maj=major,"
        "gen=general,drs=doctors,rev=reverend,lt=lieutenant,hon=honorable,sgt=sergeant,"
        "capt=captain,esq=esquire,ltd=limited,col=colonel,ft=fort",
    ),
    "es": _wording(
        "y|arroba|por ciento|numeral|dolar|libra|grados",
        ordinal="º|ª|er|o|a|os|as",
        joint=" con ",
        abbreviations="sra=señora,sr=señor,dr=doctor,dra=doctora,st=santo,co=compañía,jr=junior,"
        "ltd=limitada",
    ),
    "fr": _wording(
        "et|arobase|pour cent|dièse|dollar|livre|degrés",
        ordinal="º|ª|er|re|e|ème",
        joint=" et ",
        abbreviations="mme=madame,mr=monsieur,dr=docteur,st=saint,co=compagnie,jr=junior,"
        "ltd=limitée",
    ),
    "de": _wording(
        "und|at|prozent|raute|dollar|pfund|grad",
        ordinal=r"st|nd|rd|th|º|ª|\.(?=\s|$)",
        joint=" und ",
        abbreviations="fr=frau,dr=doktor,st=sankt,co=firma,jr=junior",
    ),
    "pt": _wording(
        "e|arroba|por cento|cardinal|dólar|libra|graus",
        ordinal="º|ª|o|a|os|as",
        joint=" e ",
        abbreviations="sra=senhora,sr=senhor,dr=doutor,dra=doutora,st=santo,co=companhia,"
        "jr=júnior,ltd=limitada",
    ),
    "it": _wording(
        "e|chiocciola|per cento|cancelletto|dollaro|sterlina|gradi",
        ordinal="º|°|ª|o|a|i|e",
        joint=" e ",
        abbreviations="sig=signore,dr=dottore,st=santo,co=compagnia,jr=junior,ltd=limitata",
    ),
    "pl": _wording(
        "i|małpa|procent|krzyżyk|dolar|funt|stopnie",
        ordinal="º|ª|st|nd|rd|th",
        abbreviations="p=pani,m=pan,dr=doktor,sw=święty,jr=junior",
    ),
    "tr": _wording(
        "ve|at|yüzde|diyez|dolar|sterlin|derece",
        ordinal=r"\.|inci|nci|uncu|üncü",
        abbreviations="b=bay,byk=büyük,dr=doktor",
    ),
    "ru": _wording(
        "и|собака|процентов|номер|доллар|фунт|градус",
        ordinal="-й|-я|-е|-ое|-ье|-го",
        abbreviations="г-жа=госпожа,г-н=господин,д-р=доктор",
        ends_with_point=False,
    ),
    "nl": _wording(
        "en|bij|procent|hekje|dollar|pond|graden",
        ordinal="de|ste|e",
        abbreviations="dhr=de heer,mevr=mevrouw,dr=dokter,jhr=jonkheer",
    ),
    "cs": _wording(
        "a|na|procento|křížek|dolar|libra|stupně",
        ordinal=r"\.(?=\s|$)",
        abbreviations="dr=doktor,ing=inženýr,p=pan",
    ),
    "ar": _wording(
        "و|على|في المئة|رقم|دولار|جنيه|درجة",
        ordinal="ون|ين|ث|ر|ى",
    ),
    "hu": _wording(
        "és|kukac|százalék|kettőskereszt|dollár|font|fok",
        ordinal=r"\.|adik|edik|odik|ödik|ödike|ik",
        abbreviations="dr=doktor,b=bácsi,nőv=nővér",
    ),
    "ko": _wording(
        "그리고|에|퍼센트|번호|달러|파운드|도",
        ordinal="번째|번|차|째",
    ),
    "hi": _wording(
        "और|ऐट दी रेट|प्रतिशत|हैश|डॉलर|पाउंड|डिग्री",
        ordinal="st|nd|rd|th",
    ),
    # By then Chinese punctuation has become commas, and so have all signs but these two.
    "zh": _wording("和|在|百分之|号|美元|英镑|度"),
}
