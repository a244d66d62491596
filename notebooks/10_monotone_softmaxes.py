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
# # 10. Monotone softmaxes: full rank for nothing
#
# **Question.** Bending every logit by an increasing function lifts log P to full rank with no new parameter: does the model then predict any better?
#
# ![A language model from left to right: matrix E reads words, encoder, context h, matrix W predicts words, softmax. An arc ties E and W. In colour: softmax. The logits are bent by a rising curve before the softmax.](images/10_model.svg)
#
# **Figure 1.** One rising curve bends all logits. Nothing else in the model changes.

# %% [markdown]
# ## What you will learn
#
# - to derive the family GSS(c, k), which contains the softmax and SigSoftmax;
# - to say what bending logits cannot change, whatever the rank;
# - to test a claim about rank and perplexity by *changing* the rank, up and down;
# - to find the rival explanation that a control reveals.
#
# **Deeper.** [Lesson 10b](10b_learned_bends.ipynb) learns the bend, fits a bent language, and counts digits.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 4](04_softmax_bottleneck.ipynb) explains the bound on the rank of log P,
# Press' rank and the effective rank.
#
# **Reading.** 28 minutes. **Difficulty.** 2 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | the same models for seconds |
# | quick | 1.5 | two CPU cores | two small Transformers |
# | standard | 30 | two CPU cores | the Transformers on the whole corpus |
# | full | 10 | one GPU | the same, for longer |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the models and of every random draw

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
from course_lab import claims, plans, plots, published, tables, untested
from course_lab.examine.unargmaxable import argmaxable_words
from course_lab.progress import check
from course_lib.metrics import rank
from course_lib.output_layers import FullWords, monotone

# %% [markdown]
# ## Predict
#
# One softmax over contexts of $d$ numbers has a log P of rank $d + 1$ at most, or $d + 2$ with a bias.
# Now we replace each logit $l$ by $f(l)$, with one increasing function $f$ for all words and contexts.
#
# 1. We round the logits of a trained softmax to two decimals. Rounding is an increasing function, too. What
#    becomes of the rank of log P, and what of the perplexity?
# 2. A certain word is the likeliest in no context. Can a bend make it the likeliest?
# 3. We train a model with a bend, and then keep only the first $d + 1$ directions of its log P. How far
#    does the perplexity rise?

# %% [markdown]
# ## The idea in one picture
#
# Take contexts of *one* number $h$, and three words. The logits $l = h w + b$ are three straight lines in
# $h$. The probabilities depend only on two differences of logits. So a context is a point in a plane,
# $\log P_1/P_3$ against $\log P_2/P_3$. What does the point draw as $h$ runs?
#
# We ask the softmax, a function with a kink, and **GSS**, the generalised SigSoftmax of Parthiban et al.
# (2021), whose slope changes smoothly. Here is GSS:

# %%
def PL(x, c, k):
    """Return x bent: the slope is k far below c, and 1 far above."""
    return x - (k - 1) * F.softplus(c - x)


def gss(h, W, c, k):
    """Return log P (n, N) of contexts h (n, d) for words W (N, d)."""
    return PL(h @ W.T, c, k).log_softmax(-1)


# %%
torch.manual_seed(SEED)
bends = {
    "softmax": lambda x: x,
    "GSS": lambda x: PL(x, -1.0, 2.5),
    "kinked": lambda x: torch.where(x > -1, x, 2.5 * x + 1.5),
}
h = torch.linspace(-7, 7, 141).double()[:, None]
three = h * torch.tensor([1, -0.5, 0.25]) + torch.tensor([-1, 0.5, 0])
fifty = 3 * torch.randn(200, 1).double() @ torch.randn(1, 50).double()
drawn, odds, spectra = {}, {}, {}
for name, f in bends.items():
    drawn[name] = (h[:, 0], f(h)[:, 0])
    odds[name] = tuple((f(three)[:, :2] - f(three)[:, 2:]).T)
    table = f(fifty + torch.arange(50) / 25 - 1).log_softmax(1)
    spectra[name] = torch.linalg.svdvals(table) + 1e-18

