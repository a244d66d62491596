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
# # 5. Tying and the augmented loss: may one matrix do both jobs?
#
# **Question.** Why may the matrix that reads words also predict them, what is gained by it, and is it tying that makes the cone?
#
# ![A language model from left to right: matrix E reads words, encoder, context h, matrix W predicts words, softmax. An arc ties E and W. In colour: E and W and tying. May E and W be one matrix?](images/05_model.svg)
#
# **Figure 1.** Untied, $E$ and $W$ are two matrices. Tied, they are one.

# %% [markdown]
# ## What you will learn
#
# - to write down the augmented loss of Inan, Khosravi and Socher (2017), and to say what its weight and
#   its temperature do to the gradient;
# - to derive why this loss drives the output matrix into the column space of the input matrix;
# - to tell which of the two matrices of an untied model degenerates;
# - to say what tying and the loss cost, and when not to use them.
#
# **Deeper.** [Lesson 5b](05b_tying_in_numbers.ipynb) repeats the paper's Figure 1 and Table 1, and sweeps the
# loss.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 1](01_output_layer.ipynb) explains tying, the pull and the push, [lesson
# 2](02_degeneration.ipynb) the cone and its measures. You know the Kullback-Leibler divergence and least
# squares.
#
# **Reading.** 27 minutes. **Difficulty.** 2 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | the same models for seconds |
# | quick | 1 | two CPU cores | two small Transformers |
# | standard | 15 | two CPU cores | the Transformers on the whole corpus |
# | full | 10 | one GPU | the same, for longer |
#
# The comparison over seeds is read from results that are kept with the course.
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of every random draw and of the models trained here

# %%
import inspect  # noqa: I001
import tempfile

import numpy as np
import pandas as pd
import torch
from IPython.display import Code, Markdown, display
from torch.nn import functional as F

# %%
import course_lab
from course_lab import claims, cost, evidence, plans, plots, tables
from course_lab import untested
from course_lab.progress import check
from course_lib import theory
from course_lib.evaluation.log_prob import log_prob_blocks
from course_lib.metrics import geometry, subspaces
from course_lib.output_layers import AugmentedLoss, FullWords, Softmax

_ = torch.manual_seed(SEED)

# %% [markdown]
# ## Predict
#
# A language model has an input matrix $E$, whose row $e_i$ is what the model reads for word $i$. It also has an
# output matrix $W$, whose row $w_i$ is compared with the context to predict word $i$. Both are $N\times d$.
#
# 1. Lesson 2 showed a tied matrix that collapses into a cone. Train the same model untied. Which of its
#    two matrices has the cone: $E$, $W$, both or neither?
# 2. Add a loss that asks the logits for target $y$ to look like the inner products $E e_y$ of the target's
#    vector with all words. What becomes of the angle between the column spaces of $E$ and $W$?

# %% [markdown]
# ## The idea in one picture
#
# The cross-entropy compares the prediction with a **one-hot** target: 1 for the word that came, 0 for
# every other word. If *cat* came, then *dog* is as wrong as *the*. The model's own word vectors know
# better. Take the target's vector, its inner products with all words, and a softmax: this is the **soft
# target**. Here it is for six words with vectors in a plane.

# %%
names = ["cat", "dog", "cow", "car", "bus", "the"]
toy = [[2, 1], [1.5, 1.6], [0.8, 1.9], [1.8, -1], [1.2, -1.7], [-0.8, 0.1]]
toy = torch.tensor(toy)
bars = {"one-hot target": F.one_hot(torch.tensor(0), 6).float()}
for tau in (1, 3, 20):
    bars[f"soft, τ = {tau}"] = (toy @ toy[0] / tau).softmax(-1)

# %% tags=["hide-input"]
plots.show(
    plots.soft_targets(toy, names, bars),
    alt="Left: vectors of six words in a plane, cat, dog and cow close "
    "together. Right: targets for cat. The one-hot target is 1 for cat; "
    f"the soft one gives dog {bars['soft, τ = 1'][1]:.2f} at τ = 1 and is "
    "nearly flat at τ = 20.",
)

