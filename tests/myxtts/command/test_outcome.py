"""What is said at the end of a run."""

from myxtts.command.outcome import both_train


def used(data, model, names=("GPU:1", "GPU:0")):
    uses = zip(("data", "model"), names, (data, model), strict=True)
    return {role: {"device": name, "busy": busy} for role, name, busy in uses}


def test_a_gpu_that_prepares_little_is_told_to_train_as_well():
    told = both_train(used(0.2, 0.9))
    assert "GPU:1 only prepares" in told and "about 61% of that" in told
    assert "--shares=0.61,0.39" in told


def test_two_gpus_that_are_both_busy_and_others_are_left_alone():
    assert both_train(used(0.8, 0.9)) == both_train(used(0.1, 0.3)) == ""
    assert both_train(used(0.1, 0.9, ("CPU:0", "GPU:0"))) == both_train(used(None, None)) == ""
    assert both_train({}) == ""