# %% tags=["hide-input"]
plots.show(
    plots.bent_line(drawn, odds, spectra),
    alt="Above: the three functions, and the log-odds of three words as "
    "one number h runs, a straight line for the softmax, a curve for GSS, "
    "a broken line for the kink. Below: singular values of log P for 50 "
    "words. The softmax has three above rounding; those of GSS fall on "
    "until they are rounding, too, those of the kink stay high for most.",
)

# %% [markdown]
# **Figure 2.** With three words the softmax draws a straight line. A bent line needs a plane to lie in. Below,
# $k$ counts the singular values $\sigma_k$ of log P for 50 words. The softmax has $d + 2 = 3$. The kink
# has nearly 50. Those of GSS fall until they drown in rounding.
#
# The **rank** says how many dimensions the smallest *flat* space has that holds all the points. But a bent
# wire is still a wire. One number $h$ moves the point, whatever $f$ is, and there are no more distributions
# to choose from than before. The rank grows because the set is *curved*, not because the set is *larger*.

# %% [markdown]
# ## GSS, step by step
#
# **1. SigSoftmax** (Kanai et al. 2018) multiplies each exponential by a sigmoid $\sigma(l) =
# 1/(1+e^{-l})$, so $P \propto e^{l}\sigma(l)$. The logarithm is $l - \mathrm{softplus}(-l)$, with
# $\mathrm{softplus}(x) = \log(1 + e^x)$. So SigSoftmax is a softmax of bent logits. The slope of its bend is
# $1 + \sigma(-l)$, which is 2 far below zero and 1 far above.
#
# **2. Any place, any slope.** Let the slope go from $k$ far below $c$ to 1 far above:
#
# $$\mathrm{PL}'(x) = 1 + (k-1)\,\sigma(c - x).$$
#
# The antiderivative of $\sigma(c-x)$ is $-\mathrm{softplus}(c-x)$. We choose the constant so that nothing
# changes far above $c$:
#
# $$\mathrm{PL}(x; c, k) = x - (k-1)\,\mathrm{softplus}(c - x).$$
#
# **3. The paper's form.** Since $\mathrm{softplus}(z) = z + \mathrm{softplus}(-z)$, the same function is
# $k(x-c) + c - (k-1)\,\mathrm{softplus}(x-c)$. That is equation 3 of Parthiban et al., a smooth form of a
# piecewise linear function PL, and $\mathrm{GSS}(l; c, k) = \mathrm{softmax}(\mathrm{PL}(l; c, k))$.
#
# **4. Its limits.** $k = 1$ gives the softmax, and $(c, k) = (0, 2)$ gives SigSoftmax. For $c \to -\infty$
# all logits lie above the bend, and GSS is the softmax again. For $c \to +\infty$ all logits lie below the
# bend, and GSS is the softmax of $k\,l$: the same family with a longer $W$. A bend matters only where logits
# lie on both sides of it.

# %%
# NBVAL_CHECK_OUTPUT
x = torch.linspace(-30, 30, 2001).double()
paper = 2.5 * (x + 1.5) - 1.5 - 1.5 * F.softplus(x + 1.5)
pairs = {
    "the paper's form": (PL(x, -1.5, 2.5), paper),
    "(0, 2) is SigSoftmax": (PL(x, 0, 2), x + x.sigmoid().log()),
}
words, H = FullWords(50, 8).double(), torch.randn(20, 8).double()
layer = monotone.GeneralizedSigSoftmax(words, bias=False, c=-1.5, k=2.5)
ours = gss(H, words.weight, -1.5, 2.5)
pairs["the library's layer"] = layer.log_prob(H)[0], ours[0]
for name, (one, other) in pairs.items():
    same = torch.allclose(one - one[0], other - other[0])
    print(f"{name:22}", same)

