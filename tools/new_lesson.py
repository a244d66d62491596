"""A new lesson's skeleton: every part of the contract, with the mark ✎ where the author writes."""

import re
from pathlib import Path

from course_lab import notebook_source
from course_lib.errors import CourseError
from tools import lesson_linter, lesson_way, notebooks

LESSON = '''\
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
# # NUMBER. TITLE
#
# **Question.** QUESTION

# %% [markdown]
# ## What you will learn
#
# - ✎ to see …
# - ✎ to judge …

# %% [markdown]
# ## Before you start
#
# **Prerequisites.** ✎ [Lesson 1](01_output_layer.ipynb).
#
# **Reading.** 2 minutes. **Difficulty.** ✎ 1 of 3.
#
# | profile | minutes | runs on |
# |---|---|---|
# | smoke | 0.1 | any CPU |
# | quick | 0.1 | two CPU cores |
# | standard | 0.1 | two CPU cores |
# | full | 0.1 | two CPU cores |
#
# On Google Colab, run this in a first cell and restart the session:
#
# `COLAB`

# %% tags=["parameters"]
PROFILE = "quick"  # smoke, quick, standard or full
SEED = 1  # of every random draw below

# %%
import matplotlib.pyplot as plt
import torch
from IPython.display import Markdown, display

from course_lab import plots
from course_lab.progress import check

_ = torch.manual_seed(SEED)

# %% [markdown]
# ## Predict
#
# ✎ What will be seen below?

# %%
sizes = {"smoke": 100, "quick": 1_000, "standard": 10_000, "full": 10_000}
lengths = torch.randn(sizes[PROFILE], 100).norm(dim=1)  # ✎ a measurement

# %% tags=["hide-input"]
figure, axes = plt.subplots()
axes.hist(lengths, bins=30)
axes.set(xlabel="length of the vector", ylabel="vectors")
plots.show(figure, alt="✎ A histogram: most lengths lie close to ten.")

# %% [markdown]
# **Figure 1.** ✎ Most lengths lie close to ten.

# %%
# NBVAL_CHECK_OUTPUT
print("close to ten:", bool(abs(lengths.mean() - 10) < 0.5))  # ✎

# %% [markdown]
# ## Symbols
#
# | symbol | code | meaning |
# |---|---|---|
# | $d$ | `100` | ✎ dimensions of a vector |
# | $n$ | `sizes[PROFILE]` | ✎ vectors drawn |
# | $\\lVert x \\rVert$ | `lengths` | ✎ their lengths |

# %% [markdown]
# ## Exercises
#
# ### 1. ✎ How long?
#
# *Difficulty 1/3, importance 2/3, five minutes.* Which length is expected with four times as many
# dimensions? Assign it to `expected`.
#
# <details><summary>Hint</summary>
#
# ✎ The squared length is a sum over the dimensions.
#
# </details>

# %% tags=["exercise"]
expected = None  # a number

# %%
def twice_as_long(expected):
    """Return whether it is twice the measured length."""
    return abs(expected / 2 / lengths.mean() - 1) < 0.05


check("NN.1", expected, twice_as_long)

# %% [markdown]
# ### 2. ✎ What else? (open)
#
# *Difficulty 2/3, importance 1/3, ten minutes.* Think.
#
# <details><summary>Hint</summary>
#
# ✎ Begin with two dimensions.
#
# </details>

# %% [markdown]
# ## What we saw

# %%
display(Markdown(f"✎ The mean length is {lengths.mean():.1f}."))

# %% [markdown]
# ## References
#
# - ✎ Authors (year). *Title.*
'''

SOLUTIONS = '''\
"""Answers to the exercises of lesson NN, each in place of a cell tagged `exercise`."""

# %% NN.1
expected = 20

# %% NN.1 wrong: the length grows with the root of the number
expected = 40
'''


def write_lesson(
    name: str, title: str, question: str, folder: Path = notebook_source.FOLDER
) -> list[Path]:
    """Write the lesson `name`, its paired notebook and its solutions; return the three paths.

    name      NN_name, small letters, digits and underscores; no other lesson has the number.
              NNb_name goes deeper than NN_name does
    title     the lesson's heading
    question  the question that the lesson answers, with its question mark
    folder    the lessons' folder; the solutions go into `solutions` beside it

    Raises CourseError for a name or question of another form, and where there is such a lesson.
    """
    # What the contract asks of the three words.
    if not re.fullmatch(r"\d\d[b-z]?_[a-z0-9_]+", name):
        raise CourseError(f"a lesson is called NN_name, such as 13_my_lesson, not {name!r}")
    number = name.partition("_")[0]
    if not title.strip() or "\n" in title:
        raise CourseError("a lesson's title is one line")
    if not question.strip().endswith("?") or "\n" in question:
        raise CourseError(f"the question is one line and ends in a question mark, not {question!r}")
    taken = [
        path.stem for path in notebook_source.sources(folder) if path.stem.startswith(f"{number}_")
    ]
    if taken:
        raise CourseError(f"the number {number} belongs to the lesson {taken[0]}; take another")

    # The files.
    source = folder / f"{name}.py"
    answers = folder.parent / "solutions" / f"{name}.py"
    if answers.exists():
        raise CourseError(f"{answers} is there already; remove it, or take another name")
    words = {"TITLE": title.strip(), "QUESTION": question.strip(), "NN": number}
    words["NUMBER"] = notebook_source.numeral(name)
    words["COLAB"] = lesson_linter.colab_command()
    for path, skeleton in ((source, LESSON), (answers, SOLUTIONS)):
        text = re.sub(rf"\b({'|'.join(words)})\b", lambda word: words[word[0]], skeleton)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    notebooks.pair(source)
    for neighbour in lesson_way.link(folder):
        notebooks.pair(neighbour)
    return [source, source.with_suffix(".ipynb"), answers]
