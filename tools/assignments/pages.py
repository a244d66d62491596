"""Feedback and dashboard as pages: one file each, light and dark, phone and desktop."""

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape


def marked(text: str) -> Markup:
    """Return a sentence as HTML, with `code` and *emphasis*; all else of it is escaped."""
    html = re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text)))
    return Markup(re.sub(r"\*(\w[^*<]*)\*", r"<em>\1</em>", html))


def rendered(text: str) -> Markup:
    """Return a student's Markdown as HTML: its own HTML is escaped, its headings stand below h3."""
    import mistune  # which comes with nbconvert

    class Renderer(mistune.HTMLRenderer):
        def block_code(self, code, info=None):  # a long line is scrolled, by the keyboard, too
            return super().block_code(code, info).replace("<pre>", "<pre tabindex='0'>", 1)

        def heading(self, text, level, **attributes):
            return super().heading(text, min(level + 3, 6), **attributes)

    to_html = mistune.create_markdown(renderer=Renderer(escape=True), plugins=["table", "math"])
    return Markup(to_html(text))


PAGES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
)
PAGES.filters |= {"marked": marked, "rendered": rendered}


def page(template: str, **values) -> str:
    """Return a page; everything that comes from students is escaped."""
    return PAGES.get_template(f"{template}.html").render(**values)
