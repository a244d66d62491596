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
# # A6. Final project: examine, combine, defend
#
# **After all lessons of the course.** Seven steps, 200 points, 14 hours in three weeks. Your machine
# needs some minutes of them.
#
# Five papers, five remedies. Each was measured alone, by those who invented it. Nobody knows what two of them
# do together: whether one undoes the other, whether they repair the same thing twice, or whether the second one
# has an effect only where the first one is. You will choose two, build one layer from both, and find out. You
# say first what you will count as an effect. You run what you registered, and nothing else. And then you bet on
# your result: you state an interval for runs that you will never see, on a text that you do not know.
#
# ## What you will be able to do
#
# - plan an experiment: one measure, the smallest difference that matters, seeds by a power analysis;
# - name the disease of a word matrix, and say how ill it is;
# - combine two methods in one layer whose memory does not grow with the text;
# - tune a baseline as hard as your own method;
# - state an interval that is neither too bold nor too timid;
# - defend a result, and referee that of somebody else.
#
# ## How it is marked
#
# Functions are called with numbers drawn at that moment, and must obey the laws in the folder `tools`
# beside this notebook; `check` tries them here. Each answer cell stands alone: the marker runs no other cell of
# yours, and gives it `np`, `special` and `linalg`, and in 6.3 `torch`. It gives no file, no network and no
# `course_lib`. An answer that obeys the laws on small instances but not at the large size has half of the
# function's points.
#
# Write 6.2 and 6.3 first, then register (6.1), then run (6.4). All steps but 6.2 need the course's environment
# (PyTorch). **Hand in twice**: the notebook with `registration.json` before you run 6.4, and everything at the
# end. The date of the first hand-in is what shows that you registered first.
#
# Below a question, `hint` opens the hints of its step one by one. They cost nothing; your teacher sees how many
# were opened.

# %% tags=["given"]
VARIANT = "aaaaaa"  # your six letters, from the roster

import numpy as np
from scipy import linalg, special

from tools.assignments.laws.home import check, hint

# %% [markdown]
# ## 6.1 Register ●●○ (1.5 hours, 20 points)
#
# A registration is what you promise before you know the result. It is a dictionary with these fields:
#
# | field | what |
# |---|---|
# | `question` | a text: what may differ, and why you think so |
# | `methods` | your two methods of 6.3, a list |
# | `measure` | `"loss"`, the mean of $-\log P$ of all words in nats, or `"rare"`, that of the words that occur 20 times or less |
# | `smallest` | the smallest difference of this measure that matters to you, in nats |
# | `pilot_seeds`, `pilot` | three seeds or more, a list; and a list of the difference layer less baseline of each |
# | `seeds` | 4 to 20 other seeds, whole numbers from 1 to a million |
# | `trials` | how many settings you try for the layer, and as many for the baseline, 2 to 12 |
# | `exclusion` | a text: for what reason a run is left out, or why none ever is |
#
# The pilot needs your layer of 6.3. Its spread says how many seeds you need: with $n$ pairs of runs, a paired
# difference has the standard error $s/\sqrt n$. You need
# $\Delta\sqrt n \ge (t_{0.95} + t_{0.8})\,s$, where $\Delta$ is your smallest difference and $t_q$ are the quantiles of
# Student's $t$ with $n - 1$ degrees of freedom. Then an effect of this size is seen in 8 cases of 10. If 20 seeds
# are not enough, only a larger $\Delta$ is honest.
#
# Then write the analysis, as a function, while you do not know what will come out:
# `analysis(layer, baseline)` gets the measures of the layer's runs (n,) and of the baseline's runs (n,),
# the same seeds in the same order. It returns three numbers together: the mean difference *layer less
# baseline*, and the lower and the upper end of its 90 % interval. The two runs of a seed begin with the same
# matrices and see the same batches. The check draws the labels anew within each pair, 400 times, and looks at the
# width for 4 and for 12 seeds.
#
# <details><summary>What to look at</summary>
#
# How many independent numbers do ten runs with five seeds give you?
#
# </details>
#
# <details><summary>The first line</summary>
#
# Take the difference of each seed first. All that follows is about the mean of one sample.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# Mean ± t · s/√n. `scipy.stats.t.ppf` has the quantiles, and s divides by n − 1. Which quantile leaves 10 % on
# both sides together?
#
# </details>

