"""Arabic."""

from myxtts.text.languages import Language

LANGUAGE = Language(
    alphabet="ابتثجحخدذرزسشصضطظعغفقكلمنهويءآأؤإئىةًٌٍَُِّْٰ",
    point="فاصلة",
    minus="سالب",
    symbols={"%": "بالمئة", "٪": "بالمئة", "&": "و", "°": "درجة"},
)
