"""Reads what a pickle describes, without executing it.

    described = describe(data, "model.pth")

A pickle is a program: it names functions and the arguments to call them with. Here nothing is
imported and nothing is called. A class or function becomes a `Global`, a call becomes a `Call` with
its arguments, and the caller decides what they mean. Dictionaries, lists and plain values are
themselves. What a pickle does to an object after making it (setting state, adding items) is
dropped.

A file that names a global outside the packages that write XTTS checkpoints is refused.
"""

import dataclasses
import pickletools

from myxtts import UserError

# The published training code pickles objects of these packages.
_PACKAGES = {"collections", "torch", "numpy", "TTS", "trainer", "coqpit"}
# Plain containers, and the carrier of the bytes of numpy scalars such as a loss.
_PLAIN = {
    *((module, name) for module in ("builtins", "__builtin__") for name in ("dict", "list", "set")),
    ("_codecs", "encode"),
}


@dataclasses.dataclass(frozen=True)
class Global:
    """A class or function that the pickle names."""

    module: str
    name: str

    def __str__(self):
        return f"{self.module}.{self.name}"


@dataclasses.dataclass(eq=False)
class Call:
    """An object that the pickle would have made by calling `function`."""

    function: Global
    arguments: tuple


@dataclasses.dataclass(eq=False)
class Outside:
    """An object stored outside the pickle, such as the storage of a tensor."""

    name: object


def describe(data: bytes, path: str) -> object:
    """What the pickle `data` in the file `path` describes."""
    try:
        return _Described(path).of(data)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is damaged: its table of contents cannot be read ({error}); "
            "copy or download it again"
        ) from None


class _Described:
    def __init__(self, path: str):
        self.path = path
        self.stack: list = []
        self.marks: list[int] = []
        self.memo: dict[int, object] = {}

    def of(self, data: bytes) -> object:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                return self.stack.pop()
            if opcode.name in _LITERALS:
                self.stack.append(argument)
                continue
            act = _ACTS.get(opcode.name)
            if act is None:
                raise UserError(
                    f"{self.path} is refused: its pickle uses {opcode.name}, "
                    "which no XTTS checkpoint needs"
                )
            act(self, argument)
        raise ValueError("it ends too early")

    def mark(self, _):
        self.marks.append(len(self.stack))

    def since_mark(self) -> list:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def last(self, count: int) -> tuple:
        items = tuple(self.stack[len(self.stack) - count :])
        if len(items) < count:
            raise ValueError("it takes more values than it made")
        del self.stack[len(self.stack) - count :]
        return items

    def remember(self, place):
        self.memo[len(self.memo) if place is None else place] = self.stack[-1]

    def named(self, module: str, name: str):
        if module.split(".")[0] not in _PACKAGES and (module, name) not in _PLAIN:
            raise UserError(
                f"{self.path} is refused: its pickle asks for {module}.{name}, "
                "which no XTTS checkpoint needs"
            )
        self.stack.append(Global(module, name))

    def called(self, function, arguments):
        if not isinstance(function, Global):
            raise ValueError("it calls what is no function")
        if function == Global("collections", "OrderedDict"):
            self.stack.append(dict(*arguments))
        else:
            self.stack.append(Call(function, tuple(arguments)))

    def appended(self, items):
        if isinstance(self.stack[-1], list):
            self.stack[-1].extend(items)

    def filled(self, items):
        if isinstance(self.stack[-1], dict):
            self.stack[-1].update(zip(items[::2], items[1::2], strict=True))


def _set_items(self, _):
    self.filled(self.since_mark())


def _call(self, _):
    self.called(*self.last(2))


def _call_by_name(self, _):
    function, arguments, _ = self.last(3)
    self.called(function, arguments)


# Opcodes whose argument is the value itself.
_LITERALS = {
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BINSTRING", "SHORT_BINSTRING"),
}
_ACTS = {
    "PROTO": lambda self, _: None,
    "FRAME": lambda self, _: None,
    "NONE": lambda self, _: self.stack.append(None),
    "NEWTRUE": lambda self, _: self.stack.append(True),
    "NEWFALSE": lambda self, _: self.stack.append(False),
    "MARK": _Described.mark,
    "POP": lambda self, _: self.last(1),
    "POP_MARK": lambda self, _: self.since_mark(),
    "BINPUT": _Described.remember,
    "LONG_BINPUT": _Described.remember,
    "MEMOIZE": _Described.remember,
    "BINGET": lambda self, place: self.stack.append(self.memo[place]),
    "LONG_BINGET": lambda self, place: self.stack.append(self.memo[place]),
    "EMPTY_TUPLE": lambda self, _: self.stack.append(()),
    "TUPLE": lambda self, _: self.stack.append(tuple(self.since_mark())),
    "TUPLE1": lambda self, _: self.stack.append(self.last(1)),
    "TUPLE2": lambda self, _: self.stack.append(self.last(2)),
    "TUPLE3": lambda self, _: self.stack.append(self.last(3)),
    "EMPTY_LIST": lambda self, _: self.stack.append([]),
    "APPEND": lambda self, _: self.appended(self.last(1)),
    "APPENDS": lambda self, _: self.appended(self.since_mark()),
    "EMPTY_DICT": lambda self, _: self.stack.append({}),
    "SETITEM": lambda self, _: self.filled(self.last(2)),
    "SETITEMS": _set_items,
    "EMPTY_SET": lambda self, _: self.stack.append(Call(Global("builtins", "set"), ())),
    "ADDITEMS": lambda self, _: self.since_mark(),
    "GLOBAL": lambda self, both: self.named(*both.split(" ", 1)),
    "STACK_GLOBAL": lambda self, _: self.named(*map(str, self.last(2))),
    "REDUCE": _call,
    "NEWOBJ": _call,
    "NEWOBJ_EX": _call_by_name,
    "BUILD": lambda self, _: self.last(1),
    "BINPERSID": lambda self, _: self.stack.append(Outside(*self.last(1))),
}
