"""Sphinx settings. `tools.site.build` adds lessons, gallery and MathJax to a copy of docs/."""

import os

project = "The output embedding of language models"
author = "the course's authors"
html_title = "The output embedding"
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "tools.reference",
]
exclude_patterns = ["generated/*"]
templates_path = ["_templates"]
smartquotes_action = "qe"  # quotation marks and dots; two hyphens are those of an option
autosummary_generate = False
autodoc_default_options = {"ignore-module-all": True, "member-order": "bysource"}
autodoc_inherit_docstrings = False
suppress_warnings = ["mystnb.unknown_mime_type"]

nb_execution_mode = "off"
nb_output_stderr = "remove"
nb_ipywidgets_js = {}
nb_merge_streams = True
nb_number_source_lines = False
myst_enable_extensions = ["amsmath", "dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 4
toc_object_entries_show_parents = "hide"
add_module_names = False
python_maximum_signature_line_length = 80

mathjax_path = "mathjax/startup.js"
mathjax3_config = {
    "loader": {"load": ["core", "input/tex", "output/svg", "a11y/assistive-mml"]},
    "svg": {"fontCache": "local"},
}

html_theme = "sphinx_book_theme"
html_static_path = ["_static"]
html_css_files = ["course.css"]
html_js_files = ["course.js"]
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_context = {"default_mode": "auto"}
html_copy_source = False
html_show_sphinx = False
html_last_updated_fmt = None
html_theme_options = {
    "navbar_persistent": [],
    "logo": {"text": "The output embedding", "alt_text": ""},
    "use_download_button": False,
    "use_fullscreen_button": False,
    "show_toc_level": 2,
    "footer_content_items": ["licences-footer.html"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "search_bar_text": "Search the course",
}
if os.environ.get("COURSE_SITE_VERSION"):  # one of several sites side by side: `tools.published`
    html_theme_options["switcher"] = {
        "json_url": "../versions.json",
        "version_match": os.environ["COURSE_SITE_VERSION"],
    }
    html_theme_options["check_switcher"] = False  # the file is written after the site
    html_sidebars = {
        "**": ["navbar-logo", "version-switcher", "search-button-field", "sbt-sidebar-nav"]
    }
