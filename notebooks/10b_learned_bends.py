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
# # 10b. Going deeper: learned bends, a bent language, and digits
#
# **Question.** What does a layer learn when it may choose its own bend, does a bend help where the truth is bent, and how many digits does a computer keep?
#
# This notebook goes on where [lesson 10](10_monotone_softmaxes.ipynb) stops. Nothing later needs it.

# %% [markdown]
# ## What you will learn
#
# - to count the directions that a bend adds to a softmax;
# - to write a formula so that half precision does not lose its digits;
# - to read the learned function of a PLIF layer, and to find out whether training moved it at all;
# - to judge a bend where it has its best case: on a language that is bent in the same way.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 10](10_monotone_softmaxes.ipynb), whose symbols this notebook uses.
#
# **Reading.** 39 minutes. **Difficulty.** 3 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | the same models for seconds |
# | quick | 1.5 | two CPU cores | two small Transformers |
# | standard | 30 | two CPU cores | the Transformers on the whole corpus |
# | full | 10 | one GPU | the same, for longer |
#
# The comparison over seeds is read from results that are kept with the course.
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the models, the languages and every random draw

# %%
import inspect  # noqa: I001
import itertools
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import Code, Markdown, display
from torch.nn import functional as F

# %%
import course_lab
from course_lab import claims, corpora, evidence, plans, plots, published
from course_lab import tables, untested
from course_lab.progress import check
from course_lib import data
from course_lib.output_layers import FullWords, Softmax, monotone

GSS = monotone.GeneralizedSigSoftmax
PLIF = monotone.PiecewiseLinearSoftmax


# %%
def PL(x, c, k):
    """Return x bent: the slope is k far below c, and 1 far above."""
    return x - (k - 1) * F.softplus(c - x)


# %% [markdown]
# ## Predict
#
# 1. A layer learns its bend as a chain of 100,000 straight pieces. Another layer keeps the random slopes that
#    it began with. How much worse does the layer with random slopes predict?
# 2. A language has logits of 4 dimensions that are bent as GSS bends them. Which model comes nearer to it: GSS
#    with 4 dimensions and the same bend, or a softmax with 6 dimensions and no bend?

# %% [markdown]
# ## How many directions does a bend add?
#
# Contexts of $d$ numbers give a set of distributions of at most $d$ dimensions, bent or not. There is one
# subtlety. A softmax does not notice when all logits rise by the same amount. A bent softmax notices, because
# the logits then move past $c$. So a direction in context space that lifts all words alike changes nothing in
# a softmax, but in GSS this direction changes the shape of the tail.
#
# We count the rank of log P over 300 random contexts. We also count the directions in which log P can move
# from one context, which is the rank of the Jacobian $\partial \log P/\partial h$. Here $d = 4$, and the last
# column of $W$ is ones, so the last number of a context lifts all words alike. PLIF is a chain of straight
# pieces, which a later section explains.

# %%
torch.manual_seed(0)
words = FullWords(200, 4).double()
with torch.no_grad():
    words.weight.normal_()[:, 3] = 1
H, at = 2 * torch.randn(300, 4).double(), torch.randn(4).double()
layers = {"softmax": Softmax(words, bias=False)}
layers["GSS"] = GSS(words, bias=False, c=0.0, k=2.0)
layers["PLIF"] = PLIF(words, bias=False, pieces=40)
ways, line = 1e-4 * torch.eye(4).double(), "{:8} rank {:>3}, {} directions"

# %%
# NBVAL_CHECK_OUTPUT
for name, layer in layers.items():
    layer.double().requires_grad_(False)
    log_p = layer.log_prob(H)
    moved = (layer.log_prob(at + ways) - layer.log_prob(at - ways)) / 2e-4
    both = [torch.linalg.matrix_rank(m, rtol=1e-9) for m in (log_p, moved)]
    print(line.format(name, *map(int, both)))

# %% [markdown]
# The softmax responds to three of the four numbers of a context, and the normaliser of each row adds one more
# to the rank of log P. The bend gives log P full rank, but it adds only a single direction. Exercise 2 asks
# whether a trained model uses this direction.

# %% [markdown]
# ## The form matters to a computer
#
# There are three ways to write GSS. The released code has a plain `log(exp(x − c) + 1)`. The paper prints
# $k(x-c)+c-(k-1)\,\mathrm{softplus}(x-c)$. Lesson 10 derives $x-(k-1)\,\mathrm{softplus}(c-x)$. How far does
# each form stray from the exact value for positive logits, which are those of the likely words?


