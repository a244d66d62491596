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
# # 7b. Going deeper: margins in numbers
#
# **Question.** What does a margin cost, does it force the words apart, and how much of the published gain is the adversary's?
#
# This notebook goes on where [lesson 7](07_adversarial_softmax.ipynb) stops. Nothing later needs it.

# %% [markdown]
# ## What you will learn
#
# - to derive which distribution a loss with a margin aims at;
# - to test theorems 3.3 and 3.4 of Wang et al. (2019), and to see what they do not say;
# - to tell the adversary from the changes that the paper makes beside it.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 7](07_adversarial_softmax.ipynb), whose symbols this notebook uses.
#
# **Reading.** 27 minutes. **Difficulty.** 3 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | nothing |
# | quick | 0.3 | any CPU | nothing |
# | standard | 0.3 | any CPU | nothing |
# | full | 0.3 | any CPU | nothing |
#
# All comparisons are read from results that are kept with the course.
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of every random draw

# %%
import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown, display
from torch.nn import functional as F

from course_lab import claims, plans, plots, published, tables, untested
from course_lab.progress import check
from course_lib import theory
from course_lib.metrics import neighbours

_ = torch.manual_seed(SEED)

# %% [markdown]
# ## Predict
#
# 1. Two words follow a context, one with probability 0.7. Which probability does a model give to this word
#    when it minimises the loss with a margin: less than 0.7, 0.7 or more?
# 2. A word is far from all other words. Is there always a context in which the word wins?
# 3. Sixty random words lie in 32 dimensions, and nobody has spread them. By how much can most of them win:
#    not at all, by a little, or by more than half of the distance to the nearest word?

# %% [markdown]
# ## What a margin aims at
#
# The plain loss is smallest when the model's probabilities are the true ones. With a margin this is no
# longer so. Let $q_k$ be the true probabilities in one context, and let the margin $m$ be the same for all
# words. Set the gradient of the expected loss to zero. For a small $m$ the solution is
#
# $$p_k \approx q_k\Big(1 + m\big(q_k - \textstyle\sum_j q_j^2\big)\Big).$$
#
# What is likely becomes likelier, and what is unlikely becomes less likely: the distribution is
# **sharpened**. This is not in the paper, and exercise 2 derives it. With two words the solution has a
# closed form for every $m$. With six words we minimise the expected loss.

# %%
truth = torch.tensor([0.4, 0.25, 0.15, 0.1, 0.06, 0.04]).double()


def minimised(q, m):
    """Return the p (N,) of least expected loss; m (N,) are the margins."""
    l = q.log().requires_grad_()  # noqa: E741
    solver = torch.optim.LBFGS([l], 1, 200, 1000, 1e-12, 1e-15)

    def expected():
        solver.zero_grad()
        moved = l - m.diag()  # row y: the logits when y is the target
        loss = -(q * moved.log_softmax(1).diagonal()).sum()
        loss.backward()
        return loss

    solver.step(expected)
    return l.detach().softmax(0)


# %%
def one_of_two(q, m):
    """Return p of a word of true probability q, one of two."""
    M = np.exp(m)
    root = np.sqrt((M * (1 - 2 * q)) ** 2 + 4 * q * (1 - q))
    odds = (root - M * (1 - 2 * q)) / (2 * (1 - q))
    return odds / (1 + odds)


margins = [0, 0.25, 0.5, 1, 1.5, 2, 3]
q = np.linspace(0.001, 0.999, 199)
two = [one_of_two(q, m) for m in margins]
ones = torch.ones(6).double()
six = [minimised(truth, m * ones) for m in margins]

# %% tags=["hide-input"]
left = {"the truth": (q, q), "with a margin": (q, two)}
place = np.arange(1, 7)
right = {"the truth": (place, truth), "with a margin": (place, six)}
unit = (0, 1)
axes = [
    plots.Panel(left, "true probability", "p", unit, unit, "two words"),
    plots.Panel(right, "word", "p", (0.8, 6.2), unit, "six words"),
]