# %% [markdown]
# Here is the library's form, which computes the slope in the same pass.

# %% tags=["hide-input"]
display(Code(inspect.getsource(monotone._Bend), language="python"))

# %% [markdown]
# ## What bending cannot change
#
# In a given context the words stand in the order of their logits, bent or not. A word that no context can
# make the likeliest is called **unargmaxable**, and it stays so. A word never wins if its row lies inside the
# convex hull of the other rows. A linear programme proves whether the row does (Grivas et al. 2022). Here are
# twenty-four words in the plane.

# %%
# NBVAL_CHECK_OUTPUT
torch.manual_seed(0)
W, H = torch.randn(24, 2).double(), 5 * torch.randn(9000, 2).double()
for name, f in bends.items():
    winners = set(f(H @ W.T).argmax(1).tolist())
    print(f"{name:8}", len(winners), "words win somewhere")
never = argmaxable_words(W).unargmaxable
print("with a proof,", len(never), "words never win")

# %% [markdown]
# This answers the second prediction: a bend makes no word win that could not win before. If a high rank is to
# help, it must help because the *curved* set happens to pass nearer to the truth than the flat set.

# %% [markdown]
# ## Training with and without a bend
#
# We train a small tied Transformer twice from the same start: with the softmax, and with GSS at the paper's
# $(c, k) = (-1.5, 2.5)$. The bottleneck is narrow, $d = 32$ for 1,000 words. If rank is what is missing, it
# should show here. Without a bias the bound is $d + 1$.

# %%
plan = {}
for p in plans.read_plan("lessons-10").runs:
    e = p.experiment()
    if e.optimisation.learning_rate == 4e-3 and "plif" not in p.recipe:
        o = e.output_layer.options
        name = f"GSS({o['c']:g}, {o['k']:g})" if "k" in o else "softmax"
        plan.setdefault(name.replace("-", "−"), {})[p.seed] = p


# %%
def experiment(p):
    """Return that of the plan, or that of another profile."""
    if PROFILE in ("standard", "full"):
        recipe = course_lab.recipes[p.recipe]
        return course_lab.profile(recipe, PROFILE, seed=SEED)
    e = p.experiment().change(seed=SEED)
    small = e.corpus.options["small"] | {"train": 15_000}
    return e.change(corpus={"small": small}) if PROFILE == "smoke" else e


# %%
live = {}
for name in ("softmax", "GSS(−1.5, 2.5)"):
    with tempfile.TemporaryDirectory() as folder:
        chosen = experiment(plan[name][1])
        run = course_lab.run(chosen, folder=folder, progress=False)
    live[name.split("(")[0]] = run
    run.model.cpu()
corpus, d = live["softmax"].corpus, live["softmax"].experiment.size
target = corpus.test[:500]
m = len(target)

# %% [markdown]
# We keep the logits of both models before the bend and log P after the bend, for the first 500 tokens of the
# test text. Only the *test perplexity* is that of the whole text. The columns with $\epsilon$ are effective
# ranks, which leave out a share $\epsilon$ of the sum of squares.


# %%
@torch.no_grad()
def logits_of(model, length=32):
    """Return the logits (m, N) before the bend."""
    text = torch.cat([target.new_tensor([corpus.eos]), target])[:-1, None]
    h = torch.cat([model(t).hidden[:, 0] for t in text.split(length)])
    return h @ model.output_layer.words.matrix().T


def perplexity(log_p):
    return log_p.gather(1, target[:, None]).mean().neg().exp().item()


# %%
raw = {name: logits_of(run.model) for name, run in live.items()}
log_p = {"softmax": raw["softmax"].log_softmax(1)}
log_p["GSS"] = PL(raw["GSS"], -1.5, 2.5).log_softmax(1)
spectra = {name: rank.spectrum(table) for name, table in log_p.items()}
press = {name: s.press_rank() for name, s in spectra.items()}
rows = {}
for name, s in spectra.items():
    score = f"{live[name].metrics['test_perplexity']:.1f}"
    rows[name] = {"test perplexity": score, "Press' rank": press[name]}
    for epsilon in (1e-3, 1e-4, 1e-5):
        rows[name][f"ε = {epsilon:g}"] = s.effective_rank(epsilon)
