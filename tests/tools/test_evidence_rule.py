"""The rule that a sentence which compares methods names its evidence."""

import nbformat
import pytest

from course_lab.notebook_source import FOLDER, read, sources
from tools.evidence_rule import SAW, compares, displayed, sentences, unnamed_evidence


def lesson(text: str, heading: str = "What was measured", code: str = ""):
    """Return the cells of a lesson with a text under a heading, and a code cell after it."""
    cells = [nbformat.v4.new_markdown_cell(f"## {heading}\n\n{text}")]
    return cells + ([nbformat.v4.new_code_cell(code)] if code else [])


BARE = "The mixture has a lower perplexity than the softmax."


@pytest.mark.parametrize(
    "sentence",
    [
        BARE,
        "Tied models predict better, and predictions gain by more text.",
        "With dropout the BLEU rises.",
        "The test loss of GSS\nis as good as that of PLIF.",
        "- Orthogonality takes the cone away, and perplexity falls with it.",
        "It is **worse** in perplexity.",
        "The penalty opens the cone.",
        "Centring removes most of the cone.",
        "Dropout lowers Press' rank.",
        "Our layer is quicker than theirs.",
    ],
)
def test_a_comparison_without_evidence_is_found(sentence):
    text = f"Nothing is compared here. {sentence} Nor is it here."
    (problem,) = unnamed_evidence(lesson(text.replace("here. -", "here.\n\n-")))
    assert problem.startswith("cell 1: a comparison") and "Nothing" not in problem
    assert "Nor is it" not in problem


@pytest.mark.parametrize(
    "evidence",
    [
        "in `ptb/desk/mos`",
        "in the plan `gss-grid`",
        "in [notebook 30](30_leaderboard.ipynb)",
        "over ten seeds",
        "in Table 2",
        "in Remark 4.2",
        "in gao2019",
        "in print",
        "in the table above",
        "in the table",
        "in the last figure",
        "on the left",
        "in the sweep",
    ],
)
def test_evidence_may_be_a_run_a_paper_or_a_cell(evidence):
    assert unnamed_evidence(lesson(BARE.replace(".", f" {evidence}."))) == []
    assert unnamed_evidence(lesson(BARE)) != []


@pytest.mark.parametrize(
    "text",
    [
        "Has the mixture a lower perplexity?",
        "If rank bought perplexity, the points would fall.",
        "Perplexity is the exponential of the mean loss.",
        "The rank rises with $c$.",
        "| perplexity | lower |",
        "### A lower perplexity",
        "```\nperplexity is lower\n```",
        "$$\\text{perplexity lower}$$",
    ],
)
def test_what_states_no_comparison_is_left_alone(text):
    assert unnamed_evidence(lesson(text)) == []


@pytest.mark.parametrize("words", ["of a table", "by figures", "at a cosine above 0.5"])
def test_a_table_that_nobody_points_at_is_no_evidence(words):
    assert unnamed_evidence(lesson(BARE.replace(".", f" {words}."))) != []


def test_parts_that_ask_or_list_are_left_alone():
    assert unnamed_evidence(lesson(BARE, "When not to use it")) != []
    for heading in ("Predict", "Exercises", "References"):
        assert unnamed_evidence(lesson(BARE, heading)) == []


def test_what_we_saw_is_computed_or_linked():
    assert unnamed_evidence(lesson(BARE.replace(".", " in the table above."), SAW)) != []
    assert unnamed_evidence(lesson(BARE.replace(".", " in `ptb/desk/mos`."), SAW)) == []
    typed = 'display(Markdown("The mixture has a lower perplexity. " f"{a} runs."))'
    assert len(unnamed_evidence(lesson("Numbers:", SAW, typed))) == 1
    computed = 'display(Markdown(f"The perplexity is {100 * d:+.1f} % lower " f"[{low}]."))'
    assert unnamed_evidence(lesson("Numbers:", SAW, computed)) == []
    assert unnamed_evidence(lesson("Numbers:", "Elsewhere", typed)) == []


def test_sentences_are_divided_at_their_ends():
    text = "One is *bold.* Two has 0.5 of it (three). “Four!” Five\nends\n\n- Six\n- Seven"
    assert len(sentences(text)) == 6
    assert not compares("Nothing of the kind.")


def test_strings_of_a_cell_are_told_once():
    assert displayed('x = f"a {b[\'c\']:.2f} d" "e"') == ["a {…} de"]
    assert displayed('"""One."""\nprint("two")') == ["One.", "two"]
    assert displayed("this is ( no Python") == []


@pytest.mark.parametrize("path", sources(FOLDER), ids=lambda path: path.stem)
def test_every_lesson_names_its_evidence(path):
    assert unnamed_evidence(read(path).cells) == []
