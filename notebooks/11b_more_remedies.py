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
# # 11b. Going deeper: more remedies of the word matrix
#
# **Question.** What do capped logits, gated gradients, Muon and a repair after training do to the words, what do remedies cost, and does a rounder cloud go with a lower perplexity?
#
# This notebook goes on where [lesson 11](11_modern_remedies.ipynb) stops. Nothing later needs it.

# %% [markdown]
# ## What you will learn
#
# - to tell from a model's logits whether a cap can do anything;
# - to say what gating changes although Adam divides every gradient by its size;
# - to compare Muon with Adam by how far the words go, and in how many directions;
# - to know what each remedy costs, and what a rank correlation over methods can say.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 11](11_modern_remedies.ipynb), whose symbols this notebook uses. The comparisons
# include the methods of lessons [6](06_cosine_regularization.ipynb), [7](07_adversarial_softmax.ipynb) and
# [8](08_spectrum_control.ipynb).
#
# **Reading.** 33 minutes. **Difficulty.** 3 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | a small Transformer, four word matrices |
# | quick | 1 | one CPU core | the same, for longer |
# | standard | 15 | two CPU cores | the same, on the whole corpus |
# | full | 5 | one GPU | the same |
#
# The comparison over seeds is read from results that are kept with the course.
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of the model and of every random draw below

# %%
import inspect  # noqa: I001
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import Code, Markdown, display

# %%
import course_lab
from course_lab import claims, evidence, overrides, plans
from course_lab import plots, side_by_side, untested
from course_lab.progress import check
from course_lib import data, output_layers as layers
from course_lib.metrics import geometry
from course_lib.output_layers import FullWords, GatedSoftmax, Softmax
from course_lib.output_layers import centring
from course_lib.training import Optimisation

# %% [markdown]
# ## Predict
#
# 1. Gemma 2 holds its logits within ±30. How near do the logits of a small model come to this cap?
# 2. You cut the pushes on rare words. The rare words then travel less far. What do the frequent words
#    do?
# 3. You subtract the mean from a trained output matrix. Then you subtract its first principal component,
#    too. How much does the loss rise at each of these two changes?

# %% [markdown]
# ## The laboratory again
#
# As in lesson 11 the contexts are fixed, and only the words learn. Here the optimisers are those of the
# library.

# %%
recipe = course_lab.recipes["docstrings/transformer-128/tied"]
experiment = course_lab.profile(recipe, PROFILE, seed=SEED)
if PROFILE == "quick":  # the baseline of the comparison below
    change = plans.read_plan("lessons-11").runs[0].change
    experiment = overrides.override(experiment, change)
corpus = experiment.load_corpus()
with tempfile.TemporaryDirectory() as folder:
    run = course_lab.run(experiment, folder=folder, progress=False)
model = run.model.cpu().eval()
rare, frequent = geometry.by_frequency(corpus.counts.numpy())


# %%
@torch.no_grad()
def contexts(split):
    """Return the contexts of a split (n, d), and the words after them."""
    pairs = []
    for tokens, target in data.batches(data.columns(split, 20), 64):
        hidden = model(tokens).hidden
        pairs.append((hidden.flatten(0, 1), target.flatten()))
    return [torch.cat(part) for part in zip(*pairs, strict=True)]


H, y = contexts(corpus.train)
H_new, y_new = contexts(corpus.valid)
N, d = len(corpus), H.shape[1]
steps = 30 if PROFILE == "smoke" else 120
chance = torch.Generator().manual_seed(SEED)
batches = torch.randint(len(H), (steps, 256), generator=chance)


# %%
def start(layer=Softmax, **options):
    """Return an output layer over random words, always the same ones."""
    torch.manual_seed(SEED)
    return layer(FullWords(N, d, 0.01, True), **{"bias": False} | options)


def over(W, layer=Softmax, **options):
    """Return an output layer over a copy of the words W."""
    words = FullWords(N, d)
    words.weight.data.copy_(W)
    return layer(words, bias=False, **options)


# %%
def learn(layer, kind="adamw", rate=1e-3):
    """Train the words of a layer, and return them."""
    optimisation = Optimisation(kind, rate, betas=(0.9, 0.98))
    optimizer = optimisation.build(layer.named_parameters())
    for batch in batches:
        loss, _ = layer(H[batch], y[batch])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return layer.words.matrix().detach()


