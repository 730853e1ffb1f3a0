"""Records what the published code makes of texts; see make_reference.py for the environment.

    pip install num2words==0.5.14 pypinyin==0.55.0 cutlet==0.5.2 fugashi==1.5.2
    pip install unidic-lite==1.0.8 hangul-romanize==0.1.0 "spacy[ja]==3.8.18"
    python make_texts.py

Fills in the third column of cleaned.tsv (other versions of the libraries may give other words) and
the pieces of long_texts.json. Writes vocab.json, a BPE in the published form of a size that fits
formula.py, many_vocab.json, one of all 17 languages, and the ids that PyPI's `tokenizers` gives
with each: texts.json and many_texts.json.
"""

import json
import random
from pathlib import Path

from formula import TAGS, TEXT_TOKENS
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.trainers import BpeTrainer
from TTS.tts.layers.xtts.tokenizer import VoiceBpeTokenizer, split_sentence

HERE = Path(__file__).parent
CLEANED, MANY = HERE / "cleaned.tsv", HERE / "many_vocab.json"
LANGUAGES = str.split("en de fr es it pt pl tr ru nl cs ar zh-cn hu ko ja hi")
LINES = [
    "Hello world. It took me quite a long time to develop a voice, and I'm not silent.",
    "Este es un test; cuesta mucho, señora. Había cincuenta soldados.",
    "En douze secondes, Mme. Dupont et moi: où êtes-vous né ?",
    "Dies ist ein Test für Fräulein Müller: fünfzig Soldaten, größer.",
    "Через двенадцать секунды г-н Иванов скажет привет.",
    "नमस्ते दुनिया, कैसे हैं आप?",
    "مَرحَبًا بِالعالَم، كيف حالك؟",
    "ni3 hao3 shi4 jie4!",
]
ODD = ["x_y a\u200cb Ⅳ ½ ²", "...?!«»—", "", "   ", "ž[en]q[SPACE]", "[UNK] [fr][start]", "\t\n a"]


def vocabulary(lines: list[str], size: int, tags: dict[str, int]) -> dict:
    """A BPE of `size` tokens in the published form; `tags` are its special tokens but for three."""
    plain = Tokenizer(BPE(unk_token="[UNK]"))
    plain.pre_tokenizer = Whitespace()
    special = ["[STOP]", "[UNK]", "[SPACE]"]
    trainer = BpeTrainer(vocab_size=size - len(tags), special_tokens=special)
    plain.train_from_iterator(lines, trainer)
    made = json.loads(plain.to_str())["model"]
    free = (i for i in range(size) if i not in tags.values())
    pieces = {piece: next(free) for piece in sorted(made["vocab"], key=made["vocab"].get)} | tags
    pieces |= {f"<unused{i}>": i for i in free}
    tokens = {name: pieces[name] for name in [*special, *tags]}
    made |= dict(vocab=pieces, unk_token="[UNK]")
    added = [
        dict(id=i, content=name, special=True, single_word=False, lstrip=False, rstrip=False,
             normalized=False)
        for name, i in tokens.items()
    ]  # fmt: skip
    return dict(
        version="1.0", truncation=None, padding=None, added_tokens=added, normalizer=None,
        pre_tokenizer={"type": "Whitespace"}, post_processor=None, decoder=None, model=made,
    )  # fmt: skip


def cleaned() -> list[tuple[str, str, str]]:
    """The rows of cleaned.tsv, with the third column as the published code fills it."""
    published, rows = VoiceBpeTokenizer(), []
    head, *lines = CLEANED.read_text(encoding="utf-8").splitlines()
    for line in lines:
        language, text = line.split("\t")[:2]
        try:
            rows.append((language, text, published.preprocess_text(text, language)))
        except (NotImplementedError, LookupError):
            rows.append((language, text, "!"))
    text = "\n".join([head, *map("\t".join, rows)])
    CLEANED.write_text(text + "\n", encoding="utf-8")
    return rows


def many(rows: list[tuple[str, str, str]]) -> None:
    """A vocabulary of all languages, and what the published tokenizer makes of some raw texts."""
    tags = {"[START]": 261} | {f"[{name}]": 600 + i for i, name in enumerate(LANGUAGES)}
    made = vocabulary([row[2] for row in rows], 640, tags)
    MANY.write_text(json.dumps(made, ensure_ascii=False), encoding="utf-8")
    published, left, recorded = VoiceBpeTokenizer(str(MANY)), dict.fromkeys(LANGUAGES, 7), []
    for language, text, written in rows:
        tag = "zh-cn" if language == "zh" else language
        if written != "!" and left[tag]:
            left[tag] -= 1
            ids = published.encode(text, tag)
            recorded.append(dict(language=tag, text=text, ids=ids))
    write_rows("many_texts.json", recorded)


def long_texts() -> None:
    """The pieces that the published code speaks one by one."""
    path, limits = HERE / "long_texts.json", VoiceBpeTokenizer().char_limits
    rows = json.loads(path.read_text(encoding="utf-8"))
    for row in rows:
        language, text = row["language"], row["text"]
        row["pieces"] = split_sentence(text, language, limits[language])
    write_rows(path.name, rows)


def write_rows(name: str, rows: list) -> None:
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (HERE / name).write_text(f"[{lines}]\n", encoding="utf-8")


def main() -> None:
    path = HERE / "vocab.json"
    made = vocabulary([line.lower() for line in LINES[:6]] * 3, TEXT_TOKENS, TAGS)
    path.write_text(json.dumps(made, ensure_ascii=False), encoding="utf-8")
    theirs, chance = Tokenizer.from_file(str(path)), random.Random(1)
    letters = "".join(LINES).lower() + "ठ़ि्َُ "
    texts = [f"[en]{line.lower()}".replace(" ", "[SPACE]") for line in LINES] + ODD
    texts += ["".join(chance.choices(letters, k=chance.randint(1, 40))) for _ in range(150)]
    ids = [theirs.encode(text).ids for text in texts]
    recorded = [dict(text=text, ids=row) for text, row in zip(texts, ids, strict=True)]
    write_rows("texts.json", recorded)
    many(cleaned())
    long_texts()


if __name__ == "__main__":
    main()
