"""Numbers in Chinese texts, and Chinese punctuation.

Dates, money, telephone numbers, fractions, percentages and quantities are searched in this order. A
match replaces the first occurrence of the same text, which may be elsewhere: 2个 changes an earlier
12%. The published cleaners do so, and the ids depend on it.
"""

import re
import string
from collections.abc import Callable

_DIGITS = "零一二三四五六七八九"
# Powers of ten with a sign of their own: 10, 100, 1000, then every fourth from 10^4 on.
_UNITS = [*zip("十百千万", (1, 2, 3, 4), strict=True)]
_UNITS += [(sign, 8 + 4 * place) for place, sign in enumerate("亿兆京垓秭穰沟涧正载")]
_MEASURES = (
    "丈世丘丝两个丸代令件伏位冬出刀分刻勺匹升单卮厘双叠口只合名周啖回场块坡堂堆墙壳壶夏夜天头季客家寸对寻尺尾"
    "层山岁岭常幢年座张忽户手扎打担挑捆撮支斗斛斤日旬时春曲更月本条杯板枝根桶棵毫江泡溪炮煲片瓶盆盏盒盘石砣碗碟"
    "秋秒程窠笼管箩箱篮簋粒纪线罐网罗群脚腔袋袭课贯贴跳身辆辈道里针钟钧钱钵铢铺锅锱阙队阵面页顶颗首"
)
_NUMBER = r"\d+(?:\.\d+)?"
_MONEY_UNIT = "(?:亿|千万|百万|[万千百元块角毛分])"
_PUNCTUATION = (
    string.punctuation
    + "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣､、〃"
    + "《》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏·〈〉"
)
_COMMAS = str.maketrans(dict.fromkeys(_PUNCTUATION, ","))


def chinese_in_words(text: str) -> str:
    """The text with its numbers in characters, and with commas for all punctuation."""
    text = f"^{text}$"  # patterns need a character before numbers, and after telephone numbers
    for pattern, said in _RULES:
        text = text.replace("％", "%") if said is _percentage else text
        for match in [*pattern.finditer(text)]:
            if match[1]:
                text = text.replace(match[1], said(match[1]), 1)
    return text.lstrip("^").rstrip("$").translate(_COMMAS)


def cardinal(number: str) -> str:
    """一百二十三 for "123", 三点五 for "3.5"; 两 for a two that counts hundreds or more."""
    whole, _, places = number.partition(".")
    # Pairs of a sign and its power of ten; digits have none.
    signs = _signs(whole) if len(whole) > 1 else [(_DIGITS[int(c)], 0) for c in whole]
    powers = [10, *(power for _, power in signs), 0]
    said = ""
    for place, (sign, _) in enumerate(signs):
        before, after = powers[place], powers[place + 2]
        first = place == 0 or before > 1
        said += "两" if sign == "二" and first and after > 1 else sign
    if places:
        said += "点" + digits(places)
        if said[0] == "点":
            return "零" + said
    return said[1:] if said.startswith("一十") else said


def digits(number: str) -> str:
    """一二三 of "123"."""
    return "".join(_DIGITS[int(c)] for c in number if c not in "+- ")


def _signs(number: str) -> list[tuple[str, int]]:
    kept = number.lstrip("0")
    if len(kept) < 2:
        zero = [("零", 0)] if len(kept) < len(number) else []
        return [*zero, (_DIGITS[int(kept)], 0)] if kept else []
    sign, power = next(unit for unit in reversed(_UNITS) if unit[1] < len(kept))
    return [*_signs(number[:-power]), (sign, power), *_signs(kept[-power:])]


def _numbers(text: str) -> str:
    return re.sub(_NUMBER, lambda match: cardinal(match[0]), text)


def _date(text: str) -> str:
    return _numbers(re.sub(r"\d+(?=年)", lambda match: digits(match[0]), text))


def _fraction(text: str) -> str:
    above, below = text.split("/")
    return f"{cardinal(below)}分之{cardinal(above)}"


def _percentage(text: str) -> str:
    return "百分之" + cardinal(text.strip("%"))


def _latin_two(text: str) -> str:
    return text.replace("二", "2")


_RULES: list[tuple[re.Pattern, Callable[[str], str]]] = [
    (re.compile(pattern), said)
    for pattern, said in (
        (r"\D+((?:(?:[089]\d|(?:19|20)\d{2})年)?(?:\d{1,2}月(?:\d{1,2}[日号])?)?)", _date),
        (rf"\D+({_NUMBER}[多余几]?{_MONEY_UNIT}(?:\d{_MONEY_UNIT}?)?)", _numbers),
        (r"\D((?:\+?86 ?)?1(?:[38]\d|5[0-35-9]|7[678]|9[89])\d{8})\D", digits),
        (r"\D((?:0(?:10|2[1-3]|[3-9]\d{2})-?)?[1-9]\d{6,7})\D", digits),
        (r"(\d+/\d+)", _fraction),
        (rf"({_NUMBER}%)", _percentage),
        (rf"({_NUMBER})[多余几]?(?:[{_MEASURES}]|[千微][克米])", cardinal),
        (r"(\d{4,32})", digits),
        (rf"({_NUMBER})", cardinal),
        (r"([a-zA-Z]+二[a-zA-Z]+)", _latin_two),  # B2B, P2P
    )
]
