"""The word-similarity benchmarks: pairs of words and how similar people find them."""

from typing import NamedTuple

import numpy as np

from course_lib.data import folders
from course_lib.data.files import check, read_text
from course_lib.data.registry import CDN, RAW, Download, File

MIRRORS = (
    f"{RAW}/mfaruqui/eval-word-vectors/master/data/word-sim/{{}}",
    f"{CDN}/mfaruqui/eval-word-vectors@master/data/word-sim/{{}}",
    "https://github.com/mfaruqui/eval-word-vectors/raw/master/data/word-sim/{}",
)

# fmt: off
FILES = (  # the benchmark, its file, pairs, bytes, SHA-256
    ("WS-353", "EN-WS-353-ALL.txt", 353, 7_405,
     "ce12919b240af45bdf46d243601eaca2b6212b159b5e7e9b435ee7ee40c5619c"),
    ("WS-353-SIM", "EN-WS-353-SIM.txt", 203, 4_002,
     "f1da938998863c94e53f72f984a5c6e215f0b46c323aae8f0f4930703a339107"),
    ("WS-353-REL", "EN-WS-353-REL.txt", 252, 5_134,
     "66a7c88100624d0a391605ff61ce84e11d11ee620d51ec0298da49592838f8fa"),
    ("RG-65", "EN-RG-65.txt", 65, 1_210,
     "c243f3a91c3f5d8cf67f21a67f6fb80bde8b6bb060851a6a48e6f2d68ec98c9f"),
    ("MC-30", "EN-MC-30.txt", 30, 543,
     "33ee05911496ff83d95cac351d0746c6f63b9181b605cb7d307f4daa8864511b"),
    ("MTurk-287", "EN-MTurk-287.txt", 287, 7_218,
     "a9ae3a9decb75a9700fe0cf18b048c1344774d9f40e0196baf8e34d4cd9d1ce5"),
    ("MTurk-771", "EN-MTurk-771.txt", 771, 19_628,
     "04dc297c9e86b6fa7cf8ef0e4ba2e2c8d3399ec68d92fb7a53c0b4aae27198b5"),
    ("MEN", "EN-MEN-TR-3k.txt", 3_000, 53_593,
     "888b13580faa362c7b11da0a670258cf1b1eb4bf0ecbcd418918729a3bd3f43a"),
    ("YP-130", "EN-YP-130.txt", 130, 2_614,
     "7643fdbc6158c3424061e2cba450c71285767266ff9f3db947bfc1f1f5ce67ab"),
    ("VERB-143", "EN-VERB-143.txt", 144, 3_320,
     "7259e19961c81912aa4c72de0102e480b2ad2bb9f4ce97d036fbde8e1a403001"),
    ("RW-STANFORD", "EN-RW-STANFORD.txt", 2_034, 49_851,
     "5108d54dfc746f44f9c3d7e31d2857c37cf71430bc1594175a61a3b89bb0ae1f"),
    ("SimVerb-3500", "EN-SimVerb-3500.txt", 3_500, 65_315,
     "9d84274e7ad029fd3cf69dd0516e9ade624bbef9bd4e2050f6cc1fa01471e0f5"),
    ("SimLex-999", "EN-SIMLEX-999.txt", 999, 18_024,
     "405394ffb7d25f6d0e3c041f87c9f27d29dc6b047506769953e85c4523b11685"),
)
# fmt: on

WORD_SIMILARITY = Download(
    name="word-similarity",
    title="13 word-similarity benchmarks (Faruqui and Dyer 2014)",
    files=tuple(
        File(file, size, sha256, tuple(mirror.format(file) for mirror in MIRRORS))
        for _, file, _, size, sha256 in FILES
    ),
    sizes=(0, 0, sum(pairs for _, _, pairs, _, _ in FILES)),
    words=None,
    licence="each benchmark's own; for research",
    source="GitHub mfaruqui/eval-word-vectors, data/word-sim",
)


class Benchmark(NamedTuple):
    """Pairs of words, lower-cased, and how similar people found each; both of length n."""

    pairs: list[tuple[str, str]]
    scores: np.ndarray


def load_word_similarity() -> dict[str, Benchmark]:
    """The 13 benchmarks by name, in the order of parthiban2021's list, every word lower-cased.

    They are files EN-….txt in the folder `word-similarity` of the corpora, a pair and its score a
    line. CourseError naming the file, its SHA-256 and its place if one is missing or differs.
    """
    folder, found = folders.corpora() / WORD_SIMILARITY.name, {}
    for (name, *_), file in zip(FILES, WORD_SIMILARITY.files, strict=True):
        text = read_text(check(folder, file, WORD_SIMILARITY)).lower()
        rows = [line.split() for line in text.splitlines() if line.strip()]
        found[name] = Benchmark(
            [(a, b) for a, b, _ in rows], np.array([float(score) for *_, score in rows])
        )
    return found
