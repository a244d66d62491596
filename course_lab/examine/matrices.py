"""Choose the output matrix among the tensors of a checkpoint, and read it with its words as rows.

Three questions: which tensor predicts words, does the same one read them, and are its words the
rows or the columns? What a file does not say is decided by a rule, and a note says so.
"""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from course_lab.examine import course_runs, gguf_files, onnx_files
from course_lab.examine.source import Source
from course_lab.examine.tensor_files import (
    ARRAYS,
    GGUF,
    ONNX,
    Entry,
    TensorFiles,
    check_finite,
    listed,
    open_tensors,
    read_json,
)
from course_lib.errors import CourseError, unknown

# What is called so predicts words (first) or reads them, in the order of preference. The last part
# of the name may be `weight`, or what JAX calls it.
HEADS = ["lm_head", "embed_out", "lm_head.decoder", "predictions.decoder", "output_projection",
         "output_layer.words", "lm_head.dense", "generator.proj", "output", "decoder", "head",
         "generator"]  # fmt: skip
EMBEDDINGS = ["wte", "embed_tokens", "word_embeddings", "tok_embeddings", "token_embd",
              "embed_in", "shared", "word_embedding", "token_embedding", "token_embeddings",
              "tokens_embed", "word_emb",
              "words", "embedding", "embeddings", "embed", "encoder"]  # fmt: skip
SHORT = {"output", "decoder", "head", "generator", "encoder", "embedding", "embeddings", "embed"}
LAST = re.compile(r"\.(weight|kernel|embedding|embeddings)$")
OTHER = re.compile(r"position|wpe|pos_emb|token_type|segment|patch|relative|layer_?norm|\.ln_")
LISTED = 8  # candidates in a message


def read(path: Path, name: str | None = None, words: int | None = None) -> Source:
    """Return the output matrix of a checkpoint.

    path: a run of this course, a safetensors file, an index of shards, a Hugging Face folder, a
        .gguf, .onnx, .npy or .npz file.
    name: the tensor, where it cannot be found or is not the one wanted; the end of its name does.
    words: N, where it is known, such as the number of counts; it decides which way round the matrix
        lies.
    Raises CourseError for what is missing, damaged, a pickle, not finite, or without a matrix that
    could be a vocabulary's; then it lists the candidates.
    """
    path = Path(path).expanduser()
    if not path.exists():
        raise CourseError(f"{path} does not exist; give a run, a checkpoint or a model folder")
    tensors = open_tensors(path)
    header = course_runs.read_header(tensors)
    if tensors.file.suffix in ARRAYS:
        source = _read_array(path, tensors, name, words)
    elif tensors.file.suffix == ONNX and name is None:
        source = _read_graph(path, tensors, words)
    elif header and name is None:
        source = course_runs.read_words(path, tensors, header)
    else:
        source = _read_model(path, tensors, name, words)
    check_finite(path, source.name, source.W)
    return source


# --- a model's tensors ---------------------------------------------------------------------------


def _read_model(path: Path, tensors: TensorFiles, name: str | None, words: int | None) -> Source:
    """Return the output matrix of a model of which the names of its tensors are known."""
    if tensors.file.suffix == GGUF:
        config = gguf_files.config(tensors.gguf)
    else:
        config = read_json(tensors.file.parent / "config.json")
    vocabulary = _vocabulary_size(config)
    # which tensor
    candidates = _candidates(tensors.matrices(), vocabulary)
    notes = []
    if name is not None:
        chosen = _named(name, tensors)
    else:
        chosen, notes = _choose(path, tensors, candidates, vocabulary)
    # whether it reads, too
    raw = tensors.tensor(chosen)
    if name is not None and _is_unknown(chosen, candidates):
        tied = predicts = None
        said = ["named by --matrix: its name does not tell whether it predicts words or reads them"]
    else:
        tied, predicts, said = _tied(chosen, raw, candidates, config, tensors)
    # which way round
    across, rule = _lies_across(tensors, chosen, words, vocabulary)
    N = raw.shape[across]
    notes += [*said, *_turned(rule, raw.shape)] if across else said
    if vocabulary is not None and N != vocabulary:
        notes.append(f"{_config(tensors)} says {vocabulary:,} words; this matrix has {N:,}")
    return _source(
        path,
        tensors,
        chosen,
        _as_rows(raw, across),
        kind=_kind(tensors.file, config),
        tied=tied,
        predicts=predicts,
        transposed=across,
        notes=tuple(notes),
        words=_pieces(tensors, N),
    )


