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
# # 3b. Going deeper: rare words proved, and three more theorems
#
# **Question.** How near must a rare word's vector be to that of a word that never comes, and what do a cone's cosines, margins and singular values say about each other?
#
# This notebook goes on where [lesson 3](03_why_it_happens.ipynb) stops. Nothing later needs it.

# %% [markdown]
# ## What you will learn
#
# - to prove theorem 3 of Gao et al. (2019), and to hold its bound against a measurement;
# - to bound the first singular value of a word matrix by its mean cosine, and to say which of the two
#   bounds is useful;
# - to connect the cone with margins (Wang et al. 2019) and with the decay of singular values (Wang et
#   al. 2020).

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 3](03_why_it_happens.ipynb), and strong convexity in one dimension.
#
# **Reading.** 20 minutes. **Difficulty.** 3 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.5 | any CPU | a Transformer on 30,000 tokens |
# | quick | 1.5 | two CPU cores | a Transformer on 200,000 tokens |
# | standard | 15 | two CPU cores | five passes over the whole corpus |
# | full | 5 | one GPU | twenty passes over the whole corpus |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the model and of every random draw below

# %%
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown, display

import course_lab
from course_lab import plots
from course_lab.progress import check
from course_lib import data, theory
from course_lib.metrics import geometry, neighbours

_ = torch.manual_seed(SEED)

# %% [markdown]
# ## Predict
#
# 1. A word comes ten times as rarely as another. Is its vector ten times as near to that of a word that
#    never comes, or a hundred times, measured by squared distance?
# 2. The rare words of lesson 2 have a mean cosine near 0.9. Scale each of them to length 1. What share of the
#    squared singular values of these rows must the first direction have at least?
# 3. Rare words lie in a narrow cone. Are they also *close to each other* in distance?

# %% [markdown]
# ## The model again
#
# This is the Transformer of lesson 3, trained in the same way.

# %%
recipe = course_lab.recipes["docstrings/transformer-128/tied"]
experiment = course_lab.profile(recipe, PROFILE, seed=SEED)
if PROFILE == "quick":
    small = {"train": 200_000, "valid": 20_000, "test": 2_000}
    small["words"] = 10_000
    experiment = experiment.change(corpus={"small": small})
corpus = experiment.load_corpus()
with tempfile.TemporaryDirectory() as folder:
    run = course_lab.run(experiment, folder=folder, progress=False)
trained = run.model.cpu()

# %%
W = trained.words.matrix().detach().double()
rare, frequent = geometry.by_frequency(corpus.counts.numpy())
tokens, target = next(data.batches(data.columns(corpus.valid, 40), 50))
with torch.no_grad():
    H = trained(tokens).hidden.flatten(0, 1)[:2_000].double()
target = target.flatten()[:2_000]

# %% [markdown]
# ## Theorem 3: rare instead of never
#
# A word with a share $\varepsilon$ of the tokens minimises $F = (1-\varepsilon) f + \varepsilon q$. Here
# $f$ is the loss of a word that never comes, and $q$ is the loss of its own occurrences. Let $w^*$ be
# where $f$ is least and $w^*_\varepsilon$ where $F$ is least.
#
# **Theorem 3.** Let $f$ curve upwards by at least $\alpha$ in every direction, which is called
# *$\alpha$-strongly convex*. Let $q$ curve downwards by at most $\beta$, and let $|q|$ be at most $B$. If
# $\varepsilon < \alpha/(\alpha+\beta)$, the two minima are close:
#
# $$\|w^* - w^*_\varepsilon\|^2 \le \frac{4\varepsilon B}{\alpha - \varepsilon(\alpha+\beta)}.$$
#
# The proof is short. $F$ curves upwards by at least $m = (1-\varepsilon)\alpha - \varepsilon\beta$, the
# denominator, so $F$ lies above a parabola that touches it at its minimum:
#
# $$\begin{aligned}
# \tfrac m2 \|w^* - w^*_\varepsilon\|^2 &\le F(w^*) - F(w^*_\varepsilon) \\
# &= (1-\varepsilon)\big(f(w^*) - f(w^*_\varepsilon)\big) \\
# &\quad + \varepsilon\big(q(w^*) - q(w^*_\varepsilon)\big) \\
# &\le 0 + 2\varepsilon B,
# \end{aligned}$$
#
# because $f$ is nowhere less than at $w^*$.
#
# We take the contexts of the trained model and a word of the vocabulary, and add $\frac\alpha2\|w\|^2$ (weight
# decay) to make $f$ strongly convex. The negative log-likelihood $q$ is convex, so $\beta = 0$. The function
# $q$ is not bounded, but the proof uses $B$ at the two minima only.

