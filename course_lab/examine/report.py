"""The report: one HTML page that needs no other file and no network."""

import base64
import html
import os
import tempfile
from importlib import resources
from pathlib import Path

from course_lab import plots
from course_lab.examine import atlas
from course_lab.examine.diagnosis import capital
from course_lab.examine.figures import pictures
from course_lab.examine.findings import MARKED, NAMED, Finding
from course_lab.examine.record import Examination, as_json
from course_lib.training.checkpoint import write_atomically

CROWDS = 3  # groups of equal rows that are shown
NAMES = 24  # words that are listed
REPAIRED = ("mean cosine", "mean cosine, rare words", "share of the mean vector", "IsoScore",
            "isotropy I₁", "stable rank", "distance to the nearest word")  # fmt: skip
CENTRING = (
    "Centring an output matrix takes the same number from every logit of a position and changes no "
    "probability of a softmax over all words at once; a perplexity that differs after it tells of "
    "what follows the logits."
)


def save_report(examination: Examination, folder: Path) -> Path:
    """Write report.json and report.html into `folder` and return the path of the second.

    Both get their names when both are complete, so that an error leaves no half report behind.
    """
    # both texts
    contents = {
        "report.json": as_json(examination.to_dict()),
        "report.html": page(examination).encode(),
    }
    # both files, which get their names when both are complete
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".report-", dir=folder) as unfinished:
        for name, content in contents.items():
            write_atomically(Path(unfinished) / name, content)
        for name in contents:
            os.replace(Path(unfinished) / name, folder / name)
    return folder / "report.html"


def page(examination: Examination) -> str:
    """Return the whole page: verdict, findings, numbers, pictures, repairs and provenance."""
    parts = [
        _head(examination),
        _findings(examination),
        _by_name(examination),
        _numbers(examination),
        _pictures(examination),
        _repairs(examination),
        _origin(examination),
    ]
    text = resources.files("course_lab.examine").joinpath("report.html").read_text("utf-8")
    slots = {
        "TITLE": html.escape(f"Examination of {examination.source.path.name}"),
        "NAMED": f"{100 * NAMED:g}",
        "BODY": "\n".join(parts),
    }
    for slot, value in slots.items():
        text = text.replace(f"@{slot}@", value)
    return text


def number(value) -> str:
    """Return a number as the tables have it: three significant digits, thousands grouped."""
    if value is None:
        return "–"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{0.0 if abs(value) < 1e-12 else value:.3g}".replace("-", "−")


def _head(examination: Examination) -> str:
    source = examination.source
    diagnosis = examination.diagnosis
    about = f"{source.name}: {len(source.W):,} words × {source.W.shape[1]} dimensions"
    tied = {True: ", tied", False: ", untied", None: ""}[source.tied]
    healthy = "" if examination.unusual else " healthy"
    return (
        f"<h1>Examination of {html.escape(str(source.path))}</h1>"
        f'<p class="quiet">{html.escape(source.kind)}, {html.escape(about)}{tied}</p>'
        f'<p class="verdict{healthy}"><strong>{html.escape(examination.sentence)}</strong> Taken '
        f"together {diagnosis.severity:.0%} of the cloud's energy is not where a random matrix "
        "of the same shape has it.</p>"
        + "".join(f'<p class="quiet">{html.escape(_said(note))}</p>' for note in examination.notes)
    )


def _said(text: str) -> str:
    return capital(text) + "." * (text[-1] not in ".?!")


def _findings(examination: Examination) -> str:
    ranks = examination.places
    cards = "".join(
        _finding(finding, ranks.get(finding.name), finding in examination.unusual)
        for finding in examination.diagnosis.findings
    )
    return (
        "<h2>Findings</h2>"
        '<p class="quiet">A severity is the share of the energy that is not where a random matrix '
        f"of the same shape has it. From {NAMED:g} on (the line) it is named: a tenth of the "
        "energy, more than chance gives at any shape, and the least that shows in a picture. From "
        f"{MARKED:g} on it is marked: it holds more than all the rest.</p>"
        f'<div class="findings">{cards}</div>'
    )


def _finding(finding: Finding, place: atlas.Rank | None, unusual: bool) -> str:
    marked = ' class="marked"' if finding.severity >= MARKED else ""
    width = 100 * min(1.0, max(0.0, finding.severity))
    advice = f"<p><strong>What to do.</strong> {html.escape(finding.remedy)}</p>"
    return (
        f'<section class="finding"><h3>{html.escape(_said(finding.title)[:-1])}</h3>'
        f'<div class="scale"><div class="bar" role="img" aria-label="severity '
        f'{finding.severity:.2f} of 1"><i{marked} style="width:{width:.1f}%"></i><b></b></div>'
        f"<span>{finding.severity:.2f}, {finding.grade}</span></div>"
        + (f'<p class="quiet">Without counts: {place}.</p>' if place else "")
        + f"<p>{html.escape(finding.seen.replace(' -', ' −'))}</p>{advice if unusual else ''}"
        f"<details><summary>Why this is the measure</summary>{html.escape(finding.reason)}"
        "</details></section>"
    )


def by_name(examination: Examination) -> list[tuple[str, str]]:
    """Return what is said of single words: titles, and sentences that list them by name."""
    said = []
    for crowd in examination.together[:CROWDS]:
        words = f"{len(crowd.rows):,} words"
        share = ""
        if examination.occurs is not None:
            seen = int(examination.occurs[crowd.rows].sum())
            share = f" Of them {seen:,} occur in the text that was counted."
        nearest = ""
        if len(crowd.around):
            nearest = f" The next words: {_listed(examination.called(crowd.around))}."
        said.append(
            (
                f"{words} with one row",
                "Each row equals another of them, or is nearer to it than a tenth of a word's "
                f"usual distance from the mean: {_listed(examination.called(crowd.rows))}.{share} "
                "Words that training never pulled stand together so, reserved ones among them."
                f"{nearest}",
            )
        )
    rest = len(examination.together) - CROWDS
    if rest > 0:
        said.append((f"{rest:,} more such groups", "report.json lists them."))
    never = examination.never_called()
    if never:
        said.append(
            (
                f"{len(never):,} words that are never first",
                f"No context makes them the likeliest: {_listed(never)}. Each has a proof in "
                "report.json: other words, and the weights with which their mean is its row.",
            )
        )
    return said


