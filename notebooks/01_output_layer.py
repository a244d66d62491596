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
# # The output layer: one word matrix, used twice
#
# **Question.** How does a language model turn one vector into a probability for every word, and what does each training step do to the matrix that makes this possible?

# %% [markdown]
# ## What you will learn
#
# - to read logits as inner products, and a softmax as a competition between directions;
# - to say what it means that one matrix reads words *and* predicts them, and what that saves;
# - to derive the gradient of the cross-entropy with respect to the word matrix, and to recognise in
#   it a **pull** and a **push**;
# - to see, on real English, how unequally the two are shared out among the words.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** One course on deep learning: you have met cross-entropy, backpropagation and an
# embedding layer. A little linear algebra: inner product, norm, angle.
#
# Nothing is trained to the end here, so the lesson is short in every profile.
#
# | profile | minutes | runs on | what changes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | a corner of the corpus |
# | quick | 0.5 | two CPU cores | the whole embedded corpus |
# | standard | 0.5 | two CPU cores | as quick |
# | full | 0.5 | two CPU cores | as quick |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `%pip install -q -c https://raw.githubusercontent.com/output-embedding-course/output-embedding-course/main/constraints.txt -e "git+https://github.com/output-embedding-course/output-embedding-course#egg=course-lib"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of every random draw below

# %%
import inspect

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from IPython.display import Code, Markdown, display

import course_lab
from course_lab import corpora, plots
from course_lib import data
from course_lib.metrics import geometry
from course_lib.output_layers import FullWords, Softmax
from course_lib.progress import check

# %%
torch.manual_seed(SEED)
corpus = corpora.load("docstrings")
if PROFILE == "smoke":
    corpus = corpus.small(train=30_000, words=3_000)

# %% [markdown]
# The corpus is English that is already on your machine: the prose inside the documentation of the
# packages that this course installs. Each sentence is a line, lower-cased and cut into words; the
# end of a line is a word of its own, `<eos>`, and what is too rare for the vocabulary is `<unk>`. A
# **token** is one place in the running text, a **word** one entry of the vocabulary: *the* is one
# word and thousands of tokens.

# %% [markdown]
# ## Predict
#
# Write your answers down before you go on; there is nobody to see them but you.
#
# 1. The corpus has a vocabulary of ten thousand words. How many of them, taken from the top of the
#    frequency list, are enough to cover *half* of the running text?
# 2. One training step looks at about a thousand positions of text. How many of the ten thousand word
#    vectors does it draw *towards* a context, because their word came next?
# 3. And in which direction does it move the vectors of all the others: each in its own, or in a
#    common one?

# %% [markdown]
# ## Few words do most of the work
#
# Count every word, sort by frequency, and plot share against rank with both axes logarithmic. A
# straight line of slope −1 is **Zipf's law**: the word of rank $r$ is about $1/r$ as frequent as
# the first.

# %%
counts = corpus.counts.numpy()
share = counts / counts.sum()
N = len(corpus)
order = np.argsort(-counts, kind="stable")
half = int(np.searchsorted(np.cumsum(share[order]), 0.5)) + 1
rare = geometry.by_frequency(counts).rare

plots.show(
    plots.frequency_rank(counts, title="Zipf's law in the documentation"),
    alt=f"Share of the tokens against rank for {N:,} words, both axes "
    f"logarithmic. The curve follows the line 1 / rank in the middle, "
    f"lies below it at both ends, and crosses the threshold of 1e-4 near "
    f"rank {N - len(rare):,}.",
)

# %%
top = ", ".join(f"*{corpus.words[i]}*" for i in order[:8])
display(
    Markdown(
        f"The eight most frequent words are {top}. **{half}** of {N:,} "
        f"words make up half of the text, and **{len(rare) / N:.0%}** of "
        f"the vocabulary is rarer than one token in ten thousand."
    )
)

# %% [markdown]
# Keep that second number in mind. Most rows of the matrix we are about to build belong to words
# that the model hardly ever sees.

# %% [markdown]
# ## A matrix with one row for each word
#
# A **word matrix** $W$ has $N$ rows and $d$ columns; row $w_i$ is the vector of word $i$. Reading a
# word means taking its row. That is the same as multiplying a one-hot vector by $W$, only cheaper.
# Here is the class that every model in this course uses, as it stands in the library:

# %% tags=["hide-input"]
display(Code(inspect.getsource(FullWords), language="python"))

# %%
d = 64
words = FullWords(N, d, init=0.1)
ids = corpus.train[:5]
one_hot = F.one_hot(ids, N).float()
print(corpus.decode(ids))
print("rows taken:", tuple(words(ids).shape))