# %%
seen = torch.bincount(target, minlength=len(corpus))
word = int(seen.argsort(descending=True)[12])
away, there = H[target != word], H[target == word]
rests = [theory.log_rest(W, part, word) for part in (away, there)]


def never(w):
    """Return the loss of the word where it does not come."""
    return theory.non_appearing_loss(w, away, rests[0])


def own(w):
    """Return its loss where it comes: the mean of −log P(word | h)."""
    loss = theory.non_appearing_loss(w, there, rests[1])
    return loss - (there @ w).mean()



# %%
def minimum(share, alpha=0.05):
    """Return where (1 − ε) f + ε q is least, ε the share of the word."""
    w = torch.zeros_like(H[0], requires_grad=True)
    wolfe = {"line_search_fn": "strong_wolfe"}
    optimizer = torch.optim.LBFGS([w], 1, 500, **wolfe)

    def loss():
        optimizer.zero_grad()
        f = never(w) + alpha / 2 * w.square().sum()
        value = (1 - share) * f + share * own(w)
        value.backward()
        return value

    optimizer.step(loss)
    return w.detach()


# %%
shares, star = np.logspace(-5, -1.5, 8), minimum(0)
minima = [minimum(share) for share in shares]
measured = [float((star - w).square().sum()) for w in minima]
bounds = [
    theory.rare_word_bound(e, 0.05, 0, float(max(own(star), own(w))))
    for e, w in zip(shares, minima, strict=True)
]
slack = np.array(bounds) / measured

# %% tags=["hide-input"]
curves = {
    "measured": (shares, measured),
    "bound of theorem 3": (shares, bounds),
}
plots.show(
    plots.lines(curves, "share ε of the word", "‖w* − w*ε‖²", log="xy"),
    alt="Squared distance between the vector of a word that never comes "
    "and of the same word with share ε, against ε, both axes logarithmic. "
    f"Both rise; the bound lies {slack.min():,.0f} to {slack.max():,.0f} "
    "times higher.",
)

# %%
# NBVAL_CHECK_OUTPUT
print("the bound holds for every share:", bool((slack >= 1).all()))
print("rarer is nearer:", measured == sorted(measured))

# %% [markdown]
# **Figure 1.** The bound of theorem 3 holds for every share. The bound is generous: it grows like $\varepsilon$,
# while the measured squared distance grows like $\varepsilon^2$ at first, because the vector itself moves in
# proportion to $\varepsilon$. This answers the first prediction: at small shares a word ten times as rare is
# about a hundred times as near. The trend is right: the rarer the word, the nearer its vector is to that of a
# word that never comes. The theorem says so *whatever the word means*.