# %% [markdown]
# **Figure 2.** The temperature $\tau$ decides how much of the similarity is left. At 1 the soft target
# gives *dog* two thirds of what it gives *cat*. At 20 it hardly distinguishes one word from another.

# %% [markdown]
# ## The augmented loss
#
# With logits $l = Wh$ for a context $h$ and the target $y$, let
#
# $$\tilde y = \operatorname{softmax}\Big(\frac{E e_y}{\tau}\Big),\qquad
# \hat y = \operatorname{softmax}\Big(\frac{l}{\tau}\Big),\qquad
# L = \underbrace{-\log \operatorname{softmax}(l)_y}_{\text{cross-entropy}} +
# \alpha\,\underbrace{\mathrm{KL}(\tilde y \,\|\, \hat y)}_{L_\text{aug}}.$$
#
# Only the second term is softened, by a temperature (Hinton et al. 2015). The cross-entropy stays at temperature
# 1, and so do evaluation and perplexity. The gradient with respect to the logits is that of a softmax with the
# target $\tilde y$, divided by $\tau$, because the logits enter as $l/\tau$:
#
# $$\frac{\partial L_\text{aug}}{\partial l} = \frac{\hat y - \tilde y}{\tau}.$$
#
# In PyTorch the loss takes a few lines. `detach` makes the soft target a constant. The paper does not say
# whether the gradient should flow into $E$ as well; [lesson 5b](05b_tying_in_numbers.ipynb) shows
# that this matters in a tied model.

# %%
def augmented(l, s, y, alpha, tau):  # noqa: E741
    """Return the loss of logits l and soft logits s (…, N), targets y."""
    soft = (s / tau).softmax(-1).detach()
    predicted = (l / tau).log_softmax(-1)
    apart = (soft * (soft.log() - predicted)).sum(-1)
    return F.cross_entropy(l, y) + alpha * apart.mean()


# %%
# NBVAL_CHECK_OUTPUT
E, W = torch.randn(50, 8).double(), torch.randn(50, 8).double()
hidden, y = torch.randn(5, 8).double(), torch.tensor([3, 1, 4, 1, 5])
l = (hidden @ W.T).requires_grad_()  # noqa: E741
plain = augmented(l, E[y] @ E.T, y, alpha=1.0, tau=2.0)
only = plain - F.cross_entropy(l, y)
(slope,) = torch.autograd.grad(5 * only, l)
formula = theory.augmented_gradient(l.detach(), E[y] @ E.T, 2.0)
print("the gradient is (ŷ − ỹ) / τ:", slope.allclose(formula))
layer = Softmax(FullWords(50, 8), bias=False).double()
layer.words.weight.data = W
loss, _ = layer(hidden, y, AugmentedLoss(1.0, 2.0), (E[y], E))
print("the library adds the same:", loss.isclose(only).item())

# %% [markdown]
# The library's class stands below. The class computes the second term alone.

# %% tags=["hide-input"]
display(Code(inspect.getsource(AugmentedLoss), language="python"))

# %% [markdown]
# ## High temperature: a softmax becomes a straight line
#
# For large $\tau$ the exponential is nearly linear. With $\bar x$ the mean of $x$ over the words,
#
# $$\operatorname{softmax}\Big(\frac x\tau\Big)_i = \frac1N\Big(1 + \frac{x_i - \bar x}{\tau}\Big) +
# O\Big(\frac1{\tau^2}\Big).$$
#
# Put this into the gradient, with $s = E e_y$ the soft target's logits, and the ones cancel:
#
# $$\frac{\partial L_\text{aug}}{\partial l} \approx \frac{(l - \bar l) - (s - \bar s)}{N\tau^2}.$$
#
# That is the gradient of a squared distance, $\frac1{2N\tau^2}\|(l-\bar l)-(s-\bar s)\|^2$. **At a high
# temperature the loss asks the logits to equal $s$, up to a constant that no softmax sees.** Here are $N$ times
# a softmax and its straight line, for logits drawn at random, small and large.

