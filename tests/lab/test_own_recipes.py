"""Recipes and parts of the reader's own: from a file that is named, from an installed package."""

import hashlib
import importlib
import re
import sys
import time
import warnings
from datetime import date
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import course_lab
from course_lab import checkpoints, parts, recipes, results, tables
from course_lab.cli import application
from course_lab.planned import Planned
from course_lab.plans import read_plan
from course_lab.recipes import elsewhere
from course_lib.data import folders
from course_lib.errors import CourseError, Paused

launching = importlib.import_module("course_lab.launch")  # `course_lab.launch` is the function
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "own-recipes.md"
TINY = {"size": 8, "encoder.units": 8, "optimisation.epochs": 2}


@pytest.fixture(autouse=True)
def forgotten():
    """Forget afterwards what a test has entered."""
    known, kinds = dict(recipes), dict(parts.KINDS)
    yield
    recipes.clear()
    recipes.update(known)
    parts.KINDS.update(kinds)
    for name in [name for name in sys.modules if name.startswith("course_recipes_")]:
        del sys.modules[name]


@pytest.fixture
def file(tmp_path):
    """Return a file with all that the page says."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    path = tmp_path / "my_recipes.py"
    path.write_text("\n".join(blocks), encoding="utf-8")
    return path


def test_a_recipe_of_a_file_is_a_recipe(file):
    planned = Planned(f"{file}:mine/gru/tied", "smoke", 2)
    assert planned.key == "mine/gru/tied/smoke-seed2"
    model = planned.experiment().build(50)
    contexts, state = model.encoder(torch.randn(5, 2, model.words.shape[1]))
    assert contexts.shape == (5, 2, model.encoder.output_size) and state is not None
    assert recipes["mine/vd-lstm-200/narrower"].size == 100


def test_a_glob_of_a_file_is_of_its_own_recipes(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.py").write_text(
            "from course_lab import recipes\nfrom course_lab.recipes import add\n"
            f"add(recipes['ptb/vd-lstm-200/tied'], name='mine/{name}', source='')\n"
        )
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'title = "t"\n[[runs]]\nrecipes = ["a.py:mine/*"]\n[[runs]]\nrecipes = ["b.py:mine/*"]\n'
    )
    assert [run.experiment().name for run in read_plan(plan).runs] == ["mine/a", "mine/b"]
    plan.write_text('title = "t"\n[[runs]]\nrecipes = ["a.py:ours/*"]\n')
    with pytest.raises(CourseError, match="unknown recipe 'ours/.*known: mine/a$"):
        read_plan(plan)


def small(file, name="mine/gru/tied"):
    """Return a run of a file's recipe that takes a second."""
    return Planned(f"{file}:{name}", "smoke", 1, TINY).experiment()


def reload(file, text):
    """Write another text into a file and import it anew, as another process would."""
    file.write_text(file.read_text(encoding="utf-8") + text, encoding="utf-8")
    for name in [name for name in sys.modules if name.startswith("course_recipes_")]:
        del sys.modules[name]
    for name in [name for name in recipes if name.startswith("mine/")]:
        del recipes[name]
    kinds = (k for k in parts.KINDS["encoder"] if not k.__module__.startswith("course_recipes_"))
    parts.KINDS["encoder"] = tuple(kinds)