# %% [markdown]
# ## From cosines to singular values
#
# **Theorem 4** links the mean cosine with the singular values of the *scaled* rows. Lesson 2 measured those of
# $W$ itself. Let $\hat W$ have the rows $\hat w_i = w_i/\|w_i\|$. The entries of the matrix $\hat W\hat W^\top$
# are the cosines of all pairs. Their sum is $\|\sum_i \hat w_i\|^2$, which is $N$ plus $N(N-1)$ times the mean
# cosine. The largest eigenvalue of this matrix is $\hat\sigma_1^2$, and the squares of all singular values add
# up to $N$.
#
# The largest eigenvalue is the greatest value of $x^\top \hat W\hat W^\top x / x^\top x$. For $x =
# \mathbf 1$ this quotient is the sum divided by $N$. So the eigenvalue is *always at least the sum divided
# by $N$*: a high mean cosine forces a large first singular value, and leaves little for the others.
#
# *If no cosine is negative, the eigenvalue is at most the sum* (Merikoski 1984). The reason is that the largest
# eigenvalue of a matrix without negative numbers does not exceed the largest sum of a row. But the sum is then
# never below $N$, and no eigenvalue exceeds $N$ anyway. The lower bound is the useful one, as [lesson
# 6b](06b_the_penalty_in_numbers.ipynb) shows on four clouds.
#
# The last column of the table below divides the first eigenvalue by the sum of all eigenvalues.

# %%
after = {"rare words": W[rare], "500 most frequent": W[frequent],
         "rare words, centred": W[rare] - W[rare].mean(0)}  # fmt: skip
rows = {}
for name, part in after.items():
    m = theory.merikoski(part)
    rows[name] = {
        "least cosine": f"{m.smallest_cosine:.2f}",
        "sum / N": f"{m.total / len(part):,.1f}",
        "first eigenvalue": f"{m.eigenvalue:,.1f}",
        "sum": f"{m.total:,.0f}",
        "share of all": f"{m.eigenvalue / len(part):.0%}",
    }
pd.DataFrame(rows).T

# %% [markdown]
# The table answers the second prediction: the share of the first eigenvalue is never below the mean cosine $c$,
# because $\frac{1+(N-1)c}{N} \ge c$, and for the rare words this lower bound is nearly sharp. Their first
# eigenvalue is almost the sum divided by $N$, because nearly everything that the rare words share *is* their
# mean. Where the least cosine is not negative, the upper bound of theorem 4 applies; it is $N$ times the lower
# bound, and far away. The last row takes the mean away. The first eigenvalue then has a share like that of the
# frequent words, whose mean is still there.

# %% [markdown]
# ## Margins
#
# A word is *$\mu$-recognisable* (Wang et al. 2019) if some vector $h$ in $\mathbb R^d$ prefers the word
# even when its vector is moved against $h$ by $\mu$: $w_i^\top h - \mu\|h\| > w_j^\top h$ for all other
# $j$. The vector $h$ need not be a context of the model.
#
# Theorem 3.3 of that paper says that such a word is farther than $\mu$ from every other row. Indeed $\mu\|h\|$
# is less than $(w_i - w_j)^\top h$, which is at most $\|w_i - w_j\|\,\|h\|$. So a model that recognises words
# robustly cannot have them crowded together. We take six hundred words, half of them rare and half of them
# frequent. The largest such $\mu$, with $j$ among the six hundred, is the word's **margin**. The figure shows
# the margin against the distance to the nearest of the six hundred, for twelve of the rare words and the twelve
# most frequent words.

# %%
chance = np.random.default_rng(SEED)
some = np.r_[chance.choice(rare, 300, False), frequent[:300]]
part = W[some]
distance = neighbours.nearest_neighbours(part)[0]
ids = {"rare": range(0, 12), "frequent": range(300, 312)}
margins = {
    name: [theory.margin_witness(part, i).margin for i in group]
    for name, group in ids.items()
}

# %% tags=["hide-input"]
figure, axes = plots.panels()
for name, mark, ink in zip(margins, "os", plots.colours(margins)):
    style = {"color": ink, "label": f"{name} words"}
    axes.plot(distance[ids[name]], margins[name], mark, **style)
end = [0, float(max(distance[:12].max(), distance[300:312].max()))]
axes.plot(end, end, "--", color=plots.INK, label="margin = distance")
axes.set(xlabel="distance to the nearest row", ylabel="margin")
axes.legend()
plots.show(
    figure,
    alt="Margin against the distance to the nearest row for rare and "
    "frequent words. All points lie below the diagonal. The median margin "
    f"of the rare words is {np.median(margins['rare']):.2f}, that of the "
    f"frequent ones {np.median(margins['frequent']):.2f}.",
)

