"""The claims of the five papers, a line of a table each: what is said, where, and what tests it."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from course_lab import published

Expected = Literal["lower", "higher", "same", "not lower", "not higher"]


@dataclass(frozen=True)
class Claim:
    """A sentence of a paper, and the comparison of two kinds of runs that tests it.

    A recipe is written `name`, or `name path=value …` where a run differs from it in settings.
    """

    name: str  # paper-topic
    place: str  # in the paper
    says: str
    expects: Expected = "lower"  # of the method's figure, beside the baseline's
    pairs: tuple[tuple[str, str], ...] = ()  # recipes of published rows: (method, baseline)
    method: str = ""  # its name in other families, see `evidence.parts_of`; no others if empty
    baseline: str | float = "tied"  # a number is a level with which the figure is compared
    figure: str = "test_perplexity"  # a path of `evidence.Run.figure`
    metric: str = "perplexity"  # of published.csv
    optimizers: tuple[str, ...] = ()  # of the models that it speaks of; any if empty
    note: str = ""  # what every comparison of it leaves open
    needs: str = ""  # why no comparison of runs tests it
    withdrawn: str = ""  # why runs in other contexts than the paper's are no evidence for it

    @property
    def paper(self) -> str:
        """Return the paper's key, such as `gao2019`."""
        return self.name.partition("-")[0]

    @property
    def unit(self) -> str:
        """Return the unit of its differences: per cent of a logarithm, or hundredths."""
        return "hundredths" if self.figure in HUNDREDTHS else "%"

    def difference(self, ours: float, theirs: float) -> float:
        """Return by how much a figure of the method differs from that of its baseline, in `unit`.

        It is NaN where a figure that is not above 0 has no logarithm.
        """
        if self.unit == "hundredths":
            return 100 * (ours - theirs)
        return float(100 * np.log(ours / theirs)) if ours > 0 and theirs > 0 else np.nan

    def published_differences(self) -> list[float]:
        """Return the difference of each pair whose figures the paper prints."""
        rows = published.rows()
        cited = published.cited(f"{self.paper}, {self.place}")
        places = list(zip(rows.paper, rows.table, strict=True))
        rows = rows.loc[[place in cited for place in places]]
        rows = rows.loc[(rows.metric == self.metric) & ~rows.split.isin(["train", "valid"])]
        names = (rows.recipe + " " + rows.change).str.strip()
        values = dict(zip(names, rows.value, strict=True))
        printed = [pair for pair in self.pairs if all(name in values for name in pair)]
        return [self.difference(values[m], values[b]) for m, b in printed]


def _pairs(method: str, baseline: str, *families: str) -> tuple[tuple[str, str], ...]:
    """Return the recipes of a method and of a baseline in several families."""
    return tuple((f"{family}/{method}", f"{family}/{baseline}") for family in families)


# Families of recipes, as the papers' tables have them ---------------------------------------------

_PTB, _WT2 = "ptb/awd-lstm", "wikitext-2/awd-lstm"
_INAN = [f"{c}/vd-lstm-{n}" for c, n in (("ptb", 650), ("ptb", 1500))]
_INAN += [f"wikitext-2/vd-lstm-{n}" for n in (200, 650)]
_HALVES = [f"wikitext-2/{half}-half/vd-lstm-200" for half in ("first", "second")]
_SMALL = "ptb/vd-lstm-200"
_XL = [f"wikitext-103/transformer-xl-{layers}" for layers in (4, 16)]
_WMT = [f"wmt14/en-de/transformer-{size}" for size in ("base", "big")]
_IWSLT = "iwslt14/de-en/transformer"
_SUBSPACE = "ptb/lstm-300/subspace objectives.0.weight={} objectives.1.weight={}"
_BLEU: dict[str, Any] = {"figure": "test_bleu", "metric": "bleu", "expects": "higher"}
_RANK: dict[str, Any] = {"figure": "log_prob/press_rank", "metric": "rank", "expects": "higher"}
_RANK |= {
    "note": "the number of contexts that are measured limits the rank, so that the factor may be "
    "larger and its interval says nothing"
}
_ET, _NT = "et-asgd", "nt-asgd"
# Divided by σ₁ the words are short, ‖w‖² being at most d/N in the mean, and so are the contexts of
# a recurrent network. |wᵀh| ≤ ‖w‖ ‖h‖ then leaves no room for a likely word, and without a bias a
# model cannot even say how frequent a word is. The paper's AWD-LSTM has that bias.
BOUNDED = (
    "rows outside the paper's own model are withdrawn as evidence: words that are divided by σ₁ "
    "bound the logits, and the softmax of these rows has no bias beside them"
)
# The singular values stay where the prior lets them begin: its scale c₁ is the words' scale.
# The desk has tried one scale of each prior, and the plan `desk-tuning` searches it.
UNSEARCHED = (
    "rows outside the paper's own model are withdrawn as evidence until the plan desk-tuning has "
    "searched the prior's scale: the singular values hardly move from where it lets them begin"
)
UNSEARCHED_BLEU = (
    "rows outside the paper's own model are withdrawn as evidence, because no plan has searched "
    "the prior's scale for translators: singular values hardly move from where it lets them begin"
)
LENGTHS = (
    "shorter rows alone raise I₁ and lower I₂, and the rows of the two models differ in length, so "
    "that the size of the difference is not that of the shape"
)
# Rank correlations lie about 0, where a logarithm says nothing: they differ by hundredths of ρ.
HUNDREDTHS = ("centred similarity",)
OURS = "own"  # stands for a paper's key where none of the five says so