tables.with_ngrams(pd.DataFrame(rows).T, corpus)

# %%
# NBVAL_CHECK_OUTPUT
print("softmax, Press' rank at most d + 1:", press["softmax"] <= d + 1)
print("GSS, at least three times that:    ", press["GSS"] > 3 * (d + 1))

# %% [markdown]
# Here is Table 6 of the paper, for models with $d = 400$ and 10,000 words. There *plif* learns its bend, and
# *mos* is a mixture of softmaxes.

# %%
six = published.rows().query("paper == 'parthiban2021' & table == '6'")
six = six[six.corpus == "ptb"]
column = six.setting.where(six.metric != "rank", "Press' rank")
six.pivot_table("value", "method", column, sort=False).astype(int)

# %% [markdown]
# The bend multiplies Press' rank, in our model and in the paper's. The effective rank at $\epsilon = 10^{-3}$
# rises far less: nearly all new directions together carry less than a thousandth of the sum of squares.
#
# ## Bend a trained softmax by hand
#
# Now we bend the logits of the trained **softmax**, with no further training. Move $c$ and $k$.

# %%
def tried(c, k):
    """Return log P of the trained softmax with its logits bent."""
    return PL(raw["softmax"], c, k).log_softmax(1)


at = int(target.ne(corpus.eos).nonzero()[120])  # a context
places = np.geomspace(1, len(corpus), 50).astype(int)
before = perplexity(log_p["softmax"])


def described(c, k):
    """Return the falling probabilities of a context, and a caption."""
    table = tried(c, k)
    p = table[at].exp().sort(descending=True).values[places - 1]
    found = rank.spectrum(table).press_rank()
    return p, f"rank {found} of {m}, perplexity {perplexity(table):.1f}"


# %% tags=["hide-input", "gallery"]
c_values = np.arange(-6, 6.1, 6 if PROFILE == "smoke" else 2)
sliders = {"c": c_values, "k": [0.5, 1, 1.01, 1.5, 2, 3]}
plots.show(
    plots.bends_explorer(sliders, PL, described, places),
    alt="Sliders for c and k. Left the bend beside the diagonal, right "
    "the sorted probabilities of one context, bent and as they were. At "
    "c = 0 and k = 3 the tail falls faster when bent; "
    f"{described(0, 3)[1]}, before {before:.1f}.",
)

# %% [markdown]
# **Figure 3.** Far above $c$ nothing happens. Below $c$ differences between logits are stretched by $k$, so
# for $k > 1$ improbable words become more improbable. Even $k = 1.01$ usually lifts the rank above the
# bound.
#
# How small a change does that? We take the bend at 0 with $k = 1 + \epsilon$, and we round
# every logit to a multiple of $\epsilon$.

# %%
sizes = 10.0 ** np.arange(-5, 0.1, 0.5)
functions = {
    "bend with k = 1 + ε": lambda x, e: PL(x, 0.0, 1 + e),
    "rounding to multiples of ε": lambda x, e: (x / e).round() * e,
}
ranks, changes = {}, {}
for name, f in functions.items():
    bent = [f(raw["softmax"], e).log_softmax(1) for e in sizes]
    ranks[name] = sizes, [rank.spectrum(t).press_rank() for t in bent]
    moved = [abs(perplexity(t) / before - 1) * 100 for t in bent]
    changes[name] = sizes, moved
rounded, cost = (last[1][6] for last in (ranks[name], changes[name]))