# %% tags=["hide-input"]
told = "on the left 0.70 becomes {:.2f}, "
told += "on the right {:.2f} becomes {:.2f}"
captions = [
    told.format(one_of_two(0.7, m), truth[0], p[0])
    for m, p in zip(margins, six)
]
at = margins.index(1)
plots.show(
    plots.explorer({"m": margins}, axes, captions, (at,)),
    alt="Left: the probability that minimises the loss against the true "
    "one, for two words. Above one half it is higher than the truth, and "
    "below one half lower. Right: the same for six words, of which only "
    "the likeliest gains. A slider sets the margin m. At m = 1, "
    f"{captions[at]}.",
)

# %% [markdown]
# **Figure 1.** The slider begins at $m = 1$. The larger the margin, the more the likeliest word takes from
# the others. This answers the first prediction. No amount of data takes the sharpening away, so a margin can
# only pay if it also works against overfitting. We check the formula for a small margin.

# %%
# NBVAL_CHECK_OUTPUT
change = minimised(truth, 0.02 * ones) - truth
formula = 0.02 * truth * (truth - truth.square().sum())
off = float((change / formula - 1).abs().max())
print("as the formula says, within 10 %:", off < 0.1)

# %% [markdown]
# ## Must a margin spread the words?
#
# The paper's second promise is diversity. By its **definition 3.2** a word $i$ is
# *$\varepsilon$-recognisable* if some context $h$ lets the word win by the margin: $w_i^\top h -
# \varepsilon\|h\| > w_j^\top h$ for all $j\ne i$. The largest such $\varepsilon$ is the word's **margin**, a
# length, while the margin $m$ of a loss is in nats. A word that never wins has margin 0.
# `theory.margin_witness` computes the margin, and the context that attains it. Here are the seven words of
# lesson 7:

# %%
plane = np.array([[1.5, 1.1], [0.7, 1.6], [-0.9, 1.2], [-1.5, -0.3],
                  [-0.1, -1.3], [1.3, -0.6], [0.3, 0.3]])  # fmt: skip
distance = neighbours.nearest_neighbours(plane)[0]
widest = [theory.margin_witness(plane, i).margin for i in range(7)]
names = ["target", "rival", *"bcde", "inside"]
rows = {"margin": widest, "distance to the nearest": distance}
pd.DataFrame(rows, index=names).T.round(2)

# %% [markdown]
# **Theorem 3.3** says that a margin is at most the distance to the nearest other word. The theorem says no
# more. The word *inside* is far from all others, and yet no context prefers it: whichever way $h$ points, some
# other word lies farther out. This answers the second prediction: to be apart is necessary, and not sufficient.
#
# **Theorem 3.4** bounds the probability of the moved target. With $\sigma$ the logistic function,
#
# $$\mathrm{AdvSoft}_\varepsilon(i, h) \le \sigma(\Phi_i),\qquad
# \Phi_i = -\log\sum_{j\ne i}\exp\big(-\|h\|(\|w_i - w_j\| - \varepsilon)\big).$$
#
# The proof is Cauchy and Schwarz once more: the logit of $i$ exceeds that of $j$ by at most
# $\|h\|\|w_i - w_j\|$. If another word is within $\varepsilon$, then the bound is at most one half in every
# context. If all other words are farther away, then the bound goes to 1 as $\|h\|$ grows.
#
# We test both theorems on random clouds of 60 words. For theorem 3.4 each word in eight dimensions gets two
# contexts: the context of its margin, and the same with a random vector added. Each context is taken at three
# lengths.

# %%
clouds, witnesses, rows = {}, {}, {}
for d in (2, 8, 32):
    rows[d] = W = torch.randn(60, d) / d**0.5  # length about 1
    witnesses[d] = [theory.margin_witness(W, i) for i in range(60)]
    margins = np.array([w.margin for w in witnesses[d]])
    nearest = neighbours.nearest_neighbours(W)[0]
    clouds[f"d = {d}"] = nearest, margins
lost = float((clouds["d = 2"][1] == 0).mean())
ratio = float(np.mean(clouds["d = 32"][1] / clouds["d = 32"][0]))

# %% tags=["hide-input"]
plots.show(
    plots.below_the_diagonal(clouds, "distance to the nearest", "margin"),
    alt="Margin against the distance to the nearest word in 2, 8 and 32 "
    "dimensions. All points lie below the diagonal. In the plane "
    f"{lost:.0%} of the words have margin 0. In 32 dimensions the margin "
    f"is on average {ratio:.0%} of the distance.",
)

# %%
display(
    Markdown(
        f"**Figure 2.** In the plane {lost:.0%} of the words never win. "
        f"In 32 dimensions the margin is on average {ratio:.0%} of the "
        "distance, which answers the third prediction."
    )
)

