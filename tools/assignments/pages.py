"""Feedback and dashboard as pages: one file each, light and dark, phone and desktop."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).parent / "templates"


def page(template: str, **values) -> str:
    """Return a page; everything that comes from students is escaped."""
    loader = FileSystemLoader(TEMPLATES)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template(f"{template}.html").render(**values)
