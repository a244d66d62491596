"""Malformed input for every command: `python tests/fuzz_commands.py --cases 800`.

A case is a command and the files that it finds. It runs in this process, in a home of its own, and
keeps four laws: no traceback; exit code 0, 1 or 2, and with another than 0 a sentence; nothing
half-written is left; input that cannot be meant gives no regular result. The printed table counts
the cases by kind; below it stands every case that breaks a law, as a command to be repeated.
"""

import argparse
import contextlib
import copy
import io
import itertools
import json
import os
import random
import resource
import shlex
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import numpy as np

from course_lab import results
from course_lab.cli import application, run_application
from course_lab.plans import Planned
from course_lab.recipes import profile, recipes
from course_lab.run import run
from course_lib.data import folders

SECONDS = 120  # a case that takes longer hangs
MEMORY = 6 << 30  # bytes of addresses beyond those of the start; more cannot be had
TEXT_RUN = Planned("ptb/vd-lstm-200/tied", "smoke")
PAIR_RUN = Planned("cldr/transformer-tiny", "smoke")
LONG = "x" * 300  # longer than a file's name may be
ODD = "\udcff"  # how an argument arrives that is not UTF-8
NOT_NUMBERS = ("nan", "NaN", "x", "", "[", "1,5", "--", "None", "0x10", "١e", "1_")


@dataclass(frozen=True)
class Case:
    """A command and what it finds."""

    kind: str
    words: tuple[str, ...]  # program and arguments
    files: dict[str, bytes | None] = field(default_factory=dict)  # None is a folder
    refused: bool = True  # whether exit code 0 would be wrong
    environment: dict[str, str] = field(default_factory=dict)
    typed: bytes = b""  # standard input

    def __str__(self):
        files = [f"{k}={'folder' if v is None else v[:60]!r}" for k, v in self.files.items()]
        environment = "".join(f"{k}={v} " for k, v in self.environment.items())
        text = f"{environment}python -m {shlex.join(self.words)}" + f"  {files}" * bool(files)
        return text.replace(LONG, "x…").encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True)
class Outcome:
    """What became of a case: the broken law, or nothing."""

    case: Case
    code: int | None
    law: str = ""  # traceback, hangs, exit code, no sentence, half-written, accepted
    message: str = ""