def _as_rows(matrix: Tensor, across: bool) -> Tensor:
    """Return a matrix with its words as rows; across: whether they are its columns."""
    return (matrix.T if across else matrix).contiguous()


def _source(path: Path, tensors: TensorFiles, chosen: str, W: Tensor, **more) -> Source:
    """Return the source of the tensor `chosen`, with what the file says of it.

    path: as the user gave it. W: the tensor's numbers, a word a row. more: the other fields.
    """
    entry = tensors.entries[chosen]
    digests = tensors.digests(chosen)
    return Source(W, path, chosen, dtype=entry.dtype, sha256=digests, **more)


def _kind(file: Path, config: dict) -> str:
    """Return what a checkpoint is, in words."""
    if file.suffix in (GGUF, ONNX):
        return f"{file.suffix[1:].upper()} model"
    return "Hugging Face model" if config else "safetensors file"


def _pieces(tensors: TensorFiles, N: int) -> list[str] | None:
    """Return what the rows stand for, where the file itself says so for each of N rows."""
    if tensors.file.suffix == ONNX:
        return onnx_files.words(tensors.onnx, N)
    pieces = gguf_files.tokens(tensors.gguf) if tensors.file.suffix == GGUF else None
    return pieces if pieces and len(pieces) == N else None


def _config(tensors: TensorFiles) -> str:
    """Return what says how many words a model has: its one file, or the one beside it."""
    return "the file" if tensors.file.suffix == GGUF else "config.json"


def _vocabulary_size(config: dict) -> int | None:
    """Return N as config.json has it, also that of the text part of a model of several parts."""
    for part in (config, config.get("text_config"), config.get("llm_config")):
        size = part.get("vocab_size") if isinstance(part, dict) else None
        if isinstance(size, int) and size > 1:
            return size
    return None


class _Candidates(NamedTuple):
    """Names of matrices that may predict words, of those that read them, and of unnamed ones.

    `unnamed` have the vocabulary's size, but nothing in their names tells of words.
    """

    heads: list[str]
    embeddings: list[str]
    unnamed: list[str]


def _candidates(matrices: dict[str, Entry], vocabulary: int | None) -> _Candidates:
    """Return the candidates by name; where N is known, only those that have N rows or columns."""
    heads = _called(matrices, HEADS)
    embeddings = _called(matrices, EMBEDDINGS)
    if vocabulary is None:
        return _Candidates(heads, embeddings, [])
    fitting = [n for n in matrices if vocabulary in matrices[n].shape and not OTHER.search(n)]
    heads = [n for n in heads if n in fitting]
    embeddings = [n for n in embeddings if n in fitting]
    unnamed = [n for n in fitting if n not in heads and n not in embeddings]
    return _Candidates(heads, embeddings, unnamed)


def _is_unknown(matrix: str, candidates: _Candidates) -> bool:
    """Return whether neither the name of a matrix nor its size tells of words."""
    return matrix not in candidates.unnamed and not _called([matrix], HEADS + EMBEDDINGS)


