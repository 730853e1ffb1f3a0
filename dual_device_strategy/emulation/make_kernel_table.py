"""Writes gpu_kernels.inc: the kernels that CUDA builds of TensorFlow have and CPU builds lack.

    python -m dual_device_strategy.emulation.make_kernel_table PAIR...  > gpu_kernels.inc

Each PAIR is a TensorFlow version's two lists of kernels, CUDA.pb,CPU.pb, written by

    python make_kernel_table.py --dump OUT.pb     (with the wheel `tensorflow`, or `tensorflow-cpu`)

The difference between the two builds holds every kernel that needs CUDA: what is registered for
GPU in both is plain host code that already works on an emulated device. Following CUDA's list also
keeps the emulation honest: an op without a CUDA kernel stays on the CPU here just as it does on
hardware, and shape-like arguments live in host memory exactly where CUDA keeps them.

The tables are of all versions together; what the running TensorFlow has no kernels for is left out
when they are registered.
"""

import collections
import ctypes
import re
import sys
from pathlib import Path

# Kernels tied to the runtime, to XLA or to other GPU libraries: running their CPU version on a
# device would be wrong rather than slow.
_RUNTIME_OPS = re.compile(
    r"^_?(Xla|Nccl|Collective|SyncDevice|SleepOp|CheckPinned)"
    r"|Dataset|Iterator|Optional|SparseMatrix|SendRecv|^_?(Host)?(Send|Recv)$"
)

# Kernels that hand tensors on without looking at the data. They need no CUDA and, unlike a
# computation, should not wait for the device's stream.
_HANDLING_OPS = re.compile(
    r"^(_?EagerConst|Const|(Ref)?Identity|StopGradient|PlaceholderWithDefault"
    r"|Reshape|ExpandDims|Squeeze|Rank|Size|ShapeN?"
    r"|Variable(V2)?|IsVariableInitialized|(Destroy)?TemporaryVariable"
    r"|EmptyTensorList"
    r"|TensorList(ConcatLists|ElementShape|Length|PushBack|Reserve|Resize))$"
)

Values = frozenset  # of the numbers of types, or of strings
Constraints = frozenset[tuple[str, Values]]  # attribute, allowed values
Row = tuple[str, tuple[str, ...], Constraints]  # op, host arguments, constraints


def dump(path: str) -> None:
    import tensorflow as tf

    library = ctypes.CDLL(str(Path(tf.sysconfig.get_lib()) / "libtensorflow_cc.so.2"))

    class Buffer(ctypes.Structure):
        _fields_ = [("data", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    library.TF_NewStatus.restype = ctypes.c_void_p
    library.TF_GetAllRegisteredKernels.restype = ctypes.POINTER(Buffer)
    library.TF_GetAllRegisteredKernels.argtypes = [ctypes.c_void_p]
    buffer = library.TF_GetAllRegisteredKernels(library.TF_NewStatus()).contents
    Path(path).write_bytes(ctypes.string_at(buffer.data, buffer.length))


def load(path: str) -> dict[str, set]:
    """{device: set of (op, label, host arguments, constraints)}"""
    from tensorflow.core.framework import kernel_def_pb2

    listed = kernel_def_pb2.KernelList.FromString(Path(path).read_bytes())
    kernels = collections.defaultdict(set)
    for kernel in listed.kernel:
        constraints = set()
        for constraint in kernel.constraint:
            allowed = constraint.allowed_values.list
            values = [text.decode() for text in allowed.s] or list(allowed.type)
            if values:  # one op also has constraints on numbers
                constraints.add((constraint.name, frozenset(values)))
        host_arguments = tuple(sorted(kernel.host_memory_arg))
        kernels[kernel.device_type].add(
            (kernel.op, kernel.label, host_arguments, frozenset(constraints))
        )
    return kernels


def rows(cuda_path: str, cpu_path: str) -> tuple[set[Row], set[Row]]:
    """The kernels that one CUDA build adds: those that a CPU kernel can replace, and the others."""
    cuda, cpu = load(cuda_path), load(cpu_path)
    on_cpu = collections.defaultdict(list)
    for op, label, _, constraints in cuda["CPU"]:
        on_cpu[op, label].append(dict(constraints))

    def possible_on_cpu(op: str, constraints: Constraints) -> set[Constraints]:
        """The constraints, as far as each CPU kernel accepts them."""
        wanted, possible = dict(constraints), set()
        for accepted in on_cpu[op, ""]:
            both = {name: wanted.get(name, values) & values for name, values in accepted.items()}
            if all(both.values()):
                possible.add(frozenset({**wanted, **both}.items()))
        return possible

    needs_cuda = (cuda["GPU"] - cpu["GPU"]) | (cuda["DEFAULT"] - cpu["DEFAULT"] - cpu["GPU"])
    runs, refused, seen = set(), set(), set()
    for op, label, host_arguments, constraints in sorted(needs_cuda, key=_sortable):
        # GPU wins over DEFAULT where both exist for the same types.
        if label or _HANDLING_OPS.search(op) or (op, constraints) in seen:
            continue
        seen.add((op, constraints))
        possible = set() if _RUNTIME_OPS.search(op) else possible_on_cpu(op, constraints)
        runs |= {(op, host_arguments, one) for one in possible}
        if possible != {constraints}:
            refused.add((op, host_arguments, constraints))
    return runs, refused


def _sortable(item) -> str:
    """A text that is the same for equal items: sets print in any order."""
    if isinstance(item, frozenset):
        return str(sorted(map(_sortable, item)))
    return str([_sortable(part) for part in item]) if isinstance(item, tuple) else str(item)


def merged(constraints: set[Constraints]) -> list[dict[str, Values]]:
    """Joins those that differ in the values of one attribute only."""
    joined = [dict(one) for one in sorted(constraints, key=_sortable)]
    for name in sorted({name for one in joined for name in one}):
        groups = collections.defaultdict(frozenset)
        for one in joined:
            rest = frozenset((n, values) for n, values in one.items() if n != name)
            groups[rest, name in one] |= one.get(name, frozenset())
        joined = [
            dict(rest, **({name: values} if has else {})) for (rest, has), values in groups.items()
        ]
    return joined


def _print_table(name: str, table: set[Row]) -> None:
    grouped = collections.defaultdict(set)
    for op, host_arguments, constraints in table:
        grouped[op, host_arguments].add(constraints)
    lines = set()
    for (op, host_arguments), constraints in grouped.items():
        for one in merged(constraints):
            texts = []
            for attribute, values in sorted(one.items()):
                sign = ":" if any(isinstance(value, str) for value in values) else "="
                texts.append(f"{attribute}{sign}{','.join(map(str, sorted(values)))}")
            lines.add(f'    {{"{op}", "{",".join(host_arguments)}", "{";".join(texts)}"}},')
    print(f"const GpuKernel {name}[] = {{", *sorted(lines), "};", sep="\n")


def main(pairs: list[str]) -> None:
    runs, refused = set(), set()
    for pair in pairs:
        pair_runs, pair_refused = rows(*pair.split(","))
        runs |= pair_runs
        refused |= pair_refused
    print("// Generated by make_kernel_table.py; see there.")
    print("// Op, arguments in host memory, attributes: name=types or name:strings, by semicolons.")
    _print_table("kRunOnCpu", runs)
    _print_table("kRefused", refused)


if __name__ == "__main__":
    if sys.argv[1] == "--dump":
        dump(sys.argv[2])
    else:
        main(sys.argv[1:])
