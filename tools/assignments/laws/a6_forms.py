"""What the JSON files of A6 hold: forms, and the sentence for the first fault of a file."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field, StringConstraints, ValidationError

from tools.assignments.laws.a6_layer import METHODS
from tools.assignments.laws.common import Failed

LARGEST = 1 << 16  # bytes
SEEDS = 4, 20  # registered seeds: at least, at most


def some(kind, least: int, most: int):
    """Return the type of a list of so many of a kind."""
    return Annotated[list[kind], Field(min_length=least, max_length=most)]


def different(values: list) -> list:
    """Return a list of which no two are equal; raise ValueError for another."""
    if len({*values}) < len(values):
        raise ValueError("two are equal")
    return values


def time(text: str) -> str:
    """Return a time as Python writes it; raise ValueError for another text."""
    datetime.fromisoformat(text)
    return text


Number = Annotated[float, Field(gt=-1e9, lt=1e9)]
Strength = Annotated[float, Field(ge=1e-3, le=100)]
Zero = Annotated[float, Field(ge=0, le=0)]
Rate = Annotated[float, Field(gt=0, le=1)]
Seed = Annotated[int, Field(ge=1, le=10**6)]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=20, max_length=4_000)]
Time = Annotated[str, AfterValidator(time)]


class Form(BaseModel, strict=True, allow_inf_nan=False):
    """JSON of the stated types, without NaN; the description of a field says what is asked."""


class Registration(Form, extra="forbid"):
    """What a student promises in 6.1."""

    question: Text = Field(description="a text of 20 letters or more")
    methods: Annotated[some(Literal[METHODS], 2, 2), AfterValidator(different)] = Field(
        description=f"two different ones out of {', '.join(METHODS)}"
    )
    measure: Literal["loss", "rare"] = Field(description="one of loss, rare")
    smallest: Annotated[float, Field(gt=0, le=2)] = Field(
        description="a number of nats above 0, at most 2"
    )
    pilot: some(Number, 3, 20) = Field(description="a list of 3 to 20 paired differences")
    pilot_seeds: some(Seed, 3, 20) = Field(description="a list of 3 to 20 whole numbers")
    seeds: Annotated[some(Seed, *SEEDS), AfterValidator(different)] = Field(
        description="a list of {} to {} different whole numbers from 1 to a million".format(*SEEDS)
    )
    trials: Annotated[int, Field(ge=2, le=12)] = Field(description="a whole number from 2 to 12")
    exclusion: Text = Field(description="a text of 20 letters or more")
    written: Time = Field(description="a time such as 2027-05-03T09:30:00")


class Trials(Form):
    """The trials of both kinds: rate, two strengths, measure."""

    layer: list[tuple[Rate, Strength, Strength, Number]] = Field(
        description="a list of trials, each a rate above 0 and up to 1, two strengths from "
        "0.001 to 100, the measure"
    )
    baseline: list[tuple[Rate, Zero, Zero, Number]] = Field(
        description="a list of trials, each a rate above 0 and up to 1, two strengths that are 0, "
        "the measure"
    )


class Made(Form):
    """What 6.4 made: the digest of its registration, the time when it began, the trials."""

    registration: str = Field(description="a digest")
    begun: Time = Field(description="a time")
    trials: Trials = Field(description="the two lists of trials, layer and baseline")


class Claim(Form):
    """The interval of 6.5."""

    low: Number = Field(description="a number")
    high: Number = Field(description="a number")


class Report(Form):
    """What a referee says in 6.7 about one classmate."""

    variant: str
    seed: Seed
    layer: Number
    baseline: Number
    marks: some(Annotated[float, Field(ge=0, le=5)], 6, 6)


class Reports(Form):
    """Both reports of a referee."""

    reports: some(Report, 2, 2) = Field(
        description="two reports with variant, seed, layer, baseline, and six marks from 0 to 5"
    )


def filled(files: dict[str, bytes], name: str, form: type[Form]) -> dict:
    """Return a file that was handed in as its form; raise Failed, with a sentence, for another."""
    if name not in files:
        raise Failed("missing", f"{name} was not handed in")
    if len(files[name]) > LARGEST:
        raise Failed("json", f"{name} has {len(files[name]):,} bytes, allowed are {LARGEST:,}")
    try:
        return form.model_validate_json(files[name]).model_dump()
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        first = min(faults, key=lambda fault: fault["type"] != "extra_forbidden")
        raise Failed("json", told(first, form, name)) from None


def told(fault: dict, form: type[Form], name: str) -> str:
    """Return a fault of a file as a sentence: what is asked of the innermost field."""
    what = "the registration" if form is Registration else name
    if not fault["loc"]:
        return f"{name} is no JSON object, which stands in braces: {fault['msg'][:100]}"
    if fault["type"] == "extra_forbidden":
        return f"{what} has an unknown field {str(fault['loc'][0])[:40]!r}"
    field = asked = ""
    for part in fault["loc"]:
        fields = getattr(form, "model_fields", {})
        if part not in fields:
            break
        field, asked, form = part, fields[part].description, fields[part].annotation
    if fault["type"] == "missing" and field == fault["loc"][-1]:
        return f"{what} has no {field}: asked is {asked}"
    return f"{field} of {what} is not {asked}"