# Damage ------------------------------------------------------------------------------------------


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Return a file cut, overwritten or replaced."""
    place = rng.randrange(max(1, len(content)))
    return rng.choice(
        [
            b"",
            content[:place],
            content[: rng.randrange(64)],
            b"\0" * 64,
            b"\xff" * 64,
            b"\x80\x04\x95" + content[3:],
            b"PK\x03\x04" + content[4:],
            content[:8] + b"\xff" + content[9:],
            b"\xff\xff\xff\xff\xff\xff\xff\x7f" + content[8:],
            content[: place // 64] + b"\0" * 16 + content[place // 64 + 16 :],
            b"[" * 100_000,
            b"null",
            b"\xef\xbb\xbf" + content,
        ]
    )


def mutated(plain, rng: random.Random):
    """Return plain data with one place removed or given a value that does not belong there."""
    plain = copy.deepcopy(plain)
    places = list(_places(plain))
    holder, key = rng.choice(places)
    wrong = [None, -1, 0, 1e308, float("nan"), float("inf"), "x", "", [], {}, [[]], True, 10**30]
    if isinstance(holder, dict) and rng.random() < 0.3:
        del holder[key]
    elif isinstance(holder, dict) and rng.random() < 0.1:
        holder[f"{key}x"] = holder.pop(key)
    else:
        holder[key] = rng.choice(wrong)
    return plain


def _places(plain) -> Iterator[tuple]:
    """Yield (dictionary or list, key) of every place in plain data."""
    items = plain.items() if isinstance(plain, dict) else enumerate(plain)
    for key, value in list(items):
        yield plain, key
        if isinstance(value, dict | list):
            yield from _places(value)


# Cases by kind -----------------------------------------------------------------------------------
# Each function yields cases without end; `home` holds a trained model and a trained translator.

LAB = "course_lab"
BASE = (LAB, "train", TEXT_RUN.recipe, "--profile", "smoke")


def training_options(home: Path, rng: random.Random) -> Iterator[Case]:
    """Options of `train` that cannot be meant."""
    while True:
        option = rng.choice(
            ["seed", "profile", "device", "checkpoint-seconds", "deadline", "change"]
        )
        value = rng.choice(NOT_NUMBERS)
        yield Case("train options", (*BASE, f"--{option}", value))
        near = rng.choice(
            ["ptb/vd-lstm-200", "ptb", "", "/", "..", "*", LONG, "x.json", ODD, "ptb/*"]
        )
        yield Case("train options", (LAB, "train", near, "--profile", "smoke"))
        value = rng.choice(["nan", "-1", "-inf", "inf"])
        yield Case("train options", (*BASE, "--checkpoint-seconds", value), refused=value != "inf")


def training_settings(home: Path, rng: random.Random) -> Iterator[Case]:
    """Settings of recipes with values out of their range."""
    names = sorted(recipes)
    while True:
        name = rng.choice(names)
        plain = profile(recipes[name], "smoke", 1).to_dict()
        numbers = [
            path
            for path, value in _leaves(plain)
            if isinstance(value, int | float) and not isinstance(value, bool)
            and path.split(".")[0] not in ("seed", "variant", "name")
        ]  # fmt: skip
        path = rng.choice(numbers)
        value = rng.choice(["NaN", "-Infinity", "Infinity", "-5", "-1e308", '"x"', "[]", "{}"])
        regular = value in ("Infinity", "-5", "-1e308")  # where a constant has no bound
        words = (LAB, "train", name, "--profile", "smoke", "--change", f"{path}={value}")
        yield Case("settings", words, refused=not regular)


# What the audit found to give regular results.
CONSTANTS = [
    ("corpus.small.train", "-5"), ("corpus.small.train", "0"), ("corpus.small.words", "-1"),
    ("objectives.0.epsilon", "-1"), ("objectives.0.epsilon", "5"),
    ("objectives.1.temperature", "-20"), ("output_layer.k", "-1"), ("output_layer.alpha", "-5"),
    ("output_layer.low", "99"),
    ("output_layer.components", "0"), ("output_layer.pieces", "0"), ("output_layer.dropout", "1"),
    ("encoder.dropout", "1"), ("encoder.dropout", "-0.1"), ("encoder.layers", "0"),
    ("encoder.heads", "0"), ("encoder.units", "0"), ("encoder.init", "-1"),
    ("input_embedding.noise", "-1"), ("input_embedding.row_dropout", "1"), ("words.init", "-1"),
    ("adaptation.theta", "-1"), ("adaptation.weight", "2"), ("adaptation.window", "0"),
    ("adaptation.rate", "-1"), ("decoding.beam", "0"), ("size", "0"), ("size", "-4"),
    ("optimisation.learning_rate", "-1"), ("optimisation.clip", "-1"),
    ("optimisation.epochs", "-1"), ("optimisation.batch", "0"), ("optimisation.length", "0"),
    ("optimisation.weight_decay", "-1"), ("optimisation.max_steps", "-1"),
]  # fmt: skip


def constants(home: Path, rng: random.Random) -> Iterator[Case]:
    """Constants that have a range."""
    plain = {name: profile(recipes[name], "smoke", 1).to_dict() for name in sorted(recipes)}
    while True:
        path, value = rng.choice(CONSTANTS)
        name = rng.choice([name for name in plain if path in dict(_leaves(plain[name]))])
        words = (LAB, "train", name, "--profile", "smoke", "--change", f"{path}={value}")
        yield Case("constants", words)


def _leaves(plain, path: str = "") -> Iterator[tuple]:
    items = plain.items() if isinstance(plain, dict) else enumerate(plain)
    for key, value in items:
        if isinstance(value, dict | list):
            yield from _leaves(value, f"{path}{key}.")
        else:
            # a part is {kind, options}; a setting names the option alone
            yield f"{path}{key}".replace("options.", ""), value


def experiments(home: Path, rng: random.Random) -> Iterator[Case]:
    """Files experiment.json."""
    plain = TEXT_RUN.experiment().to_dict()
    text = json.dumps(plain).encode()
    while True:
        content = damaged(text, rng)
        refused = content not in (text, b"\xef\xbb\xbf" + text)
        yield Case("experiment.json", (LAB, "train", "e.json"), {"e.json": content}, refused)
        wrong = json.dumps(mutated(plain, rng)).encode()
        yield Case("experiment.json", (LAB, "train", "e.json"), {"e.json": wrong}, refused=False)
        yield Case("experiment.json", (LAB, "train", "e.json"), {"e.json": None})
        cap = {"kind": "SoftCappedSoftmax", "options": {"cap": rng.choice([-30, 0, float("inf")])}}
        wrong = json.dumps(plain | {"output_layer": cap, "name": "mine"}).encode()
        yield Case("experiment.json", (LAB, "train", "e.json"), {"e.json": wrong})


def listings(home: Path, rng: random.Random) -> Iterator[Case]:
    """`recipes` and `results`, with patterns that match nothing and damaged results."""
    kept = f"data/results/{TEXT_RUN.key}/result.json"
    result = (home / "runs" / TEXT_RUN.key / "result.json").read_bytes()
    while True:
        pattern = rng.choice(["nope", "nope*", "[", "[!", "", ODD, LONG, "ptb/**/x", "?"])
        plain = (LAB, "recipes", "--plain", pattern)
        yield Case("listings", plain, refused=pattern not in ("", "?"))
        option = rng.choice(["--paper", "--corpus"])
        yield Case("listings", (LAB, "recipes", "--plain", option, rng.choice(["", "x", LONG])))
        wrong = json.dumps(mutated(json.loads(result), rng)).encode()
        content = rng.choice([damaged(result, rng), wrong])
        yield Case("listings", (LAB, "results"), {kept: content}, refused=False)
        name = rng.choice(["nope", "nope*", "[", LONG])
        yield Case("listings", (LAB, "results", name), {kept: result})
        folder = rng.choice(["nowhere", "e", "e/result.json", "/dev/null", LONG, ODD])
        yield Case("listings", (LAB, "results", "--keep", folder), {"e/result.json": content})


TEXTS = [
    b"", b"\n\n\n", b"a", b"a b\n" * 3, b"\xff\xfe\x00", b"a\rb\rc\r" * 50, b"\0" * 100,
    b"x" * 100_000, "\ud83d\ude00".encode("utf-16-le", "surrogatepass"), b"<eos>\n" * 9,
    b"\xef\xbb\xbfa b c\n" * 20,
]  # fmt: skip


def corpora(home: Path, rng: random.Random) -> Iterator[Case]:
    """Corpora of one's own, and `data`."""
    while True:
        text = rng.choice(TEXTS)
        yield Case("data", (LAB, "data", "describe", "c.txt"), {"c.txt": text}, refused=False)
        splits = {f"c/{name}.txt": rng.choice(TEXTS) for name in ("train", "valid", "test")}
        for name in rng.sample(sorted(splits), rng.randrange(4)):
            splits[name] = rng.choice([None, b"", b"\xff"])
        yield Case("data", (LAB, "data", "describe", "c"), splits, refused=False)
        pairs = {
            f"c/{s}.{e}": rng.choice(TEXTS)
            for s in ("train", "valid", "test")
            for e in ("de", "en")
        }
        command = (
            LAB,
            "data",
            "describe",
            "c",
            "--direction",
            rng.choice(["de-en", "de", "x-y", ""]),
        )
        yield Case("data", command, pairs, refused=False)
        name = rng.choice(["nope", "", ODD, LONG, "/dev/null", "/dev/full", "..", "ptbb"])
        yield Case("data", (LAB, "data", rng.choice(["describe", "verify", "fetch"]), name))
        option = rng.choice(["--words", "--pieces"])
        value = rng.choice(["-1", "0", "nan", "1.5", "x", "-" + "9" * 30])
        yield Case("data", (LAB, "data", "describe", "docstrings", option, value))


