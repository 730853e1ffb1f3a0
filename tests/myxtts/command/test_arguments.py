"""Arguments as typed: older spellings, flag files, and all mistakes at once."""

import logging

import pytest


def test_older_spellings_mean_the_flags_of_today(read_line, corpus_path, caplog):
    with caplog.at_level(logging.INFO, logger="absl"):
        line = read_line(
            f"--train-data {corpus_path} --val-data={corpus_path} --batch-size 32 --epochs 5 "
            "--lr 1e-4 --grad-accum 2 --num-workers 3 --max-steps 100 --checkpoint-dir out "
            "--model-size small --data-gpu 0 --model-gpu 1 --buffer-size 50 "
            "--model-start-delay 2.5 --enable-memory-isolation --model-gpu-memory 9000 "
            "--enable-static-shapes --max-text-length 200 --max-mel-frames 800"
        )
    assert line.mistakes == []
    job, values = line.job, line.values
    assert job.source.directory == values.val_data == str(corpus_path)
    assert (job.train.batches.batch_size, job.train.epochs, job.train.max_steps) == (32, 5, 100)
    assert [job.train.stage(s).learning_rate for s in ("tokenizer", "gpt", "vocoder")] == [1e-4] * 3
    assert (job.train.grad_accum, job.train.workers, job.train.host_prefetch) == (2, 3, 50)
    assert job.run_path.name == "out" and values.model_size == "small"
    assert (values.data_gpu, values.model_gpu) == (0, 1)
    assert values.warm_up and job.train.batches.static_shapes
    assert (values.data_gpu_memory_mb, values.model_gpu_memory_mb) == (8192, 9000)
    assert job.train.model.text.max_tokens == 200 and values.max_mel_frames == 800
    said = [record.getMessage() for record in caplog.records if "older" in record.getMessage()]
    assert len(said) == 1
    for part in (
        f"--train-data {corpus_path} is --train_data={corpus_path}",
        "--buffer-size 50 is --host_prefetch=50",
        "--model-start-delay 2.5 is --warm_up (slots are filled instead of sleeping)",
        "--enable-memory-isolation is --data_gpu_memory_mb=8192",
        "--model-gpu-memory 9000 is --model_gpu_memory_mb=9000",
    ):
        assert part in said[0]


@pytest.mark.parametrize(
    ("typed", "name", "value"),
    [
        ("--prefetch-buffer-size 7", "host_prefetch", 7),
        ("--prefetch_buffer_size=7", "host_prefetch", 7),
        ("--pad-to-fixed-length", "static_shapes", True),
        ("--enable-static-shapes=false", "static_shapes", False),
        ("--nostatic-shapes", "static_shapes", False),
        ("--model-start-delay=0", "warm_up", False),
        ("--languages=en,fa", "embedded_languages", ["en", "fa"]),
        ("-seed 3", "seed", 3),
    ],
)
def test_each_older_spelling_alone(read_line, typed, name, value):
    line = read_line(typed)
    assert line.mistakes == [] and line.values[name].value == value


def test_memory_isolation_alone_limits_both_gpus(read_line):
    values = read_line("--enable-memory-isolation").values
    assert (values.data_gpu_memory_mb, values.model_gpu_memory_mb) == (8192, 16384)


def test_todays_spellings_are_taken_without_a_word(read_line, caplog):
    with caplog.at_level(logging.INFO, logger="absl"):
        assert read_line("--batch_size=4 --lr=1e-3 --nodeterministic --warm_up").mistakes == []
    assert not caplog.records


def test_all_mistakes_are_told_at_once(read_line, tmp_path):
    (tmp_path / "file").write_text("")
    line = read_line(
        "--batch_size=0 --lr=fast --grad_acum 3 --epochs=-1 --slots=1 --min_seconds=25 "
        "--gain_db=3 --num_workers=0 --precision=half --static_shapes=7 --model_size=huge "
        "--nobatch_size --metadata=x.csv --embedded_languages=xx --checkpoint_dir=file/run "
        "extra --dry_run --profile --model-start-delay soon --seed"
    )
    told = "\n".join(line.mistakes)
    for part in (
        "--batch_size must be 1 or more, got 0",
        "--lr=fast: it must be a number",
        "--grad_acum: there is no such flag; did you mean --grad_accum?",
        "--epochs must be above 0, got -1",
        "--slots must be auto or a whole number of at least 2, got 1",
        "--max_seconds must be above min_seconds=25.0, got 20.0",
        "--gain_db=3: it must be two numbers with a comma between them",
        "--num_workers must be above 0, got 0",
        "--precision=half: value should be one of <auto|float32|bfloat16|float16>",
        "--static_shapes=7: it must be true or false",
        "--model_size=huge: value should be one of <tiny|small|normal|xtts_v2>",
        "--nobatch_size: there is no such flag; did you mean --batch_size?",
        "--metadata is about a corpus of yours: give --train_data as well",
        "no sentences in 'xx'; it has de, en",
        f"--checkpoint_dir=file/run cannot be made: {tmp_path}/file is a file",
        "extra: it is no flag; flags begin with --",
        "--dry_run and --profile both do something else than training: give one",
        "--model-start-delay soon: a number of seconds is needed",
        "--seed: its value is missing",
    ):
        assert part in told
    assert len(line.mistakes) == 19


def test_flag_files_may_hold_any_spelling(read_line, tmp_path):
    (tmp_path / "my.flags").write_text("# a comment\n--batch-size=5\n\n--epochs=3\n")
    line = read_line("--flagfile=my.flags --epochs=4")
    assert line.mistakes == []
    assert (line.job.train.batches.batch_size, line.job.train.epochs) == (5, 4)
    assert "--epochs=4" in line.canonical and "--batch_size=5" in line.canonical


def test_a_flag_file_that_is_not_there_is_named(read_line):
    (mistake,) = read_line("--flagfile=nowhere.flags").mistakes
    assert "nowhere.flags" in mistake


def test_help_shows_every_flag_with_its_default_in_groups(read_line, capsys):
    from myxtts.command.flags import groups

    with pytest.raises(SystemExit) as ended:
        read_line("--help")
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    for title, group in groups().items():
        assert f"\n{title}\n" in shown
        for flag in group:
            assert f"  {flag.spelled}  (default: {flag.shown_default})\n" in shown
    assert "--batch_size=CLIPS  (default: 16)" in shown
    assert max(map(len, shown.splitlines())) <= 110
