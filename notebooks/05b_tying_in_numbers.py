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
# # 5b. Going deeper: tying and the augmented loss in numbers
#
# **Question.** How near does the augmented loss bring two matrices in a network, who wins when four models are trained to the end, and what does the soft target know?
#
# This notebook goes on where [lesson 5](05_tying_and_augmented_loss.ipynb) stops. Nothing later needs it.

# %% [markdown]
# ## What you will learn
#
# - to repeat Figure 1 of Inan et al. (2017) at a small size, and to test two explanations of the
#   difference;
# - to compare four models, tied or untied, with the loss or without, beside the paper's Table 1;
# - to see why a tied model needs the gradient through the soft target;
# - to tell what similarity of words adds from what smoothing adds.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** [Lesson 5](05_tying_and_augmented_loss.ipynb), whose symbols this notebook uses.
#
# **Reading.** 69 minutes. **Difficulty.** 3 of 3.
#
# | profile | minutes | runs on | what is trained before your eyes |
# |---|---|---|---|
# | smoke | 0.3 | any CPU | the same models for seconds |
# | quick | 1.5 | two CPU cores | two small LSTMs, a small Transformer |
# | standard | 15 | two CPU cores | the Transformer on the whole corpus |
# | full | 10 | one GPU | the same, for longer |
#
# Sweeps and comparisons over seeds are read from results that are kept with the course.
#
# On Google Colab, run this in a first cell and restart the session:
#
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of every random draw and of the models trained here

# %%
import re
import tempfile
from collections import defaultdict

import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown, display
from torch.nn import functional as F

# %%
import course_lab
from course_lab import (
    claims,
    cost,
    evidence,
    plans,
    plots,
    published,
    results,
    tables,
    untested,
)
from course_lab.progress import check

# %%
from course_lib import theory
from course_lib.evaluation import cache
from course_lib.metrics import subspaces
from course_lib.output_layers import AugmentedLoss, FullWords, Softmax

_ = torch.manual_seed(SEED)

# %% [markdown]
# ## Predict
#
# 1. An untied network is trained on a mixture of cross-entropy and augmented loss. How large must the
#    share of the augmented loss be before the column spaces of $E$ and $W$ come together?
# 2. A trained model has a few thousand words, and $\tau = 20$. How much probability does the soft target give
#    to the target itself: about one half, about one in a hundred, or hardly more than to any other word?

# %% [markdown]
# ## In a network: the paper's Figure 1
#
# In training nothing is fixed: $E$ moves, the encoder moves, and the cross-entropy pulls $W$ where it
# predicts best. The paper tests the theory with a small untied LSTM on a short text, without any
# regularisation, with the rows of $E$ held at norm 1. Its loss weighs the cross-entropy $L_\text{CE}$
# against the augmented loss $L_\text{aug}$, with a share $\beta$ between 0 and 1:
#
# $$(1-\beta)\,L_\text{CE} + \beta\tau^2 L_\text{aug}.$$
#
# We do the same at a size for a lesson. The plan `data/plans/lessons-05.toml` has all settings. Its runs,
# three seeds a setting, are kept with the course. Two runs are repeated here step by step: one without the
# augmented loss ($\beta=0$), and one with nothing else ($\beta=1$).

# %%
plan = plans.read_plan("lessons-05")


def settings(experiment):
    """Return weights and temperature of the losses of an experiment."""
    ce, *more = [o.options for o in experiment.objectives]
    predicts = experiment.output_words or experiment.words
    more = more[0] if more else {}
    return {
        "β": round(1 - ce.get("weight", 1.0), 3),
        "α": more.get("weight", 0.0),
        "τ": more.get("temperature", 0.0),
        "through": more.get("gradient", False),
        "epochs": experiment.optimisation.epochs,
        "start": predicts.options.get("init"),
    }


# %%
kept = untested.read(plan.runs)
figures = "test_perplexity", "subspace_distance", "parameters"
figures += "geometry", "input_geometry"
rows = [
    {"recipe": p.recipe.split("/")[-1], "seed": p.seed}
    | settings(p.experiment())
    | {figure: content["metrics"].get(figure) for figure in figures}
    | {"training": content["epochs"][-1]["train_perplexity"]}
    for p, content in zip(plan.runs, kept, strict=True)
]
runs = pd.DataFrame(rows)
display(Markdown(course_lab.describe_origin(kept)))

# %%
pair = {}
for p in plan.runs:
    e = p.experiment()
    β, τ = settings(e)["β"], settings(e)["τ"]
    if "subspace" in p.recipe and β in (0, 1) and τ == 10:
        epochs = 5 if PROFILE == "smoke" else e.optimisation.epochs
        later = e.change(seed=SEED, optimisation={"epochs": epochs})
        pair.setdefault(int(β), later)  # the first: others train longer


# %%
def watched(experiment):
    """Return steps, distances of the column spaces, and the run."""
    steps, distances = [], []

    def watch(step, model):
        if step % 10 == 0:
            E, W = model.words.matrix(), model.output_layer.words.matrix()
            steps.append(step)
            distances.append(subspaces.subspace_distance(W, E))

    with tempfile.TemporaryDirectory() as folder:
        options = dict(folder=folder, callback=watch, progress=False)
        run = course_lab.run(experiment, **options)
    return (steps, distances), run


# %%
pairs = {β: watched(experiment) for β, experiment in pair.items()}
curves = {f"β = {β}": path for β, (path, _) in pairs.items()}
ends = {β: path[1][-1] for β, (path, _) in pairs.items()}
figure = plots.lines(curves, "training step", "distance of W from E")
figure.axes[0].set_ylim(0, 1.05)
plots.show(
    figure,
    alt="Distance between the column spaces of input and output matrix "
    f"over training. Without the augmented loss it ends at {ends[0]:.2f}; "
    f"with nothing else it ends at {ends[1]:.2f}.",
)

# %% [markdown]
# **Figure 1.** With nothing but the augmented loss, $W$ comes nearer to $E$. Without this loss, $W$ stays as far
# from $E$ as $W$ began.
#
# What do the theory's two maps say of these two networks? `tying_map` asks how much of $W$ is not $EA$.
# `zero_loss_map` asks how far the contexts of the training text are from knowing their targets.

# %%
rows = {}
for β, (_, run) in pairs.items():
    model, text = run.model, run.corpus.train
    with torch.no_grad():
        contexts = model(text[:-1, None]).hidden.flatten(0, 1)
    E, W = model.words.matrix(), model.output_layer.words.matrix()
    zero = theory.zero_loss_map(E, contexts, text[1:])
    rows[f"β = {β}"] = {
        "training perplexity": run.epochs[-1]["train_perplexity"],
        "share of W outside E": theory.tying_map(E, W).residual,
        "residual of zero loss": zero.residual,
    }
pd.DataFrame(rows).T.round(2)

