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
# # 2. Degeneration: a cloud of words collapses into a cone
#
# **Question.** What becomes of the word vectors of a language model while it is trained, and is it the same for all words?
#
# ![A language model from left to right: matrix E reads words, encoder, context h, matrix W predicts words, softmax. An arc ties E and W. In colour: W. While the model trains, the rows of W collapse into a cone.](images/02_model.svg)
#
# **Figure 1.** This lesson watches the rows of $W$, the word vectors, while the model trains.

# %% [markdown]
# ## What you will learn
#
# - to measure the shape of a cloud of vectors by singular values, mean cosine, share of positive pairs
#   and isotropy;
# - to recognise **degeneration**, the collapse into a cone (Gao et al. 2019);
# - to say which words degenerate, and to connect this with the push and the pull of [lesson
#   1](01_output_layer.ipynb);
# - to compare the word matrix with the vectors of Word2Vec and of an image classifier, and to say what
#   such a comparison does not show.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** You have read [lesson 1](01_output_layer.ipynb). Of the singular value
# decomposition you need one sentence: it finds the directions in which a cloud is longest, and how long
# the cloud is there.
#
# **Reading.** 27 minutes. **Difficulty.** 1 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.5 | any CPU | a Transformer on 30,000 tokens |
# | quick | 2.2 | two CPU cores | a Transformer on 600,000 tokens, one pass |
# | standard | 15 | two CPU cores | five passes over the whole corpus |
# | full | 5 | one GPU | twenty passes over the whole corpus |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the model, of Word2Vec and of the classifier

# %%
import tempfile

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from IPython.display import Markdown, display
from torch import nn

# %%
import course_lab
from course_lab import digits, plots
from course_lab.progress import check
from course_lib import data
from course_lib.metrics import geometry, subspaces

recipe = course_lab.recipes["docstrings/transformer-128/tied"]
experiment = course_lab.profile(recipe, PROFILE, seed=SEED)
corpus = experiment.load_corpus()
counts = corpus.counts.numpy()
rare, frequent = geometry.by_frequency(counts, rare=1e-4, frequent=500)

# %% [markdown]
# The model of this lesson is a small Transformer of two layers with word vectors of $d = 128$ numbers. The
# model is **tied**: one matrix $W$ reads and predicts. At the start the entries of $W$ are independent Gaussian
# numbers of standard deviation 0.01. Such a cloud is round: it is about as long in every direction.
#
# The narrow start is on purpose. What training adds soon outweighs it, so one pass over the text shows
# the effect. Exercise 3 begins wider, and exercise 2 takes another optimiser: the cone depends on both.

# %% [markdown]
# ## Predict
#
# A word is called **rare** if fewer than one token in ten thousand is that word. We also look at the
# **500 most frequent** words. At the start two words have cosine 0 on average: they stand at right
# angles.
#
# 1. After one pass over the text, what is the mean cosine of two *rare* words: near −1, near 0,
#    near 0.5 or near 1?
# 2. What is the mean cosine of two of the 500 *most frequent* words?
# 3. Let $\sigma_1 \ge \sigma_2$ be the two largest singular values of $W$. A round cloud has
#    $\sigma_2/\sigma_1$ close to 1. Where is this ratio after training?

# %% [markdown]
# ## The collapse in fifteen lines
#
# Here is the effect in plain PyTorch: one Transformer layer between the two uses of $W$, trained by Adam.

