"""ONNX: a model's tensors, and which of them predicts, told by its graph.

An ONNX file is one protobuf message. Of its many fields a dozen are needed, so they are read here,
and the package `onnx` is needed by the tests alone, which compare the two. Nothing in a file can
run, and a length is held against the bytes that are left before anything is made of it.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from course_lab.examine.quantised import bf16
from course_lib.errors import CourseError

# Fields by their numbers in onnx.proto, which never change.
MODEL = {"graph": 7, "metadata": 14}
GRAPH = {"node": 1, "initializer": 5, "output": 12}
NODE = {"input": 1, "output": 2, "operator": 4, "attribute": 5}
ATTRIBUTE = {"name": 1, "integer": 3, "tensor": 5}
TENSOR = {"dims": 1, "type": 2, "floats": 4, "int32s": 5, "name": 8, "raw": 9, "doubles": 10,
          "elsewhere": 14}  # fmt: skip
PAIR = {"key": 1, "value": 2}
NAME = 1  # of a value's description
# Types of numbers: name, bytes of one, how they are read; and the field that has them if not `raw`.
TYPES = {
    1: ("FLOAT", 4, lambda raw: raw.view("<f4"), "floats"),
    10: ("FLOAT16", 2, lambda raw: raw.view("<f2"), "int32s"),
    11: ("DOUBLE", 8, lambda raw: raw.view("<f8"), "doubles"),
    16: ("BFLOAT16", 2, bf16, "int32s"),
}
# What all types are called, by their numbers.
NAMES = ("UNDEFINED", "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING",
         "BOOL", "FLOAT16", "DOUBLE", "UINT32", "UINT64", "COMPLEX64", "COMPLEX128",
         "BFLOAT16")  # fmt: skip
# What may stand between the product of the output matrix and the model's output.
BEHIND = {"Softmax", "LogSoftmax", "Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze",
          "Transpose", "Add", "Flatten", "Dropout", "Log", "Exp", "Mul", "Div", "Tanh",
          "Sigmoid", "Clip"}  # fmt: skip


class Place(NamedTuple):
    """A tensor's shape, the number of its type, and where its numbers lie; size −1: nowhere."""

    shape: tuple[int, ...]
    kind: int
    offset: int
    size: int
    packed: bool  # two bytes of a number in a varint of their own
    elsewhere: bool = False  # in another file, which is not opened


class Node(NamedTuple):
    """An operation, what goes in and comes out by name, and its integer attributes."""

    operator: str
    inputs: list[str]
    outputs: list[str]
    integers: dict[str, int]


class Head(NamedTuple):
    """The tensor that predicts, its bias, and whether its columns are the words."""

    matrix: str
    bias: str | None
    across: bool


@dataclass
class Model:
    """The tensors of a file by name, its operations, outputs and what it says of itself."""

    tensors: dict[str, Place] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)


# --- protobuf ------------------------------------------------------------------------------------


class _Message(NamedTuple):
    """A message within a file: it lies from `start` to `end`."""

    data: mmap.mmap | bytes
    start: int
    end: int

    def fields(self) -> Iterator[tuple[int, "int | _Message"]]:
        """Yield (number, value): an integer, or the span of what has a length."""
        at = self.start
        while at < self.end:
            tag, at = _varint(self.data, at, self.end)
            number, wire = tag >> 3, tag & 7
            if wire == 0:
                value, at = _varint(self.data, at, self.end)
            elif wire == 2:
                size, at = _varint(self.data, at, self.end)
                if size > self.end - at:
                    raise EOFError(f"{size:,} bytes are announced, {self.end - at:,} are left")
                value = _Message(self.data, at, at + size)
                at += size
            elif wire in (1, 5):
                size = 8 if wire == 1 else 4
                if size > self.end - at:
                    raise EOFError("the file ends within a number")
                value = _Message(self.data, at, at + size)
                at += size
            else:
                raise ValueError(f"no field has the wire type {wire}")
            yield number, value

    def text(self) -> str:
        return self.data[self.start : self.end].decode("utf-8", errors="replace")

    def varints(self) -> Iterator[int]:
        at = self.start
        while at < self.end:
            value, at = _varint(self.data, at, self.end)
            yield value