# %% [markdown]
# **Figure 2.** All points lie below the dashed line: no margin exceeds the distance to the nearest row.

# %%
# NBVAL_CHECK_OUTPUT
below = [
    margin <= distance[i] + 1e-9
    for name in ids
    for i, margin in zip(ids[name], margins[name], strict=True)
]
print("no margin exceeds the distance:", all(below))

# %%
usual = torch.pdist(part[:300]).median()
began = experiment.words.options["init"] * (2 * W.shape[1]) ** 0.5
print(f"median distance of two rare words: {usual:.2f}")
print(f"distance of two random starts:     {began:.2f}")

# %% [markdown]
# A narrow cone is narrow in angle, but it need not be narrow in distance. This answers the third prediction.
# The common push moves all rare words alike, so it does not bring them nearer to each other. The rare words are
# no nearer than their random starts were: two starts are $\sqrt{2d}$ times the standard deviation of an entry
# apart.

# %% [markdown]
# ## The decay of singular values
#
# Suppose that the singular values of $W$ have $\sigma_k \le k^{-\gamma}$ for all $k$, with $\gamma > \frac12$.
# Theorem 4.1 of Wang et al. (2020) bounds the gap between test and training loss. With high probability,
# and up to a factor and a term that do not depend on the spectrum, the gap is at most
#
# $$\min_{2\le m\le d}\ \sqrt{\textstyle\sum_{j<m}\sigma_j^2} +
# \sqrt{m^{1-2\gamma}/(2\gamma-1)},$$
#
# where the first $m-1$ singular values are counted as large. The first term stands for the large ones. The second
# term stands for all the others: the paper puts the integral of $x^{-2\gamma}$ from $m$ on in place of the sum
# $\sum_{k\ge m}k^{-2\gamma}$, which is a little larger. For any $m$, a spectrum that falls faster makes the
# second term smaller and the first no larger. But a model with too few directions cannot fit the text.
# Degeneration is the fast fall of
# *everything after the first* singular value; spectrum control, [lesson 8](08_spectrum_control.ipynb), chooses
# the fall instead of suffering it. The figure shows the two terms for 400 singular values that are exactly
# $k^{-\gamma}$.

# %%
gammas = np.linspace(0.55, 2, 30)
k = np.arange(1, 401)
gaps = [theory.generalisation_gap(k**-g, g, N=1, n=1, B=0) for g in gammas]
best = [gap.least_m - 2 for gap in gaps]
pairs = list(zip(gaps, best, strict=True))
curves = {
    "both terms": (gammas, [gap.least for gap in gaps]),
    "large singular values": (gammas, [g.head[m] for g, m in pairs]),
    "small ones": (gammas, [g.tail[m] for g, m in pairs]),
}

# %% tags=["hide-input"]
plots.show(
    plots.lines(curves, "exponent γ of the decay", "bound, relative"),
    alt="The bound on the generalisation gap and its two terms against "
    "the exponent of the decay. Their sum falls as the spectrum falls "
    f"faster, from {gaps[0].least:.1f} to {gaps[-1].least:.1f}; the term "
    "of the large ones jumps where it pays to count more as large.",
)

# %% [markdown]
# **Figure 3.** The bound falls as the spectrum falls faster. At the kink of the dashed line the best $m$ jumps:
# to its right more singular values are counted as large.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $\varepsilon$, $\alpha$ | `share`, `alpha` | share of the word; weight decay |
# | $f$, $q$ | `never`, `own` | loss of the word where it does not come, and where it does |
# | $w^*$, $w^*_\varepsilon$ | `star`, `minima` | where $f$ is least, and where the mixture is |
# | $\hat\sigma_1^2$ | `theory.merikoski(W).eigenvalue` | largest eigenvalue of $\hat W\hat W^\top$ |
# | $\mu$ | `margins` | the largest is a word's margin |
# | $\gamma$ | `gammas` | exponent of the singular values' decay |