# %% tags=["hide-input"]
plots.show(
    plots.slight_changes(ranks, changes, d + 1),
    alt="Above, Press' rank of log P of a trained softmax against the "
    "size of a change of its logits; below, the change of perplexity. "
    f"Rounding jumps from {d + 1} up, a bend rises slowly. Rounded to "
    f"two decimals the rank is {rounded} of {m} and the perplexity moves "
    f"by {cost:.4f} %.",
)

# %%
# NBVAL_CHECK_OUTPUT
print("two decimals: three times the bound:", rounded > 3 * (d + 1))
print("perplexity changed by less than 0.1 %:", cost < 0.1)

# %% [markdown]
# **Figure 4.** This answers the first prediction: rounded to two decimals, the model has nearly full rank,
# and its perplexity stays where it was. Rounding errors look random, so they fill all directions. A high rank
# in a table says only that *something* was not exactly linear.

# %% [markdown]
# ## The other way round: take the rank away
#
# Perhaps a model that was *trained* with a bend makes use of its many directions. Then the model should suffer
# when we keep only the first $r$ singular directions of log P and renormalise.

# %%
kept_ranks = sorted({1, 2, 4, 8, 16, d + 1, 64, 128, 256, m})
cuts = {}
for name, table in log_p.items():
    U, S, V = torch.linalg.svd(table.double(), full_matrices=False)
    low = [(U[:, :r] * S[:r]) @ V[:r] for r in kept_ranks]
    cuts[name] = [perplexity(t.log_softmax(1)) for t in low]
lost = cuts["GSS"][kept_ranks.index(d + 1)] / cuts["GSS"][-1] - 1
print(f"GSS, cut from rank {press['GSS']} to {d + 1}: {lost:+z.2%}")

# %% tags=["hide-input"]
limit = 0.5 * np.sqrt(m + len(corpus) + 1) * np.finfo(np.float32).eps
values = {name: s.singular_values for name, s in spectra.items()}
by_rank = {name: (kept_ranks, cut) for name, cut in cuts.items()}
plots.show(
    plots.directions_taken_away(values, by_rank, d + 1, limit),
    alt="Above, singular values of log P: those of the softmax drop to "
    f"rounding at d + 1 = {d + 1}, those of GSS go on. Below, perplexity "
    f"with the first r directions kept: flat from {d + 1} on; there GSS "
    f"is {lost:+z.1%} from its perplexity with all directions.",
)

# %% [markdown]
# **Figure 5.** This answers the third prediction. Below, both curves are flat beyond the softmax's bound: the
# perplexity hardly depends on the directions there. Above, $\sigma_k$ of GSS passes Press' threshold on a
# smooth slope. Move the threshold: GSS has another rank.

# %% [markdown]
# ## Over c and k: does rank buy perplexity?
#
# The plan `data/plans/lessons-10.toml` has trained the softmax and GSS at several $(c, k)$ with three seeds
# each, in the size of our two runs. **GSS(30, 3) is a control**: its bend lies far above all logits, so it is
# a softmax of $3\,l$, with the rank of a softmax.
#
# Each setting is compared with the softmax seed by seed, in per cent, and $p$ is corrected for all models of the
# plan. The last rows only count runs of words.

# %%
whole, rank_of = plans.read_plan("lessons-10"), {}
names = {p.key: n for p, n in zip(whole.runs, tables.models_of(whole))}
for name, seeds in plan.items():
    found = untested.read(seeds.values())
    ranks = [kept["metrics"]["log_prob"]["press_rank"] for kept in found]
    rank_of[name] = round(np.nan_to_num(untested.mean(ranks).mean))
order = sorted(plan, key=rank_of.get)
model = {name: names[plan[name][1].key] for name in order}
compared = untested.table_of(whole, model["softmax"]).models
compared = compared.loc[list(model.values())].set_axis(order)
lowest, top = compared.perplexity.fillna(1e9).idxmin(), order[-1]
shown = compared[["perplexity", "difference", "p", "verdict"]].round(2)
text = whole.runs[0].experiment().load_corpus()
tables.with_ngrams(shown, text, "perplexity", digits=2)

