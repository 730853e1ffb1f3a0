"""Tasks over processes: in order, bounded, and a task that kills its worker is known."""

import itertools
import os
import sys

import pytest

from myxtts.corpus.workers import WorkerDied, in_order

if __name__ == "__main__":
    import json
    import time

    from myxtts.corpus.workers import serve

    def answer(request):
        if request.get("die"):
            os.abort()
        if request.get("fail"):
            raise KeyError("a fault in the program")
        time.sleep(request.get("sleep", 0))
        print("noise that is no answer")
        os.system("echo more noise")
        return {"n": request["n"] * json.loads(sys.argv[1])["times"], "pid": os.getpid()}

    serve(answer)

MODULE = "tests.myxtts.corpus.test_workers"


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 3))
    monkeypatch.setenv("PYTHONPATH", root)


def ask(requests, workers=2):
    return in_order(MODULE, {"times": 10}, ((r.get("n"), r) for r in requests), workers)


def test_answers_come_in_order_though_later_ones_are_ready_first():
    requests = [{"n": n, "sleep": 0.2 if n == 0 else 0} for n in range(40)]
    answers = list(ask(requests))
    assert [(n, a["n"]) for n, a in answers] == [(n, 10 * n) for n in range(40)]
    assert len({a["pid"] for _, a in answers}) == 2


def test_items_without_work_pass_and_start_no_process():
    items = [(n, None) for n in range(1000)]
    assert list(in_order("no.such.module", {}, items, 2)) == items


def test_tasks_are_drawn_no_further_than_a_bounded_number_ahead():
    drawn = itertools.count()
    tasks = ((n, {"n": next(drawn)}) for n in itertools.count())
    answers = in_order(MODULE, {"times": 1}, tasks, 2)
    for _ in range(5):
        next(answers)
    assert next(drawn) <= 5 + 2 * 32 + 2
    answers.close()


def test_a_task_that_ends_its_worker_is_named_and_the_others_go_on():
    requests = [{"n": n, "die": n == 7} for n in range(20)]
    answers = dict(ask(requests))
    assert isinstance(answers.pop(7), WorkerDied)
    assert {n: a["n"] for n, a in answers.items()} == {n: 10 * n for n in range(20) if n != 7}


def test_a_fault_in_the_program_is_raised_with_its_place():
    with pytest.raises(RuntimeError, match=r"test_workers.*\n(.*\n)+.*a fault in the program"):
        list(ask([{"n": 1, "fail": True}]))
