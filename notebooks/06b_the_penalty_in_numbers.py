# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 6b. Going deeper: the cosine penalty in numbers
#
# **Question.** What does the theorem behind the penalty prove, on which words does the penalty act, and did the paper's models have a cone to cure?
#
# This notebook goes on where [lesson 6](06_cosine_regularization.ipynb) stops. Nothing later needs it.

# %% [markdown]
# ## What you will learn
#
# - what the eigenvalue theorem of Gao et al. (2019) proves, and which half of it matters;
# - on which words the penalty works, and which words make a difference in perplexity;
# - whether larger models have a cone, and what the optimiser has to do with it;
# - what the penalty costs, and where the paper leaves a gap.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 6](06_cosine_regularization.ipynb), whose symbols this notebook uses. The
# eigenvalues of a symmetric matrix add up to its trace.
#
# **Reading.** 38 minutes. **Difficulty.** 3 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | two Transformers on 30,000 tokens |
# | quick | 1.2 | two CPU cores | two Transformers on 100,000 tokens |
# | standard | 30 | two CPU cores | the same on the whole corpus, five times |
# | full | 10 | one GPU | the same on the whole corpus, twenty times |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the models and of every random draw below

# %%
import inspect  # noqa: I001
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import Code, Markdown, display
from torch.nn import functional as F

# %%
import course_lab
from course_lab import claims, evidence, plans, plots, published, results
from course_lab import tables, untested
from course_lab.corpora.frequencies import kept_counts
from course_lab.progress import check
from course_lib import data, regularizers, theory
from course_lib.data import bpe
from course_lib.metrics import geometry
from course_lib.regularizers import CosineRegularizer

_ = torch.manual_seed(SEED)

# %% [markdown]
# ## Predict
#
# 1. The mean direction $m$ is a mean over the *vocabulary*. Which words decide where it points: the
#    frequent words or the rare words?
# 2. With the penalty the validation loss changes. Which tokens make most of the change: those that are rare
#    words, or those that come after rare words?
# 3. The AWD-LSTM of the paper's Table 1 is trained by SGD. Do its words lie in a cone before any penalty?

# %% [markdown]
# ## The theorem behind it
#
# Why should a short $m$ make a model more expressive? Gao et al. argue with the eigenvalues
# $\lambda_1\ge\lambda_2\ge\dots\ge 0$ of the table of all cosines, $A = \hat W\hat W^\top$, where $\hat W$
# has the rows $\hat w_i$. The eigenvalues are the squares of $\hat W$'s singular values.
#
# - All diagonal entries are 1, so $\sum_k\lambda_k = \operatorname{trace} A = N$. What the first eigenvalue
#   loses, the others gain.
# - **Upper bound** (theorem 4, after Merikoski 1984). If no entry of $A$ is negative, then $\lambda_1$ is at
#   most $\operatorname{Sum}(A)$, the sum of all entries, which is $N^2\|m\|^2 = N + N^2R$.
# - **Lower bound.** $\lambda_1 \ge x^\top A x$ for every $x$ of norm 1. With $x = (1,\dots,1)/\sqrt N$ this
#   is $\lambda_1 \ge \operatorname{Sum}(A)/N = N\|m\|^2$, whatever the signs.
#
# The paper builds on the upper bound, which a smaller $R$ lowers. But the diagonal alone contributes $N$ to
# the sum. So where the theorem applies, $\operatorname{Sum}(A) \ge N$, and $\lambda_1\le N$ holds anyway.
# **The upper bound never says more than the trace does.**
#
# The lower bound is the useful one. In shares of the whole,
#
# $$\|m\|^2 \;\le\; \frac{\lambda_1}{N} \;\le\; 1.$$
#
# A long $m$ *forces* a dominant first direction and leaves at most $1 - \|m\|^2$ for all others. So a short
# $m$ is **necessary** for a flat spectrum. A short $m$ is not sufficient, as the third of these clouds shows.

# %%
axis = F.normalize(torch.randn(64), dim=0).double()
noise = torch.randn(1000, 64).double() / 8
sign = torch.ones(1000, 1).double()
sign[::2] = -1
clouds = {
    "narrow cone": 4 * axis + noise,
    "wide cone": axis + noise,
    "two bunches": 4 * sign * axis + noise,
    "round": noise,
}