# %%
def printed(x, c, k):
    return k * (x - c) + c - (k - 1) * F.softplus(x - c)


def released(x, c, k):
    return k * (x - c) + c - (k - 1) * torch.log(torch.exp(x - c) + 1)


# %%
rows, large = {}, torch.arange(0.0, 1000)
forms = {"released code": released, "printed formula": printed}
for name, form in (forms | {"PL of lesson 10": PL}).items():
    row = rows[name] = {}
    for kind in (torch.float32, torch.bfloat16):
        x = torch.linspace(0, 20, 401).to(kind)
        error = form(x, -1.5, 2.5).double() - PL(x.double(), -1.5, 2.5)
        row[str(kind).removeprefix("torch.")] = f"{error.abs().max():.1e}"
    finite = form(large, -1.5, 2.5).isfinite()
    row["finite up to x ="] = int(finite.sum()) - 1
pd.DataFrame(rows).T

# %% [markdown]
# The columns `float32` and `bfloat16` hold the largest errors, in nats. The result is near $x$, but the
# printed formula subtracts a number of size $(k-1)x$ from a number of size $kx$. In `bfloat16` the rounding
# of these two numbers costs up to a fifth of a nat. The form of lesson 10 subtracts nearly nothing, and its
# error is that of rounding the result. In `float32` the exponential of the released code also overflows, once
# a logit exceeds $c + 88.7$. The last column looks no further than 999.

# %% [markdown]
# ## PLIF: let the data choose the function
#
# If a bend may help, why not learn it? Ganea et al. (2019) make $f$ a chain of $K$ straight pieces of equal
# width $\Delta$ on $[-20, 20]$. A positive slope for each piece makes $f$ increasing, and a softplus makes a
# positive slope of any number $v_i$:
#
# $$f(x) = (x - x_i)\,s_i + \Delta \sum_{j<i} s_j,\qquad s_i = \mathrm{softplus}(v_i),\qquad x_i =
# -20 + i\Delta,$$
#
# with $i$ the piece in which $x$ lies. Beyond the ends the outermost pieces go on. Slopes begin around 1:
# $v \sim \mathcal N(\log(e - 1), 1)$, and $\mathrm{softplus}(\log(e-1)) = 1$.


# %%
def chain(x, v, low=-20.0, high=20.0):
    """Return f(x), a chain of straight pieces of slopes softplus(v)."""
    s = F.softplus(v)
    width = (high - low) / len(s)
    starts = width * (s.cumsum(0) - s)  # f where each piece begins
    i = ((x - low) / width).clamp(0, len(s) - 1).long()
    return (x - low - i * width) * s[i] + starts[i]


# %%
# NBVAL_CHECK_OUTPUT
torch.manual_seed(SEED)
fine = PLIF(FullWords(3, 1), pieces=100_000).double().requires_grad_(False)
coarse = PLIF(FullWords(3, 1), pieces=20).double().requires_grad_(False)
x = torch.linspace(-25, 25, 501).double()
for f in (fine, coarse):
    its_own = f.transform(x, *f.transform_parameters())
    same = its_own.allclose(chain(x, f.free_slopes))
    print("the library agrees:", same)

# %% [markdown]
# The library's form stands below. All sums are made once for a batch. Then each logit only looks up the slope
# and the intercept of its piece.

# %% tags=["hide-input"]
source = inspect.getsource(PLIF.transform_parameters)
source += "\n\n" + inspect.getsource(monotone._Pieces.forward)
display(Code(source, language="python"))

# %% [markdown]
# The paper uses $K = 100{,}000$. Here is such a function before any training, beside the straight line that is
# nearest to it, and the slopes of ten of its pieces. Move $K$ to see functions of fewer pieces.