# %% [markdown]
# With the augmented loss alone, most of $W$ is $EA$ although the loss is far from zero, as least squares
# promised. The distance is larger than the share of $W$ outside $E$, because the distance counts all $d$
# directions alike, also those in which $W$ is short.
#
# Now we take all of the paper's Figure 1 from the kept runs: first $\beta$ at $\tau = 10$, then $\tau$. The
# paper varies $\tau$ at $\beta = 0.5$. At our size $W$ has hardly moved there, so we take 0.9.

# %%
subspace = runs[runs.recipe == "subspace"]
usual = (subspace.epochs == 80) & (subspace.start == 0.1)
figure1 = subspace[usual]

# %%
panels = {
    "β, share of the augmented loss": figure1[figure1.τ == 10],
    "temperature τ": figure1[figure1.β == 0.9],
}
by = dict(zip(panels, "βτ", strict=True))


def intervals(table, column, of):
    """Return {setting: values} and {setting: mean with interval}."""
    groups = {k: g[of].to_numpy() for k, g in table.groupby(column)}
    return groups, {k: untested.mean(v) for k, v in groups.items()}


# %%
figure, axes = plots.panels(1, 2, height=4, sharey=True)
across_label, _ = panels  # the shares are places: most are near 1
means = {}
for ax, (label, table) in zip(axes, panels.items(), strict=True):
    groups, means[label] = intervals(table, by[label], "subspace_distance")
    drawn = [groups, means[label]]
    if label == across_label:
        drawn = [{f"{k:g}": v for k, v in one.items()} for one in drawn]
    plots.seeds(*drawn, label, "", ax=ax)
axes[0].set(ylabel="distance of W from E", ylim=(0, 1.05), title="τ = 10")
axes[1].set(xscale="log", title="β = 0.9")
across, along = means.values()

# %% tags=["hide-input"]
plots.show(
    figure,
    alt="Left: distance of the column spaces against β, falling from "
    f"{across[0].mean:.2f} at 0 to {across[1].mean:.2f} at 1. Right: "
    f"against τ, from {along[min(along)].mean:.2f} at the lowest to "
    f"{along[max(along)].mean:.2f} at the highest temperature.",
)

# %%
# NBVAL_CHECK_OUTPUT
print("no augmented loss: above 0.9: ", across[0].mean > 0.9)
print("only augmented loss: below 0.8:", across[1].mean < 0.8)
print("the intervals do not touch:    ", across[0].low > across[1].high)

# %% [markdown]
# **Figure 2.** Where the seeds agree closely, their interval is hardly seen. This answers the first prediction.
# The direction is as the theory says: the more augmented loss, the nearer $W$ comes to $E$, seed by seed. The
# amount is not the paper's. In the paper the distance falls rapidly with $\beta$ and ends near 0. Here equal
# shares of both losses leave $W$ about where chance put it, and the augmented loss alone goes only part of the
# way. There are two possible explanations:
#
# - **The runs are too short.** The weight $\beta\tau^2$ cancels the temperature from the gradient, but not
#   $N$. The augmented loss pulls each logit with $(l-s)/N$, while the cross-entropy pulls the target's logit
#   with a force near 1 until the model knows the text by heart. The paper aims at the least training loss
#   that can be had; our runs end after a few hundred steps.
# - **$W$ keeps its random start** in every direction that the contexts hardly visit. The distance counts
#   such a direction as much as any other.
#
# Both explanations can be tested: we train three and ten times as long, and we begin with a $W$ a hundred
# times smaller.

# %%
longer = subspace[(subspace.start == 0.1) & (subspace.τ == 10)]
longer = longer[longer.β.isin(longer[longer.epochs > 80].β)]
figure, (left, right) = plots.panels(1, 2, height=4.3, sharey=True)

# %%
paths = {}
for β, table in longer.groupby("β"):
    means_of = intervals(table, "epochs", "subspace_distance")[1]
    paths[β] = {e: m.mean for e, m in means_of.items()}
    for e, m in means_of.items():
        left.plot([e, e], [m.low, m.high], "-", color=plots.INK, lw=1)
curves = {
    f"β = {β:g}": (np.array(list(path)), np.array(list(path.values())))
    for β, path in paths.items()
}
_ = plots.lines(curves, "epochs", "distance of W from E", log="x", ax=left)

# %%
small = subspace[subspace.start < 0.1]
alike = figure1[(figure1.τ == 10) & figure1.β.isin(small.β)]
both = {"as before": alike, "÷ 100": small}
starts = {
    f"{β:g}\n{how}": table.subspace_distance[table.β == β].to_numpy()
    for β in sorted(set(small.β))
    for how, table in both.items()
}
bars = {name: untested.mean(values) for name, values in starts.items()}
_ = plots.seeds(starts, bars, "β, and how W begins", "", ax=right)

# %%
left.set(ylim=(0, 1.05), title="longer training")
ticks = sorted(set(longer.epochs))
left.set_xticks(ticks, [str(e) for e in ticks])
left.minorticks_off()
right.set_title("a smaller start")
first, *_, last = ticks
fall = "; ".join(
    f"{path[first]:.2f} to {path[last]:.2f} at β = {β:g}"
    for β, path in paths.items()
)
level = "; ".join(f"{n}: {m.mean:.2f}" for n, m in bars.items())

# %% tags=["hide-input"]
drawn = level.replace("\n", ", ")
plots.show(
    figure,
    alt="Distance of the column spaces. Left, against epochs: from "
    f"{fall}. Right, for two shares β with W drawn as before and a "
    f"hundred times smaller: {drawn}",
)

# %%
gains = []
for β in sorted(set(small.β)):
    before, smaller = (
        t.subspace_distance[t.β == β].to_numpy() for t in both.values()
    )
    gain = untested.mean(before - smaller)  # a seed each
    gains.append(gain.mean)
    print(
        f"β = {β:g}, as before minus ÷ 100: {gain.mean:+.3f}, "
        f"95 % interval {gain.low:+.3f} to {gain.high:+.3f}"
    )

# %%
# NBVAL_CHECK_OUTPUT
print("β = 1: ten times the epochs more than halve the distance:",
      paths[1][last] < paths[1][first] / 2)  # fmt: skip
print("β = 0: no nearer:", paths[0][last] > paths[0][first] - 0.02)
print("a smaller start brings W nearer by 0.05:", max(gains) > 0.05)

# %% [markdown]
# **Figure 3.** Longer training makes a large difference. The smaller start makes no difference that three
# seeds would show at these two shares.
#
# With nothing but the augmented loss, $W$ goes where the paper says. The loss cannot see a vector that is added
# to all rows of $W$, as exercise 1 shows, so $W$ may never give up that one direction. Of $d=16$ directions a
# single wrong one costs up to $1/\sqrt{16} = 0.25$. So this direction may be all that is left after 800 epochs;
# the figure cannot tell.
#
# Where the cross-entropy has a share, ten times the epochs are not enough, though the curves still fall. The
# curves need not fall to 0. Both losses together are at rest where their pulls on every logit cancel,
#
# $$l - s \approx N\,\frac{1-\beta}{\beta}\,(\mathbf 1_y - p)$$
#
# up to a shift of all logits, with $\mathbf 1_y$ the one-hot target and $p$ the prediction. So the logits
# should be those of the soft target *and* stand out at the target. The first part lies in the column space of
# $E$. The second part is a one in another place for each target. No $d < N$ directions hold all of these, and
# the part vanishes only at $\beta = 1$.
#
# The temperature does little here, and its effect has the wrong sign: $W$ comes nearest at the lowest
# temperature. The straight line of lesson 5 is a poor approximation there. The rows of $E$ have norm 1, so the
# target's own entry of $s$ is 1. At $\tau = 0.5$ this entry counts $e^2\approx 7.4$ in the softmax, where the
# straight line has $1 + 2$.
#
# What happens nearer the paper's size, with 20,000 tokens and 300 dimensions? The plan `inan2017-figure-1` has
# runs of 60 epochs, some 1,700 steps each:

# %%
full_size = plans.read_plan("inan2017-figure-1").runs
kept_full = [
    (p, course_lab.read_kept(p.key))
    for p in full_size
    if (results.kept_folder() / p.key).exists()
]

# %%
rows = [
    settings(p.experiment())
    | {"seed": p.seed, "distance": content["metrics"]["subspace_distance"]}
    | {"training perplexity": content["epochs"][-1]["train_perplexity"]}
    for p, content in kept_full
]
shown = ["epochs", "seed", "distance", "training perplexity"]
table = pd.DataFrame(rows, columns=["β", "τ", *shown])
table = table.sort_values(["τ", "β"])
contents = [content for _, content in kept_full]
display(Markdown(course_lab.describe_origin(contents)))
table.set_index(["β", "τ"])[shown].round(2)

# %% [markdown]
# In the table the training perplexity is lower with a share of the augmented loss than without it, up to a share of
# 0.9. With nothing but this loss it is far higher, because the cross-entropy is not trained. We have not looked for
# why it is lower. These runs have one seed each, and they are too short. Only where nothing but the
# augmented loss pulls has $W$ begun to move. Two random spaces of $d$ among $N$ dimensions are $\sqrt{1-d/N}$
# apart, which is nearly 1 where a text has thousands of words. The plan also has runs of ten times the epochs at
# the paper's size, which wait for a GPU. We have not seen whether they end near 0.

# %% [markdown]
# ## Four models over three seeds
#
# Tied or untied, with the augmented loss or without: each of the four models is the Transformer of lesson 2
# on a short text. The loss has $\tau = 20$ and $\gamma = 0.65$, the middle of the paper's range for its
# smaller corpus. We train the tied model without the loss again, for later sections.

# %%
columns = ["untied", "augmented", "tied", "tied-augmented"]
first = {}
for p in plan.runs:  # the first of a recipe has the recipe's settings
    first.setdefault(p.recipe.split("/")[-1], p)


def experiment(name):
    """Return that of the plan, or that of a longer profile."""
    if PROFILE in ("standard", "full"):
        recipe = course_lab.recipes[f"docstrings/transformer-128/{name}"]
        return course_lab.profile(recipe, PROFILE, seed=SEED)
    e = first[name].experiment().change(seed=SEED)
    epochs = 1 if PROFILE == "smoke" else e.optimisation.epochs
    return e.change(optimisation={"epochs": epochs})


# %%
def trained(name):
    """Return the run of one column."""
    chosen = experiment(name)
    with tempfile.TemporaryDirectory() as folder:
        return course_lab.run(chosen, folder=folder, progress=False)


live = {"tied": trained("tied")}
corpus = live["tied"].corpus
text = evidence.text_of(first["tied"].experiment().to_dict())

# %%
words = runs[runs.recipe != "subspace"].copy()
for job, column in {"W": "geometry", "E": "input_geometry"}.items():
    words[f"cosine {job}"] = [
        shape["mean_cosine_rare"] if isinstance(shape, dict) else np.nan
        for shape in words[column]
    ]
plain = words[~words.through]
default = plain[plain.α.isin([0, 13]) & plain.τ.isin([0, 20])]
by_model = dict(list(default.groupby("recipe")))

# %%
rows, interval = {}, untested.interval
for name in columns:
    group, untied = by_model[name], "tied" not in name[:4]
    rows[name] = {
        "parameters": f"{group.parameters.iloc[0]:,.0f}",
        "training perplexity": interval(group.training, 0),
        "test perplexity": interval(group.test_perplexity, 0),
        "cosine, rare, W": interval(group["cosine W"]),
    }
    if untied:
        rows[name]["cosine, rare, E"] = interval(group["cosine E"])
        apart = interval(group.subspace_distance)
        rows[name]["distance of W from E"] = apart
four = pd.DataFrame(rows).T.fillna("the same matrix")
tables.with_ngrams(four, text, digits=0)

# %% [markdown]
# In the table above the **augmented loss** lowers the test perplexity of both models, while the training
# perplexity stays where it was. So the loss does not help to fit the text. Perhaps it helps the model not to be
# too sure of the text, as a softened target would. The paper, too, sees the largest gains where data are few.
#
# **Tying** makes the model worse here. The paper reports this for no size. The training perplexity tells more:
# in these few steps the tied model has learned far less of the training text than the untied model. The tied
# model does not overfit more; it is behind. One reason may be that the tied model must read with a matrix that
# is just falling into the cone. *Kneser-Ney 5*, which only counts runs of up to five words, has a lower test
# perplexity than all four models, so these runs are no evidence on the paper. The paper trains on far more
# text. Our comparison is one of speed, and leaves open which model is better in the end.

# %% [markdown]
# ## At the paper's size
#
# Which model is better in the end? The smallest model of the paper's Table 1 is an LSTM with two layers of 200
# units and dropout, trained by SGD on all of the Penn Treebank. Table 1 has four columns for this model. The
# course has trained a model for each column with the recipes `ptb/vd-lstm-200/…`. Each model has one run, and the
# augmented model has a second run with another seed. The learning
# rate of these runs begins to fall one epoch earlier than that of today's recipes, which have been corrected
# since.


# %%
WHOLE_SESSION = "30477d906d4f"  # variant that repeats the schedule


def told_apart(name, experiment):
    """Return the run's name in the table; None for a run of yours."""
    known = {
        "": name,
        "optimisation.epochs=26": name.replace("second", "longer"),
        WHOLE_SESSION: name.replace("second", "whole"),
        "objectives.1.gradient=false,optimisation.epochs=23":
            "constant target",
    }  # fmt: skip
    name = known.get(experiment.get("variant", ""))
    if name and experiment["seed"] != 1:
        name += f", seed {experiment['seed']}"
    return name and name.replace("baseline", "untied")


# %%
full = defaultdict(untested.Blank)
for folder in course_lab.kept_results():
    content = course_lab.read_result(folder)
    made = content["experiment"]
    model, _, name = made["name"].partition("-200/")
    own = model == "ptb/vd-lstm" and made["profile"] == "standard"
    by_sgd = "adamw" not in name
    if own and by_sgd and (name := told_apart(name, made)):
        full[name] = content