# %%
bounds = {name: theory.merikoski(cloud) for name, cloud in clouds.items()}
N = len(noise)
rows = {
    name: {
        "R": f"{b.total / N**2 - 1 / N:z.3f}",
        "least cosine": f"{b.smallest_cosine:.2f}",
        "lower bound ‖m‖²": f"{b.total / N**2:.3f}",
        "λ₁ / N": f"{b.eigenvalue / N:.3f}",
        "theorem 4: Sum(A) / N": f"{b.total / N:.1f}",
    }
    for name, b in bounds.items()
}
pd.DataFrame(rows).T

# %% [markdown]
# In the two cones the lower bound is nearly sharp. The bound of theorem 4 is far above 1, where it excludes
# nothing. For the two bunches $R$ is as small as for the round cloud, and the first direction has as large a
# share as in the narrow cone. The last two clouds have negative cosines, so theorem 4 says nothing of them.

# %%
# NBVAL_CHECK_OUTPUT
lower = [b.total / N <= b.eigenvalue + 1e-9 for b in bounds.values()]
print("the lower bound holds:", all(lower))
sums = [b.total for b in bounds.values() if b.smallest_cosine >= 0]
print("no negative cosine, so Sum(A) ≥ N:", min(sums) >= N)
bunches = bounds["two bunches"]
short, long = bunches.total / N**2, bunches.eigenvalue / N
print("two bunches, m short and λ₁ long:", short < 0.01 and long > 0.8)

# %% [markdown]
# ## Two models to look into
#
# We train the two models of lesson 6 again, now with a larger vocabulary. Some of its words never come in the
# training text, and the theorem of lesson 3 is about such words.

# %%
recipes = {
    "plain": "docstrings/transformer-128/tied",
    "penalty": "docstrings/transformer-128/cosine",
}
small = {"train": 100_000, "valid": 10_000, "test": 10_000}
small |= {"words": 10_000}
runs = {}
for name, recipe in recipes.items():
    recipe = course_lab.recipes[recipe]
    chosen = course_lab.profile(recipe, PROFILE, seed=SEED)
    if PROFILE == "quick":
        cut = {"corpus": {"small": small}, "optimisation": {"batch": 8}}
        chosen = chosen.change(**cut)
    with tempfile.TemporaryDirectory() as folder:
        runs[name] = course_lab.run(chosen, folder=folder, progress=False)

# %%
models = {name: run.model.cpu().eval() for name, run in runs.items()}
W = {n: m.words.matrix().detach().clone() for n, m in models.items()}
corpus = runs["plain"].corpus
counts = corpus.counts.numpy()
rare, frequent = geometry.by_frequency(counts)

# %% [markdown]
# ## Whose vector is m?
#
# In the mean $m$ every word of the vocabulary counts once. Gao et al. report that more than 90 % of the
# vocabulary is rarer than one token in ten thousand (section 4 and Figure 3). Here are our corpus in words
# and, as in the paper's translation corpus, in pieces of words (byte pairs). The third curve is the paper's
# Figure 3b, the words of WikiText-2, from counts that the repository keeps.

# %%
text = corpus.decode(corpus.train).split("\n")
encoding = bpe.learned(text, 4_000, corpus.sha256["train"], 0)
ids = np.concatenate(list(bpe.encode_all(encoding, text, False)))
kinds = {"words": counts, "pieces": np.bincount(ids.astype(int))}
kinds["words of WikiText-2"] = kept_counts("wikitext-2")
below = {kind: (n < 1e-4 * n.sum()).mean() for kind, n in kinds.items()}

# %% tags=["hide-input"]
listed = ", ".join(f"{share:.0%} of the {k}" for k, share in below.items())
plots.show(
    plots.frequency_ranks(kinds),
    alt="Share of the tokens against rank, both axes logarithmic, a curve "
    f"for each vocabulary. Below one in ten thousand are {listed}.",
)

# %% [markdown]
# **Figure 1.** All three curves nearly follow Zipf's law, by which the word of rank $r$ has the share
# $\frac{1}{r \ln N}$ of the tokens. By this law the words above $10^{-4}$ are the first $10^4/\ln N$: about
# a thousand, *however large the vocabulary*. The table has the share of rare words that the law predicts,
# and the share that we counted. The paper prints the threshold as "10e-4". Read literally this is $10^{-3}$,
# and even more words lie below it.