# %% [markdown]
# ## Exercises
#
# Replace `None` by your answer and run the cell below it, which tries the answer out.
#
# ### 1. From a mean cosine to a share
# *Difficulty 2/3, importance 2/3, five minutes.* The mean cosine of $N$ words is $c$. Assign `least`: a function
# of `c` and `N` that gives the least share of all squared singular values of $\hat W$ which the first one can
# have.
#
# <details><summary>Hint</summary>
#
# The sum of all cosines, those of a word with itself included, is $N + N(N-1)c$. The lower bound divides it by
# $N$, and the share divides by $N$ again.
#
# </details>

# %% tags=["exercise"]
least = None  # a function of c and N: a share


# %%
def as_bound(least):
    """Return whether it is the lower bound of random clouds."""
    draw = torch.Generator().manual_seed(SEED)
    for N, shift in ((50, 0.0), (200, 0.5), (400, 3.0)):
        cloud = torch.randn(N, 20, generator=draw).double() + shift
        true = theory.merikoski(cloud).total / N**2
        share = float(least(geometry.mean_cosine(cloud), N))
        if abs(share - N * true) < 0.01:
            return "divide by N once more: the squares add up to N"
        if abs(share - true) > 1e-4:
            return f"for {N} words the bound is {true:.4f}"
    return True


check("03b.1", least, as_bound)

# %% [markdown]
# ### 2. Two words that are one (open)
# *Difficulty 1/3, importance 2/3, ten minutes.* Copy the row of a frequent word into the row of a rare word.
# What do theorem 3.3 and `theory.margin_witness` say of the margins of both?
#
# <details><summary>Hint</summary>
#
# The distance to the nearest row is 0.
#
# </details>

# %% [markdown]
# ## What we saw

# %%
first = theory.merikoski(W[rare])
share = first.eigenvalue / len(rare)
display(
    Markdown(
        f"The bound of theorem 3 holds for every share. It is "
        f"{slack.min():,.0f} to {slack.max():,.0f} times the measured "
        f"squared distance. The mean cosine of the rare words forces at "
        f"least {first.total / len(rare) ** 2:.0%} of the squared "
        f"singular values of their unit rows into the first direction, "
        f"which has {share:.0%}. Two rare words are {usual:.2f} apart, "
        f"two random starts {began:.2f}: the cone of the rare words is "
        f"narrow in angle and not in distance."
    )
)

# %% [markdown]
# ## References
#
# - J. Gao, D. He, X. Tan, T. Qin, L. Wang, T.-Y. Liu (2019). *Representation Degeneration Problem
#   in Training Natural Language Generation Models.* ICLR.
#   [arXiv:1907.12009](https://arxiv.org/abs/1907.12009)
# - D. Wang, C. Gong, Q. Liu (2019). *Improving Neural Language Modeling via Adversarial Training.*
#   ICML. [arXiv:1906.03805](https://arxiv.org/abs/1906.03805)
# - L. Wang, J. Huang, K. Huang, Z. Hu, G. Wang, Q. Gu (2020). *Improving Neural Language Generation
#   with Spectrum Control.* ICLR. [OpenReview](https://openreview.net/forum?id=ByxY8CNtvr)
# - J. K. Merikoski (1984). *On the trace and the sum of elements of a matrix.* Linear Algebra and
#   its Applications 60. [doi:10.1016/0024-3795(84)90078-8](https://doi.org/10.1016/0024-3795(84)90078-8)

# %% [markdown] tags=["way"]
# ↑ Back: [3. Why it happens: the words that never come](03_why_it_happens.ipynb)
#
# → Next: [4. The softmax bottleneck: how many directions can log P have?](04_softmax_bottleneck.ipynb)