# %% tags=["answer"] step="6.1"
def analysis(layer, baseline):
    raise NotImplementedError("6.1")


# %% tags=["check"] step="6.1"
check("A6", "6.1", analysis)

# %% [markdown]
# ## 6.2 Examine ●●○ (2.5 hours, 30 points)
#
# Write `report(W, counts)` for a word matrix `W` (N, d) and the counts (N,) of its words, whose order means
# nothing. It returns four severities as one array, between 0 and 1, in this order:
#
# - **drift**: one vector was added to all rows;
# - **split**: one vector was added to the rows of the rarer half of the words, by `counts`;
# - **rogue**: three of the coordinates were stretched;
# - **low rank**: d/8 directions hold what should be spread over all d.
#
# The largest severity names the disease; where all are below 0.1, the matrix is healthy. How you measure is up to
# you. Lesson 36 measures everything as a share of the energy $\frac1N\sum_i\|w_i\|^2$, less what a round cloud has.
#
# The check draws 40 matrices of 400 words and 48 coordinates, a round cloud with one disease or none. Of all kinds
# together, 36 must be named right. Each severity must rise with the dose, with a rank correlation of 0.85 or more, and one disease leaves the others below
# a quarter of its own. A rotation must change none of them, but for rogue dimensions, which it cures; the length of
# all vectors and the order of the words change nothing. At the large size there are 100,000 words. The check calls
# your report some 300 times. A call has ten seconds, and all calls together have two minutes.
#
# Then name the disease of *your* checkpoint, which `own_checkpoint` makes from your letters, two cells below the
# answer: take the sign `#` away from the last line of that cell. Write the name, "drift", "split", "rogue" or
# "low_rank", as `VERDICT` into the answer cell. The check here does not try it: the marker does.
#
# <details><summary>What to look at</summary>
#
# What does each disease leave to the others once it is taken out? In which order do you take them out?
#
# </details>
#
# <details><summary>The first line</summary>
#
# Two means, of the rare and of the frequent half. What both share is a drift; in what they differ is a split.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# Take each half's mean from its rows. A few coordinates with more than three times the mean energy are
# rogue; leave them out. Of the rest, compare the running sum of the eigenvalues' shares with that of a round
# cloud: the widest gap. The eigenvalues of a round cloud go from $(1+\sqrt{d/N})^2$ down to $(1-\sqrt{d/N})^2$.
#
# </details>

# %% tags=["answer"] step="6.2"
VERDICT = ""


def report(W, counts):
    raise NotImplementedError("6.2")


# %% tags=["check"] step="6.2"
check("A6", "6.2", report)

# %% tags=["given"]
def own_checkpoint():
    """Return W and counts of the sick checkpoint of your letters."""
    from tools.assignments import variant
    from tools.assignments.laws import a6_examination

    return a6_examination.checkpoint(variant.parameters("A6", variant.own(VARIANT)))


# report(*own_checkpoint())

