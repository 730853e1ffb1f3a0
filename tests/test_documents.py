"""The documents are true: their commands and Python blocks run, what they name exists.

Commands in `sh` blocks run as a newcomer would run them, each distinct one once, with small
budgets: `runs/voice` and the corpus DATA are made small, GPUs are emulated, networks from scratch
are a toy.  The set-ups with pip, and the training behind them with all its networks, are what
`.ci/run` runs.  Commands inside sentences and tables, most of them long benchmarks, are parsed: the
program that they run exists, and so do its flags and tests.
"""

import ast
import functools
import json
import os
import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest

from tests.published_start import letters_vocabulary, make_start

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
}
SMALL = (
    "--model_config=tests/tiny_networks.json --max_steps=2 --batch_size=4 --evaluation_clips=2 "
    "--embedded_minutes=1 --embedded_voices=2 --embedded_languages=en,fa --max_text_length=80 "
    "--validation_share=0.3 --stage=tokenizer"
)
SMALL_PUBLISHED = (
    "--max_steps=1 --batch_size=4 --validation_share=0 --max_rejected=1 --precision=float32"
)
# Commands that the notebook runs, which has a run of its own.
IN_NOTEBOOK = (
    "-m dual_device_strategy.validate --data_gpu=1 --model_gpu=0",
    "-m myxtts.synthesis --checkpoint=runs/two_gpus ",
)
# Files of runs, corpora and examples.
MADE_BY_RUNS = {"report.md", "loss.png", "config.json", "flags.txt", "vocabulary.json"}
MADE_BY_RUNS |= {"steps.jsonl", "monitor-STAGE.jsonl", "identity.json", "run.jsonl", "compare.json"}
MADE_BY_RUNS |= {"rejected.tsv", "manifest.tsv", "clips.sqlite"}
MADE_BY_RUNS |= {"vocab.json", "text.json", "LICENSE.txt"}  # of a published directory
MADE_BY_RUNS |= {"log.txt", "talk.txt"}  # of a run; a transcript
NAMES_A_FILE = re.compile(r"[\w./-]+\.(py|cc|h|inc|md|json|txt|tsv|svg|png|sqlite|jsonl)")


def blocks(kind: str, document: str | None = None) -> list[str]:
    texts = [DOCUMENTS[document]] if document else DOCUMENTS.values()
    found = [block for text in texts for block in re.findall(rf"```{kind}\n(.*?)```", text, re.S)]
    return list(dict.fromkeys(found))


def side(diff: str, mark: str) -> str:
    """The script before ("-") or after ("+")."""
    return "".join(
        f"{line[1:]}\n" for line in diff.splitlines() if not line or line[0] in (" ", mark)
    )


def printed_losses(run_python, script: str) -> list[float]:
    done = run_python(script, EMULATED_GPUS="2")
    assert done.returncode == 0, done.stderr[-2000:]
    return [float(number) for number in done.stdout.split()]


@pytest.mark.parametrize("script", blocks("python"), ids=range(len(blocks("python"))))
def test_python_blocks_run_as_they_stand(run_python, script, tmp_path):
    # A block that starts the emulation itself cannot have it started from the environment.
    environment = {} if "emulation.start" in script else {"EMULATED_GPUS": "2"}
    done = run_python(script, cwd=tmp_path, **environment)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("diff", blocks("diff"), ids=["keras", "own loop"])
def test_a_script_gives_the_same_losses_before_and_after_and_under_other_strategies(
    run_python, diff
):
    before, after = side(diff, "-"), side(diff, "+")
    losses = printed_losses(run_python, before)
    assert len(losses) >= 2
    assert printed_losses(run_python, after) == pytest.approx(losses, rel=1e-4)
    if "strategy.run" in after:
        ours = "strategy = DataModelSplitStrategy(configure_devices())"
        assert ours in after and len(losses) == 4
        for line in (
            "strategy = tf.distribute.MirroredStrategy(['GPU:0'])",
            "strategy = tf.distribute.get_strategy()",
        ):
            script = after.replace(ours, line)
            assert printed_losses(run_python, script) == pytest.approx(losses, rel=1e-4)


def block_commands() -> list[str]:
    """The commands of all `sh` blocks, without the set-up of the virtual environment.

    Each once: those that differ in language, text and run only, as README.fa.md's, are one.
    """
    lines = [line for block in blocks("sh") for line in block.strip().splitlines()]
    commands = [line.split(" && ")[-1] for line in lines]
    commands = [c for c in commands if "pytest" not in c and "pip install" not in c]
    same = r' --(?:language=\w+|text="[^"]*"|checkpoint=runs/(?:voice|mine)\b)'
    distinct = {re.sub(same, "", command): command for command in commands}.values()
    return [command for command in distinct if not in_notebook(command)]