# %%
# Learning rates: the best of two or three, by the loss on new contexts.
rates = {
    "SGD": ("sgd", 0.3),
    "Adam": ("adamw", 1e-3),
    "coupled Adam": ("coupled-adam", 1e-3),
    "Muon": ("muon", 5e-3),
}
first = start().words.matrix().detach().clone()
learned = {name: learn(start(), *how) for name, how in rates.items()}


# %%
def ways(W):
    """Return how often words come, and how far they are from the start."""
    counts = corpus.counts.numpy()
    means = geometry.norms_by_frequency(W - first, counts, 9)
    return means.count, means.norm


def unseen(W):
    """Return the loss of words W on new contexts, in nats a word."""
    with torch.no_grad():
        return over(W).eval()(H_new, y_new)[1].item()


# %% [markdown]
# ## The logits: soft-capping
#
# Gemma 2, a language model of 2024, replaces each logit $l$ by $s\tanh(l/s)$. The capped logit is almost
# $l$ while $|l|$ is far below the **cap** $s$, and it never goes beyond $\pm s$. By the chain rule the
# gradient of a logit is multiplied by
#
# $$\frac{d}{dl}\,s\tanh(l/s) = 1 - \tanh^2(l/s) ,$$
#
# which fades where the logit is large, *of either sign*. So the pushes on very unlikely words fade, if the
# cap is within reach of the logits.

# %%
with torch.no_grad():
    W = model.words.matrix()
    logits = (H_new[:500] @ W.T).numpy().ravel()
grid = np.linspace(-40, 40, 401)
caps = (30, 10, 5)
factor = {f"cap {s}": (grid, 1 - np.tanh(grid / s) ** 2) for s in caps}
large = float(np.quantile(np.abs(logits), 0.99))

# %% tags=["hide-input"]
plots.show(
    plots.caps(factor, logits),
    alt="Factor on the gradient against the logit for caps of 30, 10 and "
    "5: bells around 0 of falling width. Behind them the histogram of the "
    f"model's logits; 99 of 100 lie within {large:.0f} of zero, where a "
    f"cap of 30 changes the gradient by at most "
    f"{np.tanh(large / 30) ** 2:.0%}.",
)

# %% [markdown]
# **Figure 1.** The logits lie under the flat top of the widest bell. This answers the first prediction:
# at the usual cap of 30 nothing happens to a model as small and as shortly trained as ours. A cap of 5
# would reach its logits.

# %% [markdown]
# ## The gradient: gating the pushes
#
# **Adaptive gradient gating** (Yu et al. 2022) leaves loss and probabilities alone and changes the gradient.
# Let $a_i$ be how often word $i$ has lately been a target, in times per step. Word $i$ counts as rare if $a_i
# < \alpha$. The push on a rare row $i$ from a position whose target is $y$ is multiplied by
#
# $$\begin{cases} a_i & \text{if } y \text{ is not rare,}\\
# \min(a_i/\bar a,\,1) & \text{if } y\neq i \text{ is rare, too,}\end{cases}$$
#
# with $\bar a$ the mean of $a$ over the rare words. The pulls, where $y = i$, stay whole. A word that has
# not come at all has $a_i=0$, so nothing pushes it until it comes. Here is gating in plain PyTorch, for
# the gradient of the logits.


# %%
def gated(gradient, target, a, alpha):
    """Return the gradient (n, N) of the logits as the rows receive it."""
    rare = a < alpha
    from_common = torch.where(rare, a, 1.0)
    from_rare = torch.where(rare, (a / a[rare].mean()).clamp(max=1), 1.0)
    gates = torch.where(rare[target][:, None], from_rare, from_common)
    gates[torch.arange(len(target)), target] = 1.0
    return gradient * gates


# %% [markdown]
# The library gates in the hook `gate`, and counts the targets by itself.

# %% tags=["hide-input"]
display(Code(inspect.getsource(GatedSoftmax.gate), language="python"))

# %%
alpha = 0.02 if PROFILE != "smoke" else 0.05
layer = start(GatedSoftmax, alpha=alpha)
learned["gated"] = learn(layer)
is_rare, among_common, among_rare = layer.gates()
often = layer.appearances / (1 - (1 - 1 / layer.horizon) ** steps)