# %% [markdown]
# ## 6.3 Combine ●●● (3 hours, 40 points)
#
# Choose two of five methods, and write their names into `METHODS`, in the order of their strengths. Let
# $\ell = Wh + b$ be the logits, $y$ the word that followed, $s$ the strength of a method.
#
# | method | what it does |
# |---|---|
# | `"bend"` | every logit $x$ becomes $x - s\log(1 + e^{-x})$ before the softmax, in `log_prob` and in `loss` (lesson 10) |
# | `"adversarial"` | in the loss, $s\,\Vert w_y\Vert\,\Vert h\Vert$ is taken from the logit of $y$ before anything else (lesson 07) |
# | `"augmented"` | the loss has $s$ times the mean of $\mathrm{KL}(\tilde y \,\Vert\, \hat y)$ added, with $\tilde y = \mathrm{softmax}(W w_y/2)$ and $\hat y = \mathrm{softmax}(\ell/2)$ (lesson 05) |
# | `"cosine"` | the loss has $s\sum_{i\ne j} p_i p_j \cos(w_i, w_j)$ added (lesson 06) |
# | `"ceiling"` | the loss has $s\sum_k \max(0, \sigma_k - c_k)^2$ added, with $\sigma_k$ the falling singular values of $W$ and $c_k = \sqrt{N/(d\,k)}$ (lesson 08) |
#
# With `"bend"`, the logits in $\hat y$ are bent, too, before they are divided by 2; the margin of `"adversarial"`
# does not enter $\hat y$. Nothing is held fixed: the gradient is that of the whole loss, through the soft target,
# the lengths and the singular values.
#
# Write the class `Layer`. `Layer(W, bias, p, strengths)` gets tensors (N, d), (N,), (N,) and two numbers: the word
# matrix, the bias $b$, the words' shares $p$ in the text, and the strengths in the order of `METHODS`.
# `log_prob(h)` returns $\log P$ of every word (n, N) for contexts (n, d). `loss(h, y, block)` returns one
# number, the *mean* over the contexts, with penalties added once. It reads `block` contexts at a time, the last
# block may be smaller, and the result must not depend on it. `torch` is there; `torch.utils.checkpoint` is, too.
#
# With both strengths 0 it must be the plain softmax, and with one of them 0 the other method alone. At the large
# size there are 1,600 contexts of 12,000 words in blocks of 40, and 200 MB: no table of all pairs may be kept,
# and autograd keeps what it needs for the gradient.
#
# A call that fails is shown as `values(…)`, which is imported below. It returns $\log P$, the loss and its gradients in
# `W`, `bias` and `h`, which the check compares with the definition.
#
# <details><summary>What to look at</summary>
#
# Which part of the loss is a sum over contexts, and which part is not?
#
# </details>
#
# <details><summary>The first line</summary>
#
# Write one method that returns the *sum* over one block, in plain PyTorch. The rest adds blocks up.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# `torch.utils.checkpoint.checkpoint(function, …, use_reentrant=False)` forgets what is inside of a block, and
# computes it again on the way back.
#
# </details>

# %% tags=["given"]
import torch
import torch.utils.checkpoint

from tools.assignments.laws.a6_harness import values
from tools.assignments.laws.a6_plain import Layer as Plain  # the baseline, and an example

# %% tags=["answer"] step="6.3"
METHODS = ("", "")


class Layer:
    def __init__(self, W, bias, p, strengths):
        raise NotImplementedError("6.3")


# %% tags=["check"] step="6.3"
check("A6", "6.3", Layer)

# %% [markdown]
# ### The pilot, and the registration
#
# The model reads three words and predicts the fourth one: $h = \tanh(A\,[w_{t-3}; w_{t-2}; w_{t-1}] + a)$, with one
# matrix $W$ for input and output. It is trained for 300 batches on *your* tokens, and measured on the last
# 4,000, where no window holds a word that another window is asked for. `pilot` runs three seeds with a setting
# of your choice: the rate of learning, and the two strengths. Which strengths are worth a trial differs from method
# to method. `pilot` prints both means. Begin where the mean of your layer differs from that of the baseline by some
# percent: with much less there is nothing to see, with much more nothing is learnt but the penalty. A pilot trains
# both at the same rate, which may suit one of them only. In 6.4 each gets the best of its own settings.

# %% tags=["given"]
def own_text():
    """Return your tokens."""
    from tools.assignments import variant
    from tools.assignments.laws import a6_experiment

    return a6_experiment.tokens(variant.parameters("A6", variant.own(VARIANT)))