# %%
own = torch.stack([w.h for w in witnesses[8]])
chance = F.normalize(torch.randn(60, 8).double(), dim=1)
ways = torch.cat([own, F.normalize(own + chance, dim=1)])
i, pairs = torch.arange(60).repeat(2), {}
for norm in (2, 8, 32):
    p = theory.adversarial_probability(rows[8], norm * ways, i, 0.2)
    bound = theory.recognition_bound(rows[8], i, torch.tensor(norm), 0.2)
    pairs[f"‖h‖ = {norm}"] = bound, p
sure = float((pairs["‖h‖ = 8"][0] > 0.99).double().mean())

# %% tags=["hide-input"]
plots.show(
    plots.below_the_diagonal(pairs, "bound σ(Φ)", "AdvSoft"),
    alt="Probability of the moved target against its bound, for contexts "
    "of length 2, 8 and 32. All points lie below the diagonal. At length "
    f"8 the bound is above 0.99 for {sure:.0%} of them.",
)

# %%
# NBVAL_CHECK_OUTPUT
third = [bool((m <= far + 1e-9).all()) for far, m in clouds.values()]
fourth = [bool((p <= bound + 1e-12).all()) for bound, p in pairs.values()]
print("theorem 3.3 holds:", all(third))
print("theorem 3.4 holds:", all(fourth))

# %% [markdown]
# **Figure 3.** The figure has $\varepsilon = 0.2$, which is about a fifth of a word's length. For contexts of
# length 2 the bound of theorem 3.4 is low, as the probability is. At length 8 the bound is high even for words
# whose probability is near 0. At length 32 the bound is next to 1 for every word, so it says nothing.
#
# So the theorems are true, but they are no reason for words to move apart. Random words in 32 dimensions, which
# nobody has spread, have margins far above $\alpha\|w\|$ with the paper's $\alpha = 0.005$. The margins of
# trained words are not computed here.

# %% [markdown]
# ## The noise, swept
#
# Lesson 7 compares methods on an LSTM. The plan `data/plans/lessons-07.toml` has the variants of the
# adversarial softmax on a Transformer, whose contexts leave a layer normalisation, three seeds each. On
# 10,000 tokens, read ten times, the model overfits. These runs are in the first table. On 30,000 tokens, read
# five times, the model does not overfit. These runs are in the second table. Runs of one seed are pairs: they
# share their start and the order of the text. Differences are those of log perplexity on the test split, in
# per cent, with 95 % intervals, and $p$ is corrected by Holm's method. [Notebook 23](23_run_a_batch.ipynb)
# explains the verdicts.


# %%
def compared(plan):
    """Return the models of a plan beside the first, and the n-grams."""
    shown = untested.table_of(plan).models
    shown = shown.round({"perplexity": 1}).round(3)
    columns = ["perplexity", "difference", "difference low"]
    columns += ["difference high", "p", "verdict"]
    corpus = plan.runs[0].experiment().load_corpus()
    return tables.with_ngrams(shown[columns], corpus, "perplexity")


text_30k, text_10k = tables.by_text(plans.read_plan("lessons-07"))
compared(text_10k)

# %%
compared(text_30k)

# %% [markdown]
# In the two tables above, counting runs of up to three words does better than every model. What happens to a model that
# has not learned to count is no evidence about the paper. The tables show which parts of the method matter to
# such a model:
#
# - A **random** direction changes nothing, and neither does the gradient `none`, as in the toy language.
# - The **gate** of the released code moves only targets with $w_y^\top h > 0$. With the gate or without it, the
#   difference from the plain model is too small to matter.
# - A **constant** $\varepsilon$ makes no difference that three seeds would show.
# - On 30,000 tokens the means of the gradients `hidden` and `full` lie above the plain model's in the second
#   table. The gradient `full`, which also follows $\|w_y\|$ and so shortens the words, lies highest. No $p$ is
#   below 0.05.
# - **Noise on the words that are read** is the paper's second change. This model's words begin with a standard
#   deviation of 0.01, so the paper's noise of 0.2 is twenty times as large as they are. The harm in the first
#   table thus says nothing of the paper. Noise of half their standard deviation, 0.005, makes no difference
#   that three seeds would show.
#
# A layer normalisation makes all contexts about $\sqrt d$ long, times a gain that serves all contexts at once.
# So the Transformer cannot shorten single contexts. The LSTM of lesson 7 can, and there the gradient `hidden`
# makes a large difference.