# %%
sizes = {kind: len(n) for kind, n in kinds.items()}
sizes["pieces of a usual translator"] = 37_000
rows = {}
for kind, n in sizes.items():
    law = f"{1 - 1e4 / np.log(n) / n:.0%}"
    rows[kind] = {"N": f"{n:,}", "rare by the law": law}
    rows[kind]["counted"] = f"{below[kind]:.0%}" if kind in below else ""
pd.DataFrame(rows).T

# %% [markdown]
# This answers the first prediction. Most words are rare, so the rare words decide where $m$ points, and the
# penalty works on them. Does the penalty work *hard*? We take the plain model and compare, word by word, the
# length of the penalty's gradient at $\gamma = 1$ with the length of the likelihood's gradient, a mean over
# some thousands of positions.

# %%
model = models["plain"]
model.zero_grad()
some = data.batches(data.columns(corpus.train, 16), 64)
for _, (tokens, target) in zip(range(8), some, strict=False):
    (model(tokens, None, target).loss / 8).backward()
likelihood = model.words.weight.grad.norm(dim=1)
model.zero_grad()
CosineRegularizer(weight=1.0)(model.words).backward()
ratio = (model.words.weight.grad.norm(dim=1) / likelihood).numpy()
typical = {"rare": np.median(ratio[rare])}
typical["most frequent"] = np.median(ratio[frequent[:20]])

# %% tags=["hide-input"]
plots.show(
    plots.ratio_against_frequency(ratio, counts, "penalty / likelihood"),
    alt="Length of the penalty's gradient over that of the likelihood's, "
    "one dot a word, against the number of occurrences, both logarithmic. "
    f"The median of the rare words is {typical['rare']:.2g}, that of the "
    f"twenty most frequent words {typical['most frequent']:.2g}.",
)

# %%
display(
    Markdown(
        f"**Figure 2.** For a rare word the penalty's gradient is, in the "
        f"median, **{typical['rare']:.2g}** times that of the likelihood. "
        f"For the twenty most frequent words it is "
        f"**{typical['most frequent']:.2g}** times."
    )
)

# %% [markdown]
# So $\gamma = 1$ is neither small nor large by nature. At $\gamma = 1$ the two gradients of a rare word happen
# to balance. The reason is that the factor $1/N$ of the penalty's gradient and the tiny probability of a rare
# word are of the same order. Expect little from a $\gamma$ ten times smaller. At a $\gamma$ ten times larger
# the penalty has its way. A word that comes a thousand times hardly feels the penalty.

# %% [markdown]
# ## Where does a difference in perplexity come from?
#
# Here is the change of the validation loss, token by token, sorted by how often the token's word came in
# training. The right panel sorts the same tokens by the word before them.


# %%
def losses(model):
    """Return −log P of the validation words, these, and those before."""
    parts = []
    for tokens, target in data.batches(data.columns(corpus.valid, 20), 64):
        with torch.no_grad():
            hidden = model(tokens).hidden.flatten(0, 1)
            log_p = model.output_layer.log_prob(hidden)
        own = log_p.gather(1, target.flatten()[:, None])[:, 0]
        parts.append((-own, target.flatten(), tokens.flatten()))
    return [torch.cat(part).numpy() for part in zip(*parts, strict=True)]


# %%
loss = {}
for name, model in models.items():
    loss[name], predicted, before = losses(model)
change = loss["penalty"] - loss["plain"]
edges = {"never": 0, "1–9": 1, "10–99": 10, "100–999": 100, "1,000+": 1000}
least = list(edges.values())


# %%
def added(words):
    """Return what tokens add to the change, by how often words came."""
    group = np.searchsorted(least, counts[words], side="right") - 1
    return {
        name: change[group == i].sum() / len(change)
        for i, name in enumerate(edges)
    }


parts = {"by the word itself": added(predicted)}
parts["by the word before it"] = added(before)

# %% tags=["hide-input"]
unseen = parts["by the word itself"]["never"]
plots.show(
    plots.shares_of_a_difference(parts, "adds to the change (nats)"),
    alt="How much each group of tokens adds to the change of validation "
    f"loss under the penalty, {change.mean():+.3f} nats a token in all. "
    f"Left by the word to be predicted: {unseen:+.3f} are of words that "
    "never came in training. Right by the word before it: nearly all "
    "comes after frequent words.",
)

