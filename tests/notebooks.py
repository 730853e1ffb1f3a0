"""Executes a notebook without Jupyter: python -m tests.notebooks NOTEBOOK [--write]

Cells run in this process and in its directory: Python as it stands, lines that begin with ! as
shell commands in which {name} is a variable of the notebook; a caller may run those itself. What
the last line of a cell comes to is shown if it has a `_repr_html_`. With --write the outputs go
into the notebook, without this machine's paths.
"""

import ast
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

_START_UP = re.compile(r"WARNING: All log messages|[IWE]\d{4} 00:00:|To enable the following")


class CellFailed(Exception):
    """A command ended with another exit code than 0."""


def in_bash(command: str) -> tuple[int, str]:
    """Exit code and output."""
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout.decode()


def executed(notebook: dict, run: Callable[[str], tuple[int, str]] = in_bash) -> dict:
    """The notebook with the outputs of its cells; raises what a cell raises."""
    variables: dict = {"__name__": "__main__"}
    cells = []
    for number, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "code":
            outputs = _outputs("".join(cell["source"]), variables, run)
            cell = {**cell, "execution_count": number, "outputs": outputs}
        cells.append(cell)
    return {**notebook, "cells": cells}


def _outputs(source: str, variables: dict, run) -> list[dict]:
    text, value = io.StringIO(), None
    for kind, part in _parts(source):
        if kind == "shell":
            text.write(_shell(part.format_map(variables), run))
            continue
        with redirect_stdout(text):
            tree = ast.parse(part)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "<cell>", "exec"), variables)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), variables)
    outputs = []
    if text.getvalue():
        lines = _without_paths(text.getvalue()).splitlines(keepends=True)
        outputs.append({"output_type": "stream", "name": "stdout", "text": lines})
    if hasattr(value, "_repr_html_"):
        data = {"text/html": value._repr_html_().splitlines(keepends=True)}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    return outputs


def _parts(source: str) -> list[tuple[str, str]]:
    """Commands and the Python between them; a line that ends with \\ goes on."""
    parts = re.split(r"^!((?:.*\\\n)*.*)$\n?", source, flags=re.MULTILINE)
    kinds = ("python", "shell") * len(parts)
    return [(kind, part) for kind, part in zip(kinds, parts, strict=False) if part.strip()]


def _shell(command: str, run) -> str:
    code, output = run(command)
    # Of a progress bar the last state; nothing of TensorFlow's own start.
    lines = [line.rpartition("\r")[2].rstrip() for line in output.split("\n")]
    shown = "\n".join(line for line in lines if not _START_UP.match(line)).strip()
    if code:
        raise CellFailed(f"{command}\nended with exit code {code}:\n{shown[-3000:]}")
    return f"{shown}\n" if shown else ""


def _without_paths(text: str) -> str:
    for place in (f"{sys.prefix}/bin", Path.cwd()):
        text = text.replace(f"{place}/", "").replace(f"{place}", ".")
    return text


def main(path: str, *options: str) -> None:
    place = Path(path)
    made = executed(json.loads(place.read_text(encoding="utf-8")))
    if "--write" in options:
        text = json.dumps(made, indent=1, ensure_ascii=False)
        place.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
