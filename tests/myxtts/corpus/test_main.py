"""The command that prepares a corpus: what it says, and what it refuses in one sentence."""


def command(run_python, *flags, **environment):
    return run_python(["-m", "myxtts.corpus", *flags], **environment)


def test_mistakes_are_one_sentence_and_exit_code_1(run_python, ljspeech, tmp_path):
    root = ljspeech(3)
    (tmp_path / "file").write_text("")
    for flags, sentence in (
        (["--train_data=/nowhere"], "the corpus /nowhere is not a directory"),
        ([f"--train_data={root}", "--metadata=../x.csv"], "must be a path inside"),
        ([f"--train_data={root}", "--format=mp3"], "--format=mp3 is unknown; known: auto"),
        ([f"--train_data={root}", "--max_seconds=0.1"], "max_seconds must be above"),
        ([f"--train_data={root}", f"--prepared_dir={tmp_path}/file/x"], "Not a directory"),
        ([str(root)], "is not a flag; the corpus is named with --train_data"),
    ):
        done = command(run_python, *flags)
        lines = done.stderr.strip().splitlines()
        assert done.returncode == 1 and sentence in lines[-1], (flags, done)
        assert lines[-1].startswith("error: ") and "Traceback" not in done.stderr


def test_the_command_says_what_it_found_without_starting_tensorflow(run_python, ljspeech):
    root = ljspeech(8)
    with open(root / "metadata.csv", "a", encoding="utf-8") as file:
        file.write("c000|x|x\n")
    done = run_python(
        "import sys\n"
        "from absl import app\n"
        "from myxtts.corpus import __main__ as command\n"
        f"sys.argv = ['corpus', '--train_data={root}']\n"
        "try: app.run(command._run)\n"
        "finally: print('tensorflow' in sys.modules)",
        fresh=True,
    )
    assert done.returncode == 0, done.stderr
    assert "clips      8, 0.1 min, 0 of them copied" in done.stdout
    assert "speakers   1: corpus 8" in done.stdout and "rejected   1 (11.1%)" in done.stdout
    assert done.stdout.strip().endswith("False")


def test_the_help_ends_with_exit_code_0(run_python):
    done = run_python(["-m", "myxtts.corpus", "--help"])
    assert done.returncode == 0 and "--train_data" in done.stdout, done.stderr