# %%
taus = [1, 2, 5, 10, 20, 50, 100]
column = torch.tensor(taus)[:, None]
curves, error = {}, {}
for size in (1, 5):
    l, s = size * torch.randn(2, 20, 1000).double()  # noqa: E741
    x = l[0].sort().values
    soft = 1000 * (x / column).softmax(-1)
    line = 1 + (x - x.mean()) / column
    curves[size] = {"softmax": (x[::9], soft[:, ::9]),
                    "straight line": (x[::9], line[:, ::9])}
    error[size] = []
    for tau in taus:
        exact = theory.augmented_gradient(l, s, tau)
        matched = theory.matched_gradient(l, s, tau)
        error[size].append(float((exact - matched).norm() / exact.norm()))

# %% tags=["hide-input"]
at = taus.index(20)
told = "the gradients differ by {:.0%} on the left and {:.0%} on the right"
captions = [told.format(*pair) for pair in zip(*error.values())]
beside = [
    plots.Panel(drawn, "logit", "N × p", (-3 * size, 3 * size), (-1, 5),
                f"logits of standard deviation {size}")
    for size, drawn in curves.items()
]
plots.show(
    plots.explorer({"τ": taus}, beside, captions, (at,)),
    alt="N times the softmax against the logit, beside its straight line, "
    "for logits of standard deviation 1 and 5. A slider sets the "
    "temperature τ. At τ = 20 the two agree on the left, and the softmax "
    f"bends upwards on the right: {captions[at]}.",
)

# %% [markdown]
# **Figure 3.** The slider begins at the paper's $\tau = 20$. What counts is $\tau$ relative to the spread
# of the logits. Two ways of weighing the loss follow from the formula, and the paper uses both:
#
# - $\alpha = \gamma\tau$ for language models. Then the added gradient is $\gamma(\hat y - \tilde y)$, and
#   $\gamma$ weighs it against the cross-entropy's. At a high temperature $\hat y - \tilde y$ is itself of order
#   $1/\tau$: for a fixed $\gamma$ a larger $\tau$ means *less* of the loss.
# - $\alpha = \beta\tau^2$, beside $1-\beta$ of the cross-entropy, for its Figure 1. Then the temperature
#   cancels from the gradient's size.

# %% [markdown]
# ## From matched logits to tied matrices
#
# The paper argues as follows. Suppose that the loss reaches zero at a high temperature. Then $W h_t = E
# e_{y_t}$ at every position $t$, with the mean rows of $E$ and $W$ left out, which no softmax sees. Put all
# positions side by side, the contexts as rows of $H$ and the vectors of the targets as rows of $E_y$: $W H^\top
# = E E_y^\top$. With enough positions the contexts span all $d$ dimensions, so $H^\top H$ has an inverse.
# Multiply by $H (H^\top H)^{-1}$ on the right: $W = EA$ for some $d\times d$ matrix $A$. Then $Wh = E(Ah)$. The
# network could apply $A$ itself and use $E$ for both jobs. **Tying loses nothing.**
#
# Zero loss is a bold assumption: different words follow the same context, and no $Wh$ can equal two targets at
# once. The assumption is not needed. At a high temperature the loss is a least-squares problem, $\min_W \sum_t
# \|W h_t - E e_{y_t}\|^2$, and the normal equations solve it:
#
# $$W \sum_t h_t h_t^\top = E \sum_t e_{y_t} h_t^\top
# \quad\Longrightarrow\quad W = E A,\qquad
# A = \Big(\sum_t e_{y_t} h_t^\top\Big)\Big(\sum_t h_t h_t^\top\Big)^{-1}.$$
#
# So the best $W$ lies in the column space of $E$ **however large the loss stays**. `theory.zero_loss_map`
# computes $A$ and a **residual**: 0 if the contexts give the targets' vectors exactly, 1 if they say nothing of
# them. We fit $W$ to the augmented loss alone, for contexts that know the target and for contexts that are
# mostly noise.
#
# The **distance** of two column spaces is the root mean square of the sines of their $d$ principal angles (Björck
# and Golub 1973). The distance is 0 if the spaces are the same and 1 if they are perpendicular. Two random spaces
# are at about
# $\sqrt{1-d/N}$.