def _called(matrices: Iterable[str], names: list[str]) -> list[str]:
    """Return the matrices called by one of `names`, in their order, those nearer the top first.

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


def _choose(
    path: Path, tensors: TensorFiles, candidates: _Candidates, vocabulary: int | None
) -> tuple[str, list[str]]:
    """Return the best candidate, and a note where its name does not tell of words."""
    named = candidates.heads or candidates.embeddings
    matrices = tensors.matrices()
    if named:
        return named[0], []
    if len(candidates.unnamed) == 1:
        (chosen,) = candidates.unnamed
        note = f"{chosen} is taken since it alone has the {vocabulary:,} of {_config(tensors)}"
        return chosen, [note]
    if len(matrices) == 1 and not candidates.unnamed:
        (chosen,) = matrices
        return chosen, [f"{chosen} is taken since it is the only matrix"]
    raise CourseError(_none_plausible(path, tensors))


def _none_plausible(path: Path, tensors: TensorFiles) -> str:
    """Return the message that lists what may be named instead, else what the file has."""
    matrices = tensors.matrices()
    named = matrices or tensors.entries
    largest = sorted(named, key=lambda n: -max(named[n].shape, default=0))[:LISTED]
    if matrices:
        return (
            f"no matrix of {path} is called like a word embedding or an output layer; name one "
            f"with --matrix. Candidates: {_with_shapes(named, largest)}"
        )
    told = [f"{name} of shape {named[name].shape} is {named[name].dtype}" for name in largest]
    message = f"{path} holds no matrix of floating-point numbers that is read: "
    message += ", ".join(told) or "it is empty"
    model = tensors.model
    if isinstance(model, onnx_files.Model) and any(p.elsewhere for p in model.tensors.values()):
        message += (
            ". Numbers in another file are not read; write one file with them: "
            f"onnx.save(onnx.load({tensors.file.name!r}), 'whole.onnx')"
        )
    return message


def _with_shapes(matrices: dict[str, Entry], names: Iterable[str]) -> str:
    return ", ".join(f"{name} {'×'.join(map(str, matrices[name].shape))}" for name in names)


def _named(name: str, tensors: TensorFiles) -> str:
    """Return the matrix that the reader means by the end of its name."""
    matrices = tensors.matrices()
    file = tensors.file
    meant = _ending(name, matrices)
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise CourseError(f"{name} is the end of several names in {file}: {listed(meant)}")
    others = _ending(name, tensors.entries)
    if others:
        entry = tensors.entries[others[0]]
        raise CourseError(
            f"{others[0]} in {file} is {entry.dtype} of shape {entry.shape}: a matrix of "
            "floating-point numbers is needed" + " (this type is not read)" * (not entry.floating)
        )
    raise unknown(f"matrix in {file}:", name, matrices)


def _ending(name: str, names: Iterable[str]) -> list[str]:
    """Return those of `names` that a reader means by an end, with or without `.weight`."""
    for ending in (name, f"{name}.weight"):
        meant = [n for n in names if n == ending]
        meant = meant or [n for n in names if n.endswith("." + ending)]
        if meant:
            return meant
    return []


def _tied(
    chosen: str, matrix: Tensor, candidates: _Candidates, config: dict, tensors: TensorFiles
) -> tuple[bool | None, bool | None, list[str]]:
    """Return whether the model is tied, whether the matrix predicts, and notes on the choice.

    None stands for what is not known.
    """
    # what the config says
    text = config.get("text_config")
    nested = text.get("tie_word_embeddings", True) if isinstance(text, dict) else True
    says = bool(config.get("tie_word_embeddings", nested)) if config else None
    # the matrix predicts: is there another one that reads?
    heads = candidates.heads
    embeddings = candidates.embeddings or candidates.unnamed
    reading = [n for n in embeddings if n != chosen and n not in heads]
    if chosen in heads:
        shape = tensors.entries[chosen].shape
        alike = [n for n in reading if tensors.entries[n].shape == shape]
        if any(torch.equal(tensors.tensor(n), matrix) for n in alike):
            return True, True, [f"{chosen} is stored although it equals the input embedding"]
        notes = []
        if says and alike:
            notes = ["config.json says tied, but the file holds an output matrix that differs "
                     "from the input embedding; the output matrix is examined"]  # fmt: skip
        return (False if reading else None), True, notes
    # the matrix reads: does it predict, too?
    if heads:
        note = f"an input embedding; the output matrix of this model is {heads[0]}"
        return False, False, [note]
    others = {name: entry for name, entry in tensors.entries.items() if not entry.floating}
    fitting = [name for name in others if set(others[name].shape) & set(matrix.shape)]
    if unread := _called(fitting, HEADS):
        kind = tensors.entries[unread[0]].dtype
        note = f"the output matrix {unread[0]} is of type {kind}, which is not read: the input "
        return None if says else False, False, [note + "embedding is examined"]
    if says is False:
        note = "untied, and the file holds no output matrix: the input embedding is examined"
        return False, False, [note]
    names = config.get("architectures")
    architecture = str(names[0]) if isinstance(names, list) and names else ""
    if config and re.search(r"(?<!LMHead)(?<!Heads)Model$", architecture):
        note = f"{architecture} has no output layer: the input embedding is examined"
        return None, False, [note]
    if says is None:
        note = "the file does not say whether this matrix predicts words or only reads them"
        return None, None, [note]
    return True, True, []


# --- which way round -----------------------------------------------------------------------------


def _lies_across(
    tensors: TensorFiles, chosen: str, words: int | None, vocabulary: int | None
) -> tuple[bool, str]:
    """Return whether a matrix is (d, N), and the rule that decided it.

    N decides where it is known. Else d is the dimension that more of the other tensors have; else
    a vocabulary has more words than dimensions.
    """
    rows, columns = tensors.entries[chosen].shape
    for known, says in (
        (vocabulary, f"{_config(tensors)} says {{:,}} words"),
        (words, "a matrix of {:,} words is looked for"),
    ):
        if known is not None and (rows == known) != (columns == known):
            return columns == known, says.format(known)
    others = (set(entry.shape) for name, entry in tensors.entries.items() if name != chosen)
    sizes = Counter(size for shape in others for size in shape)
    if sizes[rows] != sizes[columns]:
        return sizes[rows] > sizes[columns], f"more of the other tensors have the size {rows:,}"
    return rows < columns, "a vocabulary is taken to have more words than dimensions"


def _turned(rule: str, shape: tuple[int, ...]) -> list[str]:
    """Return the note on a matrix of which the columns are taken for the words."""
    rows, columns = shape
    return [
        f"transposed: of a matrix of {rows:,} × {columns:,} the {columns:,} columns are taken for "
        f"the words, since {rule}"
    ]


# --- a graph -------------------------------------------------------------------------------------


def _read_graph(path: Path, tensors: TensorFiles, words: int | None) -> Source:
    """Return the matrix that leads to an ONNX model's output, else the largest that reads."""
    model = tensors.onnx
    head = onnx_files.head(model)
    read_with = onnx_files.embedding(model)
    chosen = head.matrix if head else read_with
    if chosen is None:
        return _read_model(path, tensors, None, words)
    across = head is not None and head.across
    W = _as_rows(tensors.tensor(chosen), across)
    notes = []
    if head is None:
        notes = ["no matrix that is read leads to an output of the graph: the largest one that is "
                 "looked up in is examined"]  # fmt: skip
    # its bias
    bias = None
    if head and head.bias in tensors.entries and tensors.entries[head.bias].floating:
        values = tensors.tensor(head.bias).reshape(-1)
        if len(values) == len(W):
            check_finite(path, head.bias, values)
            bias = values
    return _source(
        path,
        tensors,
        chosen,
        W,
        kind=_kind(tensors.file, {}),
        tied=None if read_with is None else chosen == read_with,
        predicts=head is not None,
        transposed=across,
        notes=tuple(notes),
        words=onnx_files.words(model, len(W)),
        bias=bias,
    )


