"""The profiler's judgement of given times: verdicts, broken rules, advice."""

import re

import numpy as np
import pytest

from dual_device_strategy.profile.judging import judge
from dual_device_strategy.profile.measuring import Measured
from tests.dual_device_strategy.test_profile import PARTS


def judged(host, copy, front_end, transfer, step, *, took=None, core_ms=None, cores=2, slots=3):
    """The judgement of parts that take these times; `took` are those of the staged run."""
    times = dict(zip(PARTS, (host, copy, front_end, transfer, step), strict=True))
    into = Measured({name: [float(ms)] * 20 for name, ms in times.items()})
    into.front_end_core_ms = core_ms
    into.steps = took or [float(max(host, copy + front_end, transfer, step))] * 20
    return judge(into, slots, cores)


@pytest.mark.parametrize(
    ("times", "cores", "core_ms", "words"),
    [
        ((5, 0, 20, 1, 20), 2, None, "a second device saves you 50% here"),
        ((0.5, 0, 0.4, 0.1, 20), 2, None, "nothing here: your step is 20 times longer than every"),
        ((50, 0, 5, 1, 20), 2, None, "nothing here: the host pipeline alone takes 50.0 ms"),
        ((0, 0, 20, 1, 20), 16, 55, "back to the host, with your 16 cores it needs 3"),
        ((0, 0, 20, 1, 20), 4, 55, "would keep 3 of your 4 cores busy"),
    ],
)
def test_the_verdict_says_what_a_second_device_saves(times, cores, core_ms, words):
    assert words in judged(*times, cores=cores, core_ms=core_ms).verdict


@pytest.mark.parametrize(
    ("slots", "copies_ahead", "limit", "bottleneck"),
    [(6, True, 16, "front end"), (6, False, 31, "data device"), (5, True, 31, "data device")],
)
def test_copies_from_the_host_are_beside_the_front_end_where_they_have_slots(
    slots, copies_ahead, limit, bottleneck
):
    times = dict(zip(PARTS, (1, 15, 16, 1, 10), strict=True))
    into = Measured({name: [float(ms)] * 20 for name, ms in times.items()})
    into.copies_ahead, into.steps = copies_ahead, [limit + 0.5] * 20
    judgement = judge(into, slots, cores=2)
    assert judgement.limit_ms == limit
    assert judgement.bottleneck.startswith(bottleneck)
    assert not judgement.verdict.startswith("cannot tell")
    of_slots = {each["setting"]: each["step_ms"] for each in judgement.predictions}
    assert (of_slots["slots=6"] < 0.6 * of_slots["slots=4"]) == copies_ahead


def test_where_the_copy_from_the_host_limits_the_advice_is_to_send_less():
    into = Measured({name: [ms] * 20 for name, ms in zip(PARTS, (1, 30, 5, 1, 10), strict=True)})
    into.copies_ahead, into.steps = True, [30.5] * 20
    (advice,) = [str(each) for each in judge(into, slots=6, cores=2).advice if "waits" in each.rule]
    assert "waits for the copy to the data device: let the host send less" in advice
    assert "expected gain 50%" in advice


def noisy(mean, spread, count):
    return np.random.default_rng(5).normal(mean, mean * spread, count).clip(0.01).tolist()


@pytest.mark.parametrize(("count", "certain"), [(8, False), (4000, True)])
def test_a_verdict_inside_its_own_uncertainty_says_how_many_steps_would_tell(count, certain):
    into = Measured({name: [ms] * count for name, ms in zip(PARTS, (1, 0, 3, 1, 20), strict=True)})
    into.steps = noisy(20.7, 0.2, count)  # saves some 10 % of 23 ms, give or take
    verdict = judge(into, slots=3, cores=2).verdict
    if certain:
        assert verdict.startswith("a second device saves you 9% here")
    else:
        assert verdict.startswith("cannot tell yet whether a second device helps: after 8 steps")
        low, high = (int(share) for share in re.findall(r"(-?\d+)%", verdict))
        assert low < 5 < high
        (needed,) = re.findall(r"about ([\d,]+) steps would tell", verdict)
        assert 20 < int(needed.replace(",", "")) < 4000


def test_without_a_front_end_noise_is_no_saving():
    judgement = judged(1, 0, 0, 1, 20, took=[16.0] * 20)  # 125 % of what is possible
    assert judgement.saved == 0
    assert judgement.overlap == 1


def test_steps_shorter_than_their_slowest_part_alone_show_a_machine_that_was_busy_meanwhile():
    verdict = judged(1, 0, 10, 1, 20, took=[15.0] * 20).verdict
    assert verdict.startswith("cannot tell: a step of the staged run took 15.0 ms, less than its ")
    assert verdict.endswith("measure again")


@pytest.mark.parametrize(
    ("times", "took", "rule", "setting"),
    [
        ((30, 0, 5, 1, 20), None, "data loading takes 100% of a step", "AUTOTUNE"),
        ((1, 0, 5, 40, 20), None, "transfer takes 100% of a step", "float16"),
        (
            (1, 0, 50, 1, 20),
            None,
            "training takes only 40% of a step",
            "the on_data_device() function",
        ),
        ((1, 0, 20, 1, 20), [10.0, 50.0] * 10, "step times vary by 67%", 'slots="auto"'),
    ],
)
def test_a_broken_rule_names_a_setting_and_what_it_gains(times, took, rule, setting):
    (advice,) = [a for a in judged(*times, took=took).advice if a.rule.startswith(rule)]
    assert setting in advice.setting
    assert "expected gain" in str(advice)


def test_what_is_hidden_behind_another_stage_gains_nothing():
    (advice,) = judged(10, 0, 5, 1, 20).advice
    assert advice.gain == 0
    assert str(advice).startswith("data loading takes 50% of a step, but hidden behind another")


def test_nothing_is_advised_where_no_rule_is_broken():
    assert judged(1, 0.1, 15, 1, 20).advice == []


def test_halving_the_slowest_stage_is_expected_to_gain_what_the_next_one_allows():
    (advice,) = [a for a in judged(40, 0, 5, 1, 30).advice if "data loading" in a.rule]
    assert advice.gain == pytest.approx(1 - 30 / 40, abs=0.01)