# %%
took = [c["provenance"]["wall_seconds"] / 3600 for c in full.values()]
hours = f"{min(took, default=0):.1f} to {max(took, default=0):.1f} hours."
origin = course_lab.describe_origin(list(full.values()))
display(Markdown(f"{origin} A run took {hours}"))

# %%
length = max((len(c["epochs"]) for c in full.values()), default=9)
valid = {
    name: np.array([e["valid_perplexity"] for e in full[name]["epochs"]]
                   or [np.nan] * length)
    for name in (*columns, "constant target")
}  # fmt: skip
before = min(len(valid["tied"]), len(valid["untied"]))
behind = valid["tied"][:before] > valid["untied"][:before]
last = max(np.flatnonzero(behind), default=-1) + 1  # epoch, tied behind

# %%
figure, (left, right) = plots.panels(1, 2, height=4.3)
curves, apart = {}, {}
for name, v in valid.items():
    at = np.arange(5, len(v) + 1)
    curves[name] = at, v[4:]
    n = min(len(v), len(valid["untied"]))
    apart[name] = at[: n - 4], (v[:n] - valid["untied"][:n])[4:]
plots.lines(curves, "epoch", "validation perplexity", ax=left)
_ = plots.lines(apart, "epoch", "difference from untied", ax=right)

# %%
left.legend_.remove()
right.set_ylim(-3, 7)
constant = valid["constant target"]
top = max(v[4] for n, v in valid.items() if n != "constant target")
if top == top:
    left.set_ylim(top=1.03 * top)
said = f"constant target: {constant[-1]:.0f}\n"
said += f"after {len(constant)} epochs ↑"
_ = left.annotate(said, (0.98, 0.97), xycoords="axes fraction", ha="right",
              va="top", fontsize=10)  # fmt: skip

# %% tags=["hide-input"]
ends = ", ".join(f"{name} {v[-1]:.1f}" for name, v in valid.items())
plots.show(
    figure,
    alt="Validation perplexity by epoch, and its difference from the "
    f"untied model's. After the last epoch: {ends}. The tied model is "
    f"behind the untied one up to epoch {last}.",
)

# %% [markdown]
# **Figure 4.** The learning curves of the first seed, from the fifth epoch on. The left panel has the
# validation perplexity. The right panel has the difference from the untied model after as many epochs; a
# value below zero is better than untied. The curve "constant target" lies above the right panel; it belongs
# to a shorter run, which the next section explains.
#
# The table has the perplexities beside the paper's. The paper went on for a second session from the final
# weights, and does not say for how long. A *longer* session goes on with the same schedule for some more
# epochs, whose number stands in brackets. The *whole* session is the first session's schedule once more,
# from the final weights of the other seed. A cell is empty where we have not trained the model.

# %%
said = published.rows().query(
    "paper == 'inan2017' & table == '1'"
    " & corpus == 'ptb' & model == 'vd-lstm-200'"
)
named = {"baseline": "untied", "augmented-loss": "augmented"}
named |= {"tied+augmented-loss": "tied-augmented"}
said = said.assign(name=said.method.replace(named))
said = said.set_index(["split", "name"]).value

# %%
rows = {}
for name in columns:
    now, epochs = full[name]["metrics"], full[name]["epochs"]
    best = min(epochs, key=lambda e: e["valid_perplexity"],
               default=untested.Blank())  # fmt: skip
    rows[name] = {
        "parameters": f"{now['parameters']:,}",
        "validation perplexity": f"{best['valid_perplexity']:.1f}",
        "the paper's validation": f"{said['valid', name]:.1f}",
        "training perplexity": f"{best['train_perplexity']:.1f}",
        "test perplexity": f"{now['test_perplexity']:.1f}",
    }

# %%
for name in columns:
    for kind in ("second", "longer"):
        if again := full.get(f"{name}/{kind}-session"):
            reached = again["metrics"]["test_perplexity"]
            epochs = len(again["epochs"])
            rows[name] |= {f"{kind} session": f"{reached:.1f} ({epochs})"}
    rows[name]["the paper's test"] = f"{said['test', name]:.1f}"

# %%
for name in columns:
    if other := full.get(f"{name}, seed 2"):
        reached = other["metrics"]["test_perplexity"]
        rows[name]["another seed"] = f"{reached:.1f}"
    if other := full.get(f"{name}/whole-session, seed 2"):
        reached = other["metrics"]["test_perplexity"]
        epochs = len(other["epochs"])
        rows[name]["its whole session"] = f"{reached:.1f} ({epochs})"
    if measured := full[name]["metrics"].get("geometry"):
        cosine = measured["mean_cosine_rare"]
        rows[name]["cosine of rare words"] = f"{cosine:.2f}"

# %%
order = ["parameters", "training perplexity", "validation perplexity"]
order += ["the paper's validation", "test perplexity"]
order += ["second session", "longer session"]
order += ["another seed", "its whole session", "the paper's test"]
order += ["cosine of rare words"]
compared = pd.DataFrame(rows).T.reindex(columns=order)
ptb = evidence.text_of(course_lab.recipes["ptb/desk/tied"].to_dict())
compared = compared.dropna(axis=1, how="all").fillna("")
tables.with_ngrams(compared, ptb)

# %% [markdown]
# With their second session, where they have one, the four models stand in the paper's order. The first two
# steps between them are smaller than the paper's. With one run each, the step from augmented to tied and
# augmented is too small to count.
#
# - **Tying.** The tied model is behind the untied model for most of the training, as in the small runs. The
#   tied model has caught up in the end, with little more than half of the parameters.
# - **The augmented loss** lowers the perplexity of either model in the table. In the first session it does
#   so by less than half as much as in the paper.
# - **A second session**, as in the recipes `ptb/vd-lstm-200/*/second-session`, begins at the final weights
#   with a high learning rate. By the table above it lowers the perplexity by tenths, which is too little to
#   count in single runs. With both remedies at work, and in the whole session of the other seed, the table
#   has a larger gain. So the length of the paper's second session is likely a part of the difference.
# - **No cone.** Where the geometry was kept, the rare words of the matrix that predicts have a mean cosine
#   near 0. These models are trained by SGD.
# - **Single runs.** The augmented model, trained with another seed, ends farther from its first run than
#   the second session moved it, so differences of that size say nothing.
#
# Is it SGD that keeps the cone away? The plan `optimiser-and-cone` trains the same tied model by AdamW, from
# the usual start and from one of a tenth, and by *coupled Adam*, from the usual start alone. Coupled Adam, of
# [lesson 11](11_modern_remedies.ipynb), divides each column of the gradient by one number that all words share.
# The *desk* model is a small recurrent network that reads the whole Penn Treebank. The plan `desk` has its tied
# form by AdamW and by coupled Adam. The plan `desk-sgd-alone` trains it by SGD. Here are the runs that are
# kept. The share of the common vector is the squared length of the mean row over the mean squared length of all
# rows, as in [lesson 8](08_spectrum_control.ipynb):