# %%
# NBVAL_CHECK_OUTPUT
same = torch.allclose(words(ids), one_hot @ words.matrix())
print("taking rows = one-hot times W:", same)

# %% [markdown]
# ## Logits are inner products
#
# The rest of the network, the *encoder*, reads the words so far and leaves one vector, the
# **context** $h \in \mathbb{R}^d$. The output layer compares it with every row. The scores are
# called **logits**,
#
# $$l_i = w_i^\top h = \|w_i\|\,\|h\|\cos\angle(w_i, h),$$
#
# and a softmax turns them into probabilities,
#
# $$p_i = \frac{\exp l_i}{\sum_{j} \exp l_j}.$$
#
# So a word is likely when its vector is long and points the way the context does. (Some models add
# to each logit a number $b_i$ of its own, the *bias*; those of this lesson do not.) With two
# dimensions and five words we can look at the whole layer at once. Turn a context of length 2 once
# around the circle and watch who wins, that is, which word is the likeliest.

# %%
names = ["matrix", "array", "plot", "the", "rarely"]
toy = [[2.0, 0.6], [2.0, -0.2], [-1.0, 2.0], [0.3, -0.5], [-1.5, -1.2]]
toy = torch.tensor(toy)
angle = torch.linspace(0, 2 * torch.pi, 181)
around = 2 * torch.stack([angle.cos(), angle.sin()], dim=1)
p = (around @ toy.T).softmax(dim=-1)

# %%
fig, (left, right) = plots.panels(1, 2)
plots.arrows(toy, names, ax=left)
left.set(xlim=(-3.1, 3.3), ylim=(-2.4, 2.8), title="five word vectors")
left.set(xlabel="first number", ylabel="second number")
degrees = np.degrees(angle.numpy())
curves = {name: (degrees, p[:, i]) for i, name in enumerate(names)}
plots.lines(curves, "angle of the context (°)", "probability", ax=right)
right.set(xticks=range(0, 361, 90), title="who wins where")
right.legend_.remove()  # colours, lines and markers as on the left
plots.show(
    fig,
    alt="Left: five word vectors as arrows in the plane. Right: their "
    "probabilities while the context turns through 360 degrees; each long "
    "vector wins near its own direction, the short one never does.",
)

# %% [markdown]
# Two things are worth noticing. *Matrix* and *array* point almost the same way, and so they are
# rivals: the layer can hardly raise one without the other. And *the*, whose vector is short, never
# wins anywhere: it lies inside the polygon that the other four span, so that in every direction one of
# them reaches farther. Around the origin a short vector is easily inside.
#
# What no picture shows is a freedom the softmax leaves open. Add the *same* vector $c$ to every
# row: each logit grows by the same number $c^\top h$, and the probabilities do not change at all. The
# *mean cosine*, over all pairs of rows, tells how closely the rows huddle: 1 if all point the same
# way.

# %%
# NBVAL_CHECK_OUTPUT
moved = toy + torch.tensor([3.0, -4.0])
q = (around @ moved.T).softmax(dim=-1)
print("who wins somewhere:", *[names[i] for i in p.argmax(1).unique()])
print("same probabilities when shifted:", torch.allclose(p, q, atol=1e-5))
print(f"mean cosine before: {geometry.mean_cosine(toy):.2f}")
print(f"mean cosine after:  {geometry.mean_cosine(moved):.2f}")

# %% [markdown]
# (After the shift *the* is longer than *plot* and still never wins: what counts is where a row stands
# among the others, not its length alone.) As output matrices the likelihood cannot tell the two apart,
# although in the second all words huddle together. Nothing in the softmax holds a cloud of word vectors around the origin. [Lesson
# 2](02_degeneration.ipynb) shows what happens when nothing does.
#
# The layer itself is short; `log_prob` is the definition above in logarithms. The code has room for
# what later lessons put in: several contexts for one position, $K$ of them with weights
# (`contexts`), something added to the target's logit in training (`target_offset`), a curve that
# bends the logits (`transform`). A plain softmax has one context and does neither of the others, so
# read past them:

# %% tags=["hide-input"]
methods = [Softmax.logits, Softmax.log_prob]
source = "\n".join(inspect.getsource(method) for method in methods)
display(Code(source, language="python"))

# %% [markdown]
# ## The same matrix at both ends
#
# A model needs vectors to read words and vectors to predict them. If contexts have as many numbers
# as word vectors, one matrix can do both: **tying** (Inan et al. 2017; Press and Wolf 2017). In
# code it is one object given twice. The saving is $N d$ numbers, a large part of a small model. Two
# models of the library show it. A *recipe* there describes a model, its corpus and its training;
# `build` makes the model:


# %%
def size(name, **changes):
    """Number of parameters of a recipe for 10,000 words."""
    model = course_lab.recipes[name].change(**changes).build(10_000)
    return sum(parameter.numel() for parameter in model.parameters())


rows = []
for label, name in {
    "LSTM, 2 × 200 units": "ptb/vd-lstm-200/tied",
    "Transformer, d = 128": "docstrings/transformer-128/tied",
}.items():
    tied, two = size(name), size(name, tied=False)
    rows.append([label, f"{two:,}", f"{tied:,}", f"{1 - tied / two:.0%}"])
pd.DataFrame(rows, columns=["model", "two matrices", "tied", "saved"])

# %% [markdown]
# Tying also means that each row is trained from two sides: as an input it hears from the encoder,
# as an output from the softmax. The gradient of a tied matrix is the sum of the two. We check it on
# a model with a Transformer between the ends, once tied and once with two matrices that hold the
# same numbers. Neither is trained yet. The batch has 16 columns of text, each 64 tokens long, and
# the target of a position is the token that comes next.

# %%
recipe = course_lab.recipes["docstrings/transformer-128/tied"]
recipe = recipe.change(seed=SEED)
tied_model = recipe.build(N)
untied_model = recipe.change(tied=False).build(N)
untied_model.load_state_dict(tied_model.state_dict())  # same numbers
columns = data.columns(corpus.train, 16)
tokens, target = next(data.batches(columns, 64))
for model in (tied_model, untied_model):
    model(tokens, None, target).loss.backward()
as_input = untied_model.words.weight.grad
as_output = untied_model.output_layer.words.weight.grad

# %%
# NBVAL_CHECK_OUTPUT
total = as_input + as_output
gap = (tied_model.words.weight.grad - total).abs().max()
print("tied = input + output:", (gap < 1e-4 * total.abs().max()).item())
reached = (as_output != 0).any(1).all().item()
print("every word is reached as an output:", reached)

# %%
read = int((as_input != 0).any(1).sum())
display(
    Markdown(
        f"One batch of {tokens.numel():,} tokens holds {read:,} different "
        f"words, so the input side touches {read:,} rows, "
        f"**{read / N:.0%}** of the matrix. The output side touches "
        f"all {N:,}."
    )
)

# %% [markdown]
# ## Push and pull
#
# What does the output side do to a row? Take one position with context $h$ and target word $y$. The
# loss is $L = -\log p_y = -l_y + \log\sum_j \exp l_j$. (The mean of $L$ over a text is the usual
# figure of a language model, mostly as its **perplexity** $e^L$: among how many equally likely words it
# seems to choose.) Differentiate $L$ with respect to logit $l_i$.
# The first term gives $-1$ for the target and 0 for other words; write $-y_i$ for that. The second
# gives $\exp l_i / \sum_j \exp l_j = p_i$. And $l_i = w_i^\top h$ has the derivative $h$ with respect to
# $w_i$. Hence
#
# $$\frac{\partial L}{\partial w_i} = (p_i - y_i)\, h, \qquad y_i = \begin{cases}1 & i = y\\ 0 & \text{otherwise.}\end{cases}$$
#
# A step of gradient descent moves against it. The target's row is **pulled** towards the context,
# by $1 - p_y$. Every other row is **pushed** away from it, by $p_i$. Over the $n$ positions of a
# batch, with contexts as the rows of $H$, predictions as the rows of $P$ and one-hot targets as the
# rows of $Y$, this is one matrix product:
#
# $$\frac{\partial L}{\partial W} = \frac1n\,(P - Y)^\top H .$$

# %%
with torch.no_grad():
    hidden = tied_model(tokens).hidden.flatten(0, 1)
    P = tied_model.output_layer.log_prob(hidden).exp()
Y = F.one_hot(target.flatten(), N).float()
n = len(hidden)
by_hand = (P - Y).T @ hidden / n

# %%
# NBVAL_CHECK_OUTPUT
gap = (by_hand - as_output).abs().max() / as_output.abs().max()
print("(P - Y)ᵀ H / n is autograd's gradient:", gap.item() < 1e-3)

# %% [markdown]
# Now split it. The pull on row $i$ is $\frac1n\sum_t y_{ti} h_t$, a sum over the positions where
# $i$ was the target. The push is $-\frac1n\sum_t p_{ti} h_t$, a sum over *all* positions. (Here $t$ counts
# the positions; $p_{ti}$ and $y_{ti}$ are the entries of $P$ and $Y$.) For a few words, from the most
# frequent to the rarest, per step:

# %%
pull, push = Y.T @ hidden / n, -P.T @ hidden / n
in_batch = Y.sum(0).int()
wanted = [int(order[min(r, N - 1)]) for r in (0, 3, 30, 300, 3000, N - 1)]
pd.DataFrame(
    {
        "word": [corpus.words[i] for i in wanted],
        "in the corpus": [f"{counts[i]:,}" for i in wanted],
        "in this batch": in_batch[wanted].tolist(),
        "length of the pull": [f"{pull[i].norm():.1e}" for i in wanted],
        "length of the push": [f"{push[i].norm():.1e}" for i in wanted],
    }
)

# %%
pulled = in_batch > 0
directions = {
    "words in the batch": geometry.pair_cosines(by_hand[pulled]),
    "all other words": geometry.pair_cosines(by_hand[~pulled]),
}
title = "Do two rows move the same way?"
figure = plots.cosine_histogram(directions, title=title)
figure.axes[0].set(yscale="log", xlabel="cosine of two rows' gradients")
plots.show(
    figure,
    alt="Histogram of cosines between the gradients of two rows. For "
    "words in the batch they spread over many angles; for words that are "
    "not in it they lie close to one.",
)

# %%
# NBVAL_CHECK_OUTPUT
common = geometry.mean_cosine(by_hand[~pulled])
print("most words are absent:", (pulled.float().mean() < 0.5).item())
print(f"mean cosine of their gradients: {common:.1f}")

# %% [markdown]
# Here are the answers to the second and the third prediction. Only a word that is the target
# somewhere in the batch is pulled; these are few of all words, and their rows go many ways. (Near 1
# are perhaps those that came after the same word, of which the untrained encoder makes nearly the same
# context wherever it stands.) The others are all moved in *the same* direction: away from the average
# context. At the start of training every $p_i$ is not far from $1/N$, so each of them receives about
# the same vector, $-\frac{1}{nN}\sum_t h_t$. A single step is tiny. There are thousands, and a rare
# word is pulled in almost none of them.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $N$, $d$ | `N`, `d` | number of words, size of a word vector |
# | $W$, $w_i$ | `words.matrix()`, `words(ids)` | word matrix, the row of word $i$ |
# | $h$, $H$ | `hidden` | context of one position, contexts of a batch as rows |
# | $l$ | `logits` | scores $W h$ |
# | $p$, $P$ | `log_prob(hidden).exp()` | predicted probabilities |
# | $y$, $Y$ | `target`, `F.one_hot(target, N)` | target word, one-hot targets as rows |
# | $L$ | `model(tokens, state, target).loss` | cross-entropy in nats (natural logarithms) a token |
# | $e^L$ | `perplexity(model, tokens, eos)` | perplexity, $L$ being the mean over a text |

# %% [markdown]
# ## Exercises
#
# Replace `None` by your answer and run the cell below it, which tries the answer out.
#
# ### 1. Sharpen the softmax
# In the picture with five words, change the length of the context from 2 to 0.2 and to 20. What
# happens to the probabilities, and which property of $w_i^\top h$ explains it? On average over the
# circle, which word gains most when the context becomes short?
#
# Then find the rule. All contexts become $s$ times as long. Say what the probabilities are then,
# from the old probabilities alone, without the vectors: assign `rescale`, a function of a tensor
# `p` (…, number of words), whose rows add up to 1, and of a number `s`; it returns the new
# probabilities in the same shape.
#
# <details><summary>Hint</summary>
#
# Scaling $h$ scales every logit. Think of the two limits: all logits zero, and one logit far above
# the others.
#
# </details>
#
# <details><summary>Hint for the rule</summary>
#
# The logits are $\log p_i$ plus a number that is the same for all words. What is
# $\exp(s \log p_i)$, and what has to be done about its sum?
#
# </details>

# %% tags=["exercise"]
rescale = None  # a function of p (…, words) and s: the new probabilities


# %%
def sharpened(rescale):
    for s in (0.1, 10.0):
        new, true = rescale(p, s), (s * around @ toy.T).softmax(dim=-1)
        if torch.allclose(new, p):
            return "they are the old ones: a common factor cancels"
        if not torch.allclose(new.sum(-1), torch.ones(len(p))):
            return "they do not add up to one"
        if (new.max() - p.max()) * (true.max() - p.max()) < 0:
            return "should the winner gain or lose by a longer context?"
        if not torch.allclose(new, true, atol=1e-4):
            return f"at s = {s:g} the vectors give others"
    return True