# %%
came = counts[predicted] > 0
rows = {}
for name, v in loss.items():
    rows[name] = {"all words": np.exp(v.mean())}
    rows[name]["words that came in training"] = np.exp(v[came].mean())
split = pd.DataFrame(rows).T.map("{:.1f}".format)
tables.with_ngrams(split, corpus, valid="all words")

# %% [markdown]
# **Figure 3.** The bars of a panel add up to the whole change. The table has the validation perplexities. The last
# rows only count words and runs of words. *Kneser-Ney 5* has the lowest perplexity of the table, so what happens here
# is no evidence about models that have learned more.
#
# - This answers the second prediction: tokens that *are* rare words make more of the change than tokens that
#   come after rare words. On the right, nearly all of the change comes after *frequent* words. The penalty
#   has pulled the vectors of rare words apart, but in this run it did not help that a rare word just read
#   can be told from others.
# - On the left, words that never came in training make a large part of the change. Training tells about these
#   words only that they do not come, so the plain model has sent them where no context finds them. Whatever
#   holds their vectors back makes these words cheaper. That gain depends on how many such words the
#   vocabulary has. Where the vocabulary is taken from the training text, as in the paper's corpora and in the
#   sweep of lesson 6, there are none.
# - The words that came a thousand times or more make the largest bar on the left, although they hardly feel
#   the penalty. Nothing here measures why.

# %% [markdown]
# ## Has the cause gone?
#
# Lesson 3 found the cause of the cone in the contexts: they all lie on one side of the origin. Does the penalty
# change that? Here is the linear programme of lesson 3 on the contexts of both models. The programme's
# **margin** is 0 if the contexts surround the origin. The number $\mathbf 1^\top(b/g)$ belongs to the last
# layer normalisation, with gain $g$ and bias $b$. Unless this number is 0, the contexts lie in a plane that
# misses the origin.

# %%
tokens, _ = next(data.batches(data.columns(corpus.valid, 40), 50))
rows = {}
for name, model in models.items():
    with torch.no_grad():
        H = model(tokens).hidden.flatten(0, 1)[:2_000].double()
    norm = model.encoder.layers[-1].feedforward_norm
    gain, bias = norm.weight.detach(), norm.bias.detach()
    m = F.normalize(W[name], dim=1).mean(0).double()
    rows[name] = {
        "margin": theory.uniformly_negative_direction(H).margin,
        "1ᵀ(b/g)": theory.layer_norm_condition(gain, bias),
        "share of contexts with mᵀh < 0": (H @ m < 0).double().mean(),
        "‖m‖": m.norm(),
    }
pd.DataFrame(rows).T.astype(float).map("{:.2f}".format)

# %%
# NBVAL_CHECK_OUTPUT
margins = [row["margin"] for row in rows.values()]
print("both still have a uniformly negative direction:", min(margins) > 0)

# %% [markdown]
# The cause is untouched. With the penalty, too, all the contexts that we looked at lie on one side of the
# origin, the margin is about as wide, and every context has $m^\top h < 0$. The number $\mathbf 1^\top(b/g)$
# is not 0 in either model, but as in lesson 3 so small a number does not explain so wide a margin. There is
# still a direction along which a word that never comes lowers the loss at every position. The penalty only
# keeps the words from taking that direction together.

# %% [markdown]
# ## Had the paper's models a cone?
#
# Our small Transformer has a cone by design: its words begin short, and it is trained by Adam. The language
# model of the paper's Table 1 is an AWD-LSTM, which is trained by SGD. The kept runs on the Penn Treebank have
# larger models by both optimisers. None of the models of the next table has the cosine penalty; the desk model
# with it stands in *What we saw*. The *desk* model is a recurrent network that reads the whole text in less
# than half an hour of one core.
#
# The paper looks at a Transformer that translates, and says of a translator of LSTM layers that the findings
# are similar (section 3.1). The row *LSTM translator* is a small one, trained by Adam. It reads Multi30k,
# captions of pictures in German and English, in pieces of words.

# %%
larger = {  # recipe, and how the run differs from it
    "AWD-LSTM, SGD": ("ptb/awd-lstm/softmax", "3-epochs"),
    "VD-LSTM-200, augmented, SGD": ("ptb/vd-lstm-200/tied-augmented", ""),
    "AWD-LSTM, AdamW": (
        "ptb/awd-lstm/softmax/short",
        "optimisation.epochs=30",
    ),
    "VD-LSTM-200, AdamW": ("ptb/vd-lstm-200/tied/adamw", ""),
    "the desk model, AdamW": ("ptb/desk/tied", ""),
    "LSTM translator": ("multi30k/lstm-256/softmax", ""),
}