def pilot(rate, strengths, seeds, measure):
    """Return the paired differences of a pilot, layer less baseline."""
    from tools.assignments.laws import a6_experiment

    text = own_text()
    layer, baseline = (
        np.array([a6_experiment.run(made, text, s, rate, seed, measure)[1] for seed in seeds])
        for made, s in ((Layer, strengths), (Plain, (0, 0)))
    )
    print(f"layer {layer.mean():.4f} nats on average, baseline {baseline.mean():.4f}")
    return (layer - baseline).tolist()


# pilot(0.01, (0.1, 0.1), [1, 2, 3], "loss")

# %% [markdown]
# Fill in the registration, and run the cell: `register` adds the time and writes `registration.json`. It never
# writes over a file that is there. What is wrong with the file is told below the cell; until your first hand-in
# you may delete the file, mend the registration, and run the cell again. Step 6.4 reads the file.

# %% tags=["given"]
from tools.assignments.laws.a6_registration import check_registration

REGISTRATION = {}  # question, methods, measure, smallest, pilot_seeds, pilot, seeds, trials, exclusion

if REGISTRATION:
    from tools.assignments.laws.a6_experiment import register

    register(REGISTRATION)
check_registration()

# %% [markdown]
# ## 6.4 Run ●●○ (3 hours and some minutes of your machine's, 40 points)
#
# First tune. For the layer and for the baseline, list as many settings as you registered trials: the rate of
# learning and two strengths, which are 0 for the baseline and at least 0.001 for the layer. `run` tries them with one seed of your pilot, takes the
# best setting of each, trains every registered seed with both, and writes `6.4.safetensors` (the matrices),
# `6.4.csv` (your measures) and `6.4.json` (the trials, and which registration they belong to).
#
# The marker computes your measures again from your matrices, with your layer in a process that sees the contexts
# and no target; they must agree to $10^{-5}$. It counts the runs against your registration. Then it trains one run of each kind, drawn at
# random, again for 60 batches, where the matrices must agree to 1 %. A damaged run costs that run. A run too many is a changed registration.
#
# The table with your results is worth points for being complete, right and repeatable, not for an effect. "No
# difference" has full marks.
#
# Registered runs are made once. Where `6.4.csv` is there, `run` trains nothing and returns what the file says, as after
# a restart of the kernel. If something went wrong, delete the file, run again, and say so in 6.6.

# %% tags=["answer"] step="6.4"
SETTINGS = {
    "layer": [],  # (rate, strength, strength), …
    "baseline": [],  # (rate, 0, 0), …
}

# %% tags=["given"]
def run(settings, folder="."):
    """Tune both, train the registered runs, and write what is to be handed in."""
    import json
    from pathlib import Path

    from tools.assignments.laws import a6_experiment

    if Path(folder, "6.4.csv").exists():
        print("6.4.csv is there: these are its results")
        return a6_experiment.results(folder)
    registration = json.loads(Path(folder, "registration.json").read_text("utf-8"))
    if problems := a6_experiment.unfit(settings, registration, METHODS):
        print("not yet:", *problems, sep="\n")
        return None
    text = own_text()
    layers = {"layer": Layer, "baseline": Plain}
    seed, measure = registration["pilot_seeds"][0], registration["measure"]
    trials = {
        kind: a6_experiment.tried(layers[kind], text, settings[kind], seed, measure)
        for kind in layers
    }
    return a6_experiment.run_all(layers, text, trials, registration, folder)


results = run(SETTINGS) if SETTINGS["layer"] else None
if results:
    mean, low, high = analysis(results["layer"], results["baseline"])
    print(f"layer less baseline: {mean:.4f} nats, 90 % interval from {low:.4f} to {high:.4f}")

