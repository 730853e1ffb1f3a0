"""Identifies the pipeline of a checkpoint, and refuses front ends that cannot be saved."""

import hashlib
import re
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from dual_device_strategy import compat
from dual_device_strategy.front_end import FrontEnd, changes_state

_LARGEST_CONSTANT = 1024  # bytes; data is not compared
_OF_A_PROCESS = {"container", "shared_name", "config_proto", "executor_type", "token"}
# Ops whose state is the variable that they are given.
_WRITES_TO_VARIABLE = re.compile(
    r"Assign\w*VariableOp|Resource(Scatter|Apply|SparseApply|StridedSliceAssign|Accumulate)\w*"
    r"|Rng\w+|Stateful(Uniform|StandardNormal|TruncatedNormal|RandomBinomial)\w*"
)


def described(host: tf.data.Dataset, front_end: FrontEnd | None) -> list[str]:
    """One line for each operation, with its arguments and a digest of its functions.

    The same script gives the same lines in every process.  Data, file names and the seeds of
    shuffles are left out.
    """
    lines = []
    node = [host]
    while node:
        dataset = node.pop(0)
        arguments = [f"{name}={value}" for name, value in _arguments_of(dataset)]
        arguments += [f"function {_digest(graph)}" for graph in compat.graphs_of(dataset)]
        name = compat.operation_of(dataset)
        spec = _short(dataset.element_spec)
        lines.append(f"{name}({', '.join(arguments)}) -> {spec}")
        node += compat.inputs_of(dataset)
    lines.reverse()
    for function in front_end.functions if front_end else ():
        lines.append(f"on_data_device(function {_digest(function.graph)})")
    return lines


def _short(spec) -> str:
    flat = tf.nest.flatten(spec, expand_composites=True)
    return ", ".join(f"{each.dtype.name} {each.shape}" for each in flat)


def _nodes_of(graph: tf.Graph) -> Iterator[tf.compat.v1.NodeDef]:
    """The nodes of a graph and of all functions that it calls."""
    definition = graph.as_graph_def()
    yield from definition.node
    for function in definition.library.function:
        yield from function.node_def


def _arguments_of(dataset: tf.data.Dataset) -> list[tuple[str, int]]:
    """The numbers that a dataset was made with, without its seeds."""
    found = []
    for name, value in sorted(vars(dataset).items()):
        if tf.is_tensor(value) and value.shape.rank == 0 and value.dtype.is_integer:
            value = tf.get_static_value(value)
        if isinstance(value, (int, np.integer)) and "seed" not in name:
            found.append((name.lstrip("_"), int(value)))
    return found


def _digest(graph: tf.Graph) -> str:
    """A digest of a function's ops that ignores their order and names, because names count the
    functions of a process."""
    nodes = sorted(_node(node) for node in _nodes_of(graph))
    return hashlib.sha256(b"\n".join(nodes)).hexdigest()[:8]


def _node(node: tf.compat.v1.NodeDef) -> bytes:
    parts = [node.op.encode()]
    for name, value in sorted(node.attr.items()):
        names_functions = value.WhichOneof("value") in ("func", "list")
        if not (names_functions or name.startswith("_") or name in _OF_A_PROCESS):
            written = value.SerializeToString(deterministic=True)
            if len(written) <= _LARGEST_CONSTANT:
                parts.append(name.encode() + b"=" + written)
    return b" ".join(parts)


def difference(saved: list[str], present: list[str]) -> str | None:
    """The first line in which two pipelines differ, in words; None if they are the same."""
    for number in range(max(len(saved), len(present))):
        there = saved[number] if number < len(saved) else "nothing"
        here = present[number] if number < len(present) else "nothing"
        if there != here:
            return f"operation {number + 1} was {there}, and is {here} here"
    return None


def refuse_hidden_state(front_end: FrontEnd | None, policy, writes_are_shared: bool) -> None:
    """Refuses a front end whose state is not saved, unless the policy allows it.

    State outside of variables never is; variables are not if several data devices write to them.
    """
    if front_end is None or policy != tf.data.experimental.ExternalStatePolicy.FAIL:
        return
    for function in front_end.functions:
        for op in compat.ops_of(function):
            if changes_state(op) and not _WRITES_TO_VARIABLE.fullmatch(op.type):
                raise ValueError(
                    f"the iterator cannot be saved: the function of on_data_device() has the op "
                    f"{op.type} ({op.name}), whose state is in no variable; use stateless random "
                    "ops or a tf.random.Generator in data_scope(), or, if the numbers after a "
                    "restore may differ, set experimental_external_state_policy of the dataset's "
                    "tf.data.Options to IGNORE or WARN"
                )
    if writes_are_shared:
        raise ValueError(
            "the iterator cannot be saved: the function of on_data_device() writes to a variable "
            "(perhaps the state of a tf.random.Generator) that several data devices share; make it "
            "in data_scope(), where each has a copy of its own, or, if the numbers after a restore "
            "may differ, set experimental_external_state_policy of the dataset's tf.data.Options "
            "to IGNORE or WARN"
        )