# %%
of = evidence.read()
kept_runs = evidence.of_plan(of, "optimiser-and-cone")
at_desk = r"ptb/desk/(tied|tied/sgd-alone|coupled-adam)"
for name in ("desk-sgd-alone", "desk"):
    for planned, run in evidence.of_plan(of, name):
        if re.fullmatch(at_desk, planned.recipe) and not planned.change:
            kept_runs.append((planned, run))
kept_runs = {planned.key: (planned, run) for planned, run in kept_runs}

# %%
by_row = {}
for planned, run in kept_runs.values():
    if run and "geometry" in run.content["metrics"]:
        name = planned.recipe.removeprefix("ptb/")
        name = name.removeprefix("vd-lstm-200/")
        start = planned.experiment().words.options["init"]
        key = f"{name}, start {start}"
        by_row.setdefault(key, []).append(run.content["metrics"])
by_row["tied-augmented, by SGD"] = [full["tied-augmented"]["metrics"]]

# %%
shapes = {"mean_cosine_rare": "cosine, rare"}
shapes |= {"positive_share": "share > 0", "drift": "common vector"}

# %%
by_optimiser = {}
for name, runs in by_row.items():
    row = by_optimiser[name] = {"runs": len(runs)}
    for key, column in shapes.items():
        row[column] = interval([r["geometry"][key] for r in runs])
    scores = [r["test_perplexity"] for r in runs]
    row["test perplexity"] = interval(scores, 1)
tables.with_ngrams(pd.DataFrame(by_optimiser).T, ptb)

# %% [markdown]
# By AdamW the model has the cone, and a smaller start does not take the cone away. The optimiser is the
# likeliest cause, but the row *tied-augmented, by SGD* differs in more: the augmented loss, the learning rate
# and its schedule, the number of epochs, the length of a segment, weight decay and precision. AdamW and coupled
# Adam differ in nothing else. `desk/tied` and `desk/tied/sgd-alone` differ in the optimiser, its rate, and the
# decay: the decay is such that the weights shrink as fast by both. `desk/tied` and `desk/coupled-adam` differ
# in coupled Adam alone.
#
# By AdamW the common vector has most of the cloud in the table. By coupled Adam and by SGD next to nothing is left of
# it. Two questions stay open, because no plan has such runs: what the desk model does from the start 0.01, and what
# coupled Adam does from there. The last sentences count the runs of two plans that would tell more: `desk-sgd` has
# the desk's models by the SGD of the paper.

# %%
pair = [by_optimiser.get(f"desk/tied{end}, start 0.1")
        for end in ("", "/sgd-alone")]  # fmt: skip
if all(pair):
    adam, sgd = (row["cosine, rare"] for row in pair)
    said = "With nothing more changed, two rare words have cosine "
    said += f"{sgd} by SGD and {adam} by AdamW."
    if row := by_optimiser.get("desk/coupled-adam, start 0.1"):
        said += f" By coupled Adam it is {row['cosine, rare']}, at a test "
        said += f"perplexity of {row['test perplexity']} instead of "
        said += f"{pair[0]['test perplexity']}."
else:
    said = "*No run is kept in which the optimiser alone is SGD.*"
display(Markdown(said))
for name in ("optimiser-and-cone", "desk-sgd"):
    display(Markdown(evidence.done_of(of, name)))

# %% [markdown]
# ## Which way the gradient flows
#
# In the model above that is tied and augmented, the gradient flows through the soft target
# (`gradient=True`). In the small runs the soft target is a constant. At the paper's size the choice
# decides, as the curve "constant target" shows: with a constant target the model falls far behind. The
# formula for high temperatures gives a reason.
#
# In a tied model one matrix makes both logits, $l_i = w_i^\top h$ and $s_i = w_i^\top w_y$. Let the target's
# vector lie along the context, $w_y = r\,h$, and call $r$ its **reach**. Then $l_i - s_i = (1-r)\,l_i$ for
# every word, and the loss is zero at $r = 1$. Which way does a step take $r$? With $\tilde y$ a constant, a row
# moves along $h$ only. The target's own row moves by a multiple of $-(l_y - s_y)\,h$, up to a constant that all
# words share. With $l_y - s_y = r\,(1-r)\,\lVert h\rVert^2$ this changes $r$ by a multiple of
#
# $$-\,r\,(1-r)\,\lVert h\rVert^2 .$$
#
# Below 1 the reach $r$ falls, above 1 it grows: the step leads *away* from the state in which the loss is
# zero. The reason is that $s_y$ grows with the square of $r$ and $l_y$ only with $r$. Where the target's
# logit should be larger, making $w_y$ longer makes the demand larger still. With the gradient through
# $\tilde y$ the step descends a loss that has its minimum at $r = 1$, and leads there.
#
# Here are both gradients in numbers: one context, and 200 words with random vectors, except for the
# target's, which is $r\,h$. We take steps against either gradient and watch $r = h^\top w_y/h^\top h$.


# %%
def reach(c, through, steps=30, tau=20.0):
    """Return how far the target's vector reaches along h, by step."""
    torch.manual_seed(SEED)
    h, words = torch.randn(16), torch.randn(200, 16)
    words[0] = c * h  # word 0 is the target
    reached = []
    for _ in range(steps):
        reached.append((words[0] @ h / h.square().sum()).item())
        words.requires_grad_()
        s = words @ words[0] if through else (words @ words[0]).detach()
        a, b = (words @ h / tau).log_softmax(0), (s / tau).log_softmax(0)
        kl = F.kl_div(a, b, reduction="sum", log_target=True)
        (slope,) = torch.autograd.grad(len(words) * tau**2 * kl, words)
        words = (words - 2e-3 * slope).detach()
    return reached


# %%
figure, axes = plots.panels(1, 2, height=3.9, sharey=True)
choices = {"soft target a constant": False, "gradient through it": True}
starts, ends = (0.5, 0.9, 1.0, 1.1, 1.5), {}
for ax, (title, through) in zip(axes, choices.items(), strict=True):
    paths = {f"from {c:g}": reach(c, through) for c in starts}
    ends[through] = [path[-1] for path in paths.values()]
    curves = {c: (range(len(path)), path) for c, path in paths.items()}
    plots.lines(curves, "step", "reach r of the target's vector", ax=ax)
    ax.set(title=title, ylim=(-0.1, 2.6))

# %% tags=["hide-input"]
axes[0].legend_.remove()
axes[1].set(ylabel="")
plots.show(
    figure,
    alt="Reach of the target's vector along the context by step, from "
    "five starts. Left, with the soft target a constant, it falls to "
    f"{ends[False][0]:.2f} and {ends[False][1]:.2f} from the two below 1 "
    "and leaves the picture from the two above. Right, with the gradient "
    f"through it, it comes to {np.mean(ends[True]):.2f} from all.",
)

# %% [markdown]
# **Figure 5.** With a constant target nothing returns to $r = 1$: below 1 the target's vector shrinks, and
# above 1 it grows without end. With the gradient through the target all starts come to 1. In a whole model
# the cross-entropy makes the target's vector longer, and in time can push it over the edge. Is the small
# model that we trained above near the edge?

