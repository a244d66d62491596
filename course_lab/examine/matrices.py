"""Find the output matrix in a checkpoint and read it, and nothing else of it.

A run of this course, a safetensors file or sharded set, a Hugging Face folder, a NumPy array. Only
safetensors, JSON and plain arrays are read; nothing is unpickled.
"""

import hashlib
import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from course_lab import Experiment
from course_lib.errors import CourseError, unknown
from course_lib.training.checkpoint import is_pickle

FLOATS = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2"}
PICKLES = {".pt", ".pth", ".bin", ".ckpt", ".pkl", ".pickle"}
# What is called so predicts words (first) or reads them, in the order of preference. The last part
# of the name may be `weight`, or what JAX calls it.
HEADS = ["lm_head", "embed_out", "lm_head.decoder", "predictions.decoder", "output_projection",
         "output_layer.words", "lm_head.dense", "generator.proj", "output", "decoder", "head",
         "generator"]  # fmt: skip
EMBEDDINGS = ["wte", "embed_tokens", "word_embeddings", "tok_embeddings", "embed_in", "shared",
              "word_embedding", "token_embedding", "token_embeddings", "tokens_embed", "word_emb",
              "words", "embedding", "embeddings", "embed", "encoder"]  # fmt: skip
SHORT = {"output", "decoder", "head", "generator", "encoder", "embedding", "embeddings", "embed"}
LAST = re.compile(r"\.(weight|kernel|embedding|embeddings)$")
OTHER = re.compile(r"position|wpe|pos_emb|token_type|segment|patch|relative|layer_?norm|\.ln_")


class Entry(NamedTuple):
    """Where a tensor lies, its shape and its type as the file names it."""

    file: Path
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Source:
    """A word matrix W (N, d) in float32 or float64 and where it came from."""

    W: Tensor = field(repr=False)
    path: Path
    name: str
    kind: str
    dtype: str
    sha256: dict[str, str]
    tied: bool | None = None  # None where the file does not say
    transposed: bool = False
    notes: tuple[str, ...] = ()
    experiment: Experiment | None = None

    @property
    def folder(self) -> Path:
        """Where a tokenizer would lie."""
        return self.path if self.path.is_dir() else self.path.parent

    def to_dict(self) -> dict:
        """Provenance, ready for JSON."""
        return {
            "path": str(self.path), "kind": self.kind, "matrix": self.name,
            "words": len(self.W), "size": self.W.shape[1], "dtype": self.dtype,
            "tied": self.tied, "transposed": self.transposed, "notes": list(self.notes),
            "sha256": self.sha256,
            "experiment": self.experiment.to_dict() if self.experiment else None,
        }  # fmt: skip


def read(path: Path, name: str | None = None, words: int | None = None) -> Source:
    """The output matrix of a checkpoint.

    name: the tensor, where it cannot be found or is not the one wanted; the end of its name will
    do. words: N, where it is known, such as the number of counts; it decides which way round the
    matrix lies. CourseError for what is missing, truncated, a pickle, not finite or without a
    matrix that could be a vocabulary's; then it lists the candidates.
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise CourseError(f"{path} does not exist; give a run, a checkpoint or a model folder")
    if path.suffix in (".npy", ".npz"):
        source = _read_array(path, name, words)
    else:
        file = _checkpoint(path) if path.is_dir() else path
        if _is_pickle(file):
            raise CourseError(
                f"{file} is a pickle, which can run any code when opened; it is not read. Save "
                "the weights as safetensors: safetensors.torch.save_model(model, "
                "'model.safetensors')"
            )
        source = _read_tensors(path, file, name, words)
    if not torch.stack(source.W.aminmax()).isfinite().all():
        row = int((~source.W.isfinite()).any(1).nonzero()[0])
        raise CourseError(f"{path}: row {row} of {source.name} holds a number that is not finite")
    return source


# --- which file ----------------------------------------------------------------------------------


def _checkpoint(folder: Path) -> Path:
    """The file of a folder to begin with: a run's best epoch, an index of shards, a model."""
    for name in ("best.safetensors", "model.safetensors.index.json", "model.safetensors"):
        if (folder / name).is_file():
            return folder / name
    found = sorted(folder.glob("*.safetensors.index.json")) or sorted(folder.glob("*.safetensors"))
    if len(found) == 1:
        return found[0]
    if found:
        raise CourseError(f"{folder} holds several models; name one: {_listed(found)}")
    pickles = sorted(p for p in folder.iterdir() if p.suffix in PICKLES)
    if pickles:
        return pickles[0]
    arrays = sorted(p for p in folder.iterdir() if p.suffix in (".npy", ".npz"))
    hint = f"; name one of its arrays: {_listed(arrays)}" if arrays else ""
    raise CourseError(f"{folder} holds no run of this course and no safetensors file{hint}")