# --- arrays --------------------------------------------------------------------------------------


def _read_array(path: Path, tensors: TensorFiles, name: str | None, words: int | None) -> Source:
    """Return the matrix of an .npy file, or the only or named one of an .npz file."""
    chosen = _array_called(path, tensors, name)
    entry = tensors.entries[chosen]
    if not entry.is_matrix:
        raise CourseError(
            f"{chosen} of {path} is {entry.dtype} of shape {entry.shape}: a matrix of "
            "floating-point numbers is needed, one word a row"
        )
    alone = TensorFiles(tensors.file, {chosen: entry})  # the other arrays are no layers of a model
    across, rule = _lies_across(alone, chosen, words, None)
    notes = ["an array does not say whether it predicts words or reads them"]
    if across:
        notes += _turned(rule, entry.shape)
    W = _as_rows(tensors.tensor(chosen), across)
    kind = "NumPy array"
    return _source(path, tensors, chosen, W, kind=kind, transposed=across, notes=tuple(notes))


def _array_called(path: Path, tensors: TensorFiles, name: str | None) -> str:
    """Return the name of the array to read. The only array of an .npy file needs no name."""
    if name is not None:
        return _named(name, tensors)
    if tensors.file.suffix == ".npy":
        return next(iter(tensors.entries))
    matrices = tensors.matrices()
    if len(matrices) == 1:
        return next(iter(matrices))
    hint = f"; name one with --matrix: {_with_shapes(matrices, matrices)}"
    raise CourseError(
        f"{path} holds {len(matrices)} matrices of floating-point numbers"
        + (hint if matrices else ": nothing to examine")
    )
