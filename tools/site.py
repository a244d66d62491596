"""The website: executed lessons and the pages under `docs/`, built by Sphinx without a network.

`build` copies `docs/` into a temporary folder, puts each executed notebook beside it in the form
the pages need (`lesson_page`), writes the pages that depend on what there is (`site_pages`,
`reference`), adds MathJax from the installed package, and runs Sphinx with warnings as errors.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import typer

from course_lab import notebook_source
from course_lab.notebook_source import ROOT
from course_lib.errors import CourseError
from tools import reference, site_pages
from tools.lesson_page import lesson

DOCS = ROOT / "docs"
MATHJAX = (  # the parts of MathJax 3 that the pages load; SVG output needs no web fonts
    "startup.js",
    "core.js",
    "input/tex.js",
    "input/tex/extensions",
    "output/svg.js",
    "output/svg/fonts",
    "a11y/assistive-mml.js",
)


def build(
    executed: Path, output: Path, commands: dict[str, typer.Typer], quiet: bool = True
) -> Path:
    """Build the site from executed notebooks; return its `index.html`.

    executed  the folder of the executed notebooks, `*.ipynb`
    output    the folder of the site, replaced when the new one is complete
    commands  the command lines to be described, by the words that start them
    quiet     whether Sphinx's own report is only shown when it fails

    Raises CourseError when there is no executed notebook, a figure has no alternative text, or
    Sphinx warns.
    """
    executed, output = Path(executed), Path(output)
    notebooks = sorted(executed.glob("*.ipynb"))
    if not notebooks:
        raise CourseError(f"no executed lesson in {executed}; run `python -m tools course`")
    with tempfile.TemporaryDirectory(prefix="course-site-") as folder:
        source, site = Path(folder, "source"), Path(folder, "site")

        # The lessons; all names exist before links between them are looked up.
        shutil.copytree(DOCS, source)
        (source / "lessons").mkdir()
        (source / "generated").mkdir()
        (source / "_static" / "figures").mkdir()
        for path in notebooks:
            (source / "lessons" / path.name).touch()
        images = notebook_source.FOLDER / "images"
        shutil.copytree(images, source / "lessons" / "images")
        lessons = [lesson(path, source) for path in notebooks]

        # The pages that depend on what there is.
        site_pages.write_course_pages(lessons, source)
        site_pages.write_progress(lessons, source / "generated")
        site_pages.write_commands(commands, source / "generated")
        site_pages.write_speed(source / "generated")
        site_pages.write_lab_log(source / "generated")
        site_pages.write_guides(source)
        reference.write_pages(source / "reference")

        # The site, moved to its place when it is complete.
        copy_mathjax(source / "_static" / "mathjax")
        sphinx(source, site, Path(folder, "doctrees"), quiet)
        for page in site.rglob("*.html"):
            page.write_text(labelled(page.read_text("utf-8")), "utf-8")
        shutil.rmtree(output, ignore_errors=True)
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(site, output)
    return output / "index.html"


def sphinx(source: Path, site: Path, doctrees: Path, quiet: bool) -> None:
    """Run Sphinx in its own process; a warning is an error that names its file."""
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-b", "html"]
    command += ["-d", str(doctrees), str(source), str(site)] + ["-q"] * quiet
    paths = filter(None, (str(ROOT), os.environ.get("PYTHONPATH", "")))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run(command, capture_output=quiet, text=True, env=environment)
    if done.returncode:
        report = (done.stderr or "see above").replace(f"{source}/", "").strip()
        raise CourseError(f"the website was not built, Sphinx reported:\n{report}")


def labelled(page: str) -> str:
    """Return a page with what screen readers and phones miss in it.

    The buttons that fold the navigation get a name. Tables keep no empty headers. Long signatures
    are no lists of definitions, because they define nothing. A package's name may break.
    """
    page = page.replace(
        '<summary><span class="toctree-toggle"',
        '<summary aria-label="Show or hide the pages below"><span class="toctree-toggle"',
    )
    page = re.sub(r"(<h1>course_l\w+\.)", r"\1<wbr>", page)  # where a phone breaks a long name
    page = re.sub(r'<th(?: class="head[^"]*")?>\s*(?:<p>\s*</p>)?</th>', "<td></td>", page)

    def lines(signature: re.Match) -> str:
        inner = signature[1].replace("<dd>", '<span class="sig-line">').replace("</dd>", "</span>")
        return f'<span class="sig-lines">{inner}</span>'

    return re.sub(r'<dl>\n((?:<dd><em class="sig-param">.*</dd>\n)+)</dl>', lines, page)


def copy_mathjax(target: Path) -> None:
    """Copy the parts of MathJax 3 that the pages load out of the installed package."""
    try:
        package = distribution("sphinx-mathjax-offline")
    except PackageNotFoundError:
        raise CourseError(
            "sphinx-mathjax-offline (MathJax for the website) is not installed; "
            "run `python -m tools setup`"
        ) from None
    origin = Path(package.locate_file("sphinx-mathjax-offline")) / "static" / "mathjax"
    for name in MATHJAX:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (origin / name).is_dir() else shutil.copy
        copy(origin / name, target / name)