# %%
# NBVAL_CHECK_OUTPUT
pushes = torch.rand(40, N, generator=chance)
by_library = layer.gate(pushes.clone(), y[:40])
by_hand = gated(pushes, y[:40], often, alpha)
same = by_library.allclose(by_hand, rtol=1e-3)
print("the library's gate is ours:", same)

# %%
order = often.argsort()
order = order[often[order] > 0]
gates = {"the target is rare": among_rare[order]}
gates["the target is common"] = among_common[order]
gone = {"plain Adam": ways(learned["Adam"])}
gone["remedy: gating"] = ways(learned["gated"])
rarest, commonest = ([far[i] for _, far in gone.values()] for i in (0, -1))

# %% tags=["hide-input"]
plots.show(
    plots.gates_and_ways(often[order], gates, gone),
    alt="Left: factor on the push, by how often a word is a target: far "
    "below one for rare words with a common target, else one or nearly. "
    "Right: mean distance that words travelled, by their occurrences. The "
    f"rarest go {rarest[0]:.2f} without and {rarest[1]:.2f} with gating, "
    f"the most frequent {commonest[0]:.2f} and {commonest[1]:.2f}.",
)

# %% [markdown]
# **Figure 2.** In the left panel the words to the left of the jump count as rare. Where the target is common,
# the pushes on rare words are cut; where the target is rare, too, they are nearly whole. In the right panel
# gating keeps the rarest words much nearer to where they began, and the most frequent words travel farther.
#
# This answers the second prediction. The loss sees only *differences* between words. So the frequent words
# may make up for what the rare words do not move; this guess is not tested here.
#
# Adam takes the same steps for a row whose gradient is multiplied by a constant, because Adam divides by
# $\sqrt v$. Gating changes the *proportion* of pushes to pulls, and it stops the words that have not come
# yet.
#
# Do these two remedies keep the sum of the gradient's rows at zero? We measure the imbalance of lesson 11.


# %%
def imbalance(layer):
    """Return ‖Σ_i G_i‖ / Σ_i ‖G_i‖ on one batch."""
    loss, _ = layer.train()(H[batches[0]], y[batches[0]])
    (G,) = torch.autograd.grad(loss, [layer.words.weight])
    return (G.sum(0).norm() / G.norm(dim=1).sum()).item()


W, Capped = learned["Adam"], layers.SoftCappedSoftmax
layer.words.weight.data.copy_(W)
ratios = {"softmax": imbalance(over(W)), "gated": imbalance(layer)}
for cap in (30, 5):
    ratios[f"soft-capped at {cap}"] = imbalance(over(W, Capped, cap=cap))
pd.DataFrame({"imbalance": ratios}).round(4)

# %% [markdown]
# Gating leaves some pushes out, so the others no longer cancel the pulls. Soft-capping exerts a slight
# force on the mean at the usual cap, and a strong force at a cap within reach of the logits.

# %% [markdown]
# ## The step: Muon
#
# Spectrum control, of [lesson 8](08_spectrum_control.ipynb), prescribes the singular values of $W$. **Muon**
# (Jordan et al. 2024) makes the singular values of every *step* equal: with the momentum $m$ it takes the
# step $-m\,(m^\top m)^{-1/2}$. No direction of the space is favoured while $W$ grows. The rows of $m$ add up
# to zero where the softmax alone makes the gradient, and so do the rows of $mA$: Muon cannot move the mean of
# the rows. Spectrum control needs penalties and a factorised matrix; Muon needs some products with the
# $N\times d$ matrix in each step.
#
# Where have the optimisers taken $W$? We look at the singular values of the whole way
# $W_{\text{end}}-W_{\text{start}}$, and at how far each word went.

# %%
names = list(rates)
spectra = {n: geometry.singular_values(learned[n] - first) for n in names}
gone = {name: ways(learned[name]) for name in names}
ends = {name: (far[0], far[-1]) for name, (_, far) in gone.items()}

# %% tags=["hide-input"]
plots.show(
    plots.spectra_and_ways(spectra, gone),
    alt="Left: singular values of the way from start to end, divided by "
    "the largest. Muon's fall slowest. Right: distance travelled against "
    "the number of occurrences. The rarest and the most frequent words go "
    f"{ends['Adam'][0]:.2f} and {ends['Adam'][1]:.2f} with Adam, "
    f"{ends['Muon'][0]:.2f} and {ends['Muon'][1]:.2f} with Muon.",
)