# %%
N, d, T = 200, 10, 400
E = 3 * F.normalize(torch.randn(N, d).double(), dim=1)
E = E - E.mean(0)
y = torch.randint(N, (T,))
mixing, noise = torch.randn(d, d).double() / d**0.5, torch.randn(T, d)
contexts = {
    "contexts that know the target": E[y] @ mixing,
    "mostly noise": 0.5 * E[y] @ mixing + noise.double(),
}


# %%
def fitted(H, tau, steps=40):
    """Return W after steps down the augmented loss, with H fixed."""
    W = torch.zeros(N, d, dtype=torch.float64, requires_grad=True)
    soft = (E[y] @ E.T / tau).softmax(-1)
    options = {"line_search_fn": "strong_wolfe", "tolerance_change": 0}
    optimizer = torch.optim.LBFGS([W], 1, steps, **options)

    def loss():
        optimizer.zero_grad()
        predicted = (H @ W.T / tau).log_softmax(-1)
        value = tau**2 * F.kl_div(predicted, soft, reduction="batchmean")
        value.backward()
        return value

    optimizer.step(loss)
    return W.detach()


# %%
taus = [0.5, 1, 3, 10, 30, 100]
found, curves = {}, {}
for name, H in contexts.items():
    found[name] = {tau: fitted(H, tau) for tau in taus}
    fits = [W - W.mean(0) for W in found[name].values()]
    distances = [subspaces.subspace_distance(W, E) for W in fits]
    residual = theory.zero_loss_map(E, H, y).residual
    label = f"{name}, residual {residual:.2f}"
    curves[label] = (taus, distances)
chance = (1 - d / N) ** 0.5

# %% tags=["hide-input"]
figure = plots.lines(curves, "temperature τ", "distance of W from E", "x")
ax = figure.axes[0]
ax.axhline(chance, color=plots.INK, linestyle=":")
above = {"xytext": (0, 4), "textcoords": "offset points"}
ax.annotate("two random spaces", (taus[0], chance), **above)
ax.set_ylim(0, 1.3)
known, noisy = (distances for _, distances in curves.values())
plots.show(
    figure,
    alt="Distance between the column spaces of the fitted W and of E "
    f"against the temperature. From τ = 0.5 to 100 it falls from "
    f"{known[0]:.2f} to {known[-1]:.2f} where the contexts know the "
    f"target, and from {noisy[0]:.2f} to {noisy[-1]:.2f} where not. A "
    "dotted line marks two random spaces, near 1.",
)

# %%
# NBVAL_CHECK_OUTPUT
H = contexts["mostly noise"]
W, best = found["mostly noise"][100], E @ theory.zero_loss_map(E, H, y).A
gap = ((W - W.mean(0) - best).norm() / best.norm()).item()
print("far from zero loss:", theory.zero_loss_map(E, H, y).residual > 0.8)
print("yet at τ = 100 the best W is E A, within 10 %:", gap < 0.1)
print("and its column space near E's:", noisy[-1] < 0.2)

# %% [markdown]
# **Figure 4.** The dotted line is the distance of two random spaces. This answers the second prediction. The
# noisy contexts say little of the targets' vectors, and still $W$ goes into the column
# space of $E$ as $\tau$ rises. At a low temperature the loss looks at the few words that the soft target
# favours, and hardly constrains the other words.