def _is_pickle(file: Path) -> bool:
    return file.suffix in PICKLES or is_pickle(file)


def _json(file: Path) -> dict:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CourseError(f"{file} is not readable JSON ({error})") from None
    if not isinstance(content, dict):
        raise CourseError(f"{file} should hold a JSON object")
    return content


def _digests(files: Iterable[Path]) -> dict[str, str]:
    found = {}
    for file in files:
        with open(file, "rb") as opened:
            found[file.name] = hashlib.file_digest(opened, "sha256").hexdigest()
    return found


# --- safetensors ---------------------------------------------------------------------------------


def _read_tensors(path: Path, file: Path, name: str | None, words: int | None) -> Source:
    table, metadata = _table(file)
    identity = _identity(metadata)
    if identity and name is None:
        return _read_run(path, table, identity)
    config = _json(file.parent / "config.json")
    vocabulary = _vocabulary(config)
    matrices = {
        n: e
        for n, e in table.items()
        if len(e.shape) == 2 and min(e.shape) > 1 and e.dtype in FLOATS
    }
    heads, embeddings = _called(matrices, HEADS), _called(matrices, EMBEDDINGS)
    if vocabulary:  # a name alone may mislead
        fits = [n for n in matrices if vocabulary in matrices[n].shape and not OTHER.search(n)]
        heads = [n for n in heads if n in fits]
        embeddings = [n for n in embeddings if n in fits] or [n for n in fits if n not in heads]
    if name is not None:
        chosen = _named(name, matrices, table, file)
    elif heads or embeddings:
        chosen = (heads or embeddings)[0]
    elif len(matrices) == 1:
        chosen = next(iter(matrices))
    else:
        raise CourseError(_none_plausible(path, matrices))
    raw = _tensor(chosen, table)
    tied, notes = _tied(chosen, raw, heads, embeddings, config, table)
    turned = _lies_across(table, chosen, words, vocabulary)
    digests = _digests(dict.fromkeys([table[chosen].file, file]))
    return Source(
        _widened(raw.T if turned else raw), path, chosen,
        "Hugging Face model" if config else "safetensors file",
        table[chosen].dtype, digests, tied, turned, tuple(notes),
    )  # fmt: skip


def _table(file: Path) -> tuple[dict[str, Entry], dict]:
    """Every tensor of a file, or of the shards that an index names, without reading any."""
    files = [file]
    if file.name.endswith(".json"):
        shards = _json(file).get("weight_map")
        if not isinstance(shards, dict) or not shards:
            raise CourseError(f"{file} is no index of safetensors files: it has no weight_map")
        files = [file.parent / shard for shard in sorted(set(map(str, shards.values())))]
        missing = [shard for shard in files if not shard.is_file()]
        if missing:
            raise CourseError(f"{file} names files that are missing: {_listed(missing)}")
    table, metadata = {}, {}
    for one in files:
        if _is_pickle(one):
            raise CourseError(f"{one} is a pickle; only safetensors files are read")
        with _opened(one) as opened:
            metadata |= opened.metadata() or {}
            for name in opened.keys():  # noqa: SIM118
                part = opened.get_slice(name)
                table[name] = Entry(one, tuple(part.get_shape()), str(part.get_dtype()))
    return table, metadata


def _opened(file: Path):
    try:
        return safe_open(file, framework="pt")
    except (SafetensorError, OSError) as error:
        raise CourseError(f"{file} is truncated or not a safetensors file ({error})") from None


def _tensor(name: str, table: dict[str, Entry]) -> Tensor:
    with _opened(table[name].file) as opened:
        return opened.get_tensor(name)