def in_notebook(command: str) -> bool:
    theirs = re.sub(r"runs/(?:voice|mine)\b", "runs/two_gpus", command)
    return any(command in theirs for command in IN_NOTEBOOK)


def test_every_command_begins_in_the_virtual_environment():
    assert len(block_commands()) >= 9
    for command in block_commands():
        assert command.startswith(".venv/bin/python "), command


def test_the_notebook_runs_the_commands_that_are_left_to_it():
    notebook = (ROOT / "examples/two_gpus.ipynb").read_text(encoding="utf-8")
    for command in IN_NOTEBOOK:
        assert f"!python {command}" in notebook


def shortened(words: list[str]) -> list[str]:
    """The command's arguments with what makes it small, and runs it without a GPU."""
    if words[0] == "train.py":
        words = [w for w in words if not w.startswith(("--model_size", "--batch_size"))]
        words += ["--profile_steps=2"] if "--profile" in words else []
        if "--init_from=XTTS-v2" in words:
            words += SMALL_PUBLISHED.split()
        else:
            words += SMALL.split()
            words[0] = words[0] if "--dry_run" in words else "tests/train_toy.py"
        if "--train_data=DATA" in words:
            words = [w for w in words if not w.startswith("--embedded")]
    elif "dual_device_strategy.example" in words:
        words = [*words, "--steps=4", "--signals=4"]
    named = any(w.startswith("--data_gpu=") for w in words)
    return [*words, "--emulate_gpus=2"] if named and "--emulate_gpus=2" not in words else words


@pytest.mark.slow
def test_the_commands_run_one_after_the_other(run_python, finished_run, tmp_path):
    """As a newcomer would: train, then train on a corpus of one's own, then speak.

    A toy and a published model are trained; who speaks and is exported are random networks.  That
    a training from scratch ends in a voice that speaks is shown in test_notebook.py.
    """
    for name in ("train.py", "myxtts", "dual_device_strategy", "tests"):
        os.symlink(ROOT / name, tmp_path / name)
    make_start(tmp_path / "XTTS-v2", letters_vocabulary("en", "fa"))
    voice = tmp_path / "runs/trained"
    shutil.copytree(finished_run.path, voice)
    for command in block_commands():
        words = shortened(shlex.split(command)[1:])
        # Those that were fine-tuned can speak; of the others only one stage was trained.
        other = r"^--checkpoint=runs/(?!tuned).*"
        words = [re.sub(other, f"--checkpoint={voice}", word) for word in words]
        done = run_python(words, cwd=tmp_path, UNOPTIMIZED_GRAPHS="1")
        assert done.returncode == 0, f"{command}\n{done.stdout[-1500:]}\n{done.stderr[-3000:]}"
        recordings = sorted((tmp_path / "runs/embedded_corpus/wavs").glob("*.wav"))
        if recordings and not (tmp_path / "DATA").exists():
            os.symlink(tmp_path / "runs/embedded_corpus", tmp_path / "DATA")
            os.symlink(recordings[0], tmp_path / "VOICE.wav")
    assert (tmp_path / "runs/voice/checkpoints/tokenizer/best").is_dir()
    assert list((tmp_path / "runs/tuned/samples").rglob("*.wav"))
    assert (tmp_path / "published.wav").stat().st_size > 1000
    assert (tmp_path / "exported/saved_model.pb").exists()
    assert (tmp_path / "runs/mine/report.md").exists()
    assert (tmp_path / "runs/mine/profile-tokenizer.html").stat().st_size > 5000


def test_the_commands_of_ci_are_those_of_the_readme():
    ci = (ROOT / ".ci/run").read_text(encoding="utf-8")
    for name in ("python -m pytest", "python train.py"):
        assert f"grep -m1 '{name}' README.md" in ci
        first = next(line for line in DOCUMENTS["README.md"].splitlines() if name in line)
        assert first.startswith("python3 -m venv .venv && .venv/bin/pip install"), first


def test_the_table_of_settings_is_what_is_estimated():
    printed = runpy.run_path(str(ROOT / "tests/benchmarks/settings_table.py"))["rows"]()
    assert "\n".join(printed) in DOCUMENTS["docs/voice.md"]
    assert "\n".join(printed[2:-1]) in DOCUMENTS["README.fa.md"]


# What documents name.


def inline_code(text: str) -> list[str]:
    """What stands between backticks in sentences and tables, lines joined."""
    outside = re.sub(r"```.*?```", "", text, flags=re.S)
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", outside)]