# %% [markdown]
# ## Does tying cause the cone?
#
# Lesson 2 showed the cone in a tied matrix. If tying were to blame, an untied model would have no cone. We
# train the Transformer of lesson 2 on a short text, once untied and once tied, without the augmented loss.

# %%
plan = plans.read_plan("lessons-05").runs
columns = ["untied", "augmented", "tied", "tied-augmented"]
first = {}
for p in plan:  # a recipe's first run has the recipe's loss
    first.setdefault(p.recipe.split("/")[-1], p)


def experiment(name):
    """Return the plan's run of this name, or a longer profile's."""
    if PROFILE in ("standard", "full"):
        recipe = course_lab.recipes[f"docstrings/transformer-128/{name}"]
        return course_lab.profile(recipe, PROFILE, seed=SEED)
    e = first[name].experiment().change(seed=SEED)
    epochs = 1 if PROFILE == "smoke" else e.optimisation.epochs
    return e.change(optimisation={"epochs": epochs})


# %%
live, rare_pairs = {}, {}
for name in ("untied", "tied"):
    with tempfile.TemporaryDirectory() as folder:
        options = dict(folder=folder, progress=False)
        run = live[name] = course_lab.run(experiment(name), **options)
    corpus = run.corpus
    rare = geometry.by_frequency(corpus.counts).rare
    E, W = run.model.words, run.model.output_layer.words
    jobs = {"both": E} if run.model.tied else {"reads": E, "predicts": W}
    for job, words in jobs.items():
        rows = words.matrix().detach().cpu()[rare]
        rare_pairs[f"{name}, {job}"] = geometry.pair_cosines(rows)
means = {name: float(c.mean()) for name, c in rare_pairs.items()}

# %% tags=["hide-input", "gallery"]
figure = plots.cosine_histogram(rare_pairs, title="pairs of rare words")
listed = ", ".join(f"{name} {mean:.2f}" for name, mean in means.items())
plots.show(
    figure,
    alt="Cosines of pairs of rare words, three histograms. The matrix of "
    "the untied model that reads stays a bell around zero; the one that "
    "predicts, and the one matrix of the tied model, have moved to the "
    f"right. Means: {listed}.",
)

# %%
# NBVAL_CHECK_OUTPUT
apart = means["untied, predicts"] > means["untied, reads"] + 0.1
print("the cone is in the matrix that predicts:", apart)

# %% [markdown]
# **Figure 5.** This answers the first prediction: the cone is in the matrix that **predicts**, tied or not. In
# the untied model a row of $E$ gets a gradient only when its word is read, and the gradients of other words do
# not push the row. So tying does not cause the cone. The likely cause is the push of lesson 1 with Adam,
# which turns small pushes on rare words into large steps. Tying hands the cone on to the input, where rare
# words may be hard to tell apart. Press and Wolf (2017) found, too, that a tied matrix resembles one that predicts.
#
# The kept runs of the plan `data/plans/lessons-05.toml` have three seeds a
# model. The table shows means with **95 % intervals**: of a hundred such intervals, each from new seeds,
# about 95 would hold the mean of all seeds there are.

# %%
seeds = {name: [] for name in columns}
for p in plan:
    name = p.recipe.split("/")[-1]
    same = first[name].experiment().change(seed=p.seed)
    if name in seeds and p.experiment() == same:
        seeds[name].append(p)
kept = {name: untested.read(of) for name, of in seeds.items()}
text = evidence.text_of(first["tied"].experiment().to_dict())

# %%
rows, interval = {}, untested.interval
for name, runs in kept.items():
    shapes = {"W": "geometry", "E": "input_geometry"}
    last = [run["epochs"][-1]["train_perplexity"] for run in runs]
    of = [run["metrics"] for run in runs]
    rows[name] = {"parameters": f"{of[0]['parameters']:,}"}
    rows[name]["training perplexity"] = interval(last, 0)
    scores = [m["test_perplexity"] for m in of]
    rows[name]["test perplexity"] = interval(scores, 0)
    for job, key in shapes.items():
        cosines = [m[key]["mean_cosine_rare"] for m in of if m.get(key)]
        if cosines:
            rows[name][f"cosine, rare, {job}"] = interval(cosines)