# %% tags=["hide-input"]
named = compared.rename(lambda n: f"{n}, rank {rank_of[n]}")
gain = compared.difference.map("{:+.1f} %".format)
plots.show(
    untested.drawn(named, 2, "the rank rises from top to bottom"),
    alt="Settings in the order of their rank; their test perplexity "
    "against the softmax, mean and interval of three seeds. Lowest is "
    f"{lowest}, {gain[lowest]}, rank {rank_of[lowest]}; the highest "
    f"rank, {rank_of[top]}, is that of {top}, {gain[top]}.",
)

# %% [markdown]
# **Figure 6.** The rank, here of more contexts than above, grows from top to bottom. The perplexity in the
# figure does not fall as the rank grows. With the correction no setting differs surely from the softmax.
#
# Without its control, GSS(3, 3) would look like a success, with five times the rank. But below the bend at 3
# differences of logits are multiplied by 3, and most logits may lie there. The control multiplies *all* logits
# by 3 at the rank of the softmax, and has most of the gain. So the **scale** may be most of what helps: a
# softmax has the same logits once training has made $W$ longer. Here is what the bend adds to its control:

# %%
control = {f"{lowest} − GSS(30, 3)": (model[lowest], model["GSS(30, 3)"])}
untested.compared(whole, control).loc[:, "difference":"verdict"].round(3)

# %% [markdown]
# So one bend may add a little, while in Figure 6 still higher ranks have higher perplexities.
#
# Are these models good enough to judge? In the table *Kneser-Ney 5* has a lower perplexity than any. So our runs show what a bend does in a short training;
# they are no evidence on the paper's models. [Notebook 31](31_rank_and_perplexity.ipynb) takes apart the
# paper's correlation of rank and perplexity.

# %% [markdown]
# ## When not to use it
#
# - Do not bend logits to gain rank. In Figure 6 the settings of the highest rank have higher perplexities than
#   the softmax.
# - Try another scale of the logits first.
# - A bend is worth a try where the tail has the wrong shape: where many words must be all but impossible
#   ($k > 1$), or where no word may ever be impossible ($k < 1$).

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $l = W h$ | `raw[name]` | logits before the bend |
# | $c$, $k$ | `c`, `k` | place of the bend; slope far below it |
# | $\mathrm{PL}(x; c, k)$ | `PL(x, c, k)` | the bend of GSS |
# | $\sigma(x)$ | `torch.sigmoid` | $1/(1+e^{-x})$; with an index, $\sigma_k$, a singular value |
# | $\epsilon$ | `sizes` | size of a change; the share that an effective rank leaves out |
# | $r$ | `kept_ranks` | directions kept |

# %% [markdown]
# ## Exercises
#
# Replace `None` by your answer, and run the next cell.
#
# ### 1. A heavier tail
# *Difficulty 2/3, importance 2/3, ten minutes.* What do $k = 0$ and $k = 0.5$ do to words with logits far below
# $c$? Look at the smallest entry of `tried(c, k)`. Then assign to `tail` a pair $(c, k)$ for which PL never
# falls, the smallest probability is at least twice that of the softmax, and the perplexity rises by at most 10
# %.
#
# <details><summary>Hint</summary>
#
# The slope is $1 + (k - 1)\,\sigma(c - x)$, which lies between 1 and $k$. With $k = 0$, words far below $c$
# all receive the same probability. The lower $c$ is, the less the likely words notice.
#
# </details>

# %% tags=["exercise"]
tail = None  # c and k, two numbers


# %%
def is_heavier(tail):
    """Return whether the tail is heavier and the perplexity kept."""
    if np.shape(tail) != (2,):
        return "assign two numbers, c and k"
    x = torch.linspace(-40, 40, 2001).double()
    if (PL(x, *tail).diff() < -1e-9).any():
        return f"PL falls: its slope far below c is {tail[1]:g}"
    least = float((tried(*tail).min() - log_p["softmax"].min()).exp())
    if least < 0.99:
        return f"the tail is lighter: its end is {least:.1g} of before"
    if least < 2:
        return "hardly a logit is bent: is k = 1, or c below them all?"
    rise = perplexity(tried(*tail)) / before - 1
    return rise <= 0.1 or f"the bend hits likely words: {rise:+.0%}"


