"""A word matrix, and where it came from."""

from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from course_lab.examine.tensor_files import checkpoint_in
from course_lab.experiment import Experiment
from course_lab.vocabulary import Vocabulary


@dataclass(frozen=True)
class Source:
    """A word matrix W (N, d) in float32 or float64 with its origin.

    name: the tensor's. kind: of the checkpoint, in words. dtype: as it is stored. sha256: by file
    name. tied: whether one matrix reads and predicts, None where the file does not say. predicts:
    whether this matrix predicts, None likewise. transposed: whether the file holds (d, N). notes:
    what the reader must know about the choice. words: what the rows stand for, where the file says
    so. bias: of the output layer (N,), where it is known.
    A run of this course has more: its experiment, the checksums of its text by split, and the
    vocabulary with its counts, which a checkpoint of an older version lacks.
    """

    W: Tensor = field(repr=False)
    path: Path
    name: str
    kind: str
    dtype: str
    sha256: dict[str, str]
    tied: bool | None = None
    predicts: bool | None = None
    transposed: bool = False
    notes: tuple[str, ...] = ()
    experiment: Experiment | None = None
    words: list[str] | None = field(default=None, repr=False)
    bias: Tensor | None = field(default=None, repr=False)
    text_sha256: dict[str, str] = field(default_factory=dict)
    vocabulary: Vocabulary | None = field(default=None, repr=False)

    @property
    def file(self) -> Path:
        """The file that was opened; of a folder the one that it begins with."""
        return checkpoint_in(self.path) if self.path.is_dir() else self.path

    @property
    def folder(self) -> Path:
        """The folder in which a tokenizer would lie."""
        return self.path if self.path.is_dir() else self.path.parent

    def to_dict(self) -> dict:
        """Return the origin as plain data, ready for JSON."""
        return {
            "path": str(self.path),
            "kind": self.kind,
            "matrix": self.name,
            "words": len(self.W),
            "size": self.W.shape[1],
            "dtype": self.dtype,
            "tied": self.tied,
            "predicts": self.predicts,
            "transposed": self.transposed,
            "notes": list(self.notes),
            "sha256": self.sha256,
            "experiment": self.experiment.to_dict() if self.experiment else None,
        }