@functools.cache
def string_literals() -> frozenset[str]:
    """Every string constant of the packages, the benchmarks and train.py."""
    files = [ROOT / "train.py"]
    for folder in ("dual_device_strategy", "myxtts", "tests/benchmarks"):
        files += (ROOT / folder).rglob("*.py")
    trees = (ast.parse(file.read_text(encoding="utf-8")) for file in files)
    nodes = (node for tree in trees for node in ast.walk(tree))
    return frozenset(n.value for n in nodes if isinstance(n, ast.Constant) and type(n.value) is str)


def module_exists(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__main__.py").exists()


def test_flags_that_are_named_exist():
    from myxtts.command.flags import spellings

    older = {*spellings.RENAMED, *spellings.WITH_VALUE, *spellings.SWITCHES}
    known = string_literals() | older | {"help", "flagfile", "verbosity"}  # absl's own
    for document, text in DOCUMENTS.items():
        ours = re.sub(r"^.*(?:pip install|pytest).*$", "", text, flags=re.M)
        for flag in set(re.findall(r"(?<![\w-])--([a-z_]+(?:-[a-z]+)*)", ours)):
            name = flag.replace("-", "_")
            every_stage = re.sub(r"^(tokenizer|gpt|vocoder)_", "", name)  # one row for all
            # argparse, in the benchmarks, names a flag with its dashes, absl without.
            assert known & {name, every_stage, f"--{flag}"}, f"{document}: --{flag}"


def test_commands_in_sentences_name_what_exists():
    for document, text in DOCUMENTS.items():
        for code in inline_code(text):
            program, *words = code.replace(".venv/bin/", "").split()
            if program == "pytest" or words[:2] == ["-m", "pytest"]:
                check_tests_exist(words, f"{document}: {code}")
            elif program == "python" and words[0] == "-m":
                assert words[1] == "pip" or module_exists(words[1]), f"{document}: {code}"
            elif program == "python":
                assert (ROOT / words[0]).exists(), f"{document}: {code}"


def check_tests_exist(words: list[str], where: str) -> None:
    files = []
    for path in (ROOT / word for word in words if re.match("tests(/|$)", word)):
        assert path.exists() or "PATH" in path.name, where
        files += [path] if path.is_file() else path.rglob("test_*.py")
    if "-k" in words:
        named = words[words.index("-k") + 1]
        texts = [file.stem + file.read_text(encoding="utf-8") for file in files]
        names = [name for text in texts for name in re.findall(r"test_\w+", text)]
        assert any(named in name for name in names), where


def test_files_and_modules_that_are_named_exist():
    for document, text in DOCUMENTS.items():
        for code in inline_code(text):
            where = f"{document}: {code}"
            if NAMES_A_FILE.fullmatch(code):
                places = (ROOT / code, (ROOT / document).parent / code)
                assert Path(code).name in MADE_BY_RUNS or any(p.exists() for p in places), where
            elif re.fullmatch(r"(dual_device_strategy|myxtts|tests|docs)/[\w/.-]*", code):
                assert (ROOT / code).exists(), where
            elif re.fullmatch(r"(dual_device_strategy|myxtts)(\.[a-z_0-9]+)+", code):
                path = ROOT / code.replace(".", "/")
                assert path.is_dir() or path.with_suffix(".py").exists(), where


def anchors(text: str) -> set[str]:
    """GitHub's names of a document's headings."""
    outside = re.sub(r"```.*?```", "", text, flags=re.S)
    titles = re.findall(r"^#+ (.*)$", outside, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_lead_somewhere():
    for document, text in DOCUMENTS.items():
        for target in re.findall(r"\]\(([^)]+)\)", re.sub(r"```.*?```", "", text, flags=re.S)):
            path, _, anchor = target.partition("#")
            linked = (ROOT / document).parent / path if path else ROOT / document
            if not target.startswith("https://"):
                assert linked.exists(), f"{document}: {target}"
                titles = anchors(linked.read_text(encoding="utf-8")) if anchor else {""}
                assert anchor in titles, f"{document}: {target}"


def test_every_decision_is_listed():
    listed = set(re.findall(r"\]\((\S+\.md)\)", DOCUMENTS["docs/decisions/README.md"]))
    pages = {path.name for path in (ROOT / "docs/decisions").glob("*.md")} - {"README.md"}
    assert listed == pages


def test_the_chart_shows_the_medians_that_are_kept():
    figures = ROOT / "docs/figures"
    chart = (figures / "comparison.svg").read_text(encoding="utf-8")
    medians = json.loads((figures / "comparison.json").read_text(encoding="utf-8"))["step_ms"]
    assert "split (ours)" in medians and len(medians) >= 4
    for name, ms in medians.items():
        assert f">{ms:.1f} ms<" in chart, name