def _varint(data, at: int, end: int) -> tuple[int, int]:
    """Return an integer of seven bits a byte, and where it ends; ValueError after ten bytes."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= end:
            raise EOFError("the file ends within a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("a number of more than ten bytes")


def _span(value) -> _Message:
    if not isinstance(value, _Message):
        raise ValueError("a field holds a number in place of a message")
    return value


# --- a model -------------------------------------------------------------------------------------


def open_model(file: Path) -> Model:
    """Return the table of a file; CourseError if it is truncated or no ONNX."""
    try:
        with (
            open(file, "rb") as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            model = _model(_Message(data, 0, len(data)))
        if not model.nodes and not model.tensors:
            raise ValueError("it holds no graph")
    except (OSError, EOFError, ValueError) as error:
        raise CourseError(f"{file} is truncated or not an ONNX file ({error})") from None
    return model


def _model(message: _Message) -> Model:
    model = Model()
    for number, value in message.fields():
        if number == MODEL["graph"]:
            _add_graph(model, _span(value))
        elif number == MODEL["metadata"]:
            pair = {n: _span(part).text() for n, part in _span(value).fields()}
            model.metadata[pair.get(PAIR["key"], "")] = pair.get(PAIR["value"], "")
    return model


def _add_graph(model: Model, graph: _Message) -> None:
    for number, value in graph.fields():
        if number == GRAPH["initializer"]:
            name, place = _tensor(_span(value))
            model.tensors[name] = place
        elif number == GRAPH["node"]:
            _add_node(model, _span(value))
        elif number == GRAPH["output"]:
            model.outputs += [_span(v).text() for n, v in _span(value).fields() if n == NAME]


def _add_node(model: Model, message: _Message) -> None:
    """Enter an operation; a constant is a tensor that is called like its output."""
    operator = ""
    names = {NODE["input"]: [], NODE["output"]: []}
    integers = {}
    constant = None
    for number, value in message.fields():
        if number in names:
            names[number].append(_span(value).text())
        elif number == NODE["operator"]:
            operator = _span(value).text()
        elif number == NODE["attribute"]:
            parts = dict(_span(value).fields())
            name = _span(parts[ATTRIBUTE["name"]]).text() if ATTRIBUTE["name"] in parts else ""
            if isinstance(parts.get(ATTRIBUTE["integer"]), int):
                integers[name] = parts[ATTRIBUTE["integer"]]
            if name == "value" and ATTRIBUTE["tensor"] in parts:
                constant = _tensor(_span(parts[ATTRIBUTE["tensor"]]))[1]
    inputs, outputs = names.values()
    if operator == "Constant" and constant is not None and outputs:
        model.tensors[outputs[0]] = constant
    else:
        model.nodes.append(Node(operator, inputs, outputs, integers))


def _tensor(message: _Message) -> tuple[str, Place]:
    """Return a tensor's name and place; ValueError if its bytes are not those of its shape."""
    name = ""
    shape = []
    kind = 0
    spans = {}
    elsewhere = False
    for number, value in message.fields():
        if number == TENSOR["dims"]:
            shape += [value] if isinstance(value, int) else value.varints()
        elif number == TENSOR["type"] and isinstance(value, int):
            kind = value
        elif number == TENSOR["name"]:
            name = _span(value).text()
        elif number == TENSOR["elsewhere"]:
            elsewhere = value == 1
        elif isinstance(value, _Message):
            spans[number] = value
    nowhere = Place(tuple(shape), kind, 0, -1, False, elsewhere)
    if kind not in TYPES or elsewhere:
        return name, nowhere
    # the bytes themselves, or numbers in a field of their own
    _, size, _, listed = TYPES[kind]
    packed = TENSOR["raw"] not in spans and listed == "int32s"
    span = spans.get(TENSOR["raw"], spans.get(TENSOR[listed]))
    if span is None:
        return name, nowhere
    numbers = 1
    for dimension in shape:
        numbers *= dimension
    length = span.end - span.start
    if length < numbers if packed else length != numbers * size:
        raise ValueError(f"{name} of shape {(*shape,)} has {length:,} bytes")
    return name, Place(tuple(shape), kind, span.start, length, packed)