# %%
# NBVAL_CHECK_OUTPUT
evenest = max(names, key=lambda n: np.median(spectra[n]) / spectra[n][0])
print("the way with the most even directions:", evenest)
mean = learned["Muon"].mean(0).norm() / learned["Adam"].mean(0).norm()
print("Muon's mean is below a tenth of Adam's:", bool(mean < 0.1))

# %% [markdown]
# **Figure 3.** Under Adam the rarest words go nearly as far as the most frequent words, which is why the many
# rare words can carry the mean away. SGD and coupled Adam hardly move the rare words, and Muon moves them
# little. The clouds of these three optimisers may be round partly because the rare words are still near their
# random start. *Round is not the same as well placed.* Only Muon's way uses nearly all directions evenly.
#
# Muon was made for the hidden matrices of a network, and its author leaves embeddings and the output layer
# to Adam. We use Muon for the word matrix on purpose, to see what happens.

# %% [markdown]
# ## After training: All-but-the-top
#
# The oldest repair is applied to a finished matrix: subtract the mean and the first $D$ principal components
# (Mu & Viswanath 2018). The paper takes $D = d/100$ and asks for better word similarity, not for better
# predictions. Here is the repair in plain PyTorch. We try it on the output matrix of the Transformer that we
# trained. A row of the table is a value of $D$.


# %%
def repaired(W, D):
    """Return W without its mean and its first D principal components."""
    C = W - W.mean(0)
    top = torch.linalg.svd(C, full_matrices=False).Vh[:D]
    return C - C @ top.T @ top


# %%
def figures_of(W):
    """Return the loss of words W on new contexts, and their cloud."""
    values = geometry.singular_values(W)
    cloud = {"σ₂/σ₁": values[1] / values[0]}
    cloud["cosine of rare words"] = geometry.mean_cosine(W[rare])
    return {"loss": unseen(W)} | cloud


# %%
trained = model.words.matrix().detach()
as_trained = figures_of(trained)
rows = {D: figures_of(repaired(trained, D)) for D in range(9)}
table, before = pd.DataFrame(rows).T, as_trained["loss"]
cost, cosines = table["loss"] - before, table["cosine of rare words"]
pd.DataFrame({"as trained": as_trained} | rows).T.round(3)

# %% tags=["hide-input"]
plots.show(
    plots.repairs(table, before),
    alt="Left: loss on new contexts against the number of principal "
    f"components removed: unchanged at 0, {cost[1]:.2f} nats higher at 1, "
    f"{cost[8]:.2f} at 8. Right: the cosine of rare words is "
    f"{cosines[0]:.2f} without the mean, {cosines[1]:.2f} with one "
    "component gone, too; σ₂/σ₁ rises.",
)

# %%
# NBVAL_CHECK_OUTPUT
print("taking the mean away costs nothing:", bool(abs(cost[0]) < 1e-4))
print("one component costs more than 0.01 nats:", bool(cost[1] > 0.01))
library, ours = centring.all_but_the_top(trained, 2), repaired(trained, 2)
print("the library's is ours:", library.allclose(ours, atol=1e-4))

# %% [markdown]
# **Figure 4.** This answers the third prediction. Taking the mean away costs nothing, but leaves some of the
# cone. Taking the first component away, too, makes the cloud round, but the loss jumps: predictions use this
# direction.

# %% [markdown]
# ## Combinations
#
# Remedies of different links can be joined. In code a combination is a line: layers combine by
# inheritance, optimisers by groups of parameters. The plan of lesson 11 has two combinations: spectrum
# control under an adversarial margin, and coupled Adam under an adversarial margin.

# %%
everything = evidence.read()
runs = side_by_side.runs_of(everything, "lessons-11")
best = side_by_side.at_best(runs)
rivals = best[~best.method.str.startswith("untied")]
judged = side_by_side.judged(rivals, "lessons-11", "tied")
rivals = rivals.groupby("method")
cloud = list(side_by_side.SHAPE)
judged[cloud] = rivals[cloud].mean()
judged = judged.sort_values("difference", na_position="first")

# %%
pairs = ["spectrum", "spectrum-adversarial"]
pairs += ["coupled-adam", "adversarial + coupled-adam"]
interval = ["difference", "difference low", "difference high"]
judged.loc[pairs, [*interval, *cloud]].round(2)