def questions(home: Path, rng: random.Random) -> Iterator[Case]:
    """`score`, `next`, `generate` and `translate` with numbers that cannot be meant."""
    run = f"runs/{TEXT_RUN.key}"
    pairs = f"runs/{PAIR_RUN.key}"
    while True:
        value = rng.choice(["nan", "inf", "-inf", "-1", "-1e308", "x", ""])
        option = rng.choice(["temperature", "top-p", "top-k", "length", "seed"])
        refused = (option, value) not in (("seed", "-1"), ("temperature", "inf"))
        yield Case(
            "questions", (LAB, "generate", run, "the", f"--{option}", value), refused=refused
        )
        value = rng.choice(["0", "-1", "nan", "x", "1.5", "-" + "9" * 30])
        yield Case("questions", (LAB, "next", run, "the", "--top", value))
        option = rng.choice(["beam", "length-penalty"])
        value = rng.choice(["nan", "inf", "-inf", "-1", "0", "x", "1e308"])
        refused = (option, value) not in [("length-penalty", v) for v in ("0", "-1", "1e308")]
        words = (LAB, "translate", pairs, "Montag", f"--{option}", value)
        yield Case("questions", words, refused=refused)
        text = rng.choice(["", " ", "\n", ODD, "xyzzy " * 50, "<eos>"])
        yield Case("questions", (LAB, "score", run, text), refused=text in ("", " "))
        yield Case("questions", (LAB, "next", run, text), refused=False)
        typed = rng.choice([b"", b"\xff\n", b"\0\n"])
        yield Case("questions", (LAB, "translate", pairs), typed=typed, refused=False)
        yield Case("questions", (LAB, "translate", run, "Montag"))
        yield Case("questions", (LAB, "score", pairs, "Montag"))


