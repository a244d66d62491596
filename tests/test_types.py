"""The types that the packages carry: a checker finds no error, and the library's are complete."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COMPLETE = 0.78  # of the public names of the library, those whose type is known; make it larger


def checked(*words: str) -> dict:
    """Return what the checker reports, with the settings of pyproject.toml."""
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable]
    # `--verifytypes` asks the first Python of the path where PyTorch is, whatever it is told.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [*command, "--outputjson", *words],
        cwd=ROOT,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=600,
    )
    return json.loads(done.stdout)


def errors(report: dict) -> list[str]:
    return [
        f"{Path(found['file']).name}:{found['range']['start']['line'] + 1}: {found['message']}"
        for found in report["generalDiagnostics"]
        if found["severity"] == "error"
    ]


def test_the_checker_finds_no_error():
    report = checked()
    assert report["summary"]["filesAnalyzed"] > 150
    assert errors(report) == []


def test_every_file_is_looked_at_and_an_exception_names_its_rule():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["pyright"]
    assert settings["include"] == ["course_lib", "course_lab"]
    assert not {"ignore", "exclude"} & settings.keys()
    files = [path for name in settings["include"] for path in (ROOT / name).rglob("*.py")]
    exceptions = [
        f"{path.name}: {line.strip()}"
        for path in files
        for line in path.read_text("utf-8").splitlines()
        if re.search(r"#\s*(pyright:(?! ignore\[)|type: ignore)", line)
    ]
    assert files and exceptions == []


def test_the_types_of_the_library_are_complete():
    report = checked("--verifytypes", "course_lib", "--ignoreexternal")["typeCompleteness"]
    unknown = [
        symbol["name"]
        for symbol in report["symbols"]
        if symbol["isExported"] and not symbol["isTypeKnown"]
    ]
    assert report["completenessScore"] >= COMPLETE, "\n".join(unknown)


WRONG = {  # a wrong use of the library -> what its error names
    "Softmax('words')": "words",
    "Softmax(FullWords(9, 4), bia=False)": "bia",
    "attach(FullWords(9, 4), cap=[2])": "cap",
    "stable_rank(None)": "None",
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the checker says of each wrong use: a file each, and one process for all."""
    folder = tmp_path_factory.mktemp("uses")
    for place, line in enumerate(WRONG):
        (folder / f"use{place}.py").write_text(
            "from course_lib.attachment import attach\n"
            "from course_lib.metrics.geometry import stable_rank\n"
            "from course_lib.output_layers import FullWords, Softmax\n\n"
            f"print(attach, stable_rank, Softmax, FullWords)\n{line}\n"
        )
    (folder / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "standard", "extraPaths": [str(ROOT)]})
    )
    return errors(checked("--project", str(folder)))


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_use_of_the_library_is_an_error(line, told):
    """So that the types say something: what every value fits would pass any check."""
    start = f"use{list(WRONG).index(line)}.py:"
    (message,) = [text for text in told if text.startswith(start)]
    assert message.startswith(f"{start}6:") and WRONG[line] in message