# %%
frame = results.frame()
frame = frame[frame.profile == "standard"]
text = evidence.text_of(course_lab.recipes["ptb/desk/tied"].to_dict())
shapes = "mean_cosine_rare", "positive_share", "singular_values"
measured = ["test_perplexity", *(f"geometry.{shape}" for shape in shapes)]

# %%
rows = {}
for name, (recipe, variant) in larger.items():
    own = frame[(frame.recipe == recipe) & (frame.variant == variant)]
    own = own.reindex(columns=measured)
    ratios = [s[1] / s[0] for s in own.pop("geometry.singular_values")]
    perplexity, cosine, positive = own.mean()
    rows[name] = {
        "seeds": len(own),
        "test perplexity": f"{perplexity:.1f}",
        "mean cosine, rare words": f"{cosine:.2f}",
        "positive pairs": f"{positive:.0%}",
        "σ₂ / σ₁": f"{pd.Series(ratios, dtype=float).mean():.2f}",
    }
tables.with_ngrams(pd.DataFrame(rows).T, text)

# %%
# NBVAL_CHECK_OUTPUT
key = "mean cosine, rare words"
cosine = {n: float(row[key]) for n, row in rows.items()}
by_sgd = [c for n, c in cosine.items() if n.endswith("SGD")]
by_adam = [c for n, c in cosine.items() if n.endswith("AdamW")]
print("every model by AdamW has a cone, none by SGD:",
      max(by_sgd) < 0.1 and min(by_adam) > 0.4)  # fmt: skip
translator = rows["LSTM translator"]
print("most pairs of pieces are positive in the LSTM translator:",
      float(translator["positive pairs"][:-1]) > 90)  # fmt: skip

# %% [markdown]
# This answers the third prediction as far as our runs go. The AWD-LSTM by AdamW is a *real* degenerate model:
# nearly all pairs of its words have a positive cosine. This model has the published size, and it has read all
# of the Penn Treebank thirty times. The same network by SGD, the paper's optimiser, has no cone after three
# epochs. These runs are too short to say whether a cone comes later. The VD-LSTM by SGD was trained to the end,
# and it has no cone. But this VD-LSTM had the augmented loss of lesson 5, so the optimiser is not the only
# difference between the two VD-LSTMs.
#
# So the baseline of the paper's Table 1 may have had no cone for the penalty to open. The paper's
# Transformers are trained by Adam, and there a cone is to be expected. The LSTM translator bears out what the
# paper says of its LSTM translator: nearly all pairs of its pieces have a positive cosine. But its cone is
# wide. In the table the mean cosine of its rare pieces is smaller than in any language model trained by
# AdamW.
#
# The n-grams of the table are those of the Penn Treebank, and the translator's perplexity does not compare with
# them. The AWD-LSTM by SGD has a higher perplexity than *Kneser-Ney 5* in the table: after three epochs it has
# learned less than counting, so it is no evidence on what the paper trained.

# %% [markdown]
# ## Every weight and every setting
#
# The slider shows the spectrum of the kept runs of the plan `data/plans/lessons-06.toml` at each weight
# $\gamma$: mean singular values over three seeds.

# %%
plan = plans.read_plan("lessons-06")
all_kept = untested.read(plan.runs)
names = ("mean_cosine_rare", "mean_cosine_frequent", "mean_norm")

# %%
spectra, told = {}, {}
for p, content in zip(plan.runs, all_kept):
    e, kept = p.experiment(), content["metrics"]
    usual = e.optimisation.learning_rate, e.words.options["init"]
    if usual == (1e-3, 0.01) and not p.recipe.endswith("centred"):
        γ = float(sum(r.options["weight"] for r in e.regularizers))
        shape = kept["geometry"]
        σ = np.broadcast_to(shape["singular_values"], e.size)
        spectra.setdefault(γ, []).append(σ)
        row = [shape[key] for key in names] + [kept["test_perplexity"]]
        told.setdefault(γ, []).append(row)