def checkpoints(home: Path, rng: random.Random) -> Iterator[Case]:
    """Damaged checkpoints and results of a run, in each command that reads them."""
    folder = home / "runs" / TEXT_RUN.key
    while True:
        name = rng.choice(
            ["best.safetensors", "best.safetensors", "last.safetensors", "result.json"]
        )
        content = damaged((folder / name).read_bytes(), rng)
        if name == "result.json" and rng.random() < 0.5:
            plain = json.loads((folder / name).read_text("utf-8"))
            content = json.dumps(mutated(plain, rng)).encode()
        files = {f"runs/{TEXT_RUN.key}/{name}": content}
        command = rng.choice(["score", "next", "generate", "examine"])
        words = (LAB, command, f"runs/{TEXT_RUN.key}", *(["the"] if command != "examine" else []))
        yield Case("checkpoints", words, files, refused=name == "best.safetensors")
        # training goes on from them, or reads what is done
        gone = {f"runs/{TEXT_RUN.key}/.gone": b"result.json"} if name == "last.safetensors" else {}
        yield Case("checkpoints", BASE, files | gone, refused=name == "last.safetensors")
        path = rng.choice(["nowhere", "", "/dev/null", "/dev/full", ODD, LONG, "e", ".."])
        yield Case("checkpoints", (LAB, "score", path, "the"), {"e": None})


