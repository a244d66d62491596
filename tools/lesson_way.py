"""The way through the lessons: the foot of each notebook leads to the lessons around it.

The order is that of the numbers, as in `docs/which-lesson.md`. A core lesson leads to the core
lessons before and after it and to its deeper half. A deeper half leads back to its lesson and on to
the next one. The foot is the last cell of the source, tagged `way`, which `python -m tools
notebooks link` writes; `notebooks new` does so for a new lesson and its neighbours.
"""

import re
from pathlib import Path

from course_lab.notebook_source import FOLDER, numeral, sources

TAG = "way"
FOOT = re.compile(rf'\n# %% \[markdown\] tags=\["{TAG}"\]\n(?:#.*(?:\n|\Z))*\Z')


def title(source: Path) -> str:
    """Return the title of a lesson, which begins with its number."""
    heading = re.search(r"(?m)^# # (.+?)\s*$", source.read_text("utf-8"))
    return heading[1] if heading else f"{numeral(source.name)}."


def around(source: Path) -> dict[str, Path]:
    """Return the lessons to which the foot of `source` leads, by the words before their links."""
    every = sources(source.parent)
    whole = [path for path in every if re.match(r"\d\d_", path.name)]
    before = [path for path in whole if path.name[:2] < source.name[:2]]
    after = [path for path in whole if path.name[:2] > source.name[:2]]
    same = [path for path in every if path.name[:2] == source.name[:2] and path != source]
    if source in whole:
        found = {"← Previous": before[-1:], "↓ Deeper": same, "→ Next": after[:1]}
    else:
        found = {"↑ Back": same, "→ Next": after[:1]}
    return {words: paths[0] for words, paths in found.items() if paths}


def foot(source: Path) -> str:
    """Return the Markdown at the foot of a lesson, "" where there is no other lesson."""
    return "\n\n".join(
        f"{words}: [{title(path)}]({path.stem}.ipynb)" for words, path in around(source).items()
    )


def link(folder: Path = FOLDER) -> list[Path]:
    """Write the foot of every lesson anew; return the sources that this changed."""
    changed = []
    for source in sources(folder):
        before = source.read_text("utf-8")
        after = FOOT.sub("\n", before).rstrip("\n") + "\n"
        if text := foot(source):
            lines = "\n".join(f"# {line}".rstrip() for line in text.splitlines())
            after += f'\n# %% [markdown] tags=["{TAG}"]\n{lines}\n'
        if after != before:
            source.write_text(after, "utf-8")
            changed.append(source)
    return changed
