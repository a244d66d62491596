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
# # 20. Train a language model
#
# **Question.** What perplexity does a recipe reach, and how does it get there?
#
# This notebook runs any recipe of the course from start to end. Most
# recipes stand for a row of a published table; the parameters below choose
# one. You can run the notebook by hand in JupyterLab. Papermill, which
# executes notebooks with given parameters, can run it hundreds of times.

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** Lesson 1 explains what an output layer is. The profiles `standard` and `full` use the
# corpus of the recipe, which is downloaded at the first use. The profiles `smoke` and `quick` use the embedded
# corpus, or the beginning of your own.
#
# | profile | minutes | corpus and machine |
# |---|---|---|
# | `smoke` | 0.1 | 12,000 tokens, for the tests |
# | `quick` | 2 | `docstrings`, 2 CPU cores |
# | `standard` | 100 | the recipe's corpus, 2 CPU cores |
# | `full` | 100 | the paper's configuration; larger models want a GPU |
#
# The minutes are those of the recipe below. For most recipes `standard` and
# `full` are the same run, whose folder says `standard`. An AWD-LSTM takes
# days on two cores. `python -m course_lab recipes` has an estimate for each.
#
# On Google Colab, run this in a first cell and restart the session:
# `!git clone -q https://github.com/output-embedding-course/output-embedding-course && pip install -q -c output-embedding-course/constraints.txt -e "./output-embedding-course[lab]"`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, desk, standard or full
RECIPE = "ptb/vd-lstm-200/tied"  # python -m course_lab recipes lists them
SEED = 1  # initialisation, dropout and shuffling
FOLDER = ""  # where checkpoints and result go; empty: runs/RECIPE/…
PROCESSES = 0  # GPUs; 0: as many as share a batch evenly
CHANGE = {}  # settings that differ from the recipe, dotted
DEADLINE = 0  # when to pause, in seconds since 1970; 0: never

# %% [markdown]
# ## The recipe
#
# An experiment is plain data: it says what the model is made of and how it is
# trained. The recipe fixes all of this. The profiles `smoke`, `quick` and
# `desk` cut down the model's sizes and the training, the first two also the
# corpus, but never the code. So their figures are not those of the recipe.
# `CHANGE`
# names other settings by dotted paths, such as `{"encoder.dropout": 0.4,
# "optimisation.epochs": 10}`.

# %% tags=["hide-output"]
import json

import pandas as pd
from IPython.display import Markdown, clear_output, display

import course_lab
from course_lab import tables, training_report
from course_lab.planned import Planned
from course_lib.errors import CourseError

experiment = Planned(RECIPE, PROFILE, SEED, CHANGE).experiment()
if experiment.translates:
    raise CourseError(f"{RECIPE} is a translator; notebook 21 trains it")
print(json.dumps(experiment.to_dict(), indent=1, ensure_ascii=False))

# %% [markdown]
# ## Training
#
# The run writes a checkpoint every minute. If you interrupt a run and start
# the cell again, the run goes on where it stopped. A finished run is not
# repeated; choose another seed or folder for a new run.

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
# Each epoch ends with the perplexity of the validation split. The weights
# of the best epoch are kept, and so are those of the last epoch, from which
# a second session of training can begin.

# %%
training_report.show_learning_curve(result)

# %% [markdown]
# ## Result
#
# The final figures cover every token of the split. The model reads the
# split as one text and carries its state along, and it predicts the first
# token from `<eos>`. The result folder also says where the numbers come
# from. Recipes with an adaptation at test time, as in notebook 22, give the
# perplexities of the adapted model. The last rows of the table only count on
# the training text: *unigram* counts words, and *Kneser-Ney n* counts runs of
# up to $n$ words. A model that does not beat them has learned less than
# counting does, and is no evidence on a method. Texts of more than ten million
# tokens are not counted here.

# %%
display(Markdown(training_report.headline(result)))
if "adaptation" in result.metrics:
    display(Markdown(f"Adapted with {result.metrics['adaptation']}."))
names = {"valid_perplexity": "validation perplexity"}
names |= {"test_perplexity": "test perplexity"}
row = {name: result.metrics[key] for key, name in names.items()}
table = pd.DataFrame(row, index=[result.experiment.name]).round(1)
if len(result.corpus.train) <= 10_000_000:
    table = tables.with_ngrams(table, result.corpus)
table

# %%
# NBVAL_CHECK_OUTPUT
for statement, holds in training_report.checks(result).items():
    print(f"{statement}: {holds}")

# %% [markdown]
# ## From here
#
# * `python -m course_lab next FOLDER "the company said"` shows what the model
#   in the folder of a run expects next; `score` and `generate` take the same
#   folder.
# * Set `RECIPE` to `ptb/vd-lstm-200/tied/second-session` to train on from the
#   final weights, as Inan et al. did with their small models. Before that, run
#   `ptb/vd-lstm-200/tied` at the same profile and seed, in its default folder,
#   `FOLDER = ""`, and do not change its optimisation.
#
# ## References
#
# * Inan, Khosravi and Socher (2017). *Tying Word Vectors and Word
#   Classifiers*. arXiv:1611.01462.
# * Zaremba, Sutskever and Vinyals (2014). *Recurrent Neural Network
#   Regularization*. arXiv:1409.2329. The loss summed over the unrolled steps.
# * Gal and Ghahramani (2016). *A Theoretically Grounded Application of Dropout
#   in Recurrent Neural Networks*. arXiv:1512.05287.

# %% [markdown] tags=["way"]
# ← Previous: [12. What the record holders do](12_record_holders.ipynb)
#
# → Next: [21. Train a translator](21_train_translator.ipynb)
