"""The website's reference of the two packages: a page a subpackage, from the docstrings.

`write_pages` writes what Sphinx's autosummary and autodoc fill in. The module is a Sphinx extension
as well: `setup` makes autodoc read docstrings as this project writes them, in plain text with
`code` in backticks, where an aligned or indented paragraph stands as it is.
"""

import re
from pathlib import Path

from course_lab.notebook_source import ROOT

PACKAGES = ("course_lib", "course_lab")
CODE = re.compile(r"`+ ?([^\s`](?:[^`]*[^\s`])?) ?`+")
NOT_SHOWN = {"__main__", "cli"}  # the commands have a page of their own


def write_pages(folder: Path) -> None:
    """Write a page for each subpackage, one for each package's own modules, and their index."""
    names = []
    for package in PACKAGES:
        pages = {package: []}
        for module in public_modules(package):
            parts = module.split(".")
            subpackage = (ROOT / parts[0] / parts[1] / "__init__.py").exists()
            pages.setdefault(".".join(parts[:2]) if subpackage else package, []).append(module)
        for name, modules in pages.items():
            (folder / f"{name}.md").write_text(page(name, modules), "utf-8")
        names += pages
    with (folder / "index.md").open("a", encoding="utf-8") as index:
        index.write("\n```{eval-rst}\n" + summary(names, "") + "\n```\n")
        index.write("\n```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n")


def public_modules(package: str) -> list[str]:
    """Return the names of a package's public modules below the package itself, in order."""
    modules = []
    for path in sorted((ROOT / package).rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        hidden = [part for part in parts if part in NOT_SHOWN or re.match(r"_(?!_)", part)]
        if not hidden and name != package:
            modules.append(name)
    return modules


def page(name: str, modules: list[str]) -> str:
    """Return the page of a package: its modules in a table, then each with its public names."""
    inner = [module for module in modules if module != name]
    table = f"```{{eval-rst}}\n{summary(inner)}\n```\n" if inner else ""
    parts = [f"# {name}\n", f"```{{eval-rst}}\n.. automodule:: {name}\n```\n", table]
    for module in inner:
        parts.append(f"## {module.removeprefix(f'{name}.')}\n")
        parts.append(f"```{{eval-rst}}\n.. automodule:: {module}\n   :members:\n```\n")
    return "\n".join(parts)


def summary(modules: list[str], shortened: str = "~") -> str:
    """Return the directive for a table of modules, each with its docstring's first sentence."""
    # The names are those of packages, whatever module the page has described last.
    head = [".. py:currentmodule:: None", ".. autosummary::", ""]
    return "\n".join([*head, *(f"   {shortened}{module}" for module in modules)])


# --- docstrings for Sphinx -----------------------------------------------------------------------


def setup(app):
    """Connect the two functions below to autodoc."""
    app.connect("autodoc-process-docstring", process_docstring)
    app.connect("autodoc-skip-member", skip_member)
    return {"parallel_read_safe": True}


def process_docstring(app, kind, name, member, options, lines: list[str]) -> None:
    """Rewrite the lines of a docstring as reStructuredText, in place."""
    lines[:] = as_rst("\n".join(lines)).splitlines()


def skip_member(app, kind, name, member, skip, options) -> bool | None:
    """Leave out the fields of named tuples, which the signature names already."""
    return True if str(member.__doc__).startswith("Alias for field number") else None


def as_rst(docstring: str) -> str:
    """Return a docstring as reStructuredText.

    A paragraph is one line, whose `code` is set as code and whose other signs mean nothing. A
    paragraph with indented or aligned lines, or a list, stands as it is.
    """
    blocks = []
    for paragraph in filter(str.strip, re.split(r"\n\s*\n", docstring.strip("\n"))):
        if re.search(r"^ |^[-*] |^>>>|\S  +\S", paragraph, re.M):
            indented = "\n".join(f"   {line}" for line in paragraph.splitlines())
            blocks.append(f".. code-block:: text\n\n{indented}")
        else:
            pieces = CODE.split(" ".join(paragraph.split()))
            prose = [re.sub(r"([\\*|_`]|:(?=:))", r"\\\1", piece) for piece in pieces[::2]]
            code = [rf"\ ``{piece}``\ " for piece in pieces[1::2]] + [""]
            blocks.append(r"\ " + "".join(map("".join, zip(prose, code, strict=True))))
    return "\n\n".join(blocks) + "\n"
