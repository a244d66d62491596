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
# # 21. Train a translator
#
# **Question.** How well does a recipe translate?
#
# A translator has an output embedding, too, and shares it three ways: one
# matrix reads the source, reads the target and predicts the next piece,
# which is a word or a part of a word. This notebook runs any translation
# recipe of the course from start to end; the parameters below choose the
# recipe.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** Lesson 1 explains what an output layer is. The recipe chosen below translates phrases that
# the course makes from locale data. The recipes of captions, talks and news download their corpus at the first
# use. In `smoke` and `quick` every recipe uses the phrases, or the beginning of your own pairs.
#
# | profile | minutes | corpus and machine |
# |---|---|---|
# | `smoke` | 0.2 | a few hundred phrases, for the tests |
# | `quick` | 2 | the phrases, 2 CPU cores |
# | `standard` | 2 | the recipe's corpus; two hours with captions |
# | `full` | 2 | the paper's configuration; IWSLT and WMT want a GPU |
#
# On Google Colab, run this in a first cell and restart the session:
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
RECIPE = "cldr/transformer-tiny"  # python -m course_lab recipes lists them
SEED = 1  # initialisation, dropout and the order of batches
FOLDER = ""  # where checkpoints and result go; empty: runs/RECIPE/…
PROCESSES = 0  # number of GPUs to use; 0: all there are
CHANGE = {}  # settings that differ from the recipe, dotted
DEADLINE = 0  # when to pause, in seconds since 1970; 0: never

# %% [markdown]
# ## The recipe
#
# An experiment is plain data. The encoder-decoder turns the source, and the
# target so far, into contexts. Everything after the contexts, the output
# layer, losses and penalties, is as in a language model.

# %% tags=["hide-output"]
import json

import pandas as pd
from IPython.display import Markdown, clear_output, display

import course_lab
from course_lab import training_report
from course_lab.planned import Planned
from course_lib.errors import CourseError
from course_lib.evaluation.translation import translate

experiment = Planned(RECIPE, PROFILE, SEED, CHANGE).experiment()
if not experiment.translates:
    raise CourseError(f"{RECIPE} is a language model; see notebook 20")
print(json.dumps(experiment.to_dict(), indent=1, ensure_ascii=False))

# %% [markdown]
# ## Training
#
# Sentences of similar length share a batch, so that little of it is padding.
# The run writes a checkpoint every minute, and goes on from the last
# checkpoint when the cell is run again. At the end a beam search translates
# the validation and the test split.

# %%
result = course_lab.launch(
    experiment,
    PROCESSES or None,
    folder=FOLDER or None,
    deadline=DEADLINE or None,
)
clear_output()  # the progress bar has done its work

# %% [markdown]
# ## Learning curve
#
# Perplexity is counted per piece, so it compares only runs that cut the
# words into the same pieces. Training perplexity is taken with dropout.

# %%
training_report.show_learning_curve(result)

# %% [markdown]
# ## Result
#
# For word sequences of one, two, three and four words, count which share of the translation's sequences also
# occurs in the reference. BLEU is the geometric mean of these four shares, in per cent, times a penalty on a
# translation that is too short. BLEU is 100 for the reference itself. The signature beside the score says how
# BLEU was computed; figures under other signatures are not comparable.

# %%
display(Markdown(training_report.headline(result)))

# %% [markdown]
# ## Sentences
#
# A score does not show what a translation is like. Here are five
# translations of the test split, beside their references:

# %% tags=["nbval-ignore-output"]
pairs, corpus = result.corpus.test, result.corpus
chosen = range(0, len(pairs), max(1, len(pairs) // 5))[:5]
search = experiment.decoding.build("decoding")
found = translate(
    result.model, [pairs.source[i] for i in chosen], search, progress=False
)
pd.set_option("display.max_colwidth", None)
pd.DataFrame(
    [(pairs.source_text[i], corpus.decode(ids), pairs.target_text[i])
     for i, ids in zip(chosen, found, strict=True)],
    columns=["source", "translation", "reference"],
)  # fmt: skip

# %%
# NBVAL_CHECK_OUTPUT
for statement, holds in training_report.checks(result).items():
    print(f"{statement}: {holds}")
print("one matrix for both languages and the output:", result.model.tied)

# %% [markdown]
# ## Real sentences
#
# The phrases above are simple. The next results are for captions of pictures, the 29,000 pairs of Multi30k.
# They were trained with this notebook in the profile `standard`, and are kept with the course. The recipes are
# named after their methods: no remedy (`softmax`), the cosine regularisation of lesson 6, which is meant to
# keep the pieces' vectors apart, the adversarial softmax of lesson 7 and the spectrum control of lesson 8. So
# few runs of each decide little, and nothing was tuned. Notebook 23 shows what would decide.

# %%
kept = map(course_lab.read_result, course_lab.kept_results())
rows = [
    {"recipe": run["experiment"]["name"],
     "seed": run["experiment"]["seed"],
     "test perplexity": run["metrics"]["test_perplexity"],
     "test BLEU": run["metrics"]["test_bleu"],
     "signature": run["metrics"]["bleu_signature"],
     "hours": run["provenance"]["wall_seconds"] / 3600}
    for run in kept
    if run["experiment"]["name"].startswith("multi30k/transformer-small/")
    and run["experiment"]["profile"] == "standard"
    and not run["experiment"].get("variant")
]  # fmt: skip
pd.DataFrame(rows).round(2)

# %% [markdown]
# ## From here
#
# * Set `RECIPE` to `multi30k/transformer-small/softmax` and then to
#   `multi30k/transformer-small/cosine`, profile `standard`. These recipes
#   translate captions of pictures, without and with cosine regularisation.
# * `python -m course_lab translate FOLDER "ein Satz"` translates with the
#   trained model in the folder of a run.
# * `python -m course_lab recipes 'iwslt14/*'` lists the papers' own recipes.
#
# ## References
#
# * Vaswani et al. (2017). *Attention Is All You Need*. arXiv:1706.03762.
# * Gao et al. (2019). *Representation Degeneration Problem in Training Natural
#   Language Generation Models*. arXiv:1907.12009.
# * Post (2018). *A Call for Clarity in Reporting BLEU Scores*.
#   arXiv:1804.08771.
# * Elliott et al. (2016). *Multi30K: Multilingual English-German Image
#   Descriptions*. arXiv:1605.00459.

# %% [markdown] tags=["way"]
# ← Previous: [20. Train a language model](20_train_language_model.ipynb)
#
# → Next: [22. Adapt a model at test time](22_adapt_at_test_time.ipynb)