CLAIMS = (
    # inan2017 -------------------------------------------------------------------------------------
    Claim(
        "inan2017-tying",
        "Table 1",
        "Tying the input and the output matrix lowers perplexity.",
        pairs=((f"{_SMALL}/tied/second-session", f"{_SMALL}/baseline"),)
        + _pairs("tied", "baseline", *_INAN),
        method="tied",
        baseline="untied",
    ),
    Claim(
        "inan2017-augmented",
        "Table 1",
        "The augmented loss lowers the perplexity of an untied model.",
        pairs=((f"{_SMALL}/augmented/second-session", f"{_SMALL}/baseline"),)
        + _pairs("augmented", "baseline", *_INAN),
        method="augmented",
        baseline="untied",
    ),
    Claim(
        "inan2017-both",
        "Table 1",
        "The augmented loss lowers the perplexity of a tied model, too.",
        pairs=_pairs("tied-augmented/second-session", "tied/second-session", _SMALL)
        + _pairs("tied-augmented", "tied", *_INAN),
        method="tied-augmented",
    ),
    Claim(
        "inan2017-halves",
        "Table 2",
        "On half of WikiText-2 the augmented loss lowers perplexity.",
        pairs=_pairs("augmented", "baseline", *_HALVES),
    ),
    Claim(
        "inan2017-highway",
        "Table 3",
        "Tying lowers the perplexity of a recurrent highway network.",
        pairs=_pairs("tied", "baseline", "ptb/vd-rhn"),
    ),
    Claim(
        "inan2017-subspace",
        "Figure 1",
        "The augmented loss moves the subspaces of both matrices together.",
        pairs=((_SUBSPACE.format("0.0", "100.0"), _SUBSPACE.format("1.0", "0.0")),),
        figure="subspace_distance",
        method="augmented",
        baseline="untied",
    ),
    Claim(
        "inan2017-frequent-words",
        "Section 6.4",
        "With both remedies <unk>, “a”, “an” and “the” are predicted with less probability.",
        method="tied-augmented",
        baseline="untied",
        figure="watched words elsewhere",
    ),
    # gao2019 --------------------------------------------------------------------------------------
    Claim(
        "gao2019-cone",
        "Section 3",
        "Under Adam nearly all pairs of tied words have a positive cosine.",
        "higher",
        method="tied",
        baseline=0.9,
        figure="geometry/positive_share",
        optimizers=("adam", "adamw"),
    ),
    Claim(
        "gao2019-perplexity",
        "Table 1",
        "The cosine penalty lowers perplexity.",
        pairs=_pairs("cosine", "softmax", _WT2)
        + _pairs("cosine/finetuned", "softmax/finetuned", _WT2)
        + _pairs("cosine/continuous-cache", "softmax/continuous-cache", _WT2),
        method="cosine",
    ),
    Claim(
        "gao2019-bleu",
        "Table 2",
        "The cosine penalty raises BLEU.",
        pairs=_pairs("cosine", "softmax", *_WMT, "wmt14/de-en/transformer-base"),
        method="cosine",
        **_BLEU,
    ),
    Claim(
        "gao2019-spectrum",
        "Figure 2",
        "The cosine penalty makes the singular values more uniform.",
        "higher",
        method="cosine",
        figure="flatness",
    ),
    Claim(
        "gao2019-cosines",
        "Figure 2",
        "The cosine penalty lowers the share of positive cosines.",
        method="cosine",
        figure="geometry/positive_share",
    ),
    # wang2019 -------------------------------------------------------------------------------------
    Claim(
        "wang2019-perplexity",
        "Tables 1, 2, 3",
        "Adversarial training lowers perplexity.",
        pairs=_pairs("adversarial/finetuned", "softmax/finetuned", _PTB, _WT2)
        + _pairs("adversarial", "softmax", _WT2, "wikitext-103/qrnn"),
        method="adversarial",
    ),
    Claim(
        "wang2019-mixture",
        "Tables 1, 2",
        "Adversarial training lowers the perplexity of a mixture of softmaxes.",
        pairs=_pairs("mos+adversarial/finetuned", "mos/finetuned", _PTB, _WT2),
        method="mos+adversarial",
        baseline="mos",
    ),
    Claim(
        "wang2019-shuffle",
        "Table 1",
        "It still does so after partial shuffling.",
        pairs=_pairs(
            "mos+partial-shuffle+adversarial/finetuned", "mos+partial-shuffle/finetuned", _PTB
        ),
    ),
    Claim(
        "wang2019-dynamic",
        "Tables 1, 2",
        "It still does so under dynamic evaluation.",
        pairs=_pairs("adversarial/dynamic-evaluation", "softmax/dynamic-evaluation", _PTB, _WT2),
    ),
    Claim(
        "wang2019-bleu",
        "Tables 4, 5",
        "Adversarial training raises BLEU.",
        pairs=_pairs("adversarial", "softmax", *_WMT, f"{_IWSLT}-small"),
        method="adversarial",
        **_BLEU,
    ),
    Claim(
        "wang2019-cosine",
        "Table 4",
        "Adversarial training raises BLEU more than the cosine penalty.",
        pairs=_pairs("adversarial", "cosine", _WMT[1]),
        method="adversarial",
        baseline="cosine",
        **_BLEU,
    ),
    Claim(
        "wang2019-spectrum",
        "Figure 1",
        "Adversarial training makes the singular values more uniform.",
        "higher",
        method="adversarial",
        figure="flatness",
    ),
    Claim(
        "wang2019-neighbours",
        "Figure 1",
        "Adversarial training moves each word away from its nearest neighbour.",
        "higher",
        method="adversarial",
        figure="neighbours/mean",
    ),
    # wang2020 -------------------------------------------------------------------------------------
    Claim(
        "wang2020-perplexity",
        "Table 1",
        "Spectrum control lowers perplexity.",
        pairs=_pairs("spectrum-control", "softmax", _WT2)
        + _pairs("spectrum-control/finetuned", "softmax/finetuned", _WT2),
        method="spectrum-control",
        withdrawn=UNSEARCHED,
    ),
    Claim(
        "wang2020-cosine",
        "Table 1",
        "Spectrum control lowers perplexity more than the cosine penalty.",
        pairs=_pairs("spectrum-control", "cosine", _WT2)
        + _pairs("spectrum-control/finetuned", "cosine/finetuned", _WT2),
        method="spectrum-control",
        baseline="cosine",
        withdrawn=UNSEARCHED,
    ),
    Claim(
        "wang2020-transformer",
        "Table 2",
        "Spectrum control lowers the perplexity of a Transformer-XL.",
        pairs=_pairs("spectrum-control", "softmax", *_XL),
    ),
    Claim(
        "wang2020-isotropy-1",
        "Table 3",
        "Spectrum control makes the matrix more isotropic: I₁ rises.",
        "higher",
        pairs=_pairs("spectrum-control", "softmax", _XL[1], f"{_IWSLT}-base"),
        method="spectrum-control",
        figure="geometry/I1",
        metric="isotropy-i1",
        note=LENGTHS,
        withdrawn=UNSEARCHED,
    ),
    Claim(
        "wang2020-isotropy-2",
        "Table 3",
        "Spectrum control makes the matrix more isotropic: I₂ falls.",
        pairs=_pairs("spectrum-control", "softmax", _XL[1], f"{_IWSLT}-base"),
        method="spectrum-control",
        figure="geometry/I2",
        metric="isotropy-i2",
        note=LENGTHS,
        withdrawn=UNSEARCHED,
    ),
    Claim(
        "wang2020-bleu",
        "Tables 4, 5",
        "Spectrum control raises BLEU.",
        pairs=_pairs("spectrum-control", "softmax", f"{_IWSLT}-base", *_WMT),
        method="spectrum-control",
        withdrawn=UNSEARCHED_BLEU,
        **_BLEU,
    ),
    Claim(
        "wang2020-adversarial",
        "Table 4",
        "Spectrum control raises BLEU more than adversarial training.",
        pairs=_pairs("spectrum-control", "adversarial", f"{_IWSLT}-base"),
        method="spectrum-control",
        baseline="adversarial",
        withdrawn=UNSEARCHED_BLEU,
        **_BLEU,
    ),
    Claim(
        "wang2020-normalisation",
        "Table 6",
        "Spectral normalisation raises perplexity.",
        "higher",
        pairs=_pairs("spectral-normalization", "softmax", _WT2),
        method="spectral-normalization",
        withdrawn=BOUNDED,
    ),
    Claim(
        "wang2020-d-optimal",
        "Table 6",
        "The D-optimal term raises it further.",
        "higher",
        pairs=_pairs("spectral-normalization+d-optimal", "spectral-normalization", _WT2),
        method="spectral-normalization+d-optimal",
        baseline="spectral-normalization",
        withdrawn=BOUNDED,
    ),
    Claim(
        "wang2020-seconds",
        "Table 7",
        "Spectrum control costs time.",
        "higher",
        pairs=(
            (
                f"{_WT2}/spectrum-control optimisation.epochs=1 optimisation.average_from=none",
                f"{_WT2}/softmax optimisation.epochs=1",
            ),
        ),
        figure="seconds an epoch",
        metric="seconds-per-epoch",
    ),
    Claim(
        "wang2020-prior",
        "Table 8",
        "On a small corpus the exponential prior is better than the polynomial one.",
        pairs=_pairs("spectrum-control", "spectrum-control/polynomial-prior", _WT2),
        method="spectrum-control",
        baseline="spectrum-polynomial",
        withdrawn=UNSEARCHED,
    ),
    Claim(
        "wang2020-large-prior",
        "Table 8",
        "On a large corpus the polynomial prior is better.",
        pairs=_pairs("spectrum-control", "spectrum-control/exponential-prior", _XL[1]),
    ),
    Claim(
        "wang2020-gap",
        "Remark 4.2",
        "The faster the singular values decay, the smaller the generalisation gap.",
        needs="only a sweep of the prior's γ can test it, see notebook 34",
    ),
    # parthiban2021 --------------------------------------------------------------------------------
    Claim(
        "parthiban2021-trigger",
        "Tables S10, S11",
        "Averaging from a fixed epoch is better than averaging after a plateau.",
        pairs=_pairs(f"softmax/{_ET}", f"softmax/{_NT}", _PTB)
        + _pairs(f"softmax/{_ET}", "softmax", _WT2)
        + _pairs(f"mos/{_ET}", "mos", _PTB, _WT2),
    ),
    Claim(
        "parthiban2021-sigsoftmax",
        "Table 2",
        "SigSoftmax is no better than the softmax.",
        "not lower",
        pairs=_pairs(f"sigsoftmax/{_ET}", f"softmax/{_ET}", _PTB, _WT2),
        method="sigsoftmax",
    ),
    Claim(
        "parthiban2021-gss",
        "Table 2",
        "The generalised SigSoftmax is no better than the softmax.",
        "not lower",
        pairs=_pairs(f"gss/{_ET}", f"softmax/{_ET}", _PTB, _WT2),
        method="gss",
    ),
    Claim(
        "parthiban2021-plif",
        "Table 2",
        "PLIF lowers perplexity.",
        pairs=_pairs(f"plif/{_ET}", f"softmax/{_ET}", _PTB, _WT2),
        method="plif",
    ),
    Claim(
        "parthiban2021-frozen",
        "Table 4",
        "PLIF with frozen random slopes is as good as with learned ones.",
        "same",
        pairs=_pairs(f"plif-frozen/{_ET}", f"plif/{_ET}", _PTB, _WT2),
        method="plif-frozen",
        baseline="plif",
    ),
    Claim(
        "parthiban2021-mos",
        "Table 2",
        "A mixture of softmaxes lowers perplexity.",
        pairs=_pairs(f"mos/{_ET}", f"softmax/{_ET}", _PTB, _WT2),
        method="mos",
    ),
    Claim(
        "parthiban2021-equal-capacity",
        "Table 5",
        "With as many parameters a softmax is as good as a mixture.",
        "same",
        pairs=_pairs("mos/equal-capacity", "softmax/equal-capacity", _PTB),
    ),
    Claim(
        "parthiban2021-gss-rank",
        "Table 2",
        "The generalised SigSoftmax raises the rank of log P.",
        pairs=_pairs(f"gss/{_ET}", f"softmax/{_ET}", _PTB, _WT2),
        method="gss",
        **_RANK,
    ),
    Claim(
        "parthiban2021-mos-rank",
        "Table 2",
        "A mixture of softmaxes raises the rank of log P.",
        pairs=_pairs(f"mos/{_ET}", f"softmax/{_ET}", _PTB, _WT2),
        method="mos",
        **_RANK,
    ),
    Claim(
        "parthiban2021-dropout-rank",
        "Table S12",
        "A mixture without latent dropout has a higher rank.",
        pairs=_pairs("mos/latent-dropout-0", "mos", _PTB, _WT2),
        **_RANK,
    ),
    Claim(
        "parthiban2021-dropout",
        "Table S12",
        "A mixture without latent dropout has a higher perplexity.",
        "higher",
        pairs=_pairs("mos/latent-dropout-0", "mos", _PTB, _WT2),
    ),
    Claim(
        "parthiban2021-components",
        "Table S4",
        "From 15 to 20 components perplexity does not fall.",
        "not lower",
        pairs=_pairs("mos/components-20", "mos", _PTB),
    ),
    Claim(
        "parthiban2021-correlation",
        "Figure 2",
        "Over settings of GSS, rank and perplexity hardly correlate.",
        needs="only the grid of c and k can test it, see notebook 31",
    ),
    Claim(
        "parthiban2021-similarity",
        "Figure 4",
        "A higher rank does not bring better word vectors.",
        "not higher",
        method="mos",
        figure="centred similarity",
    ),
    Claim(
        "parthiban2021-top-5",
        "Figure 3",
        "Models of low rank have the right word among their first five as often.",
        "same",
        method="mos",
        figure="predictions/among/5",
    ),
)