check("01.1", rescale, sharpened)

# %% [markdown]
# ### 2. The freedom of the softmax
# Show that the gradient of the loss, summed over *all* rows of $W$, is exactly zero for every
# batch. Then check it with `by_hand.sum(0)`. What does it say about the mean of the rows under
# plain gradient descent? Does the argument hold when the matrix is tied, or when the optimiser is
# Adam?
#
# Assign `kept`: the set of those cases in which one step leaves the mean of the rows where it is,
# by their names `"untied, SGD"`, `"tied, SGD"`, `"untied, Adam"` and `"tied, Adam"`. (SGD is plain
# gradient descent; "untied" means the output matrix of the model with two.)
#
# <details><summary>Hint</summary>
#
# Sum $(p_i - y_i)\,h$ over $i$: probabilities add up to one, and so does a one-hot vector.
#
# </details>
#
# <details><summary>Hint for the last part</summary>
#
# A tied row has a second gradient from the input side. Adam divides each number by a running
# estimate of its own size. If the rows add up to zero, do they still when each number in them
# is divided by another?
#
# </details>

# %% tags=["exercise"]
kept = None  # a set of names out of the four


# %%
def mean_stays(kept):
    true = set()
    for tie, gradient in {"untied": as_output, "tied": total}.items():
        for way in (torch.optim.SGD, torch.optim.Adam):
            W = torch.zeros_like(gradient, requires_grad=True)
            W.grad = gradient.clone()
            way([W], lr=0.1).step()
            if W.mean(0).norm() < 1e-3 * W.norm(dim=1).mean():
                true.add(f"{tie}, {way.__name__}")
    return set(kept) == true or (
        "a step of each says otherwise: take `as_output` or `total` as "
        "a matrix' gradient and look at its mean row after the step"
    )


check("01.2", kept, mean_stays)

# %% [markdown]
# ### 3. Count before you build
# WikiText-103 has 267,735 words. How many numbers does one word matrix with $d = 410$ hold, and how
# many megabytes (of $10^6$ bytes) is that in `float32`? How many logits does a batch of 60 columns and
# 150 positions produce? Assign `counted`: the three numbers, in this order.
#
# <details><summary>Hint</summary>
#
# Four bytes a number; and think about why the library computes logits block by block and never
# keeps them all.
#
# </details>

# %% tags=["exercise"]
counted = None  # numbers in the matrix, megabytes, logits of a batch


# %%
def built(counted):
    with torch.device("meta"):  # shapes without memory
        W, H = FullWords(267_735, 410).weight, torch.empty(60 * 150, 410)
    true = W.numel(), W.nbytes / 1e6, (H @ W.T).numel()
    hints = (
        "a row for each word, d numbers in a row",
        "four bytes a number, and a million bytes a megabyte",
        "a row of logits for each position of each column",
    )
    for given, right, hint in zip(counted, true, hints, strict=True):
        if abs(given - right) > 0.005 * right:
            return f"{given:,.0f} is not what PyTorch counts: {hint}"
    return True


check("01.3", counted, built)

# %% [markdown]
# ## What we saw

# %%
never = float((~pulled).float().mean())
display(
    Markdown(
        f"Of {N:,} words, {half} cover half of the text, and "
        f"{len(rare) / N:.0%} are rarer than one token in ten thousand. "
        f"A softmax scores each by an inner product with the context, "
        f"and its gradient pulls a row only where the word is the "
        f"target: in a batch of {n:,} positions, {never:.0%} of the rows "
        f"were pushed and never pulled. Those were all pushed the same "
        f"way: the mean cosine between their gradients is {common:.3f}."
    )
)

# %% [markdown]
# ## References
#
# - H. Inan, K. Khosravi, R. Socher (2017). *Tying Word Vectors and Word Classifiers: A Loss
#   Framework for Language Modeling.* ICLR. [arXiv:1611.01462](https://arxiv.org/abs/1611.01462)
# - O. Press, L. Wolf (2017). *Using the Output Embedding to Improve Language Models.* EACL.
#   [arXiv:1608.05859](https://arxiv.org/abs/1608.05859)
# - J. Gao, D. He, X. Tan, T. Qin, L. Wang, T.-Y. Liu (2019). *Representation Degeneration Problem
#   in Training Natural Language Generation Models.* ICLR.
#   [arXiv:1907.12009](https://arxiv.org/abs/1907.12009)
# - G. K. Zipf (1935). *The Psycho-Biology of Language.* Houghton Mifflin.
