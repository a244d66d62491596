"""A slice of the malformed inputs for every command; all of them: `tests/fuzz_commands.py`."""

import pytest
from fuzz_commands import KINDS, cases, little_memory, make_home, tried

SLICE = 4 * len(KINDS) + 4


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home with a trained model and a trained translator."""
    with little_memory():
        yield make_home(tmp_path_factory.mktemp("fuzz") / "home")


@pytest.mark.parametrize("number", range(SLICE))
def test_malformed_input_is_refused_in_a_sentence(home, number):
    outcome = tried(home, cases(home, SLICE)[number])
    assert not outcome.law, f"{outcome.law}: {outcome.case}\n{outcome.message}"