# %%
found = cache.predictions(live["tied"].model, corpus.test, corpus.eos)
W = live["tied"].model.words.matrix().detach().cpu()
along = (W[found.target] * found.hidden).sum(-1)
reached = along / found.hidden.square().sum(-1)
beyond = (reached > 1).double().mean()
print(f"r = {reached.median():.2f} (median); beyond 1: {beyond:.1%}")

# %% [markdown]
# The small model is far from the edge: by the median the reach of its targets is near 0.

# %% [markdown]
# ## The knobs swept
#
# We take the tied model again and give it more and more of the loss, $\gamma = \alpha/\tau$, at $\tau =
# 20$. Then we compare low temperatures with the high one at $\gamma = 0.65$. Every setting has three seeds.

# %%
swept = plain[plain.recipe == "tied-augmented"].copy()
swept["γ"] = (swept.α / swept.τ).round(3)
sweeps = {
    "γ = α / τ": ("γ", swept[swept.τ == 20]),
    "temperature τ": ("τ", swept[swept.γ == 0.65]),
}
measures = {
    "test_perplexity": "test perplexity",
    "cosine W": "mean cosine, rare words",
}
baseline = by_model["tied"]
plain = "tied without the loss"

# %%
figure, axes = plots.panels(2, 2, height=3.3, sharex="col", sharey="row")
for row, (measure, ylabel) in zip(axes, measures.items(), strict=True):
    m = untested.mean(baseline[measure])
    for ax, (label, (by, table)) in zip(row, sweeps.items(), strict=True):
        groups, means = intervals(table, by, measure)
        plots.seeds(groups, means, "", "", ax=ax)
        ax.axhspan(m.low, m.high, color=plots.COLOURS[2], alpha=0.25)
        line = {"color": plots.COLOURS[2], "linestyle": "-."}
        ax.axhline(m.mean, label=plain, **line)
        ax.set(xscale="log", xlabel=label if measure == "cosine W" else "")
        ax.set_xticks(list(groups), [f"{k:g}" for k in groups])
        ax.minorticks_off()
        ax.legend_.remove()
    row[0].set_ylabel(ylabel)

# %% tags=["hide-input"]
figure.legend(*axes[0, 0].get_legend_handles_labels(),
              loc="outside lower center", ncols=3)  # fmt: skip
without = baseline.test_perplexity.astype(float).mean()
best = swept.groupby(["γ", "τ"]).test_perplexity.mean().astype(float)
best = best.fillna(np.inf)
at = best.index[best.argmin()]
plots.show(
    figure,
    alt="Test perplexity and mean cosine of rare words against γ and "
    "against the temperature, with intervals, and the tied model without "
    f"the loss as a band at perplexity {without:.1f}. The "
    f"lowest mean is {best.min():.1f}, at γ = {at[0]:g}, "
    f"τ = {at[1]:g}.",
)


# %%
both = "tied-augmented"
pairs_of = {
    "untied − tied": ("untied", "tied"),
    "untied: loss − none": ("augmented", "untied"),
    "tied: loss − none": (both, "tied"),
    "tied: gradient through ỹ − without": (f"{both} gradient=True", both),
    "tied: label smoothing − none": ("smoothed", "tied"),
    "tied: label smoothing − loss": ("smoothed", both),
}

# %% [markdown]
# **Figure 6.** The perplexity is in the upper panels, the mean cosine of rare words in those at the bottom. The
# band is the tied model without the loss.
#
# Are these differences more than the chance of three seeds? Runs of one seed are pairs, and the paired test of
# [notebook 23](23_run_a_batch.ipynb) gives the chance $p$ of a difference at least as large if both settings were
# equally good. Many tests at once find a small $p$ more easily than one test does. Holm's correction raises every
# $p$ for that reason, here for all models that the plan declares, whether they stand in the table or not:
# `python -m course_lab batch table lessons-05 --baseline tied` prints the same $p$. The intervals are not corrected. Where the corrected $p$ is below 0.05 the first of the two
# is better or worse. *No difference larger than 2 %* stands where the data exclude 2 % either way.
#
# Three of the six tests change the tied model in another way. One test lets the gradient flow through $\tilde y$.
# Two tests put **label smoothing** in the place of the augmented loss: one compares it with no extra loss, the
# other with the augmented loss. Label smoothing takes a share of 0.1 of the target
# from the word that came and spreads it evenly over all words. The test takes logarithms of the test
# perplexities. The table turns their mean difference and its 95 % interval back into per cent.


# %%
def per_cent(test):
    """Return the change of the perplexity itself, with its interval."""
    logs = test[["difference", "difference low", "difference high"]]
    mean, low, high = 100 * np.expm1(logs.to_numpy(float) / 100)
    return f"{mean:+.1f} % [{low:+.1f}, {high:+.1f}]"


# %%
transformers, _ = tables.by_text(plan)  # the text of Figure 1 is another
tests = untested.compared(transformers, pairs_of)
told = {name: per_cent(test) for name, test in tests.iterrows()}
rows = tests[["p", "verdict"]].assign(p=tests.p.astype(float).round(3))
rows.insert(0, "change of perplexity", pd.Series(told))
rows.rename(columns={"p": "p, Holm"})

# %% [markdown]
# - More of the loss is better here, far beyond the paper's $\gamma$ of 0.5 to 0.8. Our text is far shorter, and
#   the paper, too, finds that the loss gains more where there is less text. All settings were compared on the
#   test text, so the best of them looks a little better than it is.
# - At the same $\gamma$ the temperatures of 1 and 5 do more than that of 20, because at a high temperature
#   $\hat y - \tilde y$ is itself of order $1/\tau$.
# - Label smoothing knows nothing of the words and needs no further product. In the table above label smoothing
#   has a lower mean perplexity than the augmented loss at the paper's $\gamma$, and three seeds leave open which of
#   the two is better. A larger $\gamma$ goes further.
#   Exercise 2 asks what similarity adds.
# - Whether the gradient flows through $\tilde y$ makes next to no difference in the table. In these
#   few steps no vector has grown as long as Figure 5 supposes.
# - In Figure 6 the loss lowers the mean cosine of the rare words, most at the lowest temperature, but the cone stays. A
#   likely reason, which is not measured here, is that the loss pulls the logits of rare words back from where
#   the push drives them.

# %% [markdown]
# ## What does the soft target know?

# %%
M = live["tied"].model.words.matrix().detach().cpu().double()
target = corpus.test[:2000]
rows = {}
for tau in (1, 5, 20, 80):
    soft = (M[target] @ M.T / tau).softmax(-1)
    entropy = -(soft * soft.log()).sum(1)
    rows[f"τ = {tau}"] = {
        "probability of the target": soft.gather(
            1, target[:, None]
        ).mean(),
        "1 / N": 1 / len(corpus),
        "perplexity of ỹ": entropy.mean().exp(),
        "N": len(corpus),
    }
pd.DataFrame(rows).T.astype(float).map("{:.5g}".format)

