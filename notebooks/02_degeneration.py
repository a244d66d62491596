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
# # Degeneration: a cloud of words collapses into a cone
#
# **Question.** What becomes of the word vectors of a language model while it is trained, and is it the same for all words?

# %% [markdown]
# ## What you will learn
#
# - to measure the shape of a cloud of vectors: singular values, mean cosine, share of positive
#   pairs, isotropy;
# - to recognise representation degeneration (Gao et al. 2019) when you meet it in a model of your
#   own;
# - to say which words it strikes, and to connect that with the push and the pull of [lesson
#   1](01_output_layer.ipynb);
# - to compare the word matrix with the vectors of Word2Vec and of an image classifier, and to be
#   careful about what such a comparison shows.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 1](01_output_layer.ipynb). You should know what a singular value
# decomposition is; that you can say "the directions in which a cloud is longest, and how long it is
# there" is enough.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.5 | any CPU | a Transformer on 30,000 tokens |
# | quick | 2.2 | two CPU cores | a Transformer on 600,000 tokens, once |
# | standard | 15 | two CPU cores | the same on the whole corpus, five times |
# | full | 5 | one GPU | the same on the whole corpus, twenty times |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `%pip install -q -c https://raw.githubusercontent.com/output-embedding-course/output-embedding-course/main/constraints.txt -e "git+https://github.com/output-embedding-course/output-embedding-course#egg=course-lib"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the model, of Word2Vec and of the classifier

# %%
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown, display

import course_lab
from course_lab import plots
from course_lib import data
from course_lib.metrics import geometry, subspaces
from course_lib.progress import check

recipe = course_lab.recipes["docstrings/transformer-128/tied"]
experiment = course_lab.profile(recipe, PROFILE, seed=SEED)
corpus = experiment.load_corpus()
counts = corpus.counts.numpy()
rare, frequent = geometry.by_frequency(counts, rare=1e-4, frequent=500)

# %% [markdown]
# The model is the smallest that deserves the name: a Transformer of two layers with word vectors of
# $d = 128$ numbers, **tied**, so that one matrix $W$ reads and predicts. It begins with independent
# Gaussian numbers of standard deviation 0.01 in $W$, small on purpose: what training adds soon
# outweighs them, so that one pass shows the effect (exercise 3 begins wider). Such a cloud is round:
# in no direction is it noticeably longer than in another.

# %% [markdown]
# ## Predict
#
# We call a word **rare** if fewer than one token in ten thousand is that word, and we look also at
# the **500 most frequent** words. At the start two words have, on average, cosine 0: they stand at
# right angles.
#
# 1. After one pass over the text, what is the mean cosine of two *rare* words: near −1, near 0,
#    near 0.5 or near 1?
# 2. And that of two of the 500 *most frequent* words?
# 3. Let $\sigma_1 \ge \sigma_2$ be the two largest singular values of $W$. A round cloud has
#    $\sigma_2/\sigma_1$ close to 1. Where will this ratio be after training?

# %% [markdown]
# ## Four ways to look at a cloud
#
# - **Singular values** $\sigma_1 \ge \sigma_2 \ge \dots$ of $W$. Equal ones mean round; one that
#   dwarfs the others means that the cloud lies along a single direction.
# - **Mean cosine** of two different rows, for the whole vocabulary or a part of it.
# - **Share of positive pairs**: of all pairs of words, how many have a positive cosine? Half, if
#   the cloud is round.
# - **Isotropy** $I_1 = \min_a Z(a) / \max_a Z(a)$. Here $Z(a) = \sum_i \exp(w_i^\top a)$ is the
#   softmax's *normaliser*, the sum that its exponentials are divided by, for a context $a$. As
#   contexts we take unit vectors along the directions of the singular values, each with both signs.
#   $I_1$ is 1 if the normaliser is the same whichever way the context points.
#
# There are tens of millions of pairs, but their cosines need not be computed one by one. With the
# rows divided by their norms, $\hat w_i = w_i / \|w_i\|$,
#
# $$\sum_i\sum_{j\neq i}\hat w_i^\top\hat w_j = \Big\|\sum_i \hat w_i\Big\|^2 - N,$$
#
# and the right-hand side takes only $N d$ multiplications. A check on a few vectors:

# %%
# NBVAL_CHECK_OUTPUT
chance = torch.Generator().manual_seed(0)
few = torch.randn(500, 128, generator=chance) + 0.1
unit = few / few.norm(dim=1, keepdim=True)
table = unit @ unit.T
by_table = ((table.sum() - table.trace()) / (500 * 499)).item()
print("all pairs, one by one:  ", round(by_table, 4))
print("from the sum of the rows:", round(geometry.mean_cosine(few), 4))


# %%
def shape(W):
    """σ₂/σ₁, mean cosine of the rare and of the frequent words."""
    ratio = float(geometry.singular_values(W, normalised=True)[1])
    groups = W[rare], W[frequent]
    return [ratio, *(geometry.mean_cosine(group) for group in groups)]


# %% [markdown]
# ## Training, watched
#
# Every step of the training loop calls `watch`, which keeps a copy of $W$ at about forty moments,
# closer together at the start, where most of it happens. Some of them are reported while you wait.

# %%
o = experiment.optimisation
rows = len(data.columns(corpus.train, o.batch)) - 1
last = o.epochs * -(-rows // o.length)
moments = sorted({round(last * (k / 40) ** 2) for k in range(41)})
snapshots = {}


def watch(step, model):
    if step not in moments:
        return
    W = snapshots[step] = model.words.matrix().detach().cpu().clone()
    if len(snapshots) % 6 == 1 or step == last:
        line = "step {:>5}  σ₂/σ₁ {:.2f}  rare {:z5.2f}  frequent {:z5.2f}"
        print(line.format(step, *shape(W)), flush=True)


# %%
with tempfile.TemporaryDirectory() as folder:
    settings = dict(folder=folder, callback=watch, progress=False)
    run = course_lab.run(experiment, **settings)

# %%
before, after = snapshots[0], snapshots[last]
ratio, cosine_rare, cosine_frequent = shape(after)
history = np.array([shape(W) for W in snapshots.values()]).T
names = ["σ₂/σ₁", "cosine, rare words", "cosine, 500 most frequent"]
steps = list(snapshots)
curves = dict(zip(names, [(steps, row) for row in history], strict=True))
figure = plots.lines(curves, "training step", "ratio, mean cosine")
figure.axes[0].set_xscale("symlog", linthresh=1)
plots.show(
    figure,
    alt=f"Three curves over {last} training steps. The ratio of the first "
    f"two singular values falls from {history[0, 0]:.2f} to {ratio:.2f}; "
    f"the mean cosine of rare words climbs to {cosine_rare:.2f}; that of "
    f"frequent words ends at {cosine_frequent:.2f}.",
)

# %%
# NBVAL_CHECK_OUTPUT
print("σ₂/σ₁ above 0.95 before training:", bool(history[0, 0] > 0.95))
print("σ₂/σ₁ below 0.25 after training: ", bool(ratio < 0.25))
print("rare words: cosine above 0.6:     ", bool(cosine_rare > 0.6))
print("frequent words: cosine below 0.2: ", bool(cosine_frequent < 0.2))

# %% [markdown]
# Compare with your predictions. The rare words, which stood at right angles, have come to point
# nearly the same way. Two frequent words still stand at right angles on average, and that average
# hides a wide spread, as the histograms below show.

# %% [markdown]
# ## The cloud as it moves
#
# Project every snapshot on one plane, that of the two largest singular values at the *end* of
# training. Play it, or drag the slider (the arrow keys work too). The view grows with the cloud, so
# that you can watch its shape; the cross is the origin.

# %%
random = np.random.default_rng(SEED)
middle = np.setdiff1d(np.arange(len(corpus)), np.union1d(rare, frequent))
some = [random.permutation(g)[:220] for g in (rare, middle, frequent)]
group = np.repeat([0, 1, 2], [len(g) for g in some])
some = np.concatenate(some)
axes = subspaces.project(after).axes
frames = [W[some].numpy() @ axes for W in snapshots.values()]

# %% tags=["gallery"]
line = "step {}: σ₂/σ₁ {:.2f}, mean cosine {:z.2f} rare, {:z.2f} frequent"
measured = zip(snapshots, history.T, strict=True)
captions = [line.format(step, *values) for step, values in measured]
names = ["rare words", "words between", "500 most frequent"]
plots.show(
    plots.collapse_animation(frames, group, names, captions),
    alt="A round cloud of words around the origin. As training goes on "
    "the rare words leave the origin together, all to one side, and form "
    "a narrow bundle; the frequent words stay behind.",
)


# %%
def checkpoint(step, plane):
    """All words after that step, on the final plane or on their own."""
    W = snapshots[step]
    view = axes if plane == "of the end" else subspaces.project(W).axes
    ratio, low, high = shape(W)
    text = f"Step {step}: σ₂/σ₁ {ratio:.2f}, mean cosine of rare words "
    text += f"{low:.2f}, of frequent words {high:.2f}."
    return plots.cloud(W.numpy() @ view, counts / counts.sum()), text


planes = ("plane", ["of the end", "its own"], "its own")
plots.live(
    checkpoint, step=("training step", list(snapshots), last), plane=planes
)

# %% [markdown]
# Here is the whole vocabulary at the end, each word coloured by its frequency. Frequency decides
# the place: the rare words are far out on one side, and the most frequent of all, *the* and its
# like, have crossed to the other.

# %%
share = counts / counts.sum()
named = {i: corpus.words[i] for i in frequent[[0, 5, 9]]}
points = after.numpy() @ axes
title = "word vectors after training"
plots.show(
    plots.cloud(points, share, named, title),
    alt="All word vectors on the plane of the two largest singular "
    "values. The many rare words form a dense tongue on one side of the "
    "origin, the few frequent words lie at it and beyond.",
)

# %%
figure, (left, right) = plots.panels(1, 2)
groups = {"rare": rare, "500 most frequent": frequent}
for ax, W, title in [(left, before, "before"), (right, after, "after")]:
    cosines = {g: geometry.pair_cosines(W[i]) for g, i in groups.items()}
    plots.cosine_histogram(cosines, ax=ax, title=f"{title} training")
for ax in (left, right):
    ax.legend_.remove()
lines, labels = left.get_legend_handles_labels()
figure.legend(lines, labels, loc="outside lower center", ncols=2)
plots.show(
    figure,
    alt="Cosines of pairs of words. Before training both groups are "
    "narrow bells around zero; after it the pairs of rare words lie close "
    "to one, those of frequent words still spread around zero.",
)

# %% [markdown]
# ## Which words, and which way?
#
# Take the mean direction of the rare words as the **axis of the cone** and measure, for every word,
# the cosine with it.

# %%
unit = torch.nn.functional.normalize(after, dim=1)
axis = torch.nn.functional.normalize(unit[rare].mean(0), dim=0)
along = (unit @ axis).numpy()
plots.show(
    plots.against_frequency(along, counts, "cosine with the cone's axis"),
    alt="Cosine with the axis of the cone against the number of "
    "occurrences, one dot a word. The median is near one for words seen "
    "a few times and falls below zero for words seen thousands of times.",
)

# %% [markdown]
# Lesson 1 predicts the axis. A word that is hardly ever a target is hardly ever pulled; it is
# pushed at every position, by $-p_i h$, away from the average context. If this is what happened,
# then the axis should point *against* the mean context $\bar h$ of the trained model:

# %%
tokens, _ = next(data.batches(data.columns(corpus.valid, 20), 64))
with torch.no_grad():
    hidden = run.model(tokens.to(run.model.words.matrix().device)).hidden
hidden = hidden.flatten(0, 1).cpu()
mean_context = torch.nn.functional.normalize(hidden.mean(0), dim=0)
against = (axis @ mean_context).item()
negative = (hidden @ axis < 0).float().mean().item()
display(
    Markdown(
        f"Cosine of the axis with the mean context: **{against:.2f}**. "
        f"Share of the contexts on the other side of the origin: "
        f"**{negative:.0%}**."
    )
)

# %%
# NBVAL_CHECK_OUTPUT
print("the cone points away from the mean context:", against < 0)

# %% [markdown]
# So a typical context gives *all* rare words a low score at once. Being far from every context is
# what the likelihood asks of a word that almost never comes next; and since the contexts lie on one
# side of the origin, the far side is the same for all these words. Lesson 3 makes that a theorem, and
# asks which way on the far side they go.
#
# Why so fast, if the pushes are tiny? The optimiser is Adam, as it is for nearly every Transformer.
# Adam divides each step by the usual size of its gradient. A rare word's gradient is minute but
# always points the same way, so its row keeps moving; a frequent word is torn to and fro.
# (Exercise 2 takes Adam away.) The norms fit in with it: the rarest words, which have hardly anything to
# say, have some of the longest vectors. (So do the most frequent ones, which have much to say.)

# %%
norms = after.norm(dim=1).numpy()
plots.show(
    plots.against_frequency(norms, counts, "norm of the word vector"),
    alt="Norm of the word vectors against the number of occurrences, one "
    "dot a word. The median falls from words seen a few times to words "
    "seen some hundred times, and rises again for the most frequent.",
)

# %% [markdown]
# ## Is it so everywhere?
#
# Gao et al. put two other matrices beside that of their model: vectors from **Word2Vec**, and the
# softmax weights of an image **classifier**. We do the same. First skip-gram with negative
# sampling, on the same text. It has two vectors for each word, one for the word in the middle and one
# for its neighbours; as usual we look at the first. It too is pulled and pushed: towards the words
# nearby, away from a few words drawn at random. We look at it after each of its passes; it leaves
# out words seen fewer than five times.

# %%
from gensim.models import Word2Vec
from gensim.models.callbacks import CallbackAny2Vec


class AfterEachPass(CallbackAny2Vec):
    """The mean cosine of all its word vectors."""

    cosines = []

    def on_epoch_end(self, model):
        self.cosines.append(geometry.mean_cosine(model.wv.vectors))


# %%
AfterEachPass.cosines.clear()  # of an earlier call of this cell
text = corpus.decode(corpus.train).split("\n")

# %%
settings = dict(sg=1, window=3, negative=5, min_count=5, alpha=0.1)
skip_gram = Word2Vec(
    [sentence.split() for sentence in text],
    vector_size=128,
    epochs=6,
    workers=1,  # several would make it depend on chance
    seed=SEED,
    callbacks=[AfterEachPass()],
    **settings,
)
word2vec = skip_gram.wv.vectors
common = [corpus.index[word] for word in skip_gram.wv.index_to_key]
near = skip_gram.wv.most_similar("array", topn=4)
print("array:", ", ".join(word for word, _ in near))

# %%
display(
    Markdown(
        "Mean cosine of its vectors after each pass: "
        + ", ".join(f"{c:.2f}" for c in AfterEachPass.cosines)
        + f". The same {len(common):,} words in our language model: "
        f"**{geometry.mean_cosine(after[common]):.2f}**."
    )
)

# %% [markdown]
# Worth a pause. After its first pass, when most words have been met only a few times, skip-gram is
# itself in a cone; Mimno and Thompson (2017) found such cones even in well-trained skip-gram
# vectors. But skip-gram works its way out. A likely reason: the vectors that we look at move only
# where their own word stands, and there every few pushes come with a pull; elsewhere they are left
# alone. The softmax is different. It pushes *every* absent word at *every* position.
#
# Now a classifier: a network of two convolutions that reads the handwritten digits which come with
# scikit-learn, ten classes, equally frequent.

# %%
from sklearn.datasets import load_digits
from torch import nn

digits = load_digits()
images = torch.tensor(digits.images[:, None] / 16, dtype=torch.float32)
labels = torch.tensor(digits.target)
torch.manual_seed(SEED)
features = nn.Sequential(
    nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(),
    nn.Flatten(), nn.Linear(512, 32),
)  # fmt: skip
classes = nn.Linear(32, 10, bias=False)
both = [*features.parameters(), *classes.parameters()]
optimizer = torch.optim.AdamW(both, lr=3e-3)

# %%
for _ in range(15):
    for batch in torch.randperm(1500).split(50):
        scores = classes(features(images[batch]))
        loss = nn.functional.cross_entropy(scores, labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
with torch.no_grad():
    states = features(images)
    right = classes(states).argmax(1) == labels
weights = classes.weight.detach()
accuracy = right[1500:].float().mean().item()

# %%
# NBVAL_CHECK_OUTPUT
print("unseen digits recognised, more than 9 of 10:", accuracy > 0.9)

# %% [markdown]
# Four clouds, each on the plane of its own two largest singular values. The classifier's picture
# shows the images' last hidden states as well, each drawn as its digit; the arrows are the ten rows
# of its softmax.

# %%
flat = states.numpy() @ subspaces.project(states).axes
arrows = weights.numpy() @ subspaces.project(states).axes
clouds = {
    "language model, before": before[common],
    "language model, after": after[common],
    "Word2Vec": word2vec,
}

# %%
figure, grid = plots.panels(2, 2, height=3.5)
for ax, (title, W) in zip(grid.flat, clouds.items(), strict=False):
    plots.cloud(subspaces.project(W).points, title=title, ax=ax)
plots.states_and_classes(flat, labels, arrows, "classifier", grid[1, 1])
plots.show(
    figure,
    alt="Four clouds of vectors with the origin marked. Language model "
    "before training: round about the origin. After: a tongue to one side "
    "of it. Word2Vec: wide, shifted. Classifier: ten groups of "
    "hidden states and their ten class vectors all around the origin.",
)

# %%
matrices = clouds | {"classifier": weights}
values = {n: geometry.singular_values(W) for n, W in matrices.items()}
plots.show(
    plots.singular_values(values),
    alt="Singular values divided by the largest, on a logarithmic axis. "
    "Before training the curve is nearly flat; after it, it drops at "
    "once. Word2Vec drops less, the classifier's ten values stay high.",
)

# %%
table = {
    name: {
        "vectors": f"{len(W):,}",
        "σ₂/σ₁": f"{values[name][1] / values[name][0]:.2f}",
        "mean cosine": f"{geometry.mean_cosine(W):.2f}",
        "positive pairs": f"{geometry.positive_share(W):.0%}",
        "I₁": f"{geometry.isotropy(W).I1:.2f}",
    }
    for name, W in matrices.items()
}
pd.DataFrame(table).T

# %% [markdown]
# The classifier does what the paper describes: its ten classes lie around the origin. Our Word2Vec does
# not: its vectors lean to one side, as Mimno and Thompson found in well-trained ones. Yet they are spread widely in the other directions. The picture has room for one
# of those; look at the singular values for the rest.
#
# Read the table with care. The *share* of positive pairs hardly separates Word2Vec from the
# language model: a slight common lean makes nearly all cosines positive. The *mean cosine* and
# $\sigma_2/\sigma_1$ do separate them. And $I_1$ speaks about the normaliser of a softmax, so it
# depends on how long the vectors are, not only on where they point; for Word2Vec and for ten
# classes it means little.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $W$, $w_i$ | `after`, `snapshots[step]` | word matrix, one row a word |
# | $\hat w_i$ | `unit` | row divided by its norm |
# | $\sigma_k$ | `geometry.singular_values(W)` | singular values, largest first |
# | $\frac{1}{n(n-1)}\sum_{i\ne j}\hat w_i^\top\hat w_j$ | `geometry.mean_cosine(W)` | mean cosine of two different rows |
# | $I_1$ | `geometry.isotropy(W).I1` | $\min Z/\max Z$ over principal directions |
# | $h$, $\bar h$ | `hidden`, `mean_context` | context; mean context, here of norm 1 |

# %% [markdown]
# ## Exercises
#
# Replace `None` by your answer and run the cell below it, which tries the answer out.
#
# ### 1. Take the cone away
# As an output matrix, `after` has many twins: other matrices (N, d) that give every context the same
# probabilities. Assign `moved`: the one of them whose rows add up to zero. Then measure its `shape`.
# Does a round cloud appear?
#
# <details><summary>Hint</summary>
#
# Lesson 1: the same vector taken from every row takes the same number from every logit.
#
# </details>

# %% tags=["exercise"]
moved = None  # a word matrix (N, d)


# %%
def twin(moved):
    if moved.shape != after.shape:
        return f"its shape is {tuple(moved.shape)}"
    if moved.mean(0).norm() > 1e-3 * after.mean(0).norm():
        return "its rows do not add up to zero"
    old, new = (
        (hidden[:200] @ W.T).log_softmax(dim=-1) for W in (after, moved)
    )
    return torch.allclose(new, old, atol=1e-2) or (
        "the probabilities have changed: is the same vector taken from "
        "every row?"
    )


check("02.1", moved, twin)

# %% [markdown]
# ### 2. Who is to blame: the loss or the optimiser?
# Train once more, by plain gradient descent: `recipe.change(optimisation={"optimizer": "sgd",
# "learning_rate": 0.5, "weight_decay": 0.0})`, with the same profile and seed. Assign `by_sgd`: the
# word matrix (N, d) after this training. Compare its `shape` with that of `after`, and the two
# perplexities (`metrics` of what `course_lab.run` returns). What does plain gradient descent do to
# a row whose gradients are tiny?
#
# <details><summary>Hint</summary>
#
# `course_lab.profile(…)` and `course_lab.run(…)` as at the top, without the callback; the matrix
# is `run.model.words.matrix().detach().cpu()`. A step of SGD is proportional to the gradient, one
# of Adam is not. Look at the norms of the rare rows: have they moved at all?
#
# </details>

# %% tags=["exercise"]
by_sgd = None  # the word matrix (N, d) after training by SGD


# %%
def left_behind(by_sgd):
    norms = by_sgd.norm(dim=1) / before.norm(dim=1).mean()
    if norms[frequent[:20]].mean() < 1.2:
        return "even the frequent words are as short as before training"
    moved = (by_sgd - before).norm(dim=1)
    if moved[rare].mean() > 0.5 * moved[frequent[:20]].mean():
        return "the rare words went far: did steps of SGD do that?"
    return True


check("02.2", by_sgd, left_behind)

# %% [markdown]
# ### 3. A wider start
# Begin with ten times larger random numbers, `recipe.change(words={"init": 0.1})`, and the mean cosine
# stays much lower. Suppose that the rare words are pushed as far as before. Would that alone explain it?
# Find out with a simple model: a
# rare row begins as $d$ independent Gaussian numbers with standard deviation `init`, and training adds
# the same vector $u$ to all of them. We take it from the run above:

# %%
u = (after - before)[rare].mean(0)

# %% [markdown]
# Assign `predicted`: a function of `init` that gives the mean cosine of two rare rows after training,
# a number. If you have another minute, train and compare.
#
# <details><summary>Hint</summary>
#
# A row after training is its start plus $u$. Two starts stand at right angles on average, and a start
# at right angles to $u$. What is the inner product of two rows then, and what their squared length?
#
# </details>

# %% tags=["exercise"]
predicted = None  # a function of init: the mean cosine of two rare rows


# %%
def drawn(predicted):
    chance = torch.Generator().manual_seed(0)
    start = torch.randn(2000, len(u), generator=chance)
    for init in (0.01, 0.03, 0.1, 0.3):
        true = geometry.mean_cosine(init * start + u)
        if abs(float(predicted(init)) - true) > 0.02:
            return (
                f"of 2,000 rows drawn with init = {init} the mean cosine "
                f"is {true:.2f}; how long are they at the start?"
            )
    return True


check("02.3", predicted, drawn)

# %% [markdown]
# ## What we saw

# %%
compared = after[common], word2vec, weights
alike = [geometry.mean_cosine(W) for W in compared]
display(
    Markdown(
        f"In {last:,} steps on {len(corpus.train):,} tokens the word "
        f"matrix of a tied Transformer went from a round cloud (σ₂/σ₁ = "
        f"{history[0, 0]:.3f}) to a narrow one ({ratio:.3f}). It is the "
        f"rare words, {len(rare) / len(corpus):.0%} of the vocabulary, "
        f"that gather: their mean cosine rose to {cosine_rare:.2f}, that "
        f"of the 500 most frequent stayed at {cosine_frequent:.2f}. "
        f"On the words that both know the mean cosine is {alike[0]:.2f} "
        f"in the language model and {alike[1]:.2f} in Word2Vec; among "
        f"the classes of the digit network it is {alike[2]:.2f}."
    )
)

# %% [markdown]
# ## References
#
# - J. Gao, D. He, X. Tan, T. Qin, L. Wang, T.-Y. Liu (2019). *Representation Degeneration Problem
#   in Training Natural Language Generation Models.* ICLR.
#   [arXiv:1907.12009](https://arxiv.org/abs/1907.12009)
# - D. Mimno, L. Thompson (2017). *The strange geometry of skip-gram with negative sampling.* EMNLP.
#   [doi:10.18653/v1/D17-1308](https://doi.org/10.18653/v1/D17-1308)
# - T. Mikolov, I. Sutskever, K. Chen, G. Corrado, J. Dean (2013). *Distributed Representations of
#   Words and Phrases and their Compositionality.* NeurIPS.
#   [arXiv:1310.4546](https://arxiv.org/abs/1310.4546)
# - Z. Dai, Z. Yang, Y. Yang, J. Carbonell, Q. V. Le, R. Salakhutdinov (2019). *Transformer-XL.*
#   ACL. [arXiv:1901.02860](https://arxiv.org/abs/1901.02860)
# - L. Wang, J. Huang, K. Huang, Z. Hu, G. Wang, Q. Gu (2020). *Improving Neural Language Generation
#   with Spectrum Control.* ICLR. [OpenReview](https://openreview.net/forum?id=ByxY8CNtvr)