# %%
N, d = len(corpus), 64
torch.manual_seed(SEED)
W = nn.Parameter(0.01 * torch.randn(N, d))
encoder = nn.TransformerEncoderLayer(d, 2, 128, 0.0, batch_first=True)
optimizer = torch.optim.Adam([W, *encoder.parameters()], lr=1e-3)
past = nn.Transformer.generate_square_subsequent_mask(32)
for _ in range(40):
    start = torch.randint(len(corpus.train) - 33, (16, 1))
    text = corpus.train[start + torch.arange(33)]
    h = encoder(W[text[:, :-1]], src_mask=past)  # W reads
    logits = h @ W.T  # W predicts
    loss = F.cross_entropy(logits.mT, text[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# %%
# NBVAL_CHECK_OUTPUT
plain = geometry.mean_cosine(W.detach()[rare])
print("after 40 steps, rare words: cosine above 0.5:", plain > 0.5)

# %% [markdown]
# ## Four ways to look at a cloud
#
# - **Singular values** $\sigma_1 \ge \sigma_2 \ge \dots$ of $W$. Equal singular values mean that the
#   cloud is round. One that dwarfs the others means that the cloud lies along a single direction.
# - **Mean cosine** of two different rows.
# - **Share of positive pairs**: the share of all pairs of words whose cosine is positive. The share is one half
#   if the cloud is round.
# - **Isotropy** $I_1 = \min_a Z(a) / \max_a Z(a)$ (Wang et al. 2020). Here $Z(a) = \sum_i \exp(w_i^\top
#   a)$ is the softmax's *normaliser* for a context $a$: the sum by which its exponentials are divided. As
#   contexts we take unit vectors along the singular directions, each with both signs. $I_1$ is 1 if the
#   normaliser is the same whichever way the context points.
#
# There are tens of millions of pairs. Their cosines need not be computed one by one: with the rows
# divided by their norms, $\hat w_i = w_i / \|w_i\|$,
#
# $$\sum_i\sum_{j\neq i}\hat w_i^\top\hat w_j = \Big\|\sum_i \hat w_i\Big\|^2 - N,$$
#
# and the right-hand side takes only $N d$ additions. [Lesson 6](06_cosine_regularization.ipynb) derives it and
# checks it.

# %%
def shape(W):
    """Return σ₂/σ₁ and the mean cosine of rare and of frequent words."""
    ratio = float(geometry.singular_values(W, normalised=True)[1])
    groups = W[rare], W[frequent]
    return [ratio, *(geometry.mean_cosine(group) for group in groups)]


# %% [markdown]
# ## Training, watched
#
# We train the course's model by a similar loop. Every step calls `watch`, which keeps a copy of $W$ at about
# forty moments. The moments are closer together at the start, where most happens.

# %%
o = experiment.optimisation
rows = len(data.columns(corpus.train, o.batch)) - 1
last = o.epochs * -(-rows // o.length)
moments = sorted({round(last * (k / 40) ** 2) for k in range(41)})
snapshots = {}


def watch(step, model):
    if step in moments:
        snapshots[step] = model.words.matrix().detach().cpu().clone()


# %%
with tempfile.TemporaryDirectory() as folder:
    settings = dict(folder=folder, callback=watch, progress=False)
    run = course_lab.run(experiment, **settings)

# %%
before, after = snapshots[0], snapshots[last]
ratio, cosine_rare, cosine_frequent = shape(after)
history = np.array([shape(W) for W in snapshots.values()]).T
steps = list(snapshots)

# %% tags=["hide-input"]
names = ["σ₂/σ₁", "cosine, rare words", "cosine, 500 most frequent"]
curves = dict(zip(names, [(steps, row) for row in history], strict=True))
figure = plots.lines(curves, "training step", "ratio, mean cosine")
figure.axes[0].set_xscale("symlog", linthresh=1)
plots.show(
    figure,
    alt=f"Three curves over {last} training steps. The ratio of the first "
    f"two singular values falls from {history[0, 0]:.2f} to "
    f"{history[0].min():.2f} and ends at {ratio:.2f}; the mean cosine of "
    f"rare words climbs to {cosine_rare:.2f}; that of frequent words ends "
    f"at {cosine_frequent:.2f}.",
)

# %%
# NBVAL_CHECK_OUTPUT
print("σ₂/σ₁ above 0.95 before training:", bool(history[0, 0] > 0.95))
print("σ₂/σ₁ below 0.25 after training: ", bool(ratio < 0.25))
print("rare words: cosine above 0.6:     ", bool(cosine_rare > 0.6))
print("frequent words: cosine below 0.2: ", bool(cosine_frequent < 0.2))

# %% [markdown]
# **Figure 2.** Compare the curves with your predictions. The ratio $\sigma_2/\sigma_1$ fell first, and far
# below 1, because $\sigma_1$ adds up what all words have in common. Then a second direction grew. The rare
# words stood at right angles and now point nearly the same way. Two frequent words still stand at right angles
# on average. Figure 4 shows their spread.

# %% [markdown]
# ## The cloud as it moves
#
# We project every snapshot on one plane, that of the two largest singular values at the *end* of training. Play
# it, or drag the slider.

# %%
random = np.random.default_rng(SEED)
middle = np.setdiff1d(np.arange(len(corpus)), np.union1d(rare, frequent))
some = [random.permutation(g)[:220] for g in (rare, middle, frequent)]
group = np.repeat([0, 1, 2], [len(g) for g in some])
some = np.concatenate(some)
axes = subspaces.project(after).axes
frames = [W[some].numpy() @ axes for W in snapshots.values()]

# %% tags=["gallery", "hide-input"]
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


# %% [markdown]
# **Figure 3.** The rare words leave the origin together, all to one side. The 500 most frequent words never
# follow them in this run.

# %% tags=["hide-input"]
share = counts / counts.sum()
named = {i: corpus.words[i] for i in frequent[:1]}
groups = {"rare": rare, "500 most frequent": frequent}
cosines = {g: geometry.pair_cosines(after[i]) for g, i in groups.items()}
plots.show(
    plots.cloud_and_cosines(after.numpy() @ axes, share, named, cosines),
    alt="Left: all word vectors on the plane of the two largest singular "
    "values. The many rare words form a dense tongue on one side of the "
    "origin, the few frequent words lie at it and beyond. Right: the "
    "cosines of pairs of rare words lie close to one, those of frequent "
    "words spread around zero.",
)

# %% [markdown]
# **Figure 4.** After training, frequency decides the place of a word: the rare words are far out on one side,
# and the most frequent of all, *the* and its like, have crossed to the other side. The cosines of rare pairs
# are close to 1. The cosines of frequent pairs spread widely around 0.

# %% [markdown]
# ## Which words, and which way?
#
# The mean direction of the rare words is the **axis of the cone**. We measure every word's cosine with
# this axis, and its norm.

# %%
unit = F.normalize(after, dim=1)
axis = F.normalize(unit[rare].mean(0), dim=0)
along = (unit @ axis).numpy()
norms = after.norm(dim=1).numpy()

# %% tags=["hide-input"]
measures = {"cosine with the cone's axis": along, "norm": norms}
plots.show(
    plots.several_against_frequency(measures, counts),
    alt="Two panels against the number of occurrences, one dot a word. "
    "The median cosine with the axis of the cone is near one for words "
    "seen a few times and falls below zero for words seen thousands of "
    "times. The median norm falls from words seen a few times to words "
    "seen some hundred times, and rises again for the most frequent.",
)

# %% [markdown]
# **Figure 5.** The rarer a word, the nearer it lies to the axis of the cone. The rarest words, which hardly
# occur, have some of the longest vectors.
#
# Lesson 1 predicts the axis. A word that is hardly ever a target is hardly ever pulled. Every position pushes
# it by $-p_i h$, in sum away from the average context. If this push makes the cone, then the axis points
# *against* the mean context $\bar h$ of the trained model:

# %%
tokens, _ = next(data.batches(data.columns(corpus.valid, 20), 64))
with torch.no_grad():
    hidden = run.model(tokens.to(run.model.words.matrix().device)).hidden
hidden = hidden.flatten(0, 1).cpu()
mean_context = F.normalize(hidden.mean(0), dim=0)
against = (axis @ mean_context).item()
negative = (hidden @ axis < 0).float().mean().item()
print(f"cosine of the axis with the mean context: {against:.2f}")
print(f"contexts on the other side of the origin: {negative:.0%}")

# %%
# NBVAL_CHECK_OUTPUT
print("the cone points away from the mean context:", against < 0)

# %% [markdown]
# So a typical context gives *all* rare words a low score at once. The likelihood asks a word that almost never
# comes next to score low in every context. The contexts lie on one side of the origin, so the far side is the
# same for all these words. [Lesson 3](03_why_it_happens.ipynb) makes this a theorem, and asks which way on the
# far side the words go.
#
# Why is the collapse so fast, if the pushes are tiny? The optimiser is Adam, as it is for nearly every
# Transformer. Adam divides each step by the usual size of its gradient. A rare word's gradient is minute
# but always points the same way, so its row keeps moving. A frequent word is torn to and fro. Exercise 2
# takes Adam away.

# %% [markdown]
# ## Is it so everywhere?
#
# Gao et al. put two other matrices beside that of their model: vectors from **Word2Vec**, and the softmax
# weights of an image **classifier**. Word2Vec (Mikolov et al. 2013) is skip-gram with negative sampling, here
# on the same text. Word2Vec has two vectors for each word: one for the word in the middle, which we look at,
# and one for its neighbours. A vector is pulled towards the words nearby and pushed away from a few words drawn
# at random. Words seen fewer than five times are left out.

# %%
from gensim.models import Word2Vec
from gensim.models.callbacks import CallbackAny2Vec


class AfterEachPass(CallbackAny2Vec):
    """Keep the mean cosine of all word vectors after each pass."""

    cosines = []

    def on_epoch_end(self, model):
        self.cosines.append(geometry.mean_cosine(model.wv.vectors))


# %%
AfterEachPass.cosines.clear()  # of an earlier call of this cell
text = corpus.decode(corpus.train).split("\n")
settings = dict(sg=1, window=3, negative=5, min_count=5, alpha=0.1)
settings |= dict(vector_size=128, epochs=6, seed=SEED)
settings |= dict(workers=1)  # several would make it depend on chance
sentences = [sentence.split() for sentence in text]
skip_gram = Word2Vec(sentences, callbacks=[AfterEachPass()], **settings)
word2vec = skip_gram.wv.vectors
common = [corpus.index[word] for word in skip_gram.wv.index_to_key]
near = skip_gram.wv.most_similar("array", topn=4)
print("array:", ", ".join(word for word, _ in near))

# %%
passes = ", ".join(f"{c:.2f}" for c in AfterEachPass.cosines)
print("mean cosine of Word2Vec after each pass:", passes)
own = geometry.mean_cosine(after[common])
print(f"the same {len(common):,} words, language model: {own:.2f}")

# %% [markdown]
# After its first pass, skip-gram is itself in a cone. Mimno and Thompson (2017) found such cones even in
# well-trained skip-gram vectors. But here the mean cosine falls with every pass. A likely reason is that a
# vector of skip-gram moves only where its own word stands, and there a pull comes with only a few pushes. The
# softmax pushes *every* absent word at *every* position.
#
# The classifier is a network of two convolutions. The network reads the handwritten digits of scikit-learn, ten
# classes of the same frequency.

# %%
states, labels, weights, accuracy = digits.train(SEED)

# %%
# NBVAL_CHECK_OUTPUT
print("unseen digits recognised, more than 9 of 10:", accuracy > 0.9)

# %%
flat = states.numpy() @ subspaces.project(states).axes
arrows = weights.numpy() @ subspaces.project(states).axes
matrices = {
    "before training": before[common],
    "language model": after[common],
    "Word2Vec": word2vec,
    "classifier": weights,
}
values = {n: geometry.singular_values(W) for n, W in matrices.items()}

# %% tags=["hide-input"]
clouds = {n: matrices[n] for n in ("language model", "Word2Vec")}
points = {n: subspaces.project(W).points for n, W in clouds.items()}
plots.show(
    plots.three_matrices(points, (flat, labels, arrows), values),
    alt="Three clouds of vectors with the origin marked, and their "
    "singular values. The language model's words form a tongue to one "
    "side of the origin. Word2Vec is wide and shifted. The classifier has "
    "ten groups of hidden states and ten class vectors all around the "
    "origin. The singular values of the language model drop at once, "
    "those of Word2Vec less, the classifier's ten stay high.",
)

# %% [markdown]
# **Figure 6.** Each cloud lies on the plane of its own two largest singular values. In the classifier's panel a
# numeral is the last hidden state of an image. An arrow has the direction of a row of the softmax, not its
# length. The last panel shows the singular values.

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
# The classifier does what the paper describes: its ten classes lie around the origin. The vectors of our
# Word2Vec lean to one side, but they are spread widely in the other directions, as their singular values
# show.
#
# The *share* of positive pairs hardly separates Word2Vec from the language model, because a slight common lean
# makes nearly all cosines positive. The *mean cosine* and $\sigma_2/\sigma_1$ do separate them. $I_1$ depends on
# how long the vectors are, not only on where they point, so it means little for Word2Vec and for ten classes.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $W$, $w_i$ | `after`, `snapshots[step]` | word matrix, one row a word |
# | $\hat w_i$ | `unit` | row divided by its norm |
# | $\sigma_k$ | `geometry.singular_values(W)` | singular values, largest first |
# | $\frac{1}{n(n-1)}\sum_{i\ne j}\hat w_i^\top\hat w_j$ | `geometry.mean_cosine(W)` | mean cosine of two different rows |
# | $I_1$ | `geometry.isotropy(W).I1` | $\min Z/\max Z$ over singular directions |
# | $h$, $\bar h$ | `hidden`, `mean_context` | context; mean context, here of norm 1 |

# %% [markdown]
# ## Exercises
#
# Replace `None` by your answer and run the cell below it.
#
# ### 1. Take the cone away
# *Difficulty 1/3, importance 3/3, five minutes.* As an output matrix, `after` has many twins: other matrices (N,
# d) that give every context the same probabilities. Assign `moved`: the twin whose rows add up to zero. Then
# measure its `shape`. Does a round cloud appear?
#
# <details><summary>Hint</summary>
#
# If you subtract the same vector from every row, every logit of a context falls by the same number.
#
# </details>

# %% tags=["exercise"]
moved = None  # a word matrix (N, d)


# %%
def twin(moved):
    if moved.shape != after.shape:
        return f"its shape is {tuple(moved.shape)}"
    if moved.mean(0).norm() > 1e-3 * moved.norm(dim=1).mean():
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
# *Difficulty 2/3, importance 3/3, ten minutes.* Train once more, by plain gradient descent:
# `recipe.change(optimisation={"optimizer": "sgd", "learning_rate": 0.5, "weight_decay": 0.0})`, with the same
# profile and seed. Assign `by_sgd`: the word matrix (N, d) after it. Compare its `shape` with that of `after`,
# and the two perplexities (`metrics` of what `course_lab.run` returns). What does plain gradient descent do to a
# row whose gradients are tiny?
#
# <details><summary>Hint</summary>
#
# Call `course_lab.profile(…)` and `course_lab.run(…)` as above, without the callback. The matrix is
# `run.model.words.matrix().detach().cpu()`. A step of SGD is proportional to the gradient; a step of
# Adam is not. Look at the norms of the rare rows: have they moved at all?
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
# *Difficulty 2/3, importance 2/3, ten minutes.* Begin with ten times larger random numbers,
# `recipe.change(words={"init": 0.1})`, and the mean cosine stays much lower. Suppose that the rare words are
# pushed as far as before. Would the start alone explain the lower cosine? Find out with a simple model: a rare
# row begins as $d$ independent Gaussian numbers with standard deviation `init`, and training adds the same
# vector $u$ to all rare rows. We take $u$ from the run above:

# %%
u = (after - before)[rare].mean(0)

# %% [markdown]
# Assign `predicted`: a function of `init` that gives the mean cosine of two rare rows after training,
# a number. Then train and compare.
#
# <details><summary>Hint</summary>
#
# A row after training is its start plus $u$. On average two starts stand at right angles, and each
# start stands at right angles to $u$. What is the inner product of two rows then, and what is their
# squared length?
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
alike = [geometry.mean_cosine(W) for W in (word2vec, weights)]
display(
    Markdown(
        f"In {last:,} steps on {len(corpus.train):,} tokens the word "
        f"matrix of a tied Transformer went from a round cloud to a "
        f"narrow one: σ₂/σ₁ fell from {history[0, 0]:.3f} to {ratio:.3f}. "
        f"The rare words, {len(rare) / len(corpus):.0%} of the "
        f"vocabulary, gather: their mean cosine rose to "
        f"{cosine_rare:.2f}. That of the 500 most frequent words is "
        f"{cosine_frequent:.2f}. On the words that both models know, the "
        f"mean cosine is {own:.2f} in the language model and "
        f"{alike[0]:.2f} in Word2Vec. Among the classes of the digit "
        f"network it is {alike[1]:.2f}."
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
# - L. Wang, J. Huang, K. Huang, Z. Hu, G. Wang, Q. Gu (2020). *Improving Neural Language Generation
#   with Spectrum Control.* ICLR. [OpenReview](https://openreview.net/forum?id=ByxY8CNtvr)

# %% [markdown] tags=["way"]
# ← Previous: [1. The output layer: one word matrix, used twice](01_output_layer.ipynb)
#
# → Next: [3. Why it happens: the words that never come](03_why_it_happens.ipynb)