def _widened(matrix: Tensor) -> Tensor:
    """float64 stays, every smaller type becomes float32."""
    wide = matrix if matrix.dtype == torch.float64 else matrix.float()
    return wide.contiguous()


def _vocabulary(config: dict) -> int | None:
    """N as config.json has it, also that of the text part of a model of several."""
    for part in (config, config.get("text_config"), config.get("llm_config")):
        size = part.get("vocab_size") if isinstance(part, dict) else None
        if isinstance(size, int) and size > 1:
            return size
    return None


def _called(matrices: Iterable[str], names: list[str]) -> list[str]:
    """The matrices called by one of `names`, in the order of `names`, those nearer the top first.

    Short names mean a vocabulary only at the top of a model: `output` there, not in an attention.
    """
    ranked = []
    for matrix in matrices:
        stem = LAST.sub("", matrix)
        if OTHER.search(matrix):
            continue
        for rank, name in enumerate(names):
            prefix = stem[: -len(name)]
            ends = stem.endswith(name) and (not prefix or prefix.endswith("."))
            if ends and (name not in SHORT or prefix.count(".") <= 1):
                ranked.append((rank, matrix.count("."), matrix))
                break
    return [matrix for *_, matrix in sorted(ranked)]


def _named(name: str, matrices: dict, table: dict, file: Path) -> str:
    """The matrix that the reader means by the end of its name."""
    for ending in (name, f"{name}.weight"):
        found = [n for n in matrices if n == ending]
        found = found or [n for n in matrices if n.endswith("." + ending)]
        if len(found) == 1:
            return found[0]
        if found:
            raise CourseError(f"{name} is the end of several names in {file}: {_listed(found)}")
    if name in table:
        entry = table[name]
        raise CourseError(
            f"{name} in {file} is {entry.dtype} of shape {entry.shape}: a matrix of floating-point "
            "numbers is needed (quantised ones are not read)"
        )
    raise unknown(f"matrix in {file}:", name, matrices)


def _lies_across(table, chosen, words: int | None, vocabulary: int | None) -> bool:
    """Whether the matrix is (d, N). Decided by N where it is known; else d is the dimension that
    more of the other tensors have; else a vocabulary has more words than dimensions."""
    rows, columns = table[chosen].shape
    for known in (vocabulary, words):
        if known is not None and (rows == known) != (columns == known):
            return columns == known
    sizes = Counter(
        size for name, entry in table.items() if name != chosen for size in set(entry.shape)
    )
    if sizes[rows] != sizes[columns]:
        return sizes[rows] > sizes[columns]
    return rows < columns


def _tied(chosen, matrix, heads, embeddings, config, table) -> tuple[bool | None, list[str]]:
    """Whether one matrix reads and predicts, and what is to be said about it."""
    text = config.get("text_config")
    nested = text.get("tie_word_embeddings", True) if isinstance(text, dict) else True
    says = bool(config.get("tie_word_embeddings", nested)) if config else None
    reading = [n for n in embeddings if n != chosen and n not in heads]
    if chosen in heads:
        same = [n for n in reading if table[n].shape == table[chosen].shape]
        if any(torch.equal(_tensor(n, table), matrix) for n in same):
            return True, [f"{chosen} is stored although it equals the input embedding"]
        notes = []
        if says and same:
            notes = ["config.json says tied, but the file holds an output matrix that differs "
                     "from the input embedding; the output matrix is examined"]  # fmt: skip
        return (False if reading else None), notes
    if heads:
        return False, [f"an input embedding; the output matrix of this model is {heads[0]}"]
    architecture = str((config.get("architectures") or [""])[0])
    if says is False:
        return False, ["untied, and the file holds no output matrix: the input embedding is "
                       "examined"]  # fmt: skip
    if config and re.search(r"(?<!LMHead)(?<!Heads)Model$", architecture):
        return None, [f"{architecture} has no output layer: the input embedding is examined"]
    if says is None:
        return None, ["the file does not say whether this matrix predicts words or only reads them"]
    return True, []