def read_tensor(file: Path, place: Place) -> np.ndarray:
    """Return a tensor in float32, or float64 where it is stored so; CourseError if bytes lack."""
    try:
        raw = np.fromfile(file, np.uint8, place.size, offset=place.offset)
    except OSError as error:
        raise CourseError(f"{file} cannot be read: {error.strerror or error}") from None
    if len(raw) < place.size:
        raise CourseError(f"{file} is truncated: {place.size - len(raw):,} bytes are missing")
    numbers = int(np.prod(place.shape, dtype=object)) if place.shape else 1
    if place.packed:
        values = np.fromiter(_Message(raw.tobytes(), 0, len(raw)).varints(), np.uint64)
        raw = values.astype("<u2").view(np.uint8)
        if len(raw) != 2 * numbers:
            raise CourseError(f"{file} is damaged: a tensor of {numbers:,} numbers has others")
    values = TYPES[place.kind][2](raw)
    wide = np.float64 if place.kind == 11 else np.float32
    return np.ascontiguousarray(values.astype(wide)).reshape(place.shape)


def type_of(place: Place) -> str:
    """Return what the type of a tensor is called, and whether its numbers lie in another file."""
    name = NAMES[place.kind] if place.kind < len(NAMES) else f"type {place.kind}"
    return f"{name} in another file" if place.elsewhere else name


def reader(file: Path, place: Place):
    """Return the function without arguments that reads a tensor."""
    return partial(read_tensor, file, place)


# --- which tensor predicts -----------------------------------------------------------------------


def head(model: Model) -> Head | None:
    """Return the matrix whose product with the contexts leads to an output; None if there is none.

    From each output the graph is followed back, over a softmax, an added bias and changes of
    shape, to the first product with a matrix of the file. Of several the one of most words counts.
    """
    producers = {name: node for node in model.nodes for name in node.outputs}
    heads = [one for output in model.outputs if (one := _head_of(output, model, producers))]
    return max(heads, key=lambda one: _words(one, model), default=None)


def _head_of(name: str, model: Model, producers: dict[str, Node]) -> Head | None:
    bias = None
    for _ in range(len(model.nodes)):  # a graph with a circle ends, too
        node = producers.get(name)
        if node is None:
            return None
        stored = [_stored(part, model, producers) for part in node.inputs]
        constants = [(place, *found) for place, found in enumerate(stored) if found]
        if node.operator in ("MatMul", "Gemm") and len(constants) == 1:
            ((place, matrix, turned),) = constants
            if node.operator == "Gemm":
                bias = node.inputs[2] if len(node.inputs) > 2 else bias
                across = not node.integers.get("transB", 0)
            else:
                across = place == len(node.inputs) - 1
            return Head(matrix, bias, across != turned)
        varying = [part for part in node.inputs if part not in model.tensors]
        if node.operator not in BEHIND or not varying:
            return None
        added = [part for part in node.inputs if part in model.tensors]
        if node.operator == "Add" and added:
            bias = added[0]
        name = varying[0]
    return None


def _stored(name: str, model: Model, producers: dict[str, Node]) -> tuple[str, bool] | None:
    """Return the matrix of the file that goes in, and whether it is turned before; else None."""
    node = producers.get(name)
    turned = node is not None and node.operator == "Transpose" and len(node.inputs) == 1
    matrix = node.inputs[0] if node is not None and turned else name
    return (matrix, turned) if _is_matrix(model, matrix) else None


def _is_matrix(model: Model, name: str) -> bool:
    place = model.tensors.get(name)
    return place is not None and place.kind in TYPES and place.size >= 0 and len(place.shape) == 2


def _words(one: Head, model: Model) -> int:
    return model.tensors[one.matrix].shape[int(one.across)]


def embedding(model: Model) -> str | None:
    """Return the largest matrix of which rows are looked up; None where there is none."""
    looked_up = [node.inputs[0] for node in model.nodes if node.operator == "Gather"]
    looked_up = [name for name in looked_up if _is_matrix(model, name)]
    return max(looked_up, key=lambda name: model.tensors[name].shape[0], default=None)


def words(model: Model, N: int) -> list[str] | None:
    """Return the rows' characters, which a text recogniser keeps under `character`; else None.

    Such a model has a class for no character before them, and may have the blank after them.
    """
    characters = model.metadata.get("character", "").split("\n")
    for before, after in (([], []), (["no character"], []), (["no character"], [" "])):
        names = [*before, *characters, *after]
        if len(characters) > 1 and len(names) == N:
            return names
    # a last line break
    if len(characters) > 2 and not characters[-1]:
        trimmed = Model(metadata={"character": "\n".join(characters[:-1])})
        return words(trimmed, N)
    return None
