"""What is known about each clip, on disk, so that an interrupted preparation can go on.

SQLite, because it survives a kill at any moment, and because a corpus of a million clips must
take no more memory than one of a thousand.
"""

import dataclasses
import sqlite3
import time
from pathlib import Path

from myxtts import UserError
from myxtts.corpus.clips import Clip

_FIELDS = [field.name for field in dataclasses.fields(Clip)]
# The most work that a kill may cost; a commit takes about 10 ms on a slow disk.
_COMMIT_SECONDS, _COMMIT_CLIPS = 0.5, 50


class Ledger:
    """Outcomes by path. One process at a time may have it open."""

    def __init__(self, path: Path, settings_key: str):
        self._settings = settings_key
        self._committed, self._pending = time.monotonic(), 0
        try:
            self._base = sqlite3.connect(path, timeout=0.5)
            self._base.execute("pragma locking_mode = exclusive")
            self._base.execute("pragma synchronous = normal")
            self._base.execute("pragma temp_store = file")
            self._base.execute(
                "create table if not exists clips (path text primary key, settings text, "
                f"size, mtime, ctime, {', '.join(_FIELDS)}) without rowid"
            )
            self._base.execute("create index if not exists by_copy on clips (copy)")
            self._base.execute("create temp table seen (id text primary key, path) without rowid")
            self._base.execute("begin immediate")
        except sqlite3.DatabaseError as error:
            if _is_locked(error):
                raise UserError(
                    f"another process is preparing this corpus (it holds {path}); wait for it"
                ) from None
            raise UserError(f"{path} is damaged ({error}); delete it and start again") from None

    def first_time(self, clip_id: str, path: str) -> bool:
        """Whether this id has not been seen in this run."""
        cursor = self._base.execute(
            "insert or ignore into temp.seen values (?, ?)", (clip_id, path)
        )
        return cursor.rowcount == 1

    def find(self, path: str) -> tuple[tuple[int, int, int], Clip] | None:
        """(file state, outcome) recorded under the same settings."""
        row = self._base.execute(
            f"select size, mtime, ctime, {', '.join(_FIELDS)} from clips "
            "where path = ? and settings = ?",
            (path, self._settings),
        ).fetchone()
        return row and (row[:3], Clip(*row[3:]))

    def record(self, path: str, state: tuple[int, int, int], clip: Clip) -> None:
        values = (path, self._settings, *state, *dataclasses.astuple(clip))
        marks = ", ".join("?" * len(values))
        self._base.execute(f"insert or replace into clips values ({marks})", values)
        self._pending += 1
        waited = time.monotonic() - self._committed
        if self._pending >= _COMMIT_CLIPS or waited > _COMMIT_SECONDS:
            self._base.commit()
            self._base.execute("begin immediate")
            self._committed, self._pending = time.monotonic(), 0

    def forget_missing(self) -> None:
        """Drops the clips that are no longer part of the corpus."""
        self._base.execute("delete from clips where path not in (select path from temp.seen)")

    def is_copy(self, name: str) -> bool:
        """Whether a clip of the corpus is read from this copy."""
        return bool(self._base.execute("select 1 from clips where copy = ?", (name,)).fetchone())

    def close(self) -> None:
        self._base.commit()
        self._base.close()


def _is_locked(error: sqlite3.Error) -> bool:
    """Whether another process has the database; Python 3.10 gives the text of the error only."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return "locked" in str(error)
    return code & 0xFF in (5, 6)  # SQLITE_BUSY and SQLITE_LOCKED, without their extensions