def plans(home: Path, rng: random.Random) -> Iterator[Case]:
    """Plan files, and options of `batch`."""
    good = (
        f'title = "t"\n[[runs]]\nrecipes = ["{TEXT_RUN.recipe}"]\nprofile = "smoke"\nseeds = [1]\n'
        'change = {"optimisation.epochs" = 1}\ngrid = {"encoder.dropout" = [0.1, 0.2]}\n'
    )
    lines = good.splitlines()
    while True:
        number = rng.randrange(len(lines))
        wrong = rng.choice(
            ["", "x", "= 1", lines[number] + "x", "title = 1", "[[runs]]", "runs = 1", "seeds = []",
             "seeds = [nan]", "seeds = [1, 1]", "recipes = []", 'recipes = ["x"]', 'recipes = [""]',
             'profile = "huge"', 'change = {"a.b" = nan}', "change = 1", "grid = {x = []}",
             'grid = {"encoder.dropout" = 1}', 'grid = {"encoder.dropout" = [nan]}', "zeed = [1]",
             'change = {"encoder.dropout" = -1}', 'change = {"optimisation.epochs" = "x"}',
             'change = {"corpus" = "/etc/passwd"}', "\0", 'recipes = ["/"]', "seeds = [true]"]
        )  # fmt: skip
        text = "\n".join([*lines[:number], wrong, *lines[number + 1 :]])
        command = rng.choice(["status", "merge", "keep"])
        more = ["runs"] if command == "merge" else []
        words = (LAB, "batch", command, "p.toml", *more)
        yield Case("plans", words, {"p.toml": text.encode()}, refused=False)
        content = damaged(good.encode(), rng)
        yield Case("plans", words, {"p.toml": content}, refused=False)
        name = rng.choice(
            ["nope", "", "nope.toml", "..", "/dev/null", "/dev/full", LONG, ODD, "p.toml"]
        )
        yield Case("plans", (LAB, "batch", command, name, *more), {"p.toml": None})
        option = rng.choice(["workers", "budget"])
        value = rng.choice(["nan", "inf", "-inf", "0", "-1", "1e300", "x", "", "0.01"])
        words = (LAB, "batch", "run", "p.toml", f"--{option}", value)
        yield Case("plans", words, {"p.toml": good.encode()})
        words = (LAB, "batch", "run", "p.toml", "--backend", rng.choice(["x", "", "dask"]))
        yield Case("plans", words, {"p.toml": good.encode()})


def batches(home: Path, rng: random.Random) -> Iterator[Case]:
    """Damaged folders of runs: the other runs of the plan are shown all the same."""
    good = f'title = "t"\n[[runs]]\nrecipes = ["{TEXT_RUN.recipe}"]\nprofile = "smoke"\n'
    good += "seeds = [1, 2]\n"
    folder = home / "runs" / TEXT_RUN.key
    while True:
        name = rng.choice(
            ["failed.json", "result.json", "last.safetensors", "figures.json", ".lock"]
        )
        path = folder / name
        content = damaged(path.read_bytes() if path.exists() else b'{"cell": 1, "error": "x"}', rng)
        if name == "result.json" and rng.random() < 0.5:
            content = json.dumps(mutated(json.loads(path.read_text("utf-8")), rng)).encode()
        if rng.random() < 0.2:
            content = None
        files = {"p.toml": good.encode(), f"runs/{TEXT_RUN.key}/{name}": content}
        if name == "last.safetensors":
            files[f"runs/{TEXT_RUN.key}/.gone"] = b"result.json"
        words = (LAB, "batch", rng.choice(["status", "status", "keep"]), "p.toml")
        yield Case("batch folders", words, files, refused=False)
        moved = {k.replace("runs/", "other/", 1): v for k, v in files.items()}
        yield Case(
            "batch folders", (LAB, "batch", "merge", "p.toml", "other"), moved, refused=False
        )