whole = pd.DataFrame(rows).T.fillna("the same matrix")
tables.with_ngrams(whole, text, digits=0)

# %% [markdown]
# *Kneser-Ney n* only counts runs of up to $n$ words. In the table it has the lowest perplexity, so these runs
# are no evidence.
#
# In the table the **augmented loss** lowers the test perplexity of both models.
# **Tying** makes the model worse here: in the table its training perplexity is higher, too.
# Longer runs say the opposite, see the end.

# %% [markdown]
# ## The cost
#
# Tying saves a whole word matrix. The augmented loss needs the products $E e_y$ of every target's vector
# with all words: one more product beside the three that the output layer takes in training. If the gradient
# flows through $\tilde y$, there are two more. Here is the count for our model, in millions of
# multiplications and additions (MFLOP):


# %%
def costs(e, N):
    """Return parameters and millions of operations a token of training."""
    with torch.device("meta"):  # shapes only
        built = e.build(N)
    layer, rest = cost.output_macs(built, e), cost.encoder_macs(built, e)
    return {
        "parameters": f"{sum(p.numel() for p in built.parameters()):,}",
        "output layer, MFLOP a token": f"{6 * layer / 1e6:.1f}",
        "whole model, MFLOP a token": f"{6 * (layer + rest) / 1e6:.1f}",
    }


rows = {n: costs(first[n].experiment(), len(corpus)) for n in columns}
pd.DataFrame(rows).T

# %% [markdown]
# ## When not to use it
#
# - **Tying** needs a context as wide as a word vector. A model whose hidden size differs needs a map
#   between the two, which is the $A$ of the theory.
# - Do not tie where the jobs differ: the output is in another language, or is no text.
# - In a very large model the word matrix is a small share of the parameters, so tying saves little.
# - **The augmented loss** needs a temperature and a weight.
# - Neither tying nor the loss is a remedy for the cone.

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $E$, $e_i$ | `model.words`, `E` | input matrix, its row for word $i$ |
# | $W$, $w_i$ | `model.output_layer.words`, `W` | output matrix; the same object when tied |
# | $h$, $l = Wh$ | `hidden`, `l` | context, logits |
# | $y$, $e_y$ | `y`, `E[y]` | target, its vector |
# | $\tau$, $\alpha$ | `tau`, `alpha` | temperature and weight of the loss |
# | $\tilde y$, $\hat y$ | `soft`, `predicted.exp()` | soft target and softened prediction |
# | $s = E e_y$ | `s` | logits of the soft target |
# | $A$ | `theory.zero_loss_map` | the map with $W = EA$ |

# %% [markdown]
# ## Exercises
#
# Replace `None` by your answer and run the cell below it.
#
# ### 1. Fewer *a*, *an*, *the* and `<unk>`?
# *Difficulty 2/3, importance 3/3, fifteen minutes.* The paper reports that its model, tied and with the
# augmented loss, gives less probability to `<unk>` and to very frequent words. How much do these four words get
# *together*, on average over the positions of the test text, from `live["untied"]` and `live["tied"]`? Assign
# `given`, a dict from the name to a probability.
#
# <details><summary>Hint</summary>
#
# `log_prob_blocks(model, corpus.test, corpus.eos)` yields log P, a row for every position, block by
# block, as in [lesson 4](04_softmax_bottleneck.ipynb); `corpus.index["the"]` is a column.
#
# </details>
# <details><summary>Second hint</summary>
#
# Compare with the share that each word really has in the test text. A model whose probability is
# lower may be better or worse calibrated.
#
# </details>

# %% tags=["exercise"]
given = None  # {"untied": mean probability of the four, "tied": …}