# %% [markdown]
# ## 6.5 Claim ●●● (1 hour, 30 points)
#
# The marker will train three new pairs of runs, with seeds that nobody has seen, and measure them on a
# *hidden* text of 4,000 tokens. Let $x$ be the mean of their three differences. State an interval $[l, u]$ for
# $x$, with 90 % confidence. Its score is
#
# $$S = (u - l) + 20\,\max(0, l - x) + 20\,\max(0, x - u),$$
#
# and small is good. On average no interval does better than the honest one. The marker also makes an interval of
# its own, from as many new pairs as you registered, whose score is $S_0$. You have $30\min(1, S_0/S)$ points.
# The marker trains sixteen pairs or more, and which of them have which part is not left to chance: $S$ and
# $S_0$ are means over all choices.
#
# Your own mean is that of finitely many seeds, $x$ is that of three, and the text is another one. Which of the
# three does your `analysis` know?
#
# <details><summary>What to look at</summary>
#
# Your interval in 6.1 is for the mean of *infinitely* many seeds. Three are drawn.
#
# </details>
#
# <details><summary>The first line</summary>
#
# The variance of $x$ about your own mean is $s^2(\frac1n + \frac13)$, if the texts are alike.
#
# </details>
#
# <details><summary>Nearly the answer</summary>
#
# Mean ± t · s · √(1/n + 1/3), with Student's t of n − 1 degrees. Another text can move the difference, too. Your
# runs do not say how far; a miss costs 20 times what it misses by, and a wider interval costs its width once.
#
# </details>

# %% tags=["answer"] step="6.5"
CLAIM = ()  # (low, high)

# %% tags=["given"]
if CLAIM:
    import json
    from pathlib import Path

    Path("claim.json").write_text(json.dumps({"low": float(CLAIM[0]), "high": float(CLAIM[1])}))

# %% [markdown]
# ## 6.6 Report ●●● (2.5 hours, 30 points)
#
# Four pages, at most 1,600 words, in the cell below. One figure, `6.6.png`: a point for each seed's difference,
# the interval of your analysis, the interval of your claim, and a line at your smallest difference on both sides
# of 0. Label the axis with its unit, and let signs differ, not only colours. Write the figure's alternative text
# below the report: one who cannot see it must learn from the text what it shows.
#
# Say what failed. You are marked on six lines, five points each:
#
# - **question**: one question, which the experiment can answer with no;
# - **method**: somebody else could repeat it from your text, the tuning included;
# - **evidence**: the number, its interval, and the smallest difference beside it; what 6.2 says about your checkpoint;
# - **rivals**: another explanation, and a number that speaks for it or against it;
# - **limits**: what follows for other texts, sizes and strengths, and what does not;
# - **clarity**: a reader who has had the lessons reads it once.

# %% [markdown] tags=["manual"] step="6.6"
# *Your answer here.*

# %% [markdown]
# ## 6.7 Referee ●○○ (30 minutes, 10 points)
#
# You get the hand-ins of two classmates, in folders. For each, `rerun` computes one run of the layer and one of the baseline
# again from the matrices, and none of your classmate's code is run. Compare it with the table `6.4.csv` and with
# the figure. Give each report marks from 0 to 5 on the six lines of 6.6, and put both into `REPORTS`. Then write
# one page in the cell at the end: does the figure follow from the runs, what is the strongest objection, and what
# would decide? Two referees read each report, and your marks are compared with those of the other one.
#
# You are marked for reruns that agree with the matrices (4), for the strongest objection (4), and for marks that
# your page explains (2).
#
# At the end hand in one zip: this notebook, `registration.json`, `6.4.safetensors`, `6.4.csv`, `6.4.json`,
# `claim.json`, `6.6.png` and `6.7.json`. A zip may have 40
# files. The notebook may have 5 MB, and all other files together 64 MB.

# %% tags=["given"]
def rerun(folder, letters, seed):
    """Return the measures of a classmate's two runs of a seed, by the definition of the methods."""
    from tools.assignments.laws import a6_referees

    return a6_referees.rerun(folder, letters, seed)


REPORTS = []  # {"variant": "…", "seed": …, "layer": …, "baseline": …, "marks": [six numbers]}, two

if REPORTS:
    import json
    from pathlib import Path

    Path("6.7.json").write_text(json.dumps({"reports": REPORTS}))

# %% [markdown] tags=["manual"] step="6.7"
# *Your answer here.*