def matrices(home: Path, rng: random.Random) -> Iterator[Case]:
    """`examine` with files that are no matrix, and with counts that are none."""

    def saved(array) -> bytes:
        file = io.BytesIO()
        np.save(file, array, allow_pickle=array.dtype == object)
        return file.getvalue()

    good = np.random.default_rng(0).normal(size=(60, 8)).astype("float32")
    while True:
        wrong = good.copy()
        wrong[3, 3] = rng.choice([float("nan"), float("inf"), -float("inf")])
        array = rng.choice(
            [wrong, good[:0], good[:1], good[:, :0], good[:, :1], good[0], good[None], 0 * good,
             good > 0, good.astype("int8"), good.astype(complex), good.astype(object), good * 1e30]
        )  # fmt: skip
        yield Case("examine", (LAB, "examine", "m.npy"), {"m.npy": saved(array)}, refused=False)
        yield Case("examine", (LAB, "examine", "m.npy"), {"m.npy": damaged(saved(good), rng)},
                   refused=False)  # fmt: skip
        files = {"m.npy": saved(good)}
        option = rng.choice(["--counts", "--against", "--matrix", "--corpus", "--out"])
        value = rng.choice(["nowhere", "", ODD, LONG, "c", "/dev/full", "f", "f/x"])
        content = rng.choice(
            [b"", b"a\t-1\n", b"a\tnan\n", b"1\n2\n", b"\xff", b"x\n" * 60, b"1\n" * 59]
        )
        files |= {"c": content, "f": b""}
        yield Case("examine", (LAB, "examine", "m.npy", option, value), files, refused=False)
        config = rng.choice(
            [b"{", b"[]", b"{}", b'{"vocab_size": -1}', b'{"vocab_size": "x"}', b"\xff"]
        )
        index = rng.choice(
            [b"{", b"[]", b'{"weight_map": 1}', b'{"weight_map": {"a": "../x"}}',
             b'{"weight_map": {"lm_head.weight": "absent.safetensors"}}']
        )  # fmt: skip
        hub = {"h/config.json": config, "h/model.safetensors.index.json": index}
        yield Case("examine", (LAB, "examine", "h"), hub)
        best = (home / "runs" / TEXT_RUN.key / "best.safetensors").read_bytes()
        yield Case("examine", (LAB, "examine", "h"), {"h/model.safetensors": damaged(best, rng)},
                   refused=False)  # fmt: skip


def making(home: Path, rng: random.Random) -> Iterator[Case]:
    """`python -m tools`, apart from what executes a notebook."""
    while True:
        name = rng.choice(["nope", "", "/", "..", LONG, ODD, "01"])
        action = rng.choice(["pair", "outputs", "check", "lint", "solve"])
        yield Case("tools", ("tools", "notebooks", action, name))
        yield Case("tools", ("tools", "course", name))
        profile_ = rng.choice(["", "huge", "nan", "smok"])
        yield Case("tools", ("tools", rng.choice(["course", "site"]), "--profile", profile_))
        given = rng.choice(
            ["X", "=", "PROFILE=smoke", "X=nan", "X=1e999", "X={1}", "X=" + "[" * 500, "=1"]
        )
        yield Case("tools", ("tools", "course", "01_output_layer", "-p", given))
        workers = rng.choice(["0", "-1", "nan", "x", ""])
        yield Case("tools", ("tools", "course", "01_output_layer", "--workers", workers))
        yield Case(
            "tools", ("tools", rng.choice(["nope", "", "notebooks", "--nope"])), refused=False
        )


def speed(home: Path, rng: random.Random) -> Iterator[Case]:
    """`python -m benchmarks` with sizes and names that it cannot have."""
    bench = "benchmarks"
    while True:
        value = rng.choice(["-1", "0", "nan", "x", "", "1.5"])
        yield Case("benchmarks", (bench, rng.choice(["--words", "--rounds"]), value))
        yield Case("benchmarks", (bench, "--threads", rng.choice(["-1", "nan", "x"])))
        option = rng.choice(["--words", "--precision", "--rounds", "--threads"])
        value = rng.choice(["-1", "fp8", "nan", ""])
        yield Case("benchmarks", (bench, "output-layers", "softmax", option, value))
        yield Case("benchmarks", (bench, "output-layers", rng.choice(["nope", "", LONG])))
        option = rng.choice(["--contexts", "--words", "--size"])
        value = rng.choice(["-1", "0", "nan", "x"])
        tiny = ("--contexts", "20", "--words", "10", "--size", "4")
        yield Case("benchmarks", (bench, "rank", "softmax", *tiny, option, value))
        yield Case("benchmarks", (bench, "rank", rng.choice(["nope", ""])))
        yield Case("benchmarks", (bench, "models", "--model", rng.choice(["nope", ""])))
        option, value = rng.choice(
            [("--epochs", "-1"), ("--epochs", "nan"), ("--profile", "huge"), ("--seed", "x")]
        )
        yield Case("benchmarks", (bench, "training", "course", option, value))