def _none_plausible(path: Path, matrices: dict[str, Entry]) -> str:
    largest = sorted(matrices, key=lambda n: -max(matrices[n].shape))[:8]
    if not largest:
        return f"{path} holds no matrix of floating-point numbers: there is nothing to examine"
    listed = ", ".join(f"{n} {'×'.join(map(str, matrices[n].shape))}" for n in largest)
    return (
        f"no matrix of {path} is called like a word embedding or an output layer; name one with "
        f"--matrix. Candidates: {listed}"
    )


# --- runs of the course --------------------------------------------------------------------------


def _identity(metadata: dict) -> dict | None:
    """Which experiment a checkpoint belongs to, if it is one of this course."""
    try:
        identity = json.loads(metadata["progress"])["identity"]
        return identity if "experiment" in identity else None
    except (KeyError, TypeError, json.JSONDecodeError):
        return None


def _read_run(path: Path, table: dict[str, Entry], identity: dict) -> Source:
    """The output words of a run: a plain matrix, or the factors of a spectral one."""
    experiment = Experiment.from_dict(identity["experiment"])
    written = "model.output_layer.words"
    tied = not any(name.startswith(f"{written}.") for name in table)
    stem = "model.words" if tied else written
    file = next(iter(table.values())).file
    if f"{stem}.weight" in table:
        name = f"{stem}.weight"
        W, dtype = _tensor(name, table), table[name].dtype
    elif f"{stem}.U" in table:
        name = f"{stem}.U, free, V"
        U, sigma, V = (_tensor(f"{stem}.{part}", table).double() for part in ("U", "free", "V"))
        sigma = sigma.abs()
        words = experiment.words if tied else experiment.output_words or experiment.words
        if words.options.get("normalise"):
            sigma = sigma / sigma.max()
        W, dtype = (U * sigma) @ V.T, table[f"{stem}.U"].dtype
    else:
        raise CourseError(f"{file} is a checkpoint of {experiment.name} without its word matrix")
    return Source(
        _widened(W), path, name, "run of this course", dtype, _digests([file]), tied,
        notes=(f"recipe {experiment.name}, profile {experiment.profile}, seed {experiment.seed}",),
        experiment=experiment,
    )  # fmt: skip


# --- arrays --------------------------------------------------------------------------------------


def _read_array(path: Path, name: str | None, words: int | None) -> Source:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.lib.npyio.NpzFile):
            with loaded:
                chosen = _array_of(path, loaded, name)
                array = loaded[chosen]
        else:
            chosen, array = path.stem, loaded
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise CourseError(
            f"{path} is truncated, or no array of plain numbers (objects would be a pickle, which "
            f"is not read): {error}"
        ) from None
    if not _is_matrix(array):
        raise CourseError(
            f"{chosen} of {path} is {array.dtype} of shape {array.shape}: a matrix of "
            "floating-point numbers is needed, one word a row"
        )
    rows, columns = array.shape
    turned = rows < columns
    if words is not None and (rows == words) != (columns == words):
        turned = columns == words
    wide = array.astype(np.float64 if array.dtype.itemsize > 4 else np.float32, copy=False)
    return Source(
        torch.from_numpy(np.ascontiguousarray(wide.T if turned else wide)),
        path, chosen, "NumPy array", str(array.dtype), _digests([path]), None, turned,
        ("an array does not say whether it predicts words or reads them",),
    )  # fmt: skip


def _array_of(path: Path, arrays, name: str | None) -> str:
    """The one matrix of an .npz, or the one called `name`."""
    shapes = {n: array.shape for n in arrays.files if _is_matrix(array := arrays[n])}
    if name is None and len(shapes) == 1:
        return next(iter(shapes))
    if name is None:
        listed = ", ".join(f"{n} {'×'.join(map(str, shape))}" for n, shape in shapes.items())
        raise CourseError(
            f"{path} holds {len(shapes)} matrices of floating-point numbers"
            + (f"; name one with --matrix: {listed}" if shapes else ": nothing to examine")
        )
    if name not in shapes:
        raise unknown(f"matrix in {path}:", name, shapes)
    return name


def _is_matrix(array: np.ndarray) -> bool:
    return array.ndim == 2 and array.dtype.kind == "f" and min(array.shape) > 1


def _listed(things: Iterable) -> str:
    return ", ".join(getattr(thing, "name", str(thing)) for thing in things)
