"""Several versions of the website side by side: a folder each, and a menu between them.

A release such as `v0.2.0` and a branch such as `main` have a folder of their own. `latest` is a
copy of the newest release. `versions.json`, beside the folders, is what the menu of a page reads.
"""

import json
import re
import shutil
from pathlib import Path

import typer

from course_lib.errors import CourseError
from tools import site

LATEST = "latest"
MENU = "versions.json"  # docs/conf.py names it, too
FIRST = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<link rel="icon" href="{folder}/_static/logo.svg">
<meta http-equiv="refresh" content="0; url={folder}/">
<title>The output embedding</title>
<p>The course is <a href="{folder}/">here</a>.
</html>
"""


def publish(
    executed: Path, folder: Path, name: str, address: str, commands: dict[str, typer.Typer]
) -> Path:
    """Build the site of one version among the others; return its `index.html`.

    executed  the folder of the executed notebooks
    folder    what the web server shows, with a folder for each version
    name      of the version: that of a tag or of a branch
    address   of that folder on the web
    commands  as of `site.build`

    Raises CourseError for a name that is no name of a folder, or that is taken.
    """
    if not re.fullmatch(r"[\w-][\w.-]*", name) or name == LATEST:
        raise CourseError(f"a version is called like its tag or branch, such as v0.2.0, not {name}")
    index = site.build(executed, folder / name, commands, version=name)
    newest = next(iter(releases(folder)), None)
    if name == newest:
        shutil.rmtree(folder / LATEST, ignore_errors=True)
        shutil.copytree(folder / name, folder / LATEST)
    write_menu(folder, address)
    (folder / "index.html").write_text(FIRST.format(folder=LATEST if newest else name), "utf-8")
    (folder / ".nojekyll").touch()  # else GitHub leaves out folders that begin with an underscore
    return index


def releases(folder: Path) -> list[str]:
    """Return the published releases, the newest first."""
    names = [path.name for path in folder.iterdir() if re.fullmatch(r"v\d+(\.\d+)*", path.name)]
    return sorted(names, key=lambda name: [int(n) for n in name[1:].split(".")], reverse=True)


def write_menu(folder: Path, address: str) -> None:
    """Write what the menu shows: the newest release, the older ones, and what is no release."""
    numbered = releases(folder)
    others = {path.parent.name for path in folder.glob("*/index.html")} - {LATEST, *numbered}
    entries = []
    for name in [*numbered, *sorted(others)]:
        newest = name in numbered[:1]
        place = f"{address.rstrip('/')}/{LATEST if newest else name}/"
        shown = f"{name} (newest)" if newest else name if name in numbered else f"{name} (draft)"
        entries.append({"name": shown, "version": name, "url": place, "preferred": newest})
    (folder / MENU).write_text(json.dumps(entries, indent=1) + "\n", "utf-8")