def places(home: Path, rng: random.Random) -> Iterator[Case]:
    """Folders that cannot be written: a file in its place, a full device, a name too long."""
    while True:
        place = rng.choice(
            ["f", "f/x", "/dev/full", "/dev/full/x", "/dev/null/x", LONG, ODD, "f/../f/x"]
        )
        refused = place != ODD  # which names a folder like any other where names are bytes
        yield Case("places", (*BASE, "--folder", place), {"f": b""}, refused)
        out = (LAB, "examine", f"runs/{TEXT_RUN.key}", "--out", place)
        yield Case("places", out, {"f": b""}, refused)
        yield Case("places", (LAB, "batch", "merge", "p.toml", place), {"f": b"", "p.toml": b"x"})
        taken = rng.choice(["runs", "build", ".course-cache"])
        other = (LAB, "train", TEXT_RUN.recipe, "--profile", "smoke", "--seed", "7")
        words = rng.choice([other, (LAB, "examine", f"runs/{TEXT_RUN.key}")])
        yield Case("places", words, {taken: b""}, refused=False)
        root = rng.choice(["f", "f/x", LONG, "/dev/full", "nowhere"])
        words = (LAB, "data", rng.choice(["list", "verify"]))
        yield Case("places", words, {"f": b""}, False, {"COURSE_DATA": root})
        run = rng.choice(["last.safetensors", "best.safetensors", ".training.lock", "figures.json"])
        yield Case("places", other, {f"runs/ptb/vd-lstm-200/tied/smoke-seed7/{run}": None}, False)


KINDS: list[Callable[[Path, random.Random], Iterator[Case]]] = [
    training_options, training_settings, constants, experiments, listings, corpora, questions,
    checkpoints, plans, batches, matrices, making, speed, places,
]  # fmt: skip


def cases(home: Path, count: int, seed: int = 0) -> list[Case]:
    """Return so many cases, in turn of every kind; the same for the same seed."""
    each = [kind(home, random.Random(f"{seed} {kind.__name__}")) for kind in KINDS]
    return list(itertools.islice((next(kind) for kind in itertools.cycle(each)), count))


# Running a case ----------------------------------------------------------------------------------


class TooLong(BaseException):
    """A case that does not end; nothing that a command catches."""