weights = sorted(spectra)
mean = [np.mean(spectra[γ], axis=0) for γ in weights]
mean = np.nan_to_num(mean, nan=1.0)  # a flat line where none is kept

# %% tags=["hide-input"]
line = "mean cosine {:z.2f} rare, {:z.2f} frequent; mean norm {:.2f}; "
line += "test perplexity {:.0f}"
captions = [line.format(*np.mean(told[γ], axis=0)) for γ in weights]
k = np.arange(1, mean.shape[1] + 1)
heights = (0.9 * mean.min(), 1.1 * mean.max())
panel = plots.Panel(
    {"plain": (k, mean[0]), "penalty": (k, mean)},
    "k", "σₖ", (-1, len(k)), heights, log=True,
)  # fmt: skip

# %% tags=["hide-input"]
plots.show(
    plots.explorer({"γ": weights}, [panel], captions, (weights.index(1),)),
    alt="Singular values of the plain model and of the model with the "
    f"penalty at the weights γ = {weights}, which a slider sets. The "
    f"first value is {mean[:, 0].round(1)}, the middle one "
    f"{mean[:, 64].round(2)}.",
)

# %% [markdown]
# **Figure 4.** The slider begins at $\gamma = 1$. At $\gamma = 0.1$ the penalty does nearly nothing. At 1 and
# 10 the middle singular values are twice as large as in the plain model. At 100 they fall back, partly
# because the words are shorter: their mean norm stands below the slider.
#
# The table compares all settings with the plain model, `tied`, at the usual rate 0.001 and start 0.01. The
# penalty, `cosine`, has $\gamma = 1$ where no weight is named, and in `centred` the mean row is subtracted
# after every step. Differences are paired over three seeds, as in lesson 6. They are 100 times those of the
# logarithms, so −28 stands for a fall by 24 %. $p$ is corrected for all comparisons of the table.

# %%
whole = untested.table_of(plan, baseline="tied")
display(Markdown(course_lab.describe_origin(all_kept)))
tables.worded(whole)

# %% [markdown]
# No verdict of the table is decided; what follows are means of three seeds. With the start 0.1 the plain
# model hardly has a cone, as in exercise 3 of lesson 2, and in the table its perplexity falls as much as with
# the penalty. Why? A likely reason, which nothing here tests, lies in the random vector with which each word
# begins. The common push on the rare words is about the same from any start, so it turns longer random
# vectors less. The penalty turns each word along its own deviation from the mean. Early in training this
# deviation is mostly the word's random vector. So the penalty may give the words late what a wider start
# gives them from the beginning: more of their random vectors.
#
# From the start 0.01 the plain model and the centred model fail at the rate 0.003: in the table they are no
# better than the frequencies of the words alone. With the penalty the mean at that rate is far lower. From
# the start 0.1 the centred model gains about what the plain model gains: beside a wide start, to subtract the
# mean adds nothing that three seeds would show.

# %% [markdown]
# ## What it costs
#
# Count multiplications. A training step on $n$ positions costs the output layer $3\,nNd$: the logits, the
# gradient of the contexts, the gradient of $W$. The penalty takes about $2Nd$ forwards, for norms and sum,
# and $3 N d$ backwards, once a step, whatever $n$ is.

# %%
o = chosen.optimisation
rows = {}
steps = {"here": o.batch * o.length, "a translator": 3_500}
for where, n in steps.items():
    rows[where] = {"positions a step": f"{n:,}"}
    rows[where]["the penalty adds"] = f"{5 / (3 * n):.2%}"
pd.DataFrame(rows).T

# %% [markdown]
# The multiplications of the penalty are done element by element, and not in a product of matrices;
# `python -m benchmarks output-layers softmax cosine` measures what both cost on your machine. The penalty
# needs the memory of one more $N\times d$ gradient. The cell below shows how the library writes it, with
# $r_i = 1/\|w_i\|$, so that autograd does not keep three such matrices. The code's `A` belongs to the
# spectral words of lesson 8. For a plain word matrix it is `None`.

# %% tags=["hide-input"]
unit_sum = regularizers._UnitSum
source = inspect.getsource(unit_sum.forward)
source += inspect.getsource(unit_sum.backward)
display(Code(inspect.cleandoc(source), language="python"))

# %% [markdown]
# ## What the paper says and what it leaves open
#
# The paper publishes one number for each setting:

# %%
rows = published.rows()
rows = rows[(rows.paper == "gao2019") & (rows.model != "conv-s2s")]
order = ["corpus", "model", "setting", "metric", "split"]
printed = rows.pivot(index=order, columns="method", values="value")
printed = printed[["softmax", "cosine"]]
printed["difference"] = (printed["cosine"] - printed["softmax"]).round(2)
printed.reset_index()

# %% [markdown]
# The authors released no code that we know of. The table lists where the text leaves a gap or says more than
# it shows.
#
# | in the paper | here |
# |---|---|
# | The penalty takes $\Theta(N)$ time (proposition 1). | It takes $\Theta(Nd)$: each of the $N$ rows has $d$ numbers. |
# | $R$ is defined once with $1/N^2$ (equation 6) and once without. | $\gamma = 1$ belongs to equation 6. Without the factor the same $\gamma$ would be $N^2$ times as strong. |
# | Theorem 4 bounds $\lambda_1$ by $\operatorname{Sum}(A)$. | This bound is never below the trace. The lower bound is the useful one. |
# | The singular values are more uniform (Figure 2b). | The figure divides them by $\sigma_1$, which falls. |
# | "$\gamma$ is not very sensitive" | The paper shows no sweep. Ours is above. |
# | The theorem is about $\hat W$, the figure about $W$. | We draw $W$, as the figure does. |
# | Each cell has one number. | No seeds are named, so there is no interval. |
#
# The course has translators of Multi30k with the penalty and without, of two kinds, one or two seeds each. BLEU is
# the share of a translation's word sequences that a reference has as well, of 100.

# %%
kinds_of = "multi30k/transformer-small/", "multi30k/lstm-256/"
pairs = [kind + row for kind in kinds_of for row in ("softmax", "cosine")]
own = frame[frame.recipe.isin(pairs) & (frame.variant == "")]
own = own.set_index("recipe")
own = own.loc[[pair for pair in pairs if pair in own.index]]
scores = ["valid_bleu", "test_bleu", "valid_perplexity", "test_perplexity"]
own.reindex(columns=scores).round(2)

# %% [markdown]
# With so few seeds, nothing can be concluded from this table. In the table the penalty raises the BLEU of the
# Transformer, lowers that of the LSTM translator, and raises the perplexity of both.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $A$, $\lambda_k$ | `theory.merikoski` | $\hat W\hat W^\top$, all cosines; its eigenvalues, the largest first |
# | $g$, $b$ | `gain`, `bias` | gain and bias of the last layer normalisation |
# | $n$ | `n` | positions of text in one step |
#
# The other symbols are those of [lesson 6](06_cosine_regularization.ipynb).

# %% [markdown]
# ## Exercises
#
# ### 1. Without Adam
# *Difficulty 2/3, importance 3/3, fifteen minutes.* Plain gradient descent does not divide a small gradient by
# its own size. Begin with the words of the plain model, `W["plain"]`, and take 100 steps with rate 0.5 against
# the gradient of $\gamma R$, with no text at all. Which power of ten is the smallest $\gamma$ for which the mean
# cosine of the rare words falls below half of what it was? Assign it to `strong`.
#
# Then train `docstrings/transformer-128/cosine` in the profile `smoke` with
# `optimisation={"optimizer": "sgd", "learning_rate": 0.5, "weight_decay": 0.0}` and $\gamma = 1$. Is there
# anything for the penalty to do?
#
# <details><summary>Hint</summary>
#
# Each row's share of the gradient has the factor $1/N$, and SGD does not divide it away. Try $\gamma = 1,
# 10, 100, \dots$
#
# </details>
# <details><summary>And the training?</summary>
#
# By SGD the rare words hardly move (lesson 2, exercise 2), so their mean cosine stays near 0 without any
# penalty. There is nothing to do at $\gamma = 1$, and nothing is done.
#
# </details>


# %%
def penalty(W):
    """Return R, the sum of the cosines of all pairs of rows, over N²."""
    m = F.normalize(W, dim=1).mean(0)
    return m @ m - 1 / len(W)


# %% tags=["exercise"]
strong = None  # the smallest γ that is enough, a power of ten


# %%
def cosine_after(gamma):
    """Return the rare words' mean cosine after the steps on γ R alone."""
    words = W["plain"].clone()
    for _ in range(100):
        words = words.detach().requires_grad_()
        (slope,) = torch.autograd.grad(gamma * penalty(words), words)
        words = words - 0.5 * slope
    return geometry.mean_cosine(words.detach()[rare])


