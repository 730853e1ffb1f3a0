"""Records the ids that PyPI's `tokenizers` gives; see make_reference.py for the environment.

    python make_texts.py

Writes vocab.json, a BPE in the published form of a size that fits formula.py, and texts.json.
"""

import json
import random
from pathlib import Path

from formula import TAGS, TEXT_TOKENS
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.trainers import BpeTrainer

HERE = Path(__file__).parent
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


def vocabulary() -> dict:
    plain = Tokenizer(BPE(unk_token="[UNK]"))
    plain.pre_tokenizer = Whitespace()
    special = ["[STOP]", "[UNK]", "[SPACE]"]
    trainer = BpeTrainer(vocab_size=TEXT_TOKENS - len(TAGS), special_tokens=special)
    plain.train_from_iterator([line.lower() for line in LINES[:6]] * 3, trainer)
    made = json.loads(plain.to_str())["model"]
    free = (i for i in range(TEXT_TOKENS) if i not in TAGS.values())
    pieces = {piece: next(free) for piece in sorted(made["vocab"], key=made["vocab"].get)} | TAGS
    pieces |= {f"<unused{i}>": i for i in free}
    tokens = {name: pieces[name] for name in [*special, *TAGS]}
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


def main() -> None:
    path = HERE / "vocab.json"
    path.write_text(json.dumps(vocabulary(), ensure_ascii=False), encoding="utf-8")
    theirs, chance = Tokenizer.from_file(str(path)), random.Random(1)
    letters = "".join(LINES).lower() + "ठ़ि्َُ "
    texts = [f"[en]{line.lower()}".replace(" ", "[SPACE]") for line in LINES] + ODD
    texts += ["".join(chance.choices(letters, k=chance.randint(1, 40))) for _ in range(150)]
    ids = [theirs.encode(text).ids for text in texts]
    recorded = [dict(text=text, ids=row) for text, row in zip(texts, ids, strict=True)]
    rows = ",\n".join(json.dumps(row, ensure_ascii=False) for row in recorded)
    (HERE / "texts.json").write_text(f"[{rows}]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