# %% [markdown]
# The differences from the baseline are in per cent of perplexity. In the table the margin adds nothing to
# either method.

# %% [markdown]
# ## What a step costs
#
# Let a step have $M$ positions. The layer itself takes $3MNd$ multiplications: a third each for the logits,
# the gradient of $W$ and the gradient of the contexts.
#
# | remedy | more multiplications | numbers kept beside $W$ |
# |---|---|---|
# | Adam, for comparison | a few $Nd$ | $2Nd$ |
# | coupled Adam | a few $Nd$ | $Nd + d$ |
# | Muon, five iterations | $10Nd^2 + 5d^3$ | $Nd$ |
# | centring, μ-loss, cosine penalty | a few $Nd$ | as Adam |
# | z-loss | $M$, because $\log Z$ is there already | as Adam |
# | soft-capping | $MN$ hyperbolic tangents | as Adam |
# | gating | one more pass over $MN$ numbers | as Adam, and $N$ |
# | adversarial margin | $2Md$ | as Adam |
# | spectrum control | $2Nd^2$ for the penalties, $6Md^2$ for the factors | as Adam, for $U$, $\sigma$, $V$ |

# %%
M = experiment.optimisation.batch * experiment.optimisation.length
layer_itself = 3 * M * N * d
more = {
    "Muon": (10 * N * d**2 + 5 * d**3) / layer_itself,
    "spectrum control": (2 * N * d**2 + 6 * M * d**2) / layer_itself,
    "adversarial margin": 2 * M * d / layer_itself,
}
pd.DataFrame({"share of the layer's own work": more}).round(3)

# %% [markdown]
# The shares of Muon and of spectrum control's penalties fall as the batch grows, because their work does not
# depend on the batch. The share of spectrum control's factors stays. [Notebook 35](35_cost.ipynb) has
# measured times of layers and models.

# %% [markdown]
# ## Does a rounder cloud predict better?
#
# Some methods end with the figures of another method, to within 0.02. At its chosen setting such a method
# adds nothing to the other method. Such twins share a point.

# %%
# methods and their twins
figures = judged[cloud].assign(loss=judged.difference.fillna(0) / 100)
alike = side_by_side.alike(figures, within=0.02)
points = judged.loc[list(alike)]
measures = ["σ₂/σ₁", "cosine of rare words"]
loss = points.difference.fillna(0)
ratio, cosine = (untested.spearman(points[m], loss) for m in measures)
points.index = [
    f"{name} and {len(same)} more" if same else name
    for name, same in alike.items()
]
told = f"95 % interval {cosine.low:.2f} to {cosine.high:.2f}"
if cosine.n < 10:
    told = "too few for an interval"

# %% tags=["hide-input"]
plots.show(
    plots.loss_against_cloud(points, measures),
    alt="Perplexity relative to the baseline against σ₂/σ₁ and against "
    "the mean cosine of rare words, one named point a method. Rank "
    f"correlation with σ₂/σ₁ {ratio.r:.2f}, with the cosine "
    f"{cosine.r:.2f}, over {cosine.n} points.",
)

# %%
twins = "; ".join(
    f"*{name}* = {', '.join(same)}" for name, same in alike.items() if same
)
display(
    Markdown(
        f"**Figure 5.** One point a method; +4 marks four twins. The "
        f"twins: {twins}. The rank correlation of perplexity with the "
        f"cosine of rare words is {cosine.r:.2f} over {cosine.n} points "
        f"({told}), with σ₂/σ₁ {ratio.r:.2f}."
    )
)

# %% [markdown]
# A round cloud has a small cosine and a large σ₂/σ₁. So by both signs rounder clouds go with higher
# perplexity in the figure. But the points are few, and a correlation over methods is no cause: the narrowest
# cloud is that of the baseline and of its twins, which leave the model as it was.