# %% [markdown]
# ## What the paper says and what its code does
#
# | | the paper | the released code | here |
# |---|---|---|---|
# | gradient of $\varepsilon\lVert h\rVert$ | through $h$ in Algorithm 1; none in a sentence of section 3.1 | through $h$ | `"hidden"`; beside it `"none"` and `"full"` |
# | which targets | all | those with $\cos(h, w_y) > 0$ | `gated=True` for the code's |
# | a word that is the target twice in a batch | a $\delta$ for each position | one $\delta$ for the word, that of the last position | a $\delta$ for each position |
# | noise on the vectors read | "variance" 0.2, falling to 0 | standard deviation 0.15 or 0.175, constant | 0.2, a standard deviation, falling |
# | the baseline's settings | untouched | input dropout 0.3 and 0.5 instead of 0.4 and 0.65 | as the code in the paper's recipes |
# | $\alpha$ | 0.005; all of 0.001 to 0.01 do alike, 0.05 underfits | 0.005, then 0.028 in fine-tuning | as the code in the paper's recipes |
#
# So every published row stands for a bundle: the adversary, the noise, the changed dropout, and a larger
# $\alpha$ in fine-tuning. Here are the published perplexities on the test split, one number for each setting.
# *Fine-tuning* goes on from the trained weights with a new run of averaged SGD. With *dynamic evaluation* a
# model goes on learning on the text that it is tested on.

# %%
rows = published.rows()
rows = rows[(rows.paper == "wang2019") & (rows.split == "test")]
rows = rows[rows.metric == "perplexity"]
rows = rows[rows.method.isin(["softmax", "adversarial"])]
told = rows.pivot_table(
    "value", ["corpus", "model", "setting"], "method", sort=False
)
told = told[["softmax", "adversarial"]].dropna()
told["difference, %"] = 100 * np.log(told["adversarial"] / told["softmax"])
told.round(2)

# %%
tuned = told.loc[("wikitext-2", "awd-lstm")]
gains = np.log(tuned.loc["without finetuning"] / tuned.loc["finetuned"])
first, last = tuned["difference, %"][["without finetuning", "finetuned"]]
display(
    Markdown(
        f"On WikiText-2 the published difference is {first:.1f} % before "
        f"fine-tuning and {last:.1f} % after it. Fine-tuning gains "
        f"{100 * gains['softmax']:.1f} % for the softmax and "
        f"{100 * gains['adversarial']:.1f} % for the adversarial softmax."
    )
)

# %% [markdown]
# In these rows of the paper's Table 2, a part of the difference arises in fine-tuning, where the code takes
# more than five times the $\alpha$ of the text. Two plans of `data/plans` would take the bundle apart at the
# paper's size. The plan `wang2019-figure-2` has each $\alpha$ of the paper's Figure 2. The plan
# `wang2019-table-2` has the noise without the adversary, and the softmax with the dropout and the fine-tuning
# of its rival.
#
# What an $\alpha$ does depends on the model. The paper's AWD-LSTM underfits with 0.05. By Figure 5 of lesson 7 a
# smaller LSTM on few data gains most from 0.2: what counts is the margin in nats.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $q_k$, $p_k$ | `truth`, `minimised` | true probability of word $k$, and the one that minimises the loss |
# | $m$ | `m` | margin in nats |
# | $\varepsilon$ | `epsilon` | how far the adversary may move the target |
# | $\Phi_i$ | `theory.energy` | how far word $i$ is from all others |
# | $\sigma(\Phi_i)$ | `theory.recognition_bound` | the bound of theorem 3.4 |
#
# The other symbols are those of [lesson 7](07_adversarial_softmax.ipynb).