# %% [markdown]
# This answers the second prediction. At $\tau = 20$ the soft target *is* the uniform distribution, for all
# that one can see. Its perplexity, the exponential of its entropy, is the size of the vocabulary, and the
# target itself gets hardly more than any other word.
#
# That alone would not make the loss empty: the softened prediction flattens as well, and the loss still asks
# that the logits $l$ equal the target's logits $s$. But after so short a training the word vectors are
# short, and $s$ is nearly the same for all words. So the loss asks that the logits hardly spread, which makes
# it a relative of label smoothing. What similarity adds needs longer vectors, that is, longer training than
# ours.

# %% [markdown]
# ## How noisy is a target?
#
# The paper's argument for a soft target is about noise (equations 9 and 10). Were the true distribution $P^*$ of
# the next word the target, the gradient on the logits, $p - P^*$, would be the same whenever a context comes
# again. The one-hot target's gradient, $p - \mathbf 1_y$, is right only on average: its target has the variance
# $\mathbb E\|\mathbf 1_y - P^*\|^2 = 1 - \|P^*\|^2$, which is near 1 where many words can follow. The soft target
# $\tilde y$ is a function of the drawn word, so it varies, too, and its mean need not be $P^*$. As an example the
# next word is drawn by the frequencies of the words, and $M$ is the matrix of the table above:

# %%
P = corpus.counts.double() / corpus.counts.sum()
true = P.square().sum()
noise = {"one-hot": {"variance": 1 - true, "mean off by": 0.0}}
for tau in (1, 5, 20, 80):
    soft = (M @ M.T / tau).softmax(-1)  # a target a row
    mean = P @ soft
    variance = P @ (soft - mean).square().sum(1)
    off = (mean - P).square().sum() / true
    noise[f"soft, τ = {tau}"] = {"variance": variance, "mean off by": off}
noise["P* itself"] = {"variance": 0.0, "mean off by": 0.0}
noise = pd.DataFrame(noise).T.astype(float)
noise.map("{:.3g}".format)

# %%
# NBVAL_CHECK_OUTPUT
soft = noise.variance.iloc[1:-1]
print("the hotter, the less it varies:", bool((soft.diff()[1:] < 0).all()))
print("less than one-hot:", soft.max() < noise.variance["one-hot"])

# %% [markdown]
# *Mean off by* is the squared distance of the mean target from $P^*$, as a share of $\|P^*\|^2$. The soft targets
# of the table vary far less than the one-hot target. But their mean is far from $P^*$: a share near 1 is what
# the uniform distribution has. So the loss exchanges noise for a bias. The paper's argument holds for the exact
# distribution, and the estimate by similarity is as good as the word vectors are.

# %% [markdown]
# ## The cost at the paper's largest size
#
# Lesson 5 counts the parameters and the operations of the small model. Here is the same count for the
# paper's largest model on its 10,000 words, in millions of multiplications and additions for a token of
# training (MFLOP):

# %%
rows = {}
for name in columns:
    recipe = "ptb/vd-lstm-1500/" + name.replace("untied", "baseline")
    large = course_lab.recipes[recipe]
    with torch.device("meta"):  # shapes only
        built = large.build(10_000)
    layer = cost.output_macs(built, large)
    rest = cost.encoder_macs(built, large)
    rows[name] = {
        "parameters": f"{sum(p.numel() for p in built.parameters()):,}",
        "output layer, MFLOP": f"{6 * layer / 1e6:.1f}",
        "whole model, MFLOP": f"{6 * (layer + rest) / 1e6:.1f}",
    }
pd.DataFrame(rows).T

# %% [markdown]
# Tying takes a whole word matrix away and adds no operation. The augmented loss makes the output layer a third
# dearer in products, and twice as dear where the gradient flows through the soft target, as in our recipes for
# the paper's tied models. The loss also takes three softmaxes in place of one. On a processor the softmaxes can
# cost as much as the products; `python -m benchmarks output-layers` measures them on your machine.

# %% [markdown]
# ## What else is in print
#
# Two more tables of the paper have recipes here and no runs yet. Its Table 2 trains on the two halves of
# WikiText-2, to see whether the gain lasts where data are few. Its Table 3 ties a recurrent highway network, whose
# step passes through several layers, beside the largest LSTM. These are their test perplexities:

# %%
more = published.rows().query(
    "paper == 'inan2017' & table in ['2', '3'] & split == 'test'"
)
wide = more.pivot_table("value", ["table", "corpus", "model"], "method")
order = ["baseline", "augmented-loss", "tied", "tied+augmented-loss"]
wide[order].astype(object).fillna("")

# %% [markdown]
# In the paper's Table 2 each remedy helps on each half, and both together help most. In its Table 3 the tied
# highway network is ahead of the LSTM. One run stands behind each number.

# %% [markdown]
# ## What the paper says and what it leaves open
#
# The authors released no code. The table lists where the text is silent or says more than it shows, and
# what we do.
#
# | in the paper | here |
# |---|---|
# | The theory assumes zero training loss and a mean logit of 0. | Neither assumption is needed: least squares put the best $W$ for the augmented loss alone at a high temperature into the column space of $E$, after centring, however large the loss. |
# | It does not say whether gradients flow through $\tilde y$. | By default the soft target is a constant; `gradient=True` lets the gradients flow. The recipes of the paper's tables let them flow in tied models, because a constant failed in the one run at full size. |
# | It says "We don't use dropout in the input embedding layer", but also that "inputs and hidden states" have the same share of dropout. | The recipes drop nothing of the word vectors; `encoder.input_dropout` is there for the other reading. |
# | The distance is called the average of the sines of the principal angles. | Its formula, $\lVert Q_1 - Q_2 Q_2^\top Q_1\rVert_F/\sqrt d$, is their root mean square ($Q_1$, $Q_2$: orthonormal bases of the two spaces); we use the formula. |
# | Small models on the Penn Treebank were trained a second time from their final weights, which helped all but the baseline. | The recipes `…/second-session` do it; the small runs here are of one session. |
# | Each model has one result, and no seeds are named. | The small runs have three seeds and an interval. At the paper's size a model has one run, and one model has two. |
# | No optimiser and no length is named for Figure 1, only "the minimum training loss possible". | We use Adam, and the last epoch counts, because nothing regularises. The length decides how near $W$ comes, as Figure 3 shows. |
# | Tying removes the output bias. | None of our small models has one; at the paper's size the untied ones have. |

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $\alpha = \gamma\tau$ | `weight` | weight of the augmented loss; $\gamma$ is its ratio to $\tau$ |
# | $\beta$ | `β` | share of the augmented loss in Figure 1, weight $\beta\tau^2$ |
# | $r$ | `reach` | reach of the target's vector along the context, $h^\top w_y/h^\top h$ |
# | $A$ | `theory.zero_loss_map`, `theory.tying_map` | the map with $W = EA$ |
#
# The other symbols are those of [lesson 5](05_tying_and_augmented_loss.ipynb).

