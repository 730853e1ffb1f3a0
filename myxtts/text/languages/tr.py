"""Turkish."""

from myxtts.text.languages import Language

LANGUAGE = Language(
    alphabet="abcçdefgğhıijklmnoöprsştuüvyzâîûqwx",
    lower=lambda text: text.replace("I", "ı").replace("İ", "i").lower(),
    point="virgül",
    minus="eksi",
    symbols={"&": "ve", "€": "avro", "°": "derece"},
    rules=((r"%\s?(\d+)", r"yüzde \1"),),
)