# %% [markdown]
# ## What the papers say and what the code does
#
# | method | the paper | here |
# |---|---|---|
# | gating | It counts targets over the last $K$ steps, which takes $NK$ numbers. | An exponential mean with the same horizon takes $N$ numbers. |
# | coupled Adam | Each word keeps its $v$, and their mean is used. The gain is reported for large data sets. | Only the mean is kept, which is the same number and half of Adam's memory for $W$. |
# | centring, μ-loss | They are for the output matrix, against logits that diverge at high learning rates. | The operation is the same. Our runs are too short for logits to diverge. |
# | z-loss | The weight is $10^{-4}$, for stability. | Any weight goes. A mixture adds the terms of its components. |
# | soft-capping | The cap is 30 for the final logits and 50 within attention. | The final logits only are capped. |
# | Muon | It is for hidden matrices. | It moves the word matrix, on purpose. |
# | All-but-the-top | $D = d/100$, for similarity of words. | Any $D$ goes, and we look at predictions. |

# %% [markdown]
# ## When not to use them
#
# - **Soft-capping**: not if you need the logits at their own scale; and not if your logits never come near
#   the cap.
# - **Centring, μ-loss**: not without a thought where the logits are capped or bent, because such a layer
#   does see a common shift.
# - **Gating**: not with a vocabulary of word pieces, which has hardly any rare entries; and not where a rare
#   word's *low* probability matters.
# - **Muon for $W$**: not if the optimiser's time counts, and not at the learning rate of Adam.
# - **All-but-the-top**: never on the matrix that predicts. Centring is the part that costs nothing there.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $s$ | `cap` | cap of the logits |
# | $a_i$, $\bar a$ | `often` | how often word $i$ is a target, in times per step; mean over the rare words |
# | $\alpha$ | `alpha` | words with $a_i$ below it count as rare |
# | $D$ | `D` | principal components that are removed |
# | $M$ | `M` | positions of a step |
#
# The other symbols are those of [lesson 11](11_modern_remedies.ipynb).

# %% [markdown]
# ## Exercises
#
# ### 1. A bias takes over
# *Difficulty 2/3, importance 2/3, fifteen minutes.* A bias can carry the frequencies of the words, so that rare
# words need not lean away from the mean context. Does Adam's mean still drift? Make a layer by `start` with
# `bias=True`, let its bias begin at the logarithms of `corpus.counts + 1`, call `learn` with it, and assign the
# layer to `biased`. Compare its drift, `geometry.common_drift(W).share`, with that of `learned["Adam"]`.
#
# <details><summary>Hint</summary>
#
# The bias learns at most 0.001 a step, and the logarithms of the frequencies span several nats. This is why the
# bias does not begin at 0.
#
# </details>
# <details><summary>Second hint</summary>
#
# `layer.bias.data.copy_((corpus.counts + 1.0).log())` sets the bias. Which pushes are left?
#
# </details>

# %% tags=["exercise"]
biased = None  # an output layer with a bias, after learn(biased)


# %%
def carries_frequency(layer):
    if not isinstance(layer, Softmax):
        return "assign the layer; `learn` returns its words"
    if layer.bias is None:
        return "the layer has no bias"
    logs = (corpus.counts + 1.0).log().double()
    bias = layer.bias.detach().double()
    if not torch.corrcoef(torch.stack([bias, logs]))[0, 1] >= 0.98:
        return "its bias did not begin at the logarithms of the counts"
    way = (layer.words.matrix() - first).norm(dim=1).mean()
    if way < 0.3 * (learned["Adam"] - first).norm(dim=1).mean():
        return "its words have hardly moved: train them by Adam"
    return (bias - logs).abs().max() > 1e-6 or "its bias is not trained"


check("11b.1", biased, carries_frequency)

# %% [markdown]
# ### 2. The part that reads
# *Difficulty 3/3, importance 2/3, twenty minutes.* In a tied model $W$ receives gradients from reading, too.
# Compute both parts of the gradient of `model` on the first batch of `data.batches(data.columns(corpus.train,
# 20), 64)`. Assign to `imbalances` the imbalance of each part, reading first. Why does the drift of a tied model
# under SGD stay small all the same?
#
# <details><summary>Hint</summary>
#
# Leave `model` as it is, because the check uses it. After `import copy`, take `both = copy.deepcopy(model)`
# and give it a second matrix, `both.output_layer.words = copy.deepcopy(both.words)`. After
# `both(tokens, target=target).loss.backward()`, `both.words.weight.grad` is the reading part, and
# `both.output_layer.words.weight.grad` is the predicting part.
#
# </details>
# <details><summary>Second hint</summary>
#
# Only the words of the batch get a reading gradient. How far can it move the mean of all $N$ words?
#
# </details>

