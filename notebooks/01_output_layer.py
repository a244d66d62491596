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
# # 1. The output layer: one word matrix, used twice
#
# **Question.** How does a language model turn one vector into a probability for every word, and what does each training step do to the matrix that makes this possible?
#
# ![A language model from left to right: matrix E reads words, encoder, context h, matrix W predicts words, softmax. An arc ties E and W. In colour: E and W. One matrix reads words and predicts them.](images/01_model.svg)
#
# **Figure 1.** A language model reads word $i$ with matrix $E$ and predicts the next word with matrix $W$. In most models of this course $E$ and $W$ are the same matrix.

# %% [markdown]
# ## What you will learn
#
# - to read logits as inner products, and a softmax as a competition between directions;
# - to say what is saved when one matrix reads words *and* predicts them;
# - to derive the gradient of the cross-entropy with respect to the word matrix, and to recognise a
#   **pull** and a **push** in it;
# - to see, on real English, how unequally the words share the pull and the push.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** You have met cross-entropy, backpropagation and an embedding layer in a course on
# deep learning. You know inner products, norms and angles.
#
# **Reading.** 26 minutes. **Difficulty.** 1 of 3.
#
# The lesson trains nothing to the end, so it is short in every profile.
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
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

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
from course_lab.progress import check
from course_lib import data
from course_lib.metrics import geometry
from course_lib.output_layers import FullWords, Softmax

# %%
torch.manual_seed(SEED)
corpus = corpora.load("docstrings")
if PROFILE == "smoke":
    corpus = corpus.small(train=30_000, words=3_000)

# %% [markdown]
# The corpus is English from the documentation of the packages that this course installs. Each sentence
# is a line of lower-case words. `<eos>` ends a line, and `<unk>` stands for a word that is too rare for
# the vocabulary. A **token** is one place in the running text; a **word** is one entry of the
# vocabulary. *The* is one word and thousands of tokens.

# %% [markdown]
# ## Predict
#
# Write your answers down before you go on.
#
# 1. The corpus has a vocabulary of ten thousand words. How many of the most frequent words are enough
#    to cover *half* of the running text?
# 2. One training step looks at about a thousand positions of text. How many of the ten thousand word
#    vectors does the step draw *towards* a context, because their word came next?
# 3. In which direction does the step move the vectors of all other words: does each move in its own
#    direction, or do they move in a common one?

# %% [markdown]
# ## Few words do most of the work
#
# We sort the words by frequency and plot each word's share of the text against its rank. **Zipf's law**
# (Zipf 1935) says that the word of rank $r$ has a frequency of about $c/r$, with one constant $c$.

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
    f"logarithmic. The curve stays near the line c / rank from the second "
    f"to about the twelfth word, lies below it elsewhere, and crosses the "
    f"threshold of 1e-4 near rank {N - len(rare):,}.",
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
# **Figure 2.** The share of a word falls about as fast as one over its rank. So most rows of the matrix
# that we are about to build belong to words that the model hardly ever sees.

# %% [markdown]
# ## The model in ten lines
#
# A **word matrix** $W$ has $N$ rows and $d$ columns; row $w_i$ is the vector of word $i$. A model reads
# a word by taking its row. The rest of the network, the *encoder*, turns the rows so far into one
# vector, the **context** $h \in \mathbb{R}^d$. The model then compares $h$ with every row of $W$.
# Here is a whole language model and one step of its training. Its encoder is the simplest one: the
# mean of the rows read so far.

# %%
N, d = len(corpus), 64
W = (0.1 * torch.randn(N, d)).requires_grad_()
ids, following = corpus.train[:5], corpus.train[1:6]

read = W[ids]  # (5, d): the rows of five words
h = read.cumsum(0) / torch.arange(1, 6)[:, None]  # (5, d): contexts
logits = h @ W.T  # (5, N): a score for every word
log_p = logits - logits.logsumexp(-1, keepdim=True)  # (5, N)
loss = -log_p[range(5), following].mean()
loss.backward()
with torch.no_grad():
    W_after = W - 0.5 * W.grad  # one step of gradient descent

# %% [markdown]
# The library has the same two parts as classes: `FullWords` is the matrix, and `Softmax` is the output
# layer. You can skip their code, most of which is there for later lessons.