# %% [markdown]
# ## Exercises
#
# ### 1. Move the target
# *Difficulty 1/3, importance 2/3, fifteen minutes.* Find the angle of $h$ in Figure 2 of lesson 7, in degrees
# from the first axis, at which $\min_{j\ne y}(w_y-w_j)^\top h$ is largest for $\|h\|=1$. Its largest value is
# the target's **margin**, and `theory.margin_witness(plane, 0)` computes the context and the margin. Then move
# the rival, `plane[1]`, to `[1.6, 1.3]` in a copy. A word that never wins has margin 0. Assign to `by_hand`
# three numbers: the angle before, and the margins of target and rival after.
#
# <details><summary>Hint</summary>
#
# Per unit of length of $h$, the logit of $w_y$ is larger than that of one other word by
# $(w_y - w_j)^\top h/\|h\|$. Which $h$ makes this largest if there is only one rival? Does the target win
# there in the picture?
#
# </details>
# <details><summary>Second hint</summary>
#
# With several rivals the margin is the distance from the origin to the convex hull of the differences
# $w_y - w_j$. A target that moves into the hull of the others has margin 0.
#
# </details>

# %% tags=["exercise"]
by_hand = None  # (degrees of h, then the margins of target and rival)


# %%
def leads(words, i):
    """Return the lead of word i over the best other, at every angle."""
    turn = np.radians(np.arange(0, 360, 0.1))
    others = words[i] - np.delete(words, i, axis=0)
    return (others @ np.stack([np.cos(turn), np.sin(turn)])).min(0)


def widest(words):
    """Return the margins of words 0 and 1, by trying all angles."""
    return np.array([max(0, leads(words, i).max()) for i in (0, 1)])


# %%
def wrong_angle(degrees):
    """Return what is wrong with the angle, empty if nothing is."""
    lead = leads(plane, 0)
    here = lead[int(degrees % 360 * 10)]
    if here > lead.max() - 0.01:
        return ""
    told = f"at {degrees:.0f}° its lead is {here:.2f}, elsewhere more"
    return "is the angle in degrees?" if abs(degrees) < 7 else told


# %%
def by_trying(found):
    """Return whether angle and margins are those of all angles tried."""
    degrees, margins = found[0], np.array(found[1:])
    moved = np.vstack([plane[:1], [[1.6, 1.3]], plane[2:]])
    before, after = widest(plane), widest(moved)
    told = wrong_angle(degrees)
    if np.allclose(margins, before, atol=0.01):
        told = told or "these are the margins before the rival moves"
    if np.allclose(margins[::-1], after, atol=0.01):
        told = told or "target first, then rival"
    if (margins > after + 0.01).any():
        told = told or "no context wins by that: a distance is no margin"
    return told or np.allclose(margins, after, atol=0.01)


check("07b.1", by_hand, by_trying)

# %% [markdown]
# ### 2. Derive the sharpening
# *Difficulty 3/3, importance 3/3, half an hour.* Show that $p_k \approx q_k(1 + m(q_k - \sum_j q_j^2))$ for a
# small margin that is the same for all words. Then let the margins differ, $m_y$ if the target is $y$, as they
# do where $\varepsilon = \alpha\|w_y\|$. Assign to `sharpened` a function of two tensors, $q$ and the margins,
# $N$ numbers each, that gives all $p_k$ to first order. What do equal margins do to a distribution in which all
# $N$ words are equally likely, and what do unequal ones?
#
# <details><summary>Hint</summary>
#
# Write $p^{(y)}$ for the softmax after the logit of $y$ was lowered by $m$. The gradient of the
# expected loss with respect to the logit of $k$ is $\sum_y q_y p^{(y)}_k - q_k$.
#
# </details>
# <details><summary>Second hint</summary>
#
# To first order $p^{(y)}_k = p_k(1 + m p_y)$ for $k\ne y$, and $p^{(k)}_k = p_k(1 - m(1-p_k))$.
#
# </details>
# <details><summary>Third hint</summary>
#
# Set the gradient to zero and replace $p$ by $q$ in the terms that have an $m$ already. What remains is $p_k +
# m q_k(\sum_j q_j^2 - q_k) = q_k$. If the margins differ, see which of the two terms gets which $m$.
#
# </details>
# <details><summary>And equally likely words?</summary>
#
# Equal margins change nothing, because $q_k = \sum_j q_j^2$ for all $k$. Unequal margins do change the
# distribution: words with a larger margin than the mean become likelier.
#
# </details>

# %% tags=["exercise"]
sharpened = None  # a function of q (N,) and m (N,) that gives p (N,)