# %% tags=["exercise"]
imbalances = None  # of the reading part and of the predicting part


# %%
def add_up(found):
    found = list(found)
    tokens, target = next(data.batches(data.columns(corpus.train, 20), 64))
    W, step = model.words.weight, model(tokens, target=target)
    (whole,) = torch.autograd.grad(step.loss, W)
    loss, _ = model.output_layer(step.hidden.detach(), target)
    (predicting,) = torch.autograd.grad(loss, W)
    parts = whole - predicting, whole
    sums = [(G.sum(0).norm(), G.norm(dim=1).sum()) for G in parts]
    reading, both = (float(a / b) for a, b in sums)
    if len(found) != 2:
        return "assign two numbers, that of the reading part first"
    return reads_first(*found, reading, both)


# %%
def reads_first(one, other, reading, both):
    if np.isclose(one, both, rtol=0.01):
        return "the first is that of the whole gradient, both parts"
    if abs(one) < 1e-4 < abs(other):
        return "these are the wrong way round: reading first"
    if not (0 <= one <= 1 and 0 <= other <= 1):
        return "an imbalance is a ratio, between 0 and 1"
    if not np.isclose(one, reading, rtol=0.01):
        return "the reading part is another: must its rows sum to zero?"
    return other < 1e-4 or "the predicting part must sum to zero"


check("11b.2", imbalances, add_up)

# %% [markdown]
# ## What we saw
#
# First, here is what the ledger of [notebook 30](30_leaderboard.ipynb) says of these remedies. The ledger
# reads the best results that are kept.

# %%
names = ["own-capped", "own-gated", "own-muon"]
display(Markdown(claims.conclusions(*names, of=everything)))

# %% [markdown]
# The small runs of this notebook show the following. Where these runs contradict the list above, the list
# counts.

# %%
display(
    Markdown(
        f"Of a hundred logits of our model 99 lie within {large:.0f} of "
        f"zero, far from a cap of 30. With gating the rarest words travel "
        f"{rarest[1] / rarest[0]:.0%} as far. Taking the mean out of a "
        f"finished matrix costs {abs(cost[0]):.0g} nats a word; taking "
        f"out the first principal component, too, costs {cost[1]:.2f}. "
        f"Over {cosine.n} methods that differ, perplexity and cosine of "
        f"rare words have a rank correlation of {cosine.r:.2f} ({told})."
    )
)

# %% [markdown]
# ## References
#
# - F. Stollenwerk, T. Stollenwerk (2025). *Better Embeddings with Coupled Adam.* ACL.
#   [doi:10.18653/v1/2025.acl-long.1321](https://doi.org/10.18653/v1/2025.acl-long.1321)
# - F. Stollenwerk, A. Lokrantz, N. Hertzberg (2026). *Output Embedding Centering for Stable LLM
#   Pretraining.* [arXiv:2601.02031](https://arxiv.org/abs/2601.02031)
# - S. Yu, J. Song, H. Kim, S. Lee, W.-J. Ryu, S. Yoon (2022). *Rare Tokens Degenerate All Tokens:
#   Improving Neural Text Generation via Adaptive Gradient Gating for Rare Token Embeddings.* ACL.
#   [doi:10.18653/v1/2022.acl-long.3](https://doi.org/10.18653/v1/2022.acl-long.3)
# - A. Chowdhery et al. (2022). *PaLM: Scaling Language Modeling with Pathways.*
#   [arXiv:2204.02311](https://arxiv.org/abs/2204.02311)
# - Gemma Team (2024). *Gemma 2: Improving Open Language Models at a Practical Size.*
#   [arXiv:2408.00118](https://arxiv.org/abs/2408.00118)
# - K. Jordan et al. (2024). *Muon: An optimizer for hidden layers in neural networks.*
#   [kellerjordan.github.io/posts/muon](https://kellerjordan.github.io/posts/muon/)
# - J. Mu, P. Viswanath (2018). *All-but-the-Top: Simple and Effective Postprocessing for Word
#   Representations.* ICLR. [arXiv:1702.01417](https://arxiv.org/abs/1702.01417)

# %% [markdown] tags=["way"]
# ↑ Back: [11. Modern remedies: the loss, the step, the matrix](11_modern_remedies.ipynb)
#
# → Next: [12. What the record holders do](12_record_holders.ipynb)
