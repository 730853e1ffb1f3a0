"""Metadata tables of corpora: csv, tsv or `|`-separated, with or without a header line."""

import csv
from collections.abc import Iterator
from pathlib import Path

from myxtts import UserError
from myxtts.corpus.bad_clip import BadClip

_METADATA_NAMES = (
    "metadata.csv",
    "metadata_train.csv",
    "metadata_val.csv",
    "metadata_eval.csv",
    "metadata.tsv",
    "metadata.txt",
    "train.csv",
    "val.csv",
    "train.txt",
    "val.txt",
)
_COLUMN_NAMES = {
    "id": {"id", "clip", "clip_id", "utt_id", "name"},
    "path": {"path", "wav", "wav_path", "audio", "audio_path", "audio_file", "file", "filename"},
    "text": {"text", "sentence", "transcript", "transcription", "raw_text"},
    "normalised": {"normalised", "normalized", "normalised_text", "normalized_text"},
    "speaker": {"speaker", "speaker_id", "speaker_name", "client_id"},
    "language": {"language", "lang", "locale", "language_id"},
}


def metadata_file(root: Path, name: str | None = None) -> Path | None:
    """The corpus's metadata table: the one named, a usual name, or the only table there is."""
    if name:
        return root / name
    for name in _METADATA_NAMES:
        if (root / name).is_file():
            return root / name
    tables = sorted(p for p in root.iterdir() if p.suffix.lower() in (".csv", ".tsv"))
    return tables[0] if len(tables) == 1 else None


def read_table(
    path: Path, delimiter: str | None = None, header: bool | None = None
) -> Iterator[tuple[dict[str, str], BadClip | None]]:
    """Yields (cells by column, problem) for each line of a table with or without a header.

    Without a header the columns are "0", "1", ... The file is read line by line; a line that is not
    UTF-8 is yielded with its problem.
    """
    names: list[str] | None = None
    try:
        file = path.open("rb")
    except OSError as error:
        raise UserError(f"the metadata file {path} cannot be read: {error.strerror}") from None
    with file:
        for number, raw in enumerate(file, 1):
            problem = None
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError:
                line = raw.decode("utf-8", errors="replace").rstrip("\r\n")
                problem = BadClip("text missing", f"line {number} of {path.name} is not UTF-8")
            if not line.strip():
                continue
            if delimiter is None:
                delimiter = next((d for d in ("|", "\t", ",") if d in line), "|")
            cells = _cells(line, delimiter)
            if names is None:
                known = [_column(cell) for cell in cells]
                is_header = "text" in known and (header or "path" in known or "id" in known)
                if header and not is_header:
                    raise UserError(f"{path} has no header line with a path and a text column")
                if is_header:
                    names = [k or cell for k, cell in zip(known, cells, strict=True)]
                    continue
                names = []
            if names:
                yield dict(zip(names, cells, strict=False)), problem
            else:
                yield {str(i): cell for i, cell in enumerate(cells)}, problem


def _cells(line: str, delimiter: str) -> list[str]:
    # Only comma tables quote; in `|` and tab tables a quotation mark is part of the sentence.
    quoting = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
    try:
        return [c.strip() for c in next(csv.reader([line], delimiter=delimiter, quoting=quoting))]
    except csv.Error:
        return [c.strip() for c in line.split(delimiter)]


def _column(cell: str) -> str | None:
    cell = cell.strip().lower()
    return next((column for column, names in _COLUMN_NAMES.items() if cell in names), None)
