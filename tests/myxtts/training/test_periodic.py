"""What is done every N steps, and when it is not."""

from myxtts.training.periodic import Periodic


def due(periodic, steps):
    return [step for step in range(1, steps + 1) if periodic.is_due(step)]


def test_it_is_due_every_so_many_steps():
    saving = Periodic(4, lambda: None)
    assert due(saving, 12) == [4, 8, 12] and saving.steps_left(9) == 3


def test_in_a_short_stage_it_waits_for_the_plan_and_happens_often_enough():
    evaluating = Periodic(500, lambda: None, at_least=4)
    assert not due(evaluating, 2000)
    evaluating.plan(100)
    assert due(evaluating, 99) == [25, 50, 75]


def test_it_is_left_out_shortly_before_the_end_which_brings_it_anyway():
    showing = Periodic(1000, lambda: None, at_least=1)
    showing.plan(1130)
    assert not due(showing, 1130)
    showing.plan(1700)
    assert due(showing, 1699) == [1000]