check("10.1", tail, is_heavier)

# %% [markdown]
# ### 2. A rank of your choice
# *Difficulty 2/3, importance 3/3, fifteen minutes.* Give log P of the trained softmax three times the rank of
# its bound, `3 * (d + 1)`, give or take 10 %, while the perplexity changes by less than 0.01 %. Assign to
# `tripled` the function of the logits that does so; it must never fall.
#
# <details><summary>Hint</summary>
#
# Which function of Figure 4 reaches this rank at nearly the same perplexity? Halve between a too small and a
# too large knob.
#
# </details>

# %% tags=["exercise"]
tripled = None  # a function of logits, of any shape


# %%
def is_tripled(f, wanted=3 * (d + 1)):
    """Return whether f triples the rank and keeps the perplexity."""
    if (f(raw["softmax"].flatten().sort().values).diff() < -1e-4).any():
        return "the function falls somewhere"
    bent = f(raw["softmax"]).log_softmax(1)
    found = rank.spectrum(bent).press_rank()
    if abs(found / wanted - 1) > 0.1:
        way = "larger" if found < wanted else "smaller"
        return f"Press' rank is {found}, not {wanted}: a {way} change"
    moved = perplexity(bent) / before - 1
    return abs(moved) < 1e-4 or f"the perplexity changes by {moved:.2%}"


check("10.2", tripled, is_tripled)

# %% [markdown]
# ## What we saw
#
# This is what the best kept evidence says, by the ledger of [notebook 30](30_leaderboard.ipynb):

# %%
of = ("parthiban2021-" + n for n in ("sigsoftmax", "gss", "gss-rank"))
display(Markdown(claims.conclusions(*of)))

# %% [markdown]
# In the small models the rank does not order the perplexities:

# %%
display(
    Markdown(
        f"Rounding a trained softmax's logits to two decimals takes "
        f"Press' rank from {press['softmax']} to {rounded} of {m} and "
        f"moves its perplexity by {cost:.4f} %. Cut from rank "
        f"{press['GSS']} to {d + 1}, GSS moves by {lost:+z.2%}. Of all "
        f"settings {lowest} has the lowest perplexity, {gain[lowest]}, at "
        f"rank {rank_of[lowest]}. Its control has {gain['GSS(30, 3)']}, "
        f"and the highest rank, {rank_of[top]}, has {gain[top]}."
    )
)

# %% [markdown]
# ## References
#
# - D. Parthiban, Y. Mao, D. Inkpen (2021). *On the Softmax Bottleneck of Recurrent Language
#   Models.* AAAI. [doi:10.1609/aaai.v35i15.17608](https://doi.org/10.1609/aaai.v35i15.17608)
# - S. Kanai, Y. Fujiwara, Y. Yamanaka, S. Adachi (2018). *Sigsoftmax: Reanalysis of the Softmax
#   Bottleneck.* NeurIPS. [arXiv:1805.10829](https://arxiv.org/abs/1805.10829)
# - A. Grivas, N. Bogoychev, A. Lopez (2022). *Low-Rank Softmax Can Have Unargmaxable Classes in
#   Theory but Rarely in Practice.* ACL. [arXiv:2203.06462](https://arxiv.org/abs/2203.06462)

# %% [markdown] tags=["way"]
# ← Previous: [9. Mixtures: several softmaxes instead of one](09_mixtures.ipynb)
#
# ↓ Deeper: [10b. Going deeper: learned bends, a bent language, and digits](10b_learned_bends.ipynb)
#
# → Next: [11. Modern remedies: the loss, the step, the matrix](11_modern_remedies.ipynb)
