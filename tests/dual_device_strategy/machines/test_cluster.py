"""A cluster that cannot train is refused in one sentence, before anything starts."""

import json
import socket
import threading

import pytest
import tensorflow as tf

from dual_device_strategy import MultiWorkerDataModelSplitStrategy
from dual_device_strategy.machines import agreement
from dual_device_strategy.machines.cluster import cluster_of
from dual_device_strategy.machines.lost import explained
from tests.dual_device_strategy.machines.conftest import free_ports


def config(cluster, kind="worker", index=0):
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


TWO = {"worker": ["one:1234", "two:1234"]}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "TF_CONFIG is not JSON (.*), got '{': write {\"cluster\""),
        ("[]", 'TF_CONFIG needs a "cluster" with a list of "HOST:PORT"'),
        (config({"worker": "one:1234"}), 'needs a "cluster" with a list of "HOST:PORT"'),
        (config({"worker": ["one"]}), 'needs a "cluster" with a list of "HOST:PORT"'),
        (json.dumps({"cluster": TWO}), 'needs a "task" with the "type" and "index"'),
        (config(TWO, index="first"), 'needs a "task" with the "type" and "index"'),
        (config(TWO, index=2), "says that this process is worker 2, but the cluster has worker 0"),
        (config(TWO, kind="chief"), "says that this process is chief 0, but the cluster has"),
        (config({**TWO, "ps": ["three:1"]}), "has 'ps' tasks, but every worker keeps all"),
        (config({"worker": ["one:1", "one:1"]}), "names the same address twice in one:1, one:1"),
    ],
)
def test_a_bad_tf_config_is_one_sentence(monkeypatch, text, sentence):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=sentence) as error:
        cluster_of(None)
    assert "\n" not in f"{error.value}"


def test_a_port_that_is_taken_is_named(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setenv("TF_CONFIG", config({"worker": [f"127.0.0.1:{port}", "two:1"]}))
        with pytest.raises(ValueError, match=rf"port {port}, .* worker 0 \(127.0.0.1:{port}\)"):
            cluster_of(None)


def test_a_chief_comes_before_the_workers(monkeypatch):
    (port,) = free_ports(1)
    spec = {"chief": ["one:1"], "worker": [f"two:{port}", "three:1"]}
    monkeypatch.setenv("TF_CONFIG", config(spec, index=0))
    cluster = cluster_of(None)
    assert (cluster.index, cluster.addresses) == (1, ("one:1", f"two:{port}", "three:1"))


@pytest.mark.parametrize(
    ("devices", "sentence"),
    [
        ("GPU:0", "data_devices must be a list of device names, got 'GPU:0'"),
        ([], "data_devices is empty"),
        (["CPU:1", "CPU:1"], "names CPU:1 more than once"),
        (["CPU:2", "CPU:1"], "CPU:2 is in data_devices and in model_devices"),
    ],
)
def test_lists_of_devices_that_cannot_be_are_refused(devices, sentence):
    with pytest.raises(ValueError, match=sentence):
        MultiWorkerDataModelSplitStrategy(devices, ["CPU:2"])


def test_other_workers_are_refused_once_the_runtime_has_started(monkeypatch):
    tf.constant(1)
    (port,) = free_ports(1)
    monkeypatch.setenv("TF_CONFIG", config({"worker": [f"127.0.0.1:{port}", "two:1"]}))
    with pytest.raises(RuntimeError, match="make the strategy first in the program"):
        MultiWorkerDataModelSplitStrategy(["CPU:1"], ["CPU:2"])


def test_only_errors_of_workers_that_are_gone_are_explained(monkeypatch):
    with socket.socket() as there:
        there.bind(("127.0.0.1", 0))
        there.listen()
        (gone, own) = free_ports(2)
        address = f"127.0.0.1:{there.getsockname()[1]}"
        spec = {"worker": [f"127.0.0.1:{own}", address, f"127.0.0.1:{gone}"]}
        monkeypatch.setenv("TF_CONFIG", config(spec))
        cluster = cluster_of(None)
        lost = tf.errors.UnavailableError(None, None, "Socket closed")
        assert f"worker 2 (127.0.0.1:{gone}) is gone" in explained(lost, cluster)
        assert explained(tf.errors.InvalidArgumentError(None, None, "no"), cluster) is None
        assert explained(ValueError("no"), cluster) is None


def test_a_worker_whose_process_is_just_ending_is_gone_too(monkeypatch):
    """Its connections break a moment before its port is closed, and who asks then gets through."""
    dying = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{dying.getsockname()[1]}"
    (own,) = free_ports(1)
    monkeypatch.setenv("TF_CONFIG", config({"worker": [f"127.0.0.1:{own}", address]}))
    cluster = cluster_of(None)
    threading.Timer(0.2, dying.close).start()
    lost = tf.errors.UnavailableError(None, None, "Socket closed")
    assert f"worker 1 ({address}) is gone" in explained(lost, cluster)


def test_a_difference_is_reported_also_if_the_first_worker_leaves_at_once(monkeypatch):
    """It runs the service, and may be gone before it has answered."""
    spec = {"worker": ["127.0.0.1:1", f"127.0.0.1:{free_ports(1)[0]}"]}
    monkeypatch.setenv("TF_CONFIG", config(spec, index=1))
    values = {"dual_device_strategy/start/0": '{"slots": "4"}'}

    def set_value(key, value):
        if key.endswith("/seen"):
            raise tf.errors.UnavailableError(None, None, "Socket closed")
        values[key] = value

    monkeypatch.setattr(agreement.compat, "set_shared_value", set_value)
    monkeypatch.setattr(agreement.compat, "shared_value", lambda key, timeout_ms: values[key])
    with pytest.raises(agreement.Disagreement, match=r"slots is 3 on worker 1 .* and 4 on"):
        agreement.refuse_differences(cluster_of(None), "start", {"slots": 3})