# What later work offers, as lesson 11 compares it. No paper of the five says so.
REMEDIES = tuple(
    Claim(f"{OURS}-{method}", "lesson 11", f"{name} lowers perplexity.", method=method)
    for method, name in {
        "centred": "Centring the word matrix",
        "mu-loss": "The μ-loss",
        "z-loss": "The z-loss",
        "capped": "Capping the logits",
        "gated": "Gating the pushes on rare words",
        "coupled-adam": "Coupled Adam",
        "muon": "Muon for the word matrix",
    }.items()
)

# What speed records, logs and later papers say of this matrix, as lesson 12 compares it; their own
# words and numbers are in data/records.csv. Nobody else claims what the three that are ours say.
RECORDS = (
    Claim("speedrun-untied", "record 8", "Untying lowers perplexity.", method="untied"),
    Claim(
        "speedrun-retied",
        "record 51",
        "Tying again lowers perplexity.",
        method="tied",
        baseline="untied",
    ),
    Claim(
        "speedrun-tied-then-untied",
        "record 53",
        "Tying for two thirds of the training, then untying, lowers perplexity.",
        method="tied-then-untied",
    ),
    Claim("speedrun-capped", "record 9", "A cap of 30 lowers perplexity.", method="capped"),
    Claim(
        "speedrun-capped-15",
        "record 18",
        "A cap of 15 lowers perplexity below that of a cap of 30.",
        method="capped-15",
        baseline="capped",
    ),
    Claim(
        "speedrun-capped-sigmoid",
        "record 54",
        "An asymmetric cap lowers perplexity below that of a symmetric one.",
        method="capped-sigmoid",
        baseline="capped-15",
    ),
    Claim(
        "shah2026-ember",
        "README",
        "Ember does as well as Adam on both word matrices.",
        "same",
        method="ember-both",
        baseline="untied",
    ),
    Claim(
        f"{OURS}-ember",
        "lesson 12",
        "Ember does as well as Adam on the matrix that reads.",
        "same",
        method="ember",
        baseline="untied",
    ),
    Claim(
        "golf-spectrum-start",
        "pull request 59",
        "A start with σ_k ∝ k^−½ lowers perplexity.",
        method="spectrum-start-half",
    ),
    Claim(
        f"{OURS}-input-gradient-scaled",
        "lesson 12",
        "Scaling the input gradient of a tied matrix lowers perplexity.",
        method="input-gradient-scaled",
    ),
    Claim(
        "brahma2018-past-decode",
        "abstract",
        "Predicting the word before, too, lowers perplexity.",
        method="past-decode",
    ),
    Claim(
        f"{OURS}-context-dispersion",
        "lesson 12",
        "Driving the contexts apart lowers perplexity.",
        method="context-dispersion",
    ),
    Claim(
        "jordan2024-muon",
        "README",
        "Muon on the word matrix raises perplexity.",
        "higher",
        method="muon",
    ),
)
TABLES = (CLAIMS, REMEDIES, RECORDS)  # p is corrected over each by itself