# %%
x = torch.linspace(-20, 20, 401).double()
pieces = [10, 100, 1_000, 10_000, 100_000]
drawn, straight, jumps, captions = [], [], [], []
line = "f strays by at most {:.2f}; ten slopes go from {:.1f} to {:.1f}"
for K in pieces:
    v = fine.free_slopes[:: 100_000 // K]
    y = chain(x, v)
    y = y - y[200]
    # the straight line of least squares
    straight.append(y.mean() + (x * y).sum() / (x * x).sum() * x)
    drawn.append(y)
    off = float((y - straight[-1]).abs().max())
    some = F.softplus(v[K // 2 - 5 : K // 2 + 5])
    jumps.append(some.repeat_interleave(2))
    captions.append(line.format(off, some.min(), some.max()))

# %% tags=["hide-input"]
left = {"f": (x, drawn), "straight line": (x, straight)}
right = {"f": (np.arange(1, 21) // 2, jumps)}  # where each begins and ends
ends = (-20, 20)
axes = [
    plots.Panel(left, "x", "f(x) − f(0)", ends, (-25, 25), "forwards"),
    plots.Panel(right, "piece", "slope", (0, 10), (0, 4), "backwards"),
]
plots.show(
    plots.explorer({"K": pieces}, axes, captions, (len(pieces) - 1,)),
    alt="Left: f before training beside a straight line. Right: the "
    "slopes of ten neighbouring pieces. A slider sets the number of "
    f"pieces K. At 10 pieces f is visibly bent: {captions[0]}. At "
    "100,000 it is straight to the eye, and its slopes jump as before: "
    f"{captions[-1]}.",
)

# %%
slopes = F.softplus(fine.free_slopes)
low, high = slopes.quantile(0.25), slopes.quantile(0.75)
display(
    Markdown(
        f"With 100,000 pieces f strays from a straight line of slope "
        f"{slopes.mean():.2f} by at most **{off:.2f}** over 40 units. "
        f"Half of its slopes lie outside {low:.2f} to {high:.2f}."
    )
)

# %% [markdown]
# **Figure 1.** The same function looks different in the two directions. Going **forwards**, the random slopes
# average out as the pieces become many, and $f$ is a straight line. Its slope is above 1, because softplus is
# convex: large $v$ raise the mean of the slopes more than small $v$ lower it. Going **backwards**, the
# gradient of a logit is multiplied by the slope of its own small piece, and these slopes differ widely.
#
# A **frozen** PLIF keeps its random slopes. So it does hardly more to the logits than scale them, but it
# multiplies the gradients by random factors. Parthiban et al. (2021) suspect that a frozen PLIF acts as a
# regulariser. These are their figures for Penn Treebank, the mean and standard deviation of 11 seeds:

# %%
METHODS = {"softmax": "softmax", "gss": "GSS(−1.5, 2.5)", "plif": "PLIF"}
METHODS |= {"plif-frozen": "PLIF, frozen"}
of = published.rows().query("paper == 'parthiban2021' & corpus == 'ptb'")
of = of[of.table.isin(["2", "3"]) & of.method.isin(METHODS)]
of = of[of.metric.isin(["perplexity", "rank"])]
digits = of.metric.map({"perplexity": 2, "rank": 0})
each = zip(of.value, of.sd, digits, strict=True)
shown = [f"{v:,.{n}f} ± {sd:.{n}f}" for v, sd, n in each]
shown = of.assign(shown=shown, kind=of.split + " " + of.metric)
shown = shown.pivot(index="method", columns="kind", values="shown")
shown = shown.rename(index=METHODS).loc[list(METHODS.values())]
shown = shown.fillna("not printed").rename_axis(index=None, columns=None)
ptb = evidence.text_of(course_lab.recipes["ptb/desk/tied"].to_dict())
tables.with_ngrams(shown, ptb, valid="valid perplexity", digits=2)

# %% [markdown]
# In the table a frozen PLIF has a higher perplexity than the softmax on training data, and a slightly lower
# one on test data. On test data trained slopes are hardly better than frozen slopes. The rank of PLIF is low,
# because a chain that is cut so finely is nearly straight, and its bends hardly pass Press' threshold. The
# threshold grows with the numbers of contexts and of words. Our runs below have fewer contexts and fewer
# words, so there the rank of PLIF is nearly full.

# %% [markdown]
# ## What PLIF has learned
#
# We train the small Transformer of lesson 10 with PLIF, whose slopes Adam trains with a learning rate of 0.02,
# and with GSS, for exercise 2.


# %%
def label(e):
    """Return what an experiment of the plan is called here."""
    o, groups = e.output_layer.options, e.optimisation.groups
    if "k" in o:
        return f"GSS({o['c']:g}, {o['k']:g})".replace("-", "−")
    if "pieces" not in o:
        return "softmax"
    if o["pieces"] == 1:
        return "PLIF, 1 piece"
    own = groups.get("output_layer.free_slopes", {}).get("optimizer")
    how = "PLIF by SGD" if own == "sgd" else "PLIF by Adam"
    return "PLIF, frozen" if o.get("frozen") else how


# %%
plan = {}
for p in plans.read_plan("lessons-10").runs:
    e = p.experiment()
    if e.optimisation.learning_rate == 4e-3:
        plan.setdefault(label(e), {})[p.seed] = p


def experiment(p):
    """Return that of the plan, or that of another profile."""
    if PROFILE in ("standard", "full"):
        recipe = course_lab.recipes[p.recipe]
        return course_lab.profile(recipe, PROFILE, seed=SEED)
    e = p.experiment().change(seed=SEED)
    small = e.corpus.options["small"] | {"train": 15_000}
    return e.change(corpus={"small": small}) if PROFILE == "smoke" else e


# %%
live, chosen = {}, {}
for name in ("GSS(−1.5, 2.5)", "PLIF by Adam"):
    short = name[:4].rstrip("(")
    chosen[short] = experiment(plan[name][1])
    with tempfile.TemporaryDirectory() as folder:
        options = dict(folder=folder, progress=False)
        live[short] = course_lab.run(chosen[short], **options)
    live[short].model.cpu()
corpus = live["PLIF"].corpus
target = corpus.test[:500]


# %%
@torch.no_grad()
def logits_of(model, length=32):
    """Return the logits before the bend, for 500 tokens."""
    text = torch.cat([target.new_tensor([corpus.eos]), target])[:-1, None]
    h = torch.cat([model(t).hidden[:, 0] for t in text.split(length)])
    return h @ model.output_layer.words.matrix().T


def perplexity(log_p):
    return log_p.gather(1, target[:, None]).mean().neg().exp().item()


raw = {name: logits_of(run.model) for name, run in live.items()}

# %% [markdown]
# Here is $f$ before and after, beside the straight line and the bend of GSS. All functions are made to agree
# at the median logit of the words that came next.

# %%
v = live["PLIF"].model.output_layer.free_slopes.detach()
first = chosen["PLIF"].build(len(corpus)).output_layer.free_slopes.detach()
functions = {
    "PLIF, trained": lambda x: chain(x, v.cpu()),
    "PLIF, before": lambda x: chain(x, first),
    "GSS(−1.5, 2.5)": lambda x: PL(x, -1.5, 2.5),
    "softmax": lambda x: x,
}
hit = raw["PLIF"].gather(1, target[:, None])
low, high = (float(raw["PLIF"].quantile(q)) for q in (0.002, 0.998))
x = torch.linspace(low, max(high, float(hit.quantile(0.95))), 201)
curves = {n: (x, f(x) - f(hit.median())) for n, f in functions.items()}

# %%
ends = x[::10]
middle = (ends[1:] + ends[:-1]) / 2
slopes = {n: (middle, f(ends).diff() / ends.diff())
          for n, f in functions.items()}  # fmt: skip

# %% tags=["hide-input", "gallery"]
half = hit.quantile(torch.tensor([0.25, 0.75])).tolist()
learned = slopes["PLIF, trained"][1]
quarter = middle < half[0]
below, above = learned[quarter].mean(), learned[~quarter].mean()
plots.show(
    plots.learned_bend(curves, slopes, half),
    alt="Above: PLIF before and after training, GSS and the diagonal, "
    "over the logits of the model. Below: their slopes. The grey band has "
    "half of the logits of the words that came next. The learned slope is "
    f"{below:.2f} on average below it, {above:.2f} from its edge on.",
)

# %%
display(
    Markdown(
        f"Mean learned slope: **{below:.2f}** below the grey band of the "
        f"figure, **{above:.2f}** from its lower edge on; before "
        f"training {slopes['PLIF, before'][1].mean():.2f} throughout."
    )
)

# %% [markdown]
# **Figure 2.** The grey band holds the middle half of the logits of the words that came next. In the band the
# learned function stretches the logits, as a temperature would. Below the band, where three quarters of the
# words that came do not lie, the learned function flattens the logits, so improbable words are treated more
# alike. GSS does the *opposite*. This is one run of one seed. The learned bend resembles GSS with $k < 1$,
# which is not in the paper. Figure 6 of lesson 10 has GSS(0, 0.5), and shows no gain.

# %% [markdown]
# ### Did the paper's slopes move at all?
#
# Parthiban et al. find trained slopes no better than frozen ones, and leave open whether the learned slopes are
# no better or were not learned. Their released code trains the slopes by plain gradient descent, with a
# learning rate of 0.02, where all other parameters have 20 to 30. How far does that carry? A slope touches the
# loss only through $\Delta = 0.0004$:

# %%
fresh = chosen["PLIF"].build(len(corpus))
columns = data.columns(corpus.valid, 20)
tokens, words_after = next(data.batches(columns, 64))
fresh(tokens, None, words_after).loss.backward()
steepest = fresh.output_layer.free_slopes.grad.abs().max().item()
o = course_lab.recipes["ptb/awd-lstm/plif/et-asgd"].optimisation
rate = o.groups["output_layer.free_slopes"]["learning_rate"]
steps = 929_589 // (o.batch * o.length) * o.epochs
farthest = rate * steepest * steps

# %%
display(
    Markdown(
        f"The largest gradient of any v at the start is {steepest:.1e}. "
        f"One step moves this v by {rate * steepest:.1e}. If the gradient "
        f"stayed so for all {steps:,} steps of {o.epochs} epochs, "
        f"v would move by **{farthest:.2g}**. The v were drawn with a "
        f"standard deviation of 1."
    )
)

# %%
# NBVAL_CHECK_OUTPUT
print("less than one standard deviation:", farthest < 1)

# %% [markdown]
# By this estimate each $v$ would stay within a standard deviation of its start. But neighbouring pieces are
# pushed the same way, and $f$ feels only their mean: if all $v$ of a region moved so far, the mean slope of the
# region would change by some tenths. This estimate is made on our small model before training, and is no bound.
# So it stays open whether the learned slopes are no better or were not learned. The paper's table above says
# that something was learned: trained slopes have the lower training perplexity.

# %% [markdown]
# ### Three seeds of each variant
#
# The plan `data/plans/lessons-10.toml` has PLIF with slopes that are frozen, trained by SGD, and trained by
# Adam. Its fourth variant has a single piece, which makes it a softmax with a learned **temperature**. Runs
# of one seed are pairs, and $p$ is corrected for all models of the plan.

# %%
whole = plans.read_plan("lessons-10")
names = {p.key: n for p, n in zip(whole.runs, tables.models_of(whole))}
model = {name: names[seeds[1].key] for name, seeds in plan.items()}
kept = {name: untested.read(of.values()) for name, of in plan.items()}

# %%
pairs = [
    ("PLIF, 1 piece", "softmax"), ("PLIF, frozen", "softmax"),
    ("PLIF by SGD", "PLIF, frozen"), ("PLIF by Adam", "PLIF, frozen"),
    ("PLIF by Adam", "PLIF, 1 piece"),
]  # fmt: skip
pairs = {f"{a} − {b}": (model[a], model[b]) for a, b in pairs}
told = untested.compared(whole, pairs)
table = told.loc[:, "difference":"verdict"].round(2)
table.rename(columns={"p": "p, Holm"})

# %% [markdown]
# The differences of test perplexity are in per cent. The third row compares two layers whose slopes hardly
# differ, because SGD moves a $v$ by very little in so few steps. The fourth row answers the first prediction,
# as far as short runs can, because Adam did move its slopes. In the last row a learned temperature has the
# lower perplexity. The verdicts say how sure that is. *No difference larger than 2 %* means that the
# uncorrected 90 % interval lies within ±2 %, so the 95 % interval shown may reach a little beyond.
#
# In the second row a frozen PLIF has a higher perplexity than the softmax, and in the paper's table a lower
# one. The paper's runs have several hundred times as many steps as ours. So the paper's models may need a
# regulariser, and ours may not; this guess is not tested here.
#
# Here are the ranks of the same runs, as means over three seeds:

# %%
columns = {"test perplexity": lambda m: m["test_perplexity"],
           "Press' rank": lambda m: m["log_prob"]["press_rank"],
           "of at most": lambda m: m["log_prob"]["words"]}  # fmt: skip
ranks = {column: {name: np.mean([figure(run["metrics"]) for run in runs])
                  for name, runs in kept.items()}
         for column, figure in columns.items()}  # fmt: skip
names = ["softmax", "PLIF, 1 piece", "PLIF, frozen", "PLIF by SGD"]
ranks = pd.DataFrame(ranks).loc[[*names, "PLIF by Adam"]].round(1)
tables.with_ngrams(ranks, whole.runs[0].experiment().load_corpus())

# %% [markdown]
# In the table a single piece leaves the rank where the softmax has it, because one piece is a straight line.
# Every chain of 100,000 pieces, frozen or trained, lifts the rank to most of the words. In the table none of
# these chains has a lower perplexity than the softmax. The softmax loses to *Kneser-Ney 5* in the table, which counts
# runs of up to five words, so none of this is evidence about models that have learned more.

# %% [markdown]
# ## A language that is bent
#
# Real text does not tell what rank it has. The languages of [lesson 4](04_softmax_bottleneck.ipynb) do: 200
# words, 80 contexts, and true probabilities that we know. A model is judged by its **excess**, the expected
# cross-entropy above the entropy. The *flat* language is a softmax over contexts of 4 numbers. The *bent*
# language has the same logits, bent at the logit below which half of the probability lies, with slope 3 below
# it. GSS with the same $c$ and $k$ can match the bent language exactly.

# %%
options = dict(N=200, d=4, states=80, tokens=1000, seed=SEED)
flat = corpora.load("zipf", **options).truth
share = flat.stationary  # of the contexts
logits = flat.contexts[:, 0] @ flat.word_matrix.T + flat.bias
in_order = logits.flatten().sort()
mass = (share[:, None] * flat.matrix.exp()).flatten()[in_order.indices]
C, SLOPE = float(in_order.values[(mass.cumsum(0) < 0.5).sum()]), 3.0
bent = PL(logits, C, SLOPE).log_softmax(1)
truths = {"flat": flat.matrix, "bent": bent}
true_rank, entropy = {}, {}
for name, t in truths.items():
    true_rank[name] = int(torch.linalg.matrix_rank(t))
    entropy[name] = -float(share @ (t.exp() * t).sum(1))


# %%
def excess(name, make, d, seed, steps=100 if PROFILE == "smoke" else 200):
    """Return the expected cross-entropy above the entropy, in nats."""
    torch.manual_seed(seed)
    P, layer = truths[name].exp(), make(FullWords(200, d)).double()
    H = torch.randn(len(P), d).double().requires_grad_()
    optimizer = torch.optim.Adam([H, *layer.parameters()], lr=0.2)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        loss = -(share @ (P * layer.log_prob(H)).sum(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay.step()
    return loss.item() - entropy[name]


# %% [markdown]
# A fit can get stuck, so each fit is begun twice, and the better one counts.

# %%
SOFT, BENT = "softmax", "GSS with the language's bend"
layers = {
    SOFT: Softmax,
    BENT: lambda words: GSS(words, c=C, k=SLOPE),
    "PLIF of 40 pieces": lambda words: PLIF(words, pieces=40, spread=0.0),
}
found = []
for language, name, d in itertools.product(truths, layers, (2, 4, 6)):
    fits = [excess(language, layers[name], d, seed) for seed in range(2)]
    label_of = f"{language}, rank {true_rank[language]}"
    found.append((label_of, name, f"d = {d}", min(fits)))
columns = ["language", "layer", "d", "excess"]
table = pd.DataFrame(found, columns=columns)
means = table.pivot_table("excess", ["language", "layer"], "d", sort=False)
means.round(4)

# %%
# NBVAL_CHECK_OUTPUT
of_bent = means.loc[f"bent, rank {true_rank['bent']}"]
wins = of_bent.loc[SOFT, "d = 6"] < of_bent.loc[BENT, "d = 4"]
print("bent language: a softmax with two more dimensions wins:", wins)

# %% [markdown]
# This answers the second prediction. The bent language is the best case that a bend can have: the truth is
# bent, of full rank, and GSS has the very same bend. GSS could reach an excess of 0 at $d = 4$, so the excess
# that the table shows for it is due to the optimiser. At $d = 4$ GSS is hardly nearer to the truth than a
# softmax. In the table above a softmax with two more dimensions comes nearer than GSS, although the rank of
# this softmax is a tenth of the truth's. So in the steps that it has, the right bend alone does not lead the
# optimiser to the right contexts and words; two more dimensions are easier to use.

# %% [markdown]
# ## The cost
#
# A bend costs time and hardly any parameters: GSS has none, and PLIF has one for each piece. What a bend adds
# is work for *every* logit, and working memory for the layer. The paper's seconds for an epoch, at $d = 400$ on
# a GPU, are these multiples of the softmax's. [Notebook 35](35_cost.ipynb) has our own measurements of both.

# %%
seconds = published.rows().query("metric == 'seconds-per-epoch'")
seconds = seconds[seconds.paper == "parthiban2021"]
seconds = seconds.pivot_table("value", "method", "corpus", sort=False)
(seconds / seconds.loc["softmax"]).round(2).drop("mos")

# %% [markdown]
# ## What the paper says and what its code does
#
# | | the text | the released code | here |
# |---|---|---|---|
# | GSS | $k(x-c)+c-(k-1)\,\mathrm{softplus}(x-c)$ | the same with `log(exp(x − c) + 1)`, which is infinite beyond $c + 88.7$ | $x-(k-1)\,\mathrm{softplus}(c-x)$ |
# | SigSoftmax | a softmax of bent logits | $e^l\sigma(l)$ is normalised, and the logarithm comes last: a small enough probability becomes $\log 0$ | bent logits |
# | PLIF's start | slopes are drawn at random | an option named *variance* multiplies the draw, so it is a standard deviation; at 1 the two are the same | `spread`; with 0 PLIF begins as the softmax |
# | PLIF's slopes | the slopes "get learned" | SGD with rate 0.02, weight decay as for all, the gradient clipped together with all others; on a GPU not reproducible | any optimiser for the group `output_layer.free_slopes`; reproducible on the CPU |
# | rank | of log P of the test set | an SVD in `float32`; on WikiText-2 of the first contexts only, about as many as words | sums in `float64`, in one pass |

# %% [markdown]
# ## When not to use it
#
# - Do not train PLIF by plain gradient descent with the usual rates. In a short run that is nearly a frozen
#   PLIF.
# - Try a learned temperature first. A learned temperature is PLIF with one piece.
# - Do not use the printed form of GSS in half precision.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $K$, $\Delta$ | `len(v)`, `width` | number of PLIF's pieces; width of a piece |
# | $v_i$, $s_i$ | `v`, `F.softplus(v)` | free number of a piece; its slope |
# | $f$ | `chain(x, v)` | PLIF's function of the logits |
# | $\mathrm{PL}(x; c, k)$ | `PL(x, c, k)` | the bend of GSS |
# | $l$ | `raw[name]` | logits before the bend |

# %% [markdown]
# ## Exercises
#
# ### 1. GSS as a chain
# *Difficulty 2/3, importance 2/3, ten minutes.* A chain of many pieces can follow GSS closely. Assign to
# `gss_chain` the 400 free numbers $v$ with which `chain(x, v)` has the slopes of GSS(−1.5, 2.5) in the middle of
# each piece.
#
# <details><summary>Hint</summary>
#
# The slope of PL is $1 + (k-1)\,\sigma(c-x)$. Which $v$ has $\mathrm{softplus}(v) = s$?
#
# </details>

# %% tags=["exercise"]
gss_chain = None  # the free numbers v (400,), a tensor


# %%
def is_gss(v, c=-1.5, k=2.5):
    if np.shape(v) != (400,):
        return "assign a tensor of 400 numbers, one a piece"
    x = torch.linspace(-19.95, 19.95, 400).double()
    wanted = 1 + (k - 1) * (c - x).sigmoid()
    slopes_of = {
        True: wanted,
        "softplus makes a slope of v: undo it": F.softplus(wanted),
        "the steep side lies below c": k + 1 - wanted,
        "these are PL's values, not its slopes": F.softplus(PL(x, c, k)),
    }
    near = [said for said, slopes in slopes_of.items()
            if (F.softplus(v) - slopes).abs().max() < 0.05]  # fmt: skip
    return near[0] if near else False


check("10b.1", gss_chain, is_gss)

# %% [markdown]
# ### 2. Does the trained GSS use its extra direction?
# *Difficulty 2/3, importance 2/3, twenty minutes.* A softmax does not notice when all logits of a context rise
# together; GSS notices. Does the trained model use that? Take this freedom away: give all contexts the same mean
# logit, the mean over all of `raw["GSS"]`, and let the layer bend the logits as before. Assign to `fixed` the
# perplexity that is left. How far is it from that of the model as it is, and why?
#
# <details><summary>Hint</summary>
#
# Subtract from `raw["GSS"]` the mean of each row (`keepdim=True`), and add the mean over all rows. Then come
# `PL`, `log_softmax(1)` and `perplexity`.
#
# </details>
# <details><summary>Answer to the second question</summary>
#
# The perplexity hardly moves where the mean logits of the contexts are nearly the same, or where few likely
# words lie near $c$. Compare the standard deviation of `raw["GSS"].mean(1)` with the spread of the logits in a
# row.
#
# </details>

# %% tags=["exercise"]
fixed = None  # perplexity of GSS, each context's mean logit the same


# %%
def has_no_knob(fixed):
    logits, mean = raw["GSS"], raw["GSS"].mean()
    centred = logits - logits.mean(1, keepdim=True)
    level, by_word = centred + mean, logits - logits.mean(0) + mean
    bent = [PL(x, -1.5, 2.5) for x in (level, logits, centred, by_word)]
    bent.append(level)
    wanted, *others = [perplexity(x.log_softmax(1)) for x in bent]
    wrong = ("this is the model as it is", "c stands elsewhere",
             "a context's mean is over its words", "not bent")  # fmt: skip
    says = {wanted: True} | dict(zip(others, wrong, strict=True))
    nearest = min(says, key=lambda value: abs(value - fixed))
    far = abs(fixed - nearest) > max(0.2 * abs(others[0] - wanted), 1e-3)
    return "level the rows, then bend them" if far else says[nearest]


check("10b.2", fixed, has_no_knob)

# %% [markdown]
# ### 3. What regularises in a frozen PLIF? (open)
# *Difficulty 3/3, importance 2/3, half a day.* Forwards a frozen PLIF with 100,000 pieces is a straight line;
# backwards each gradient is multiplied by a random slope. Build the layer that has *only* the second part: it
# returns $1.11\,x$ and passes gradients through random slopes. Train it, the frozen PLIF and the softmax for
# several epochs on few tokens, so that they overfit, and compare training and test perplexity. Is the noise in
# the gradient the regulariser?
#
# <details><summary>Hint</summary>
#
# Write a `torch.autograd.Function` after the pattern of `monotone._Pieces`: `forward` returns a multiple of `x`
# and saves the slopes, `backward` multiplies. A subclass of `PLIF(frozen=True)` calls it in `transform`.
#
# </details>
# <details><summary>Second hint</summary>
#
# Give each rival its own best dropout and learning rate on validation text, and five seeds. The slope of a piece
# is fixed, so a logit that does not move keeps its factor. Is it noise at all, or a different learning rate for
# each logit?
#
# </details>

# %% [markdown]
# ## What we saw
#
# This is what the best kept evidence says, by the ledger of [notebook 30](30_leaderboard.ipynb):

# %%
of = ("parthiban2021-plif", "parthiban2021-frozen")
display(Markdown(claims.conclusions(*of)))

# %% [markdown]
# And this is what the small models show:

# %%
gaps = "; ".join(
    f"{name}: {gap:+.1f} %" for name, gap in told.difference.items()
)

# %%
display(
    Markdown(
        f"In one run a trained PLIF has a mean slope of {below:.2f} below "
        "the lower quartile of the logits of the words that came, and of "
        f"{above:.2f} above it. Three seeds ({gaps}), corrected for all "
        "models, leave it open whether PLIF lowers the perplexity. PLIF "
        "has the learning rate that is best for the softmax, and was not "
        "tuned itself. "
        f"On a language of rank {true_rank['bent']} "
        f"that is bent as GSS is, GSS of 4 dimensions, which could be "
        f"exact, has an excess of {of_bent.loc[BENT, 'd = 4']:.4f} nats, "
        f"and a softmax of 6 one of {of_bent.loc[SOFT, 'd = 6']:.4f}."
    )
)

# %% [markdown]
# ## References
#
# - D. Parthiban, Y. Mao, D. Inkpen (2021). *On the Softmax Bottleneck of Recurrent Language
#   Models.* AAAI. [doi:10.1609/aaai.v35i15.17608](https://doi.org/10.1609/aaai.v35i15.17608)
# - O. Ganea, S. Gelly, G. Bécigneul, A. Severyn (2019). *Breaking the Softmax Bottleneck via
#   Learnable Monotonic Pointwise Non-linearities.* ICML.
#   [arXiv:1902.08077](https://arxiv.org/abs/1902.08077)
# - S. Kanai, Y. Fujiwara, Y. Yamanaka, S. Adachi (2018). *Sigsoftmax: Reanalysis of the Softmax
#   Bottleneck.* NeurIPS. [arXiv:1805.10829](https://arxiv.org/abs/1805.10829)

# %% [markdown] tags=["way"]
# ↑ Back: [10. Monotone softmaxes: full rank for nothing](10_monotone_softmaxes.ipynb)
#
# → Next: [11. Modern remedies: the loss, the step, the matrix](11_modern_remedies.ipynb)