def make_home(folder: Path) -> Path:
    """Train what the cases are about; return the home that each begins with."""
    folder.mkdir(exist_ok=True)
    for planned in (TEXT_RUN, PAIR_RUN):
        with at_home(folder):
            run(planned.experiment(), results.run_folder(planned.experiment()), progress=False)
    for package in ("plans", "published.csv", "contexts.csv", "frequencies.csv", "records.csv"):
        source = folders.REPOSITORY / "data" / package
        target = folder / "data" / package
        target.parent.mkdir(exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    return folder


@contextlib.contextmanager
def at_home(folder: Path) -> Iterator[None]:
    """Let the course's files lie in `folder`, which is the working folder, too."""
    with contextlib.chdir(folder), mock.patch.object(folders, "home", lambda: folder):
        yield


def copied(home: Path, folder: Path, files: dict[str, bytes | None]) -> None:
    """Copy the home, then put the case's files into it."""
    shutil.copytree(home, folder, symlinks=True)
    for name, content in files.items():
        path = folder / name
        if path.name == ".gone":
            path.with_name(content.decode()).unlink(missing_ok=True)
            continue
        if path.is_dir():
            shutil.rmtree(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink(missing_ok=True)
            path.mkdir()
        else:
            path.write_bytes(content)


def called(words: tuple[str, ...]) -> int:
    """Run a command in this process; return its exit code."""
    program, *arguments = words
    if program == "tools":
        from tools.cli import application as tools

        app = tools()
    elif program == "benchmarks":
        from benchmarks.cli import app
    else:
        app = application()
    with mock.patch.object(sys, "argv", [program, *arguments]):
        try:
            return run_application(app)
        except SystemExit as end:
            return end.code if isinstance(end.code, int) else int(end.code is not None)


def tried(home: Path, case: Case, seconds: float = SECONDS) -> Outcome:
    """Run a case in a home of its own and hold it to the laws."""

    def stop(number, frame):
        raise TooLong

    before = dict(os.environ)
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    typed = io.TextIOWrapper(io.BytesIO(case.typed), encoding="utf-8")
    code, error = None, None
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        place = Path(folder) / "home"
        copied(home, place, case.files)
        was = {path for path in place.rglob("*")}
        os.environ |= case.environment
        old = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            with (
                at_home(place), mock.patch.multiple(sys, stdin=typed, stdout=output, stderr=output),
                warnings.catch_warnings(),
            ):  # fmt: skip
                warnings.simplefilter("ignore")
                code = called(case.words)
        except TooLong:
            return Outcome(case, None, "hangs", f"after {seconds} s")
        except BaseException as failure:  # what the reader would see as a traceback
            error = failure
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
            os.environ.clear()
            os.environ.update(before)
        new = [path for path in place.rglob("*") if path not in was]
        partial = [str(p.relative_to(place)) for p in new if p.name.endswith((".part", ".tmp"))]
        partial += [
            str(path.relative_to(place))
            for path in new
            if code != 0 and path.is_dir() and not any(path.iterdir())
        ]
    text = output.buffer.getvalue().decode("utf-8", "replace").strip()
    if error is not None:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return Outcome(case, None, "traceback", f"{type(error).__name__}: {error} ({where})")
    if code not in (0, 1, 2):
        return Outcome(case, code, "exit code", text)
    if code and (" " not in text or "Traceback" in text):
        return Outcome(case, code, "no sentence", text)
    if partial:
        return Outcome(case, code, "half-written", ", ".join(partial))
    if code == 0 and case.refused:
        return Outcome(case, code, "accepted", text.splitlines()[0] if text else "")
    return Outcome(case, code, "", text.splitlines()[-1] if text else "")


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """Let an allocation of many GB fail at once, as on a machine that has them not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def main() -> int:
    """Run the cases, print the table and the broken laws."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", default="", help="only kinds with this in their name")
    given = parser.parse_args()
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="fuzz-home-") as folder, little_memory():
        home = make_home(Path(folder))
        outcomes = []
        for case in cases(home, given.cases, given.seed):
            if given.kind in case.kind:
                outcomes.append(tried(home, case))
                if outcomes[-1].law:
                    print(
                        f"\n{outcomes[-1].law}: {case}\n  {outcomes[-1].message[:300]}", flush=True
                    )
    laws = ("traceback", "hangs", "exit code", "no sentence", "half-written", "accepted")
    print(
        f"\n{'kind':<18}{'cases':>7}{'code 0':>8}{'1':>5}{'2':>5}"
        + "".join(f"{w:>14}" for w in laws)
    )
    for kind in dict.fromkeys(o.case.kind for o in outcomes):
        rows = [o for o in outcomes if o.case.kind == kind]
        counts = [sum(o.code == code for o in rows) for code in (0, 1, 2)]
        broken = [sum(o.law == law for o in rows) for law in laws]
        print(f"{kind:<18}{len(rows):>7}{counts[0]:>8}{counts[1]:>5}{counts[2]:>5}"
              + "".join(f"{n:>14}" for n in broken))  # fmt: skip
    bad = sum(bool(o.law) for o in outcomes)
    print(f"\n{len(outcomes)} cases, {bad} break a law, {time.perf_counter() - begin:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