# %% tags=["hide-input"]
parts = [FullWords, Softmax.logits, Softmax.log_prob]
source = "\n".join(inspect.getsource(part) for part in parts)
display(Code(source, language="python"))

# %%
# NBVAL_CHECK_OUTPUT
one_hot = F.one_hot(ids, N).float()
print("taking rows = one-hot times W:", torch.allclose(read, one_hot @ W))
layer = Softmax(FullWords(N, d), bias=False)
layer.words.weight.data = W.detach()
same = torch.allclose(layer.log_prob(h), log_p, atol=1e-5)
print("the library gives the same log P:", same)

# %% [markdown]
# ## Logits are inner products
#
# The scores are called **logits**,
#
# $$l_i = w_i^\top h = \|w_i\|\,\|h\|\cos\angle(w_i, h),$$
#
# and a softmax turns them into probabilities,
#
# $$p_i = \frac{\exp l_i}{\sum_{j} \exp l_j}.$$
#
# So a word is likely when its vector is long and points the way the context does. Some models add a
# number $b_i$ to each logit, the *bias*; the models of this lesson have none.
#
# Five words in a plane show the whole layer at once. We turn a context around the circle and ask at every angle
# which word is the likeliest. The slider sets the context's length.

# %%
names = ["matrix", "array", "plot", "the", "rarely"]
toy = [[2.0, 0.6], [2.0, -0.2], [-1.0, 2.0], [0.3, -0.5], [-1.5, -1.2]]
toy = torch.tensor(toy)
angle = torch.linspace(0, 2 * torch.pi, 181)
around = 2 * torch.stack([angle.cos(), angle.sin()], dim=1)
p = (around @ toy.T).softmax(dim=-1)

# %% tags=["hide-input"]
lengths = [0.2, 0.5, 1, 2, 4, 8, 20]
plots.show(
    plots.toy_layer(toy, names, lengths, start=3),
    alt="A slider for the length of the context. Left: five word vectors "
    "as lines from the origin. Right: their probabilities while the "
    "context turns through 360 degrees; each long vector wins near its "
    "own direction, the short one never does.",
)

# %% [markdown]
# **Figure 3.** Each long vector wins near its own direction.
#
# - *Matrix* and *array* point almost the same way, so they are rivals. The layer can hardly raise one
#   of them without the other.
# - *The* never wins anywhere. Its vector lies inside the polygon that the other four vectors span, so
#   in every direction one of those four reaches farther.
#
# The probabilities do not fix the vectors. Add the *same* vector $c$ to every row: each logit grows by the same
# number $c^\top h$, and the probabilities do not change. The *mean cosine* over all pairs of rows tells how
# closely the rows huddle; it is 1 if all rows point the same way.

# %%
# NBVAL_CHECK_OUTPUT
moved = toy + torch.tensor([3.0, -4.0])
q = (around @ moved.T).softmax(dim=-1)
print("who wins somewhere:", *[names[i] for i in p.argmax(1).unique()])
print("same probabilities when shifted:", torch.allclose(p, q, atol=1e-5))
print(f"mean cosine before: {geometry.mean_cosine(toy):.2f}")
print(f"mean cosine after:  {geometry.mean_cosine(moved):.2f}")

# %% [markdown]
# The loss cannot tell the shifted matrix from the first matrix, although the shifted words huddle together.
# Nothing in the softmax holds a cloud of word vectors around the origin. [Lesson 2](02_degeneration.ipynb)
# shows what happens to a cloud that nothing holds.