# %%
def to_first_order(sharpened):
    """Return whether the changes are the solver's, within a tenth."""
    equal = torch.full((6,), 0.01).double()
    unequal = equal * truth.flip(0) / truth.mean()
    for name, m in {"equal": equal, "unequal": unequal}.items():
        p, change = sharpened(truth, m), minimised(truth, m) - truth
        if abs(p.sum() - 1) > 1e-4:
            return f"with {name} margins the sum of p is {p.sum():.4f}"
        if ((p - truth) * change).sum() <= 0.1 * change.square().sum():
            return f"{name} margins: which words become likelier?"
        if (p - truth - change).abs().max() > 0.1 * change.abs().max():
            return f"not for {name} margins: whose m is in which term?"
    return True


check("07b.2", sharpened, to_first_order)

# %% [markdown]
# ### 3. Words on a sphere
# *Difficulty 2/3, importance 2/3, ten minutes.* Theorem 3.3 bounds a margin from above. On a sphere there is a
# bound from below, too. Let all words have the same norm $r$, and let $D$ be the distance of word $i$ to its
# nearest neighbour. By which margin does $w_i$ win in the context that points along $w_i$ itself? Assign
# `least`, a function of $D$ and $r$.
#
# <details><summary>Hint</summary>
#
# The margin in that context is the least $(w_i - w_j)^\top w_i / r$ over all $j \ne i$. Write
# $\|w_i - w_j\|^2$ in terms of $r$ and $w_i^\top w_j$.
#
# </details>
# <details><summary>What follows from it?</summary>
#
# On a sphere every word has a margin above 0, however near its neighbour is. The word *inside* of the plane
# has none because its vector is shorter than those of the others.
#
# </details>

# %% tags=["exercise"]
least = None  # a function of D and r: the margin along the word itself


# %%
def along_itself(least):
    """Return whether the margins of random words on a sphere are these."""
    for r in (1.0, 3.0):
        W = r * F.normalize(torch.randn(40, 4).double(), dim=1)
        D = torch.from_numpy(neighbours.nearest_neighbours(W)[0])
        lead = r - (W @ W.T / r).fill_diagonal_(-torch.inf).amax(1)
        ratio = least(D, r) / lead
        if ratio.std() > 1e-3 * ratio.mean():
            return "the lead does not grow with D as this does"
        if not torch.allclose(ratio, torch.ones(40).double(), rtol=1e-3):
            factor = ratio.mean()
            return f"with r = {r:g} that is {factor:.2g} times the lead"
    return True


check("07b.3", least, along_itself)

# %% [markdown]
# ## What we saw
#
# First comes what the best evidence of the repository says. The ledger of [notebook
# 30](30_leaderboard.ipynb), which explains the terms, reads it from all kept results.

# %%
evidence_of = [
    "wang2019-mixture", "wang2019-shuffle", "wang2019-dynamic",
    "wang2019-bleu", "wang2019-cosine", "wang2019-neighbours",
]
display(Markdown(claims.conclusions(*evidence_of)))

# %% [markdown]
# Then comes what this notebook computes.

# %%
display(
    Markdown(
        f"With two words and a margin of 0.5 nats, a word of probability "
        f"0.7 is predicted with {one_of_two(0.7, 0.5):.2f}. Random words "
        f"in 32 dimensions can win by {ratio:.0%} of their distance to "
        f"the nearest word, though nobody has spread them. The published "
        f"gain on WikiText-2 grows from {-first:.1f} to {-last:.1f} % in "
        f"fine-tuning."
    )
)

# %% [markdown]
# ## References
#
# - D. Wang, C. Gong, Q. Liu (2019). *Improving Neural Language Modeling via Adversarial Training.*
#   ICML. [arXiv:1906.03805](https://arxiv.org/abs/1906.03805)
# - B. Krause, E. Kahembwe, I. Murray, S. Renals (2018). *Dynamic Evaluation of Neural Sequence Models.*
#   ICML. [arXiv:1709.07432](https://arxiv.org/abs/1709.07432)
# - S. Merity, N. S. Keskar, R. Socher (2018). *Regularizing and Optimizing LSTM Language Models.*
#   ICLR. [arXiv:1708.02182](https://arxiv.org/abs/1708.02182)

# %% [markdown] tags=["way"]
# ↑ Back: [7. The adversarial softmax: words that must win by a margin](07_adversarial_softmax.ipynb)
#
# → Next: [8. Spectrum control: choose how the singular values fall](08_spectrum_control.ipynb)