# %%
def just_enough(gamma):
    """Return whether γ is enough and a tenth of it is not."""
    if not gamma > 0:
        return "γ is a number above 0"
    if not float(np.log10(gamma)).is_integer():
        return "it is not a power of ten"
    half = geometry.mean_cosine(W["plain"][rare]) / 2
    if cosine_after(gamma) > half:
        return "the rare words are still closer together than asked for"
    if cosine_after(gamma / 10) < half:
        return "a tenth of it is enough"
    return True


check("06b.1", strong, just_enough)

# %% [markdown]
# ### 2. A better penalty (open)
# *Difficulty 3/3, importance 2/3, an hour.* Gao et al. end by saying that better penalties may exist. Replace
# the mean cosine by the mean *squared* cosine, $\frac1{N^2}\sum_{i\ne j}(\hat w_i^\top\hat w_j)^2$. Which of the
# clouds of the first table does it tell apart that $R$ does not? Can it be computed without the $N\times N$
# table? Write it as a frozen dataclass like `CosineRegularizer`, train with it, and report it by the measures of
# lesson 6.
#
# <details><summary>Hint</summary>
#
# $\sum_{i,j}(\hat w_i^\top\hat w_j)^2 = \|\hat W\hat W^\top\|_F^2 = \|\hat W^\top\hat W\|_F^2$, and the last
# matrix is $d\times d$.
#
# </details>
# <details><summary>Second hint</summary>
#
# In eigenvalues it is $\sum_k\lambda_k^2$ with $\sum_k\lambda_k = N$ fixed. The sum is least when all
# eigenvalues are equal, which is the flat spectrum that theorem 4 was to bring about. What does it cost, in
# multiplications?
#
# </details>

# %% [markdown]
# ## What we saw
#
# First comes what the best evidence of the repository says. The ledger of [notebook
# 30](30_leaderboard.ipynb), which explains the terms, reads it from all kept results.

# %%
tested = ["gao2019-cone", "gao2019-perplexity", "gao2019-bleu"]
tested += ["gao2019-spectrum", "gao2019-cosines"]
display(Markdown(claims.conclusions(*tested)))

# %% [markdown]
# Then comes what the small runs show. Where they contradict the list above, the list counts.

# %%
R = bunches.total / N**2 - 1 / N
display(Markdown(
    f"A short mean direction is necessary for a flat spectrum and not "
    f"sufficient: two bunches have R = {R:z.3f} and give the first "
    f"direction {long:.0%}. {below['words']:.0%} of our words are rare; "
    f"for them the penalty's gradient is {typical['rare']:.2g} "
    f"times the likelihood's. Of the change of the validation loss, "
    f"{change.mean():+.3f} nats, {unseen:+.3f} come from words that "
    f"never came in training. The rare words of an AWD-LSTM have a "
    f"mean cosine of {cosine['AWD-LSTM, AdamW']:.2f} by AdamW, and of "
    f"{cosine['AWD-LSTM, SGD']:.2f} after three epochs of SGD. In an LSTM "
    f"translator {translator['positive pairs']} of the pairs are positive."
))  # fmt: skip

# %% [markdown]
# ## References
#
# - J. Gao, D. He, X. Tan, T. Qin, L. Wang, T.-Y. Liu (2019). *Representation Degeneration Problem
#   in Training Natural Language Generation Models.* ICLR.
#   [arXiv:1907.12009](https://arxiv.org/abs/1907.12009)
# - J. K. Merikoski (1984). *On the trace and the sum of elements of a matrix.* Linear Algebra and
#   its Applications 60. [doi:10.1016/0024-3795(84)90078-8](https://doi.org/10.1016/0024-3795(84)90078-8)
# - D. Elliott, S. Frank, K. Sima'an, L. Specia (2016). *Multi30K: Multilingual English-German Image
#   Descriptions.* [arXiv:1605.00459](https://arxiv.org/abs/1605.00459)

# %% [markdown] tags=["way"]
# ↑ Back: [6. Cosine regularisation: pushing the words apart](06_cosine_regularization.ipynb)
#
# → Next: [7. The adversarial softmax: words that must win by a margin](07_adversarial_softmax.ipynb)