def _listed(words: list[str]) -> str:
    """Return words in quotation marks, with commas; of many the first."""
    rest = len(words) - NAMES
    more = f" and {rest:,} more, which report.json lists" if rest > 0 else ""
    return ", ".join(f"“{word}”" for word in words[:NAMES]) + more


def _by_name(examination: Examination) -> str:
    said = by_name(examination)
    if not said:
        return ""
    cards = "".join(
        f'<section class="finding"><h3>{html.escape(title)}</h3><p>{html.escape(text)}</p>'
        "</section>"
        for title, text in said
    )
    return f'<h2>Words by name</h2><div class="findings">{cards}</div>'


def _numbers(examination: Examination) -> str:
    if examination.against is None:
        rows = [(name, number(value)) for name, value in examination.metrics.items()]
        return "<h2>Numbers</h2>" + table(("measure", "value"), rows)
    other = examination.against
    rows = [(name, number(value), number(other.metrics.get(name)))
            for name, value in examination.metrics.items()]  # fmt: skip
    severities = [
        (f"severity: {finding.title}", f"{finding.severity:.2f}", _severity(other, finding.name))
        for finding in examination.diagnosis.findings
    ]
    rows += [*severities, ("verdict", examination.sentence, other.sentence)]
    sizes, others = (f"{len(e.W):,} × {e.W.shape[1]}" for e in (examination, other))
    rows.append(("words × dimensions", sizes, others))
    paths = (examination.source.path, other.source.path)
    short = [path.name for path in paths]
    names = ("measure", *(short if len(set(short)) > 1 else map(str, paths)))
    said = f"<p>Compared with <code>{html.escape(str(other.source.path))}</code>.</p>"
    return "<h2>Numbers, side by side</h2>" + said + table(names, rows)


def _severity(other: Examination, name: str) -> str:
    values = {finding.name: finding.severity for finding in other.diagnosis.findings}
    return f"{values[name]:.2f}" if name in values else "–"


def _pictures(examination: Examination) -> str:
    cards = []
    for picture in pictures(examination):
        data = base64.b64encode(plots.png(picture.figure)).decode()
        cards.append(
            f"<figure><h3>{html.escape(picture.title)}</h3>"
            f'<img src="data:image/png;base64,{data}" alt="{html.escape(picture.alt)}">'
            f"<figcaption>{html.escape(picture.caption)}</figcaption></figure>"
        )
    return f'<h2>Pictures</h2><div class="figures">{"".join(cards)}</div>'


def _repairs(examination: Examination) -> str:
    repairs = examination.repairs.values()
    names = ("measure", "as it is", *examination.repairs)
    # numbers and verdict before and after
    rows = []
    for name in REPAIRED:
        if name in examination.metrics:
            after = (number(repair["metrics"][name]) for repair in repairs)
            rows.append((name, number(examination.metrics[name]), *after))
    verdicts = (repair["verdict"] for repair in repairs)
    rows.append(("findings", examination.diagnosis.sentence, *verdicts))
    said = "<p>After training, without any data: subtract the mean row (centring), or also take "
    said += "away the first d/100 principal directions (all-but-the-top).</p>"
    # perplexity, where the model could be run
    perplexity = [repair.get("perplexity") for repair in repairs]
    if all(perplexity):
        before = next(iter(repairs))["perplexity_before"]
        values = (f"{value:,.2f}" for value in (before, *perplexity))
        rows.append(("perplexity (validation)", *values))
        said += f"<p>{CENTRING}</p>"
        if examination.source.tied:
            said += "<p>The model is tied: it goes on reading with its own matrix, and only the "
            said += "one that predicts is repaired.</p>"
    else:
        said += f"<p>{html.escape(_said(examination.not_run or 'no perplexity'))}</p>"
    return "<h2>Repairs</h2>" + said + table(names, rows)


def _origin(examination: Examination) -> str:
    content = examination.to_dict()
    source = content["source"]
    versions = content["versions"]
    rows = {
        "file": source["path"],
        "matrix": f"{source['matrix']}, {source['dtype']}"
        + (", transposed" if source["transposed"] else ""),
        "SHA-256": "; ".join(f"{name} {digest}" for name, digest in source["sha256"].items()),
        "counts": content["counts"] or "none",
        "groups": content["groups"] or "none",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    listed = "".join(f"<dt>{k}</dt><dd>{html.escape(v)}</dd>" for k, v in rows.items())
    return f"<h2>Where this comes from</h2><dl>{listed}</dl>"


def table(names, rows) -> str:
    """Return an HTML table: the first column has names, the others numbers or sentences."""
    head = "".join(
        f'<th scope="col"{" class=number" * (i > 0)}>{html.escape(name)}</th>'
        for i, name in enumerate(names)
    )
    body = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th>'
        + "".join(
            f"<td{' class=number' * (len(cell) < 24)}>{html.escape(cell)}</td>" for cell in cells
        )
        + "</tr>"
        for name, *cells in rows
    )
    head = f"<thead><tr>{head}</tr></thead>"
    return f'<div class="wide"><table>{head}<tbody>{body}</tbody></table></div>'