def test_the_digest_of_a_file_is_in_the_provenance_of_its_runs(file, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    result = course_lab.run(small(file), progress=False, device="cpu")
    assert result.provenance["own_files"] == {"my_recipes.py": digest}
    # also where the recipe is the course's and only a part is the file's; and of no other run
    mixed = recipes["ptb/vd-lstm-200/tied"].change(encoder=course_lab.part("GRU", units=8))
    assert elsewhere.digests_of(mixed) == {"my_recipes.py": digest}
    assert elsewhere.digests_of(recipes["ptb/vd-lstm-200/tied"]) == {}


def test_a_run_has_the_files_of_its_own_recipe_alone(tmp_path):
    """A file that loads another one keeps its recipes, and an end of a name is another recipe."""
    text = (
        "from course_lab import recipes\nfrom course_lab.recipes import add, elsewhere\n"
        "base = recipes['ptb/vd-lstm-200/tied']\n"
    )
    (tmp_path / "b.py").write_text(f"{text}add(base, name='own', source='')\n")
    (tmp_path / "a.py").write_text(
        f"{text}add(base, name='mine/own', source='')\n"
        f"from pathlib import Path\nelsewhere.load(Path({str(tmp_path / 'b.py')!r}))\n"
    )
    elsewhere.load(tmp_path / "a.py")
    assert [file.path.name for file in elsewhere.files_of(recipes["mine/own"])] == ["a.py"]
    moved = recipes["own"].change(name="novel/own")
    assert "b.py" in elsewhere.digests_of(moved)


def test_a_run_that_goes_on_with_a_changed_file_warns_and_says_so(file, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    with pytest.raises(Paused):
        course_lab.run(small(file), progress=False, device="cpu", deadline=time.time() - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing has changed
        with pytest.raises(Paused):
            course_lab.run(small(file), progress=False, device="cpu", deadline=time.time() - 1)
    reload(file, "# one more line\n")
    with pytest.warns(UserWarning, match="my_recipes.py has changed since the run in .* was begun"):
        result = course_lab.run(small(file), progress=False, device="cpu")
    after = hashlib.sha256(file.read_bytes()).hexdigest()
    assert result.provenance["own_files"] == {"my_recipes.py": after}
    assert result.provenance["earlier_starts"][0]["own_files"] == {"my_recipes.py": before}
    # so do asking for the finished run, its table, and both with yet another file
    with pytest.warns(UserWarning, match="my_recipes.py has changed since the run in .* was begun"):
        course_lab.run(small(file), progress=False, device="cpu")
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'title = "t"\n[[runs]]\nrecipes = ["{file}:mine/gru/tied"]\nprofile = "smoke"\n'
        'change = {"optimisation.epochs" = 2, "size" = 8, "encoder.units" = 8}\n'
    )
    told = tables.table_of(read_plan(plan)).notes
    assert len(told) == 1 and "1 run, such as mine/gru/tied/smoke-seed1" in told[0]
    assert "was made with another my_recipes.py" in told[0]
    reload(file, "# and another\n")
    with pytest.warns(UserWarning, match="my_recipes.py has changed"):
        course_lab.run(small(file), progress=False, device="cpu")
    shown = CliRunner().invoke(application(), ["batch", "table", str(plan)])
    assert "note: 1 run, such as" in shown.output


def test_a_table_of_unchanged_files_has_no_note(file, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    course_lab.run(small(file), progress=False, device="cpu")
    plan = tmp_path / "plan.toml"
    plan.write_text(
        f'title = "t"\n[[runs]]\nrecipes = ["{file}:mine/gru/tied"]\nprofile = "smoke"\n'
        'change = {"optimisation.epochs" = 2, "size" = 8, "encoder.units" = 8}\n'
    )
    assert tables.table_of(read_plan(plan)).notes == []


def test_a_model_with_a_part_of_ones_own_is_asked_with_its_file(file, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    course_lab.run(small(file), tmp_path / "run", progress=False, device="cpu")
    reload(file, "")
    call = ["next", str(tmp_path / "run"), "the"]
    refused = CliRunner().invoke(application(), call)
    assert "has the encoder GRU, which the course does not know" in str(refused.exception)
    done = CliRunner().invoke(application(), [*call, "--with", str(file)])
    assert done.exit_code == 0, done.output
    # so is its matrix, of which the model is run, too
    reload(file, "")
    call = ["examine", str(tmp_path / "run"), "--out", str(tmp_path / "report")]
    refused = CliRunner().invoke(application(), call)
    assert "has the encoder GRU, which the course does not know; name" in str(refused.exception)
    done = CliRunner().invoke(application(), [*call, "--with", str(file)])
    assert done.exit_code == 0 and "after centring" in done.output, done.output
    head = {"identity": {"experiment": {"encoder": {"kind": ["GRU"]}}}}
    assert checkpoints.check_parts(tmp_path, head) is None  # `Experiment` refuses what is no name


def test_several_processes_are_told_of_the_file(file, tmp_path):
    command = launching._command(small(file), tmp_path, 2, {})
    assert command[command.index("--with") + 1] == str(file)
    plain = launching._command(recipes["ptb/vd-lstm-200/tied"], tmp_path, 2, {})
    assert "--with" not in plain


def test_a_hugging_face_model_is_an_encoder(file):
    pytest.importorskip("transformers")
    model = Planned(f"{file}:mine/gpt2/tied", "smoke").experiment().build(50)
    tokens = torch.randint(50, (7, 3))
    step = model(tokens, None, tokens)
    step.loss.backward()
    assert all(p.grad is not None for n, p in model.named_parameters() if "wte" not in n)
    # causal: what comes later changes nothing before
    model.eval()
    other = tokens.clone()
    other[-1] = (other[-1] + 1) % 50
    first, second = (model.encoder(model.words(t))[0] for t in (tokens, other))
    torch.testing.assert_close(first[:-1], second[:-1])
    assert not torch.equal(first[-1], second[-1])


def test_a_plan_finds_the_file_beside_it(file):
    plan = file.with_name("plan.toml")
    plan.write_text(
        'title = "t"\n[[runs]]\nrecipes = ["my_recipes.py:mine/*/tied", "ptb/vd-lstm-200/tied"]\n'
        'profile = "smoke"\n',
        encoding="utf-8",
    )
    runs = read_plan(plan).runs
    assert [run.recipe for run in runs] == [
        f"{file}:mine/gru/tied", f"{file}:mine/gpt2/tied", "ptb/vd-lstm-200/tied",
    ]  # fmt: skip


def test_a_table_calls_a_recipe_of_a_file_by_its_name_alone(file):
    plan = file.with_name("plan.toml")
    text = (
        'title = "t"\nbaseline = "gru/tied"\n[[runs]]\n'
        'recipes = ["my_recipes.py:mine/gru/tied", "my_recipes.py:mine/gpt2/tied"]\n'
        'profile = "smoke"\n'
    )
    plan.write_text(text, encoding="utf-8")
    runs = read_plan(plan)
    assert tables.models_of(runs) == ["gru/tied", "gpt2/tied"]
    tables.check_baseline(runs)
    shown = CliRunner().invoke(application(), ["batch", "status", str(plan)])
    assert "mine/gru/tied" in shown.output and str(file) not in shown.output
    mixed = text.replace("my_recipes.py:mine/gpt2", "ptb/vd-lstm-200")
    plan.write_text(mixed.replace("gru/tied", "mine/gru/tied", 1), encoding="utf-8")
    assert tables.models_of(read_plan(plan)) == ["mine/gru/tied", "ptb/vd-lstm-200/tied"]


def test_the_recipes_of_a_file_are_listed(file, monkeypatch):
    monkeypatch.chdir(file.parent)
    shown = CliRunner().invoke(application(), ["recipes", "--plain", "my_recipes.py:*/tied"])
    assert shown.output.split() == ["my_recipes.py:mine/gpt2/tied", "my_recipes.py:mine/gru/tied"]
    shown = CliRunner().invoke(application(), ["recipes", "my_recipes.py:"])
    assert shown.exit_code == 0, shown.output
    assert "my_recipes.py:mine/vd-lstm-200/narrower" in shown.output
    assert "ptb/vd-lstm-200/tied" not in shown.output
    refused = CliRunner().invoke(application(), ["recipes", "my_recipes.py:mien"])
    assert "no recipe matches 'my_recipes.py:mien'" in str(refused.exception)
    refused = CliRunner().invoke(application(), ["recipes", "none.py:"])
    assert "there is no file" in str(refused.exception)


def test_a_recipe_of_a_file_is_trained_from_the_command_line(file, tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "home", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    call = ["train", "my_recipes.py:mine/gru/tied", "--profile", "smoke"]
    done = CliRunner().invoke(application(), call)
    assert done.exit_code == 0, done.output
    content = results.read_result(tmp_path / "runs/mine/gru/tied/smoke-seed1")
    assert content["experiment"]["encoder"]["kind"] == "GRU" and "done already" not in done.output
    # asked once more, the command tells that it trains nothing
    again = CliRunner().invoke(application(), call)
    assert f"done already, on {date.today()}; nothing was trained\n" in again.output
    pytest.importorskip("tensorboard")
    again = CliRunner().invoke(application(), [*call, "--track", "tensorboard"])
    assert "nothing was trained, and nothing was told to tensorboard\n" in again.output


@pytest.mark.parametrize(
    "text, message",
    [
        ("from course_lab import nothing_such\n", "line 1: ImportError"),
        ("x = 1\ny = (\n", "line 2: SyntaxError"),
        ("def f():\n    raise ValueError('no')\nf()\n", "line 2: ValueError: no"),
    ],
)
def test_a_file_that_fails_is_named_with_its_line(tmp_path, text, message):
    path = tmp_path / "bad.py"
    path.write_text(text, encoding="utf-8")
    for _ in range(2):  # what failed once is not taken for loaded
        with pytest.raises(CourseError, match=re.escape(f"{path}, {message}")):
            Planned(f"{path}:mine/tied")


def test_names_that_are_not_there(file, tmp_path):
    with pytest.raises(CourseError, match="there is no file .*none.py with recipes"):
        Planned(f"{tmp_path / 'none.py'}:mine/tied")
    with pytest.raises(CourseError, match="mine/gru/tied"):
        Planned(f"{file}:mine/gru/tide")
    (tmp_path / "mine.txt").write_text("x = 1\n", encoding="utf-8")
    with pytest.raises(CourseError, match="mine.txt is no file of Python"):
        elsewhere.load(tmp_path / "mine.txt")


def test_what_is_entered_has_a_role_and_a_name_of_its_own():
    class VariationalLSTM(torch.nn.Module):
        pass

    with pytest.raises(CourseError, match="another encoder called VariationalLSTM"):
        parts.enter("encoder", VariationalLSTM)
    with pytest.raises(CourseError, match="did you mean encoder"):
        parts.enter("encoders", VariationalLSTM)


def test_installed_packages_are_asked_and_a_broken_one_is_left_out(tmp_path, monkeypatch):
    (tmp_path / "good_recipes.py").write_text(
        "from course_lab.recipes import add, recipes\n"
        "add(recipes['ptb/vd-lstm-200/tied'], name='installed/tied', source='a package')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint(n, f"{n}_recipes", elsewhere.GROUP) for n in ("bad", "good")]
    monkeypatch.setattr(elsewhere, "entry_points", lambda group: points)
    with pytest.warns(UserWarning, match="bad_recipes are left out: ModuleNotFoundError"):
        elsewhere.load_installed()
    assert Planned("installed/tied").key == "installed/tied/standard-seed1"
