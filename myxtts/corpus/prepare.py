"""Prepares a corpus: checks every clip once, copies it if needed, and lists it in the manifest."""

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tqdm import tqdm

from myxtts import UserError
from myxtts.config import PrepareConfig, to_json, write_whole
from myxtts.corpus import clips, manifest
from myxtts.corpus.bad_clip import BadClip
from myxtts.corpus.clips import Clip
from myxtts.corpus.formats import CorpusFormat, ReadOptions, Row, choose_format
from myxtts.corpus.ledger import Ledger
from myxtts.corpus.summary import Summary
from myxtts.corpus.tables import metadata_file
from myxtts.corpus.workers import WorkerDied, default_workers, in_order


@dataclasses.dataclass(frozen=True)
class Source:
    """A corpus as the user names it."""

    directory: str | os.PathLike
    format: str = "auto"
    metadata: str | None = None
    audio_dir: str | None = None
    language: str = "en"
    speaker: str | None = None

    @property
    def root(self) -> Path:
        root = Path(os.path.abspath(self.directory))
        if not root.is_dir():
            raise UserError(f"the corpus {self.directory} is not a directory")
        for name, flag in ((self.metadata, "metadata"), (self.audio_dir, "audio_dir")):
            if name and (os.path.isabs(name) or ".." in Path(name).parts):
                raise UserError(f"--{flag}={name} must be a path inside {self.directory}")
        return root

    def prepared_dir(self, sample_rate: int = PrepareConfig.sample_rate) -> Path:
        """Where the corpus is prepared by default: inside itself."""
        suffix = f"_{Path(self.metadata).stem}" if self.metadata else ""
        if sample_rate != PrepareConfig.sample_rate:
            suffix += f"_{sample_rate}"
        return self.root / f"prepared{suffix}"


def prepare(
    source: Source,
    settings: PrepareConfig | None = None,
    prepared: str | os.PathLike | None = None,
    *,
    workers: int | None = None,
    max_rejected: float = 0.2,
    progress: bool = True,
) -> tuple[Path, Summary]:
    """Brings the prepared directory up to date; returns it and the summary.

    Unchanged clips are not read again. After an interruption the next call continues where this one
    stopped. Raises UserError if a larger share than `max_rejected` of the clips is bad;
    rejected.tsv lists them with reasons.
    """
    settings = settings or PrepareConfig()
    root = source.root
    options = ReadOptions(source.metadata, source.audio_dir)
    corpus_format = choose_format(root, source.format, options)
    prepared = Path(os.path.abspath(prepared or source.prepared_dir(settings.sample_rate)))
    way = os.path.relpath(root, prepared)
    summary = Summary(settings.sample_rate)
    with _writable(prepared), contextlib.ExitStack() as stack:
        copies = prepared / manifest.COPIES
        copies.mkdir(parents=True, exist_ok=True)
        ledger = Ledger(prepared / "clips.sqlite", clips.settings_key(settings))
        stack.callback(ledger.close)
        accepted = stack.enter_context(_replaced(prepared / "manifest.tsv"))
        rejected = stack.enter_context(_replaced(prepared / "rejected.tsv"))
        accepted.write("\t".join(manifest.COLUMNS) + "\n")
        rejected.write("path\tid\treason\tdetail\n")
        bar = stack.enter_context(
            tqdm(
                desc="preparing",
                unit="clip",
                total=_rows_expected(root, corpus_format, options),
                disable=not progress,
                mininterval=0.5,
            )
        )
        rows = _with_defaults(corpus_format.read(root, options), source, root)
        outcomes = _outcomes(
            rows,
            root=root,
            copies=copies,
            ledger=ledger,
            settings=settings,
            workers=workers or default_workers(),
        )
        for row, clip in stack.enter_context(contextlib.closing(outcomes)):
            bar.update()
            if clip.reason:
                summary.reject(clip.reason)
                cells = (row.path, row.id, clip.reason, clip.detail)
                rejected.write("\t".join(_one_cell(cell) for cell in cells) + "\n")
            else:
                summary.add(row, clip)
                accepted.write(manifest.manifest_line(row, clip, way, settings))
        bar.close()
        rejected.publish()
        if not summary.clips and not summary.rejected:
            raise UserError(f"{root} holds no clip in the {corpus_format.name} format")
        if not summary.clips or summary.rejected_share > max_rejected:
            raise UserError(
                f"{summary.rejected_share:.0%} of the clips of {root} are bad, allowed are "
                f"{max_rejected:.0%}: {summary.commonest_reasons()}; see {prepared}/rejected.tsv, "
                "or allow more with --max_rejected"
            )
        summary.check_letters(f"the corpus {root}")
        manifest.save_description(prepared, way, corpus_format.name, settings)
        write_whole(prepared / "summary.txt", f"{summary}\n")
        accepted.publish()
        ledger.forget_missing()
        _remove_stale(copies, ledger)
    return prepared, summary


