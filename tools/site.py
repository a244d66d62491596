"""The website: executed lessons and the pages under `docs/`, built by Sphinx without a network.

`build` copies `docs/` into a temporary folder, puts each executed notebook beside it in the form
the pages need (`lesson_page`), writes the pages that depend on what there is (`site_pages`,
`reference`), adds MathJax from the installed package, and runs Sphinx with warnings as errors.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
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
REFUSED = ("403", "429")  # forbidden; too many requests


def build(
    executed: Path, output: Path, commands: dict[str, typer.Typer], version: str | None = None
) -> Path:
    """Build the site from executed notebooks; return its `index.html`.

    executed  the folder of the executed notebooks, `*.ipynb`
    output    the folder of the site, replaced when the new one is complete
    commands  the command lines to be described, by the words that start them
    version   of several sites side by side (`tools.published`), between which a menu changes

    Raises CourseError when there is no executed notebook, a figure has no alternative text, or
    Sphinx warns.
    """
    output = Path(output)
    with sources(executed, commands) as source:
        site = source.with_name("site")
        copy_mathjax(source / "_static" / "mathjax")
        report = sphinx(source, site, "html", ["-W", "--keep-going"], version)
        if report:
            raise CourseError(f"the website was not built, Sphinx reported:\n{report}")
        for page in site.rglob("*.html"):
            page.write_text(labelled(page.read_text("utf-8")), "utf-8")
        shutil.rmtree(output, ignore_errors=True)
        output.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(site, output)
    return output / "index.html"


def doubtful_links(executed: Path, commands: dict[str, typer.Typer]) -> list[str]:
    """Return the links of the site to other places that lead nowhere, each with its page and why.

    A host that refuses programs may answer a reader: what it refuses is not counted.
    """
    with sources(executed, commands) as source:
        output = source.with_name("links")
        options = ["linkcheck_timeout=30", "linkcheck_retries=3", "linkcheck_anchors=0"]
        report = sphinx(source, output, "linkcheck", [f"-D{option}" for option in options])
        if not (output / "output.json").exists():
            raise CourseError(f"the links were not checked, Sphinx reported:\n{report}")
        lines = (output / "output.json").read_text("utf-8").splitlines()
    links = [link for link in map(json.loads, lines) if link["status"] in ("broken", "timeout")]
    return [
        f"{link['filename']}: {link['uri']}: {link['info']}"
        for link in links
        if not link["info"].startswith(REFUSED)
    ]


@contextmanager
def sources(executed: Path, commands: dict[str, typer.Typer]) -> Iterator[Path]:
    """Yield a temporary folder with what Sphinx makes the site of."""
    executed = Path(executed)
    notebooks = sorted(executed.glob("*.ipynb"))
    if not notebooks:
        raise CourseError(f"no executed lesson in {executed}; run `python -m tools course`")
    with tempfile.TemporaryDirectory(prefix="course-site-") as folder:
        source = Path(folder, "source")

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
        site_pages.write_examinations(source / "generated")
        site_pages.write_lab_log(source / "generated")
        site_pages.write_guides(source)
        reference.write_pages(source / "reference")
        yield source


def sphinx(
    source: Path, output: Path, builder: str, options: list[str], version: str | None = None
) -> str:
    """Run Sphinx in its own process; return its report where it fails, else nothing.

    source   the folder of the pages
    output   where the builder writes, such as the site
    builder  of Sphinx, such as "html"
    options  more words of its command, such as `-W`, by which a warning is an error
    version  as of `build`; docs/conf.py reads it
    """
    command = [sys.executable, "-m", "sphinx", "-b", builder, *options]
    command += ["-q", "-d", str(source.with_name("doctrees")), str(source), str(output)]
    paths = filter(None, (str(ROOT), os.environ.get("PYTHONPATH", "")))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    environment["COURSE_SITE_VERSION"] = version or ""
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    said = done.stderr.replace(f"{source}/", "").strip() or f"exit code {done.returncode}"
    return said if done.returncode else ""


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