# %% [markdown]
# ## Exercises
#
# Replace `None` by your answer and run the cell below it, which tries the answer out.
#
# ### 1. Centre first
# *Difficulty 2/3, importance 2/3, ten minutes.* Adding the same vector to all rows of $W$ changes no
# probability, but it can turn the column space of $W$. Compute the distance of the two LSTMs' matrices (`pairs`)
# again after subtracting the mean row from both. Is the augmented loss better at its job than Figure 1 says?
# Assign the two distances to `centred`, a dict `{0: …, 1: …}` from $\beta$ to the distance of $W$ from $E$.
#
# <details><summary>Hint</summary>
#
# `pairs[1][1].model` is the model trained with $\beta = 1$; `.words.matrix()` reads and
# `.output_layer.words.matrix()` predicts.
#
# </details>
# <details><summary>Second hint</summary>
#
# A common vector adds one direction to the column space: that of $(1, 1, \dots, 1)$. One wrong
# direction of $d$ costs up to $1/\sqrt d$.
#
# </details>
# <details><summary>Third hint</summary>
#
# `subspaces.subspace_distance(W - W.mean(0), E - E.mean(0))`. Look also at
# `subspaces.principal_angles` before and after: how many angles are large?
#
# </details>

# %% tags=["exercise"]
centred = None  # {0: the distance at β = 0, 1: at β = 1}, both centred


# %%
def apart_again(found):
    """Return whether these are distances of the centred matrices."""
    for β, (_, run) in pairs.items():
        both = run.model.words, run.model.output_layer.words
        E, W = (words.matrix().detach() for words in both)
        plain = subspaces.subspace_distance(W, E)
        away = subspaces.subspace_distance(W - W.mean(0), E - E.mean(0))
        if not np.isclose(found[β], away, rtol=1e-3):
            if np.isclose(found[β], plain, rtol=1e-3):
                return "these are the matrices as they are, not centred"
            return f"at β = {β} the distance is another: centre both"
    return True


check("05b.1", centred, apart_again)

# %% [markdown]
# ### 2. Is it the meaning or the smoothing?
# *Difficulty 3/3, importance 3/3, half an hour.* At $\tau = 20$ the soft target is nearly flat. Does it matter
# *which* word gets the little extra? Write a loss like the augmented one in which similar words are no longer
# similar: the target keeps its entry of $E e_y$, and the entries of the other words are shuffled, in the same
# way in every step. Assign its class to `shuffled`; like `AugmentedLoss` it is called with a weight and a
# temperature, and it takes any number of words. Then train the tied model with it, and compare.
#
# <details><summary>Hint</summary>
#
# Shuffling must keep the target the likeliest word of its own soft target, or the loss contradicts
# the cross-entropy. Shuffle the *other* entries.
#
# </details>
# <details><summary>Second hint</summary>
#
# Subclass `AugmentedLoss` and set `block.soft_logits` in `__call__` to entries of itself in another
# order. A fixed permutation of all words moves one wrong word into the target's place: exchange the
# two (`gather`, `scatter`).
#
# </details>
# <details><summary>Third hint</summary>
#
# Enter it among the losses, `from course_lab import comparison, parts` and `parts.KINDS["objective"] +=
# (shuffled,)`. Then `part = course_lab.part` and `experiment("tied").change(seed=seed,
# objectives=(part("CrossEntropy"), part(shuffled.__name__, weight=13.0, temperature=20.0)))` for three seeds,
# run as the function `trained` does. `comparison.compare` takes the perplexities by model and seed.
#
# </details>

# %% tags=["exercise"]
shuffled = None  # a class: shuffled(weight, temperature) is the loss


# %%
def seen_targets(loss, y):
    """Return logits of a loss's soft target, the word's own made 0."""
    draw = dict(generator=torch.Generator().manual_seed(SEED))
    E = torch.randn(50, 8, **draw).double()
    layer = Softmax(FullWords(50, 50), bias=False).double()
    layer.words.weight.data = torch.eye(50).double()  # logits as contexts
    l = torch.zeros(5, 50).double().requires_grad_()  # noqa: E741
    value, _ = layer(l, y, loss, (E[y], E))
    (slope,) = torch.autograd.grad(5 * value, l)
    s = 3 * (1 / 50 - 3 * slope).log()  # τ = 3: the slope is (ŷ − ỹ) / τ
    return s - s.gather(1, y[:, None])


# %%
def only_shuffled(loss):
    """Return whether a loss has the augmented targets reordered."""
    one, y = loss(1.0, 3.0), torch.arange(5)
    plain = seen_targets(AugmentedLoss(1.0, 3.0), y)
    s, again = seen_targets(one, y), seen_targets(one, y.flip(0)).flip(0)
    if not s.sort().values.allclose(plain.sort().values):
        return "its entries, less the target's own, are not those of E e_y"
    if not s.allclose(again):
        return "a word's target is not always shuffled in the same way"
    if (s - plain).abs().lt(1e-9).double().mean() > 0.3:
        return "most words still have their own entry"
    return True


check("05b.2", shuffled, only_shuffled)

# %% [markdown]
# ## What we saw
#
# First comes what the best evidence of the repository says. The ledger of [notebook 30](30_leaderboard.ipynb)
# reads it from the kept results, so it changes when new runs are kept.

# %%
evidence_of = [
    "inan2017-tying", "inan2017-augmented", "inan2017-both",
    "inan2017-subspace", "inan2017-frequent-words",
]
display(Markdown(claims.conclusions(*evidence_of)))

# %% [markdown]
# Then comes what the small runs and sweeps show. These runs read only a part of a text. Where a small run
# contradicts the list above, believe the list.

# %%
text = (
    f"The augmented loss alone takes the column spaces from a distance of "
    f"{across[0].mean:.2f} to {across[1].mean:.2f}, the way the theory "
    f"says and not as far as the paper. Added to the cross-entropy, it "
    f"changes the tied model's test perplexity by "
    f"{told['tied: loss − none']}. After these few steps the untied "
    f"model's test perplexity differs from the tied model's by "
    f"{told['untied − tied']}. "
)

# %%
cone = by_optimiser.get("tied/adamw, start 0.1")
if cone:
    text += (
        "Trained by AdamW, the tied model of the paper's size has a cone "
        f"of mean cosine {cone['cosine, rare']}."
    )
display(Markdown(text))

# %% [markdown]
# ## References
#
# - H. Inan, K. Khosravi, R. Socher (2017). *Tying Word Vectors and Word Classifiers: A Loss
#   Framework for Language Modeling.* ICLR. [arXiv:1611.01462](https://arxiv.org/abs/1611.01462)
# - J. Gao, D. He, X. Tan, T. Qin, L. Wang, T.-Y. Liu (2019). *Representation Degeneration Problem
#   in Training Natural Language Generation Models.* ICLR.
#   [arXiv:1907.12009](https://arxiv.org/abs/1907.12009)

# %% [markdown] tags=["way"]
# ↑ Back: [5. Tying and the augmented loss: may one matrix do both jobs?](05_tying_and_augmented_loss.ipynb)
#
# → Next: [6. Cosine regularisation: pushing the words apart](06_cosine_regularization.ipynb)