# %% [markdown]
# ## The same matrix at both ends
#
# A model needs vectors to read words and vectors to predict them. If contexts have as many numbers as word
# vectors, one matrix can do both jobs. This is **tying** (Inan et al. 2017; Press and Wolf 2017); the ten lines
# above use `W` twice. Tying saves $N d$ numbers. A *recipe* describes a model, its corpus and its training;
# `build` makes the model, here once each way:


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
# A tied row is trained from two sides. As an input, the row gets a gradient from the encoder. As an
# output, it gets one from the softmax. The gradient of a tied matrix is the sum of the two. We check
# this on two untrained Transformers that hold the same numbers: one is tied, the other is untied. The
# batch has 16 columns of text, each 64 tokens long.

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
# ![A plane with a context h. The row of the target is pulled along h; the three other rows are pushed the other way, all in the same direction.](images/push_and_pull.svg)
#
# **Figure 4.** One step pulls the target's row along the context $h$ and pushes all other rows against $h$.
#
# What does the output side do to a row? Take one position with context $h$ and target word $y$. The
# loss is $L = -\log p_y = -l_y + \log\sum_j \exp l_j$. The mean of $L$ over a text gives the
# **perplexity** $e^L$: the model is as unsure as if it chose among $e^L$ equally likely words.
#
# Differentiate $L$ with respect to logit $l_i$. The first term gives $-1$ for the target and 0 for
# other words; write $-y_i$ for it. The second term gives $\exp l_i / \sum_j \exp l_j = p_i$. The
# derivative of $l_i = w_i^\top h$ with respect to $w_i$ is $h$. Hence
#
# $$\frac{\partial L}{\partial w_i} = (p_i - y_i)\, h, \qquad y_i = \begin{cases}1 & i = y\\ 0 & \text{otherwise.}\end{cases}$$
#
# Times the learning rate, a step of gradient descent moves row $i$ by $y_i h - p_i h$. The first part, the
# **pull**, is 0 but for the target's row. The second, the **push**, moves *every* row against $h$. A batch has
# $n$ positions, with contexts as the rows of $H$, predictions as those of $P$ and one-hot targets as those of
# $Y$. The batch's mean loss has the gradient
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
# Split $Y$ from $P$. Let $t$ count the positions. The pull on row $i$ is $\frac1n\sum_t y_{ti} h_t$, a sum over
# the positions where word $i$ was the target. The push is $-\frac1n\sum_t p_{ti} h_t$, a sum over *all*
# positions. The table has both by frequency:

# %%
pull, push = Y.T @ hidden / n, -P.T @ hidden / n
in_batch = Y.sum(0).int()
wanted = [int(order[min(r, N - 1)]) for r in (0, 3, 30, 300, 3000, N - 1)]
pd.DataFrame(
    {
        "word": [corpus.words[i] for i in wanted],
        "in the corpus": [f"{counts[i]:,}" for i in wanted],
        "target in batch": in_batch[wanted].tolist(),
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

# %% tags=["hide-input", "gallery"]
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
# **Figure 5.** The rows of absent words all move the same way, which answers the third prediction. *What we
# saw* answers the second.
#
# Only words that are targets in the batch are pulled. Target words are few, and their rows move in many
# directions. All other rows move in *the same* direction: away from the average context. At the start of
# training every $p_i$ is close to $1/N$, so each absent row receives about the same vector,
# $-\frac{1}{nN}\sum_t h_t$. A single step is tiny, but training takes thousands of steps, and a rare word is
# pulled in almost none of them. Gao et al. (2019) derive from this push what lesson 2 shows.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $N$, $d$ | `N`, `d` | number of words, size of a word vector |
# | $W$, $w_i$ | `W`, `W[i]` | word matrix, the row of word $i$ |
# | $h$, $H$ | `h`, `hidden` | context of one position, contexts of a batch as rows |
# | $l$ | `logits` | scores $W h$ |
# | $p$, $P$ | `log_prob(hidden).exp()` | predicted probabilities |
# | $y$, $Y$ | `target`, `F.one_hot(target, N)` | target word, one-hot targets as rows |
# | $L$ | `model(tokens, state, target).loss` | cross-entropy in nats (natural logarithms) a token |
# | $e^L$ | `perplexity(model, tokens, eos)` | perplexity, $L$ being the mean over a text |

# %% [markdown]
# ## Exercises
#
# Replace `None` by your answer and run the cell below it.
#
# ### 1. Sharpen the softmax
# *Difficulty 1/3, importance 2/3, ten minutes.* In Figure 3, move the length of the context to 0.2 and to 20.
# What happens to the probabilities, and why?
#
# Let all contexts become $s$ times as long. Assign `rescale`, a function of a tensor `p` (…, number of words),
# whose rows add up to 1, and of a number `s`. The function returns the new probabilities in the same shape,
# computed from the old probabilities alone, without the vectors.
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
            return "these are the old values: a common factor cancels"
        if not torch.allclose(new.sum(-1), torch.ones(len(p))):
            return "the probabilities of a context do not add up to one"
        if (new.max() - p.max()) * (true.max() - p.max()) < 0:
            return "should the winner gain or lose by a longer context?"
        if not torch.allclose(new, true, atol=1e-4):
            return "logits scale with s: what are they, given p alone?"
    return True


check("01.1", rescale, sharpened)

# %% [markdown]
# ### 2. The freedom of the softmax
# *Difficulty 2/3, importance 3/3, ten minutes.* Show that the gradient of the loss, summed over *all* rows of
# $W$, is exactly zero for every batch. Then check it with `by_hand.sum(0)`. What does this say about the mean of
# the rows under plain gradient descent (SGD)? Does the argument hold when the matrix is tied, or when the
# optimiser is Adam?
#
# There are four cases, named `"untied, SGD"`, `"tied, SGD"`, `"untied, Adam"` and `"tied, Adam"`; "untied"
# means the output matrix of the model with two matrices. Assign `kept`: the set of the names of those cases in
# which one step leaves the mean of the rows where it is.
#
# <details><summary>Hint</summary>
#
# Sum $(p_i - y_i)\,h$ over $i$: probabilities add up to one, and so does a one-hot vector.
#
# </details>
#
# <details><summary>Hint for the last part</summary>
#
# A tied row has a second gradient from the input side. Adam divides each number of the gradient by a
# running estimate of its size. Do rows that add up to zero still do so after such a division?
#
# </details>

# %% tags=["exercise"]
kept = None  # a set of names out of the four


# %%
WAYS = {"SGD": torch.optim.SGD, "Adam": torch.optim.Adam}
NAMES = {f"{tie}, {way}" for tie in ("untied", "tied") for way in WAYS}


# %%
def mean_stays(kept):
    if not isinstance(kept, (set, list, tuple)) or set(kept) - NAMES:
        return "assign a set of the four names, as {'tied, SGD'}"
    for tie, gradient in {"untied": as_output, "tied": total}.items():
        for way in WAYS.values():
            W = torch.zeros_like(gradient, requires_grad=True)
            W.grad = gradient.clone()
            way([W], lr=0.1).step()
            stays = W.mean(0).norm() < 1e-3 * W.norm(dim=1).mean()
            name = f"{tie}, {way.__name__}"
            if stays != (name in kept):
                does = "stays where it is" if stays else "moves"
                return f"in the case '{name}' the mean row {does}"
    return True


check("01.2", kept, mean_stays)

# %% [markdown]
# ### 3. Count before you build
# *Difficulty 1/3, importance 3/3, five minutes.* WikiText-103 has 267,735 words. How many numbers does one word
# matrix with $d = 410$ hold, and how many megabytes (of $10^6$ bytes) is that in `float32`? How many logits does
# a batch of 60 columns and 150 positions produce? Assign `counted`: the three numbers, in this order.
#
# <details><summary>Hint</summary>
#
# A number takes four bytes. Every position has a logit for every word.
#
# </details>

# %% tags=["exercise"]
counted = None  # numbers in the matrix, megabytes, logits of a batch


# %%
def built(counted):
    with torch.device("meta"):  # shapes without memory
        W, H = FullWords(267_735, 410).weight, torch.empty(60 * 150, 410)
    if np.shape(counted) != (3,):
        return "assign three numbers: matrix, megabytes, logits"
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


# %%
check("01.3", counted, built)

# %% [markdown]
# ## What we saw

# %%
never = float((~pulled).float().mean())
display(
    Markdown(
        f"Of {N:,} words, {half} cover half of the text, and "
        f"{len(rare) / N:.0%} are rarer than one token in ten thousand. "
        f"A softmax scores each word by an inner product with the "
        f"context. Its gradient pulls a row only where the row's word is "
        f"the target. In a batch of {n:,} positions, {never:.0%} of the "
        f"rows were pushed and never pulled. All of those were pushed the "
        f"same way: the mean cosine between their gradients is "
        f"{common:.3f}."
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

# %% [markdown] tags=["way"]
# → Next: [2. Degeneration: a cloud of words collapses into a cone](02_degeneration.ipynb)