def _with_defaults(rows: Iterator[Row], source: Source, root: Path) -> Iterator[Row]:
    speaker = source.speaker or root.name
    for row in rows:
        yield dataclasses.replace(
            row,
            text=_one_cell(row.text),
            speaker=_one_cell(row.speaker) or speaker,
            language=(_one_cell(row.language) or source.language).lower().replace("_", "-"),
        )


def _one_cell(text: str) -> str:
    return " ".join(str(text).split())


def _outcomes(
    rows: Iterator[Row],
    *,
    root: Path,
    copies: Path,
    ledger: Ledger,
    settings: PrepareConfig,
    workers: int,
) -> Iterator[tuple[Row, Clip]]:
    """Every row with its outcome, in the order of the corpus."""

    def tasks():
        for row in rows:
            try:
                _check_row(row, root, ledger)
                state = clips.file_state(root / row.path)
            except BadClip as bad:
                yield (row, None, Clip("", reason=bad.reason, detail=bad.detail)), None
                continue
            found = ledger.find(row.path)
            if found and found[0] == state and _copy_is_there(copies, found[1]):
                yield (row, None, found[1]), None
            else:
                known = found and dataclasses.asdict(found[1])
                yield (row, state, None), {"path": row.path, "known": known}

    worker_settings = {"root": str(root), "copies": str(copies), "prepare": to_json(settings)}
    for (row, state, clip), answer in in_order(
        "myxtts.corpus.clips", worker_settings, tasks(), workers
    ):
        if isinstance(answer, WorkerDied):
            clip = Clip("", reason="unreadable", detail="decoding it ended the process")
        elif answer is not None and "disk" in answer:
            raise UserError(f"the copies cannot be written: {answer['disk']}")
        elif answer is not None:
            clip = Clip(**answer)
        if state is not None:
            ledger.record(row.path, state, clip)
        yield row, clip


def _check_row(row: Row, root: Path, ledger: Ledger) -> None:
    clips.check_path(root, row.path)
    if row.problem:
        raise row.problem
    if not ledger.first_time(row.id or row.path, row.path):
        raise BadClip("duplicate id", f"{row.id} stands for an earlier clip")
    if not any(c.isalnum() for c in row.text):
        raise BadClip("text missing", "nothing to speak" if row.text else "")


def _copy_is_there(copies: Path, clip: Clip) -> bool:
    return not clip.copy or os.path.exists(copies / clip.copy)


def _rows_expected(root: Path, corpus_format: CorpusFormat, options: ReadOptions) -> int | None:
    if corpus_format.name not in ("coqui", "ljspeech"):
        return None
    table = metadata_file(root, options.metadata)
    if table is None or not table.is_file():
        return None
    with open(table, "rb") as file:
        return sum(1 for _ in file)


def _remove_stale(copies: Path, ledger: Ledger) -> None:
    """Removes copies of clips that changed or left the corpus, and only files that this program
    made."""
    for folder, _, names in os.walk(copies):
        for name in names:
            path = Path(folder, name)
            if not ledger.is_copy(str(path.relative_to(copies))):
                path.unlink()


class _Replacement:
    """A text file that replaces the old one when it is published."""

    def __init__(self, path: Path):
        self._path, self._partial = path, path.with_name(f"{path.name}.partial")
        self._file = self._partial.open("w", encoding="utf-8", newline="\n")
        self.write = self._file.write

    def publish(self) -> None:
        self._file.close()
        os.replace(self._partial, self._path)

    def close(self) -> None:
        self._file.close()
        self._partial.unlink(missing_ok=True)


def _replaced(path: Path):
    return contextlib.closing(_Replacement(path))


@contextlib.contextmanager
def _writable(directory: Path):
    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        free = shutil.disk_usage(directory).free if directory.is_dir() else 0
        raise UserError(
            f"preparing into {directory} failed: {error.filename or ''} {error.strerror} "
            f"({free / 1e9:.1f} GB free); another place can be named with --prepared_dir"
        ) from None