# %%
def share_of_four(found):
    """Return whether the models give the four words these shares."""
    four = [corpus.index[word] for word in ("a", "an", "the", "<unk>")]
    of = dict(tokens=corpus.test, eos=corpus.eos, progress=False)
    for name, run in live.items():
        blocks = log_prob_blocks(run.model, **of)
        p = torch.cat([block[:, four].exp() for block in blocks]).mean(0)
        if np.isclose(found[name], p.mean().item(), rtol=0.02):
            return "this is the mean of one of the four, not their sum"
        if not np.isclose(found[name], p.sum().item(), rtol=0.02):
            return f"{name}: take exp, add the four, average the rows"
    return True


check("05.1", given, share_of_four)

# %% [markdown]
# ### 2. Between tied and untied (open)
# *Difficulty 3/3, importance 2/3, half an hour.* The theory says $W = EA$ with a free $d \times d$ matrix $A$.
# Tying sets $A$ to the identity and leaves the rest to the network. Build the model in between, with $A$
# learned, and decide whether the extra $d^2$ parameters buy anything. What would a convincing comparison have to
# hold fixed?
#
# <details><summary>Hint</summary>
#
# $W h = E (A h)$: a linear layer behind the encoder is enough, and no word matrix changes. An encoder that
# ends in a feed-forward block can already compute $Ah$; try it with an encoder that cannot.
#
# </details>

# %% [markdown]
# ## What we saw
#
# [Notebook 30](30_leaderboard.ipynb) explains the terms:

# %%
tested = ["inan2017-tying", "inan2017-augmented"]
display(Markdown(claims.conclusions(*tested)))

# %% [markdown]
# This lesson shows:

# %%
numbers = {name: kept[name][0]["metrics"]["parameters"] for name in kept}
saved = numbers["untied"] - numbers["tied"]
display(
    Markdown(
        f"In an untied model the rare words have a mean cosine of "
        f"{means['untied, predicts']:.2f} in the matrix that predicts and "
        f"{means['untied, reads']:.2f} in the one that reads: trained by "
        f"Adam, the cone is where the model predicts, tied or not. At a "
        f"high temperature the augmented loss takes W into the column "
        f"space of E: the distance falls to {noisy[-1]:.2f}, though the "
        f"contexts say little of their targets. Tying saves {saved:,} "
        f"parameters."
    )
)

# %% [markdown]
# ## References
#
# - H. Inan, K. Khosravi, R. Socher (2017). *Tying Word Vectors and Word Classifiers: A Loss
#   Framework for Language Modeling.* ICLR. [arXiv:1611.01462](https://arxiv.org/abs/1611.01462)
# - O. Press, L. Wolf (2017). *Using the Output Embedding to Improve Language Models.* EACL.
#   [arXiv:1608.05859](https://arxiv.org/abs/1608.05859)
# - G. Hinton, O. Vinyals, J. Dean (2015). *Distilling the Knowledge in a Neural Network.*
#   [arXiv:1503.02531](https://arxiv.org/abs/1503.02531)
# - Å. Björck, G. H. Golub (1973). *Numerical Methods for Computing Angles Between Linear
#   Subspaces.* Mathematics of Computation 27.
#   [doi:10.1090/S0025-5718-1973-0348991-3](https://doi.org/10.1090/S0025-5718-1973-0348991-3)
# - J. Gao, D. He, X. Tan, T. Qin, L. Wang, T.-Y. Liu (2019). *Representation Degeneration Problem
#   in Training Natural Language Generation Models.* ICLR.
#   [arXiv:1907.12009](https://arxiv.org/abs/1907.12009)

# %% [markdown] tags=["way"]
# ← Previous: [4. The softmax bottleneck: how many directions can log P have?](04_softmax_bottleneck.ipynb)
#
# ↓ Deeper: [5b. Going deeper: tying and the augmented loss in numbers](05b_tying_in_numbers.ipynb)
#
# → Next: [6. Cosine regularisation: pushing the words apart](06_cosine_regularization.ipynb)
