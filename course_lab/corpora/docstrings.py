"""The embedded corpus: English prose from the docstrings of packages the course installs.

The packages are pinned, so the text is the same on every machine: their files are parsed (never
imported), the prose paragraphs are cut into sentences, one a line, lower-cased and tokenised.
Numbers become `N`, formulas `<math>`, code `<code>`, addresses `<url>`. Sentences that occurred
before are dropped, and each file goes whole to train, valid or test by a hash of its path.
"""

import ast
import gc
import hashlib
import inspect
import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import metadata, util
from pathlib import Path

from course_lab.corpora import prose
from course_lib.data import folders
from course_lib.data.cache import cached
from course_lib.data.corpus import SPLITS, Corpus, digest, from_texts
from course_lib.errors import CourseError
from course_lib.ranges import Count, checked

# import name -> (distribution, version); what changes here changes the corpus
PACKAGES = {
    "numpy": ("numpy", "2.4.6"),
    "scipy": ("scipy", "1.17.1"),
    "pandas": ("pandas", "3.1.1"),
    "matplotlib": ("matplotlib", "3.11.2"),
    "sklearn": ("scikit-learn", "1.9.1"),
    "sympy": ("sympy", "1.14.0"),
    "mpmath": ("mpmath", "1.3.0"),
    "networkx": ("networkx", "3.6.1"),
    "seaborn": ("seaborn", "0.13.2"),
    "gensim": ("gensim", "4.4.0"),
}
SHA256 = {  # of the text with these versions, on every supported Python and platform
    "train": "cb7fabc5add35de67140dd411440f04eb2e0085e52bfcb8a63b12f7c153edff2",
    "valid": "c36ad2edfbce1f53705656eb57a5bd83ba5b7b3a7f187918dbbca37cdc44fc25",
    "test": "808b5998aabc9785c15fb84cc347d92f5e8a793a6b67098c65378397e8da1dae",
}
# `setup` alone leaves packages as they are where it has installed these versions before.
ANEW = "`python -m tools clean --all` and `python -m tools setup` install the pinned ones"
TOKENS, WORDS = (923_669, 48_775, 40_920), 10_000
LICENCE = "BSD-3-Clause and like licences of the packages (gensim: LGPL-2.1); read in place"

# tests, other people's code, what is only there for one Python, files written by a wheel's build
SKIPPED_FOLDERS = {"tests", "test", "testing", "externals", "extern", "_external", "_vendor"}
SKIPPED_FOLDERS |= {"distutils"}
SKIPPED_FILES = {"version.py", "_version.py", "__config__.py", "_distributor_init.py"}


@checked
def load_docstrings(words: Count | None = WORDS) -> Corpus:
    """Return the docstrings of the installed packages; warn if those are not the pinned ones.

    The first call parses about 60 MB of source (some 15 s) and keeps the text in the cache.
    `CourseError` if a package is missing, or if pinned packages give another text.
    """
    versions = installed()
    texts = cached_texts(versions)
    sha256 = digests(texts)
    other = [
        f"{name} {v} for {pinned()[name]}" for name, v in versions.items() if v != pinned()[name]
    ]
    if other:
        warnings.warn(
            f"the docstrings corpus is not the course's, figures will differ: {', '.join(other)} "
            f"(SHA-256 of train {sha256['train']}); {ANEW}",
            stacklevel=3,
        )
    elif sha256 != SHA256:
        changed = " and ".join(split for split in SPLITS if sha256[split] != SHA256[split])
        raise CourseError(
            f"docstrings: the packages are the pinned ones but their text is not ({changed}; was a "
            f"file edited?); {ANEW}"
        )
    return from_texts(
        "docstrings",
        texts,
        words,
        sha256=sha256,
        licence=LICENCE,
        source="docstrings of " + ", ".join(f"{name} {v}" for name, v in versions.items()),
    )


def pinned() -> dict[str, str]:
    """Return, by distribution, the version that the course is pinned to."""
    return dict(PACKAGES.values())


def installed() -> dict[str, str]:
    """Return, by distribution, the version installed; `CourseError` if one is missing."""
    try:
        return {name: metadata.version(name) for name, _ in PACKAGES.values()}
    except metadata.PackageNotFoundError as error:
        raise CourseError(
            f"docstrings: the package {error.name} is not installed, its text is part of the "
            "corpus; run `python -m tools setup`"
        ) from None


def cached_texts(versions: Mapping[str, str]) -> dict[str, str]:
    """The text of each split, extracted once for these versions and this file's rules.

    Of pinned packages only the text that is theirs is kept: an edited one, when it is mended, is
    read again.
    """
    rules = Path(__file__).read_bytes() + Path(prose.__file__).read_bytes()
    key = digest(json.dumps(dict(versions), sort_keys=True).encode() + rules)[:12]
    path = folders.cache() / f"docstrings-{key}.json"

    def make():
        if sys.stderr.isatty():  # not in a notebook, whose output must not depend on the cache
            print("reading the docstrings of the installed packages, once …", file=sys.stderr)
        for old in path.parent.glob("docstrings-*.json"):
            with suppress(OSError):
                old.unlink()
        return extract({package: root_of(package) for package in PACKAGES})

    return cached(path, make, lambda texts: versions != pinned() or digests(texts) == SHA256)


def digests(texts: Mapping[str, str]) -> dict[str, str]:
    """Return, by split, the SHA-256 of its text."""
    return {split: digest(text) for split, text in texts.items()}


def root_of(package: str) -> Path:
    """Return the folder of a package, found without importing it."""
    spec = util.find_spec(package)
    assert spec is not None and spec.origin is not None  # its version has been read
    return Path(spec.origin).parent


def extract(roots: Mapping[str, Path]) -> dict[str, str]:
    """The text of each split from the packages at `roots` (import name -> folder)."""
    splits: dict[str, list[str]] = {split: [] for split in SPLITS}
    seen: set[str] = set()
    with collector_off():
        for package, root in roots.items():
            for path, relative in source_files(package, root):
                rows = splits[split_of(relative)]
                for sentence in prose.sentences(docstrings(path.read_text(encoding="utf-8"))):
                    if sentence not in seen:
                        seen.add(sentence)
                        rows.append(sentence)
    return {split: "".join(f"{row}\n" for row in rows) for split, rows in splits.items()}


@contextmanager
def collector_off():
    """Collect no garbage meanwhile: syntax trees are many small objects and no garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def source_files(package: str, root: Path) -> list[tuple[Path, str]]:
    """Return (path, path from the package with slashes) of the files read, in a fixed order."""
    found = []
    for path in root.rglob("*.py"):
        parts = path.relative_to(root).parts
        if not SKIPPED_FOLDERS & set(parts[:-1]) and parts[-1] not in SKIPPED_FILES:
            found.append((path, "/".join((package, *parts))))
    return sorted(found, key=lambda pair: pair[1])


def split_of(relative: str) -> str:
    """Return train, valid or test (18 : 1 : 1) by the SHA-256 of a file's path."""
    share = int(hashlib.sha256(relative.encode()).hexdigest(), 16) % 20
    return {0: "valid", 1: "test"}.get(share, "train")


def docstrings(source: str) -> Iterator[str]:
    """Return the docstrings of a file in order of appearance, indentation removed."""
    if '"""' not in source and "'''" not in source:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes, which each Python reports differently
        tree = ast.parse(source)
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, owners) and (text := ast.get_docstring(node, clean=False)):
            yield inspect.cleandoc(text)
        blocks = (getattr(node, name, ()) for name in ("body", "handlers", "orelse", "finalbody"))
        stack.extend(reversed([child for block in blocks for child in block]))
