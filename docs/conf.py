"""Sphinx's settings for the website; `make site` runs it."""

import html
import os
import re

from grader.authoring.lesson import repository_address
from tools.website import EXTRA, FOLDERS, LISTS

project = html_title = "Distributed training in JAX"
author = "the course's authors"
language = "en"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = [EXTRA, LISTS]

highlight_language = "none"  # a block that names none is for a terminal
nb_execution_mode = "off"
myst_heading_anchors = 3
default_role = "py:obj"  # `name` in a docstring: a link where there is such a thing
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
napoleon_use_ivar = True

html_theme = "sphinx_book_theme"
html_theme_options = {
    "repository_url": repository_address(),
    "use_repository_button": True,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "navbar_persistent": [],
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_favicon = "_static/favicon.svg"
html_static_path = ["_static"]
html_css_files = ["course.css"]
html_extra_path = [EXTRA]
html_copy_source = False
html_show_sphinx = False


def add_social_card(app, page, template, context, doctree):
    """Says what a page shows where somebody links to it."""
    owner, name = repository_address().split("/")[-2:]
    site = f"https://{owner}.github.io/{name}"
    facts = {
        "og:title": context.get("title") or project,
        "og:description": "Write distributed JAX training yourself, on eight simulated "
        "devices, with checks that see what each device holds, computes and sends.",
        "og:type": "website",
        "og:image": f"{site}/_images/card-light.png",
        "og:url": f"{site}/{page}.html",
    }
    tags = [
        f'<meta property="{name}" content="{html.escape(re.sub("<[^>]*>", "", text))}">'
        for name, text in facts.items()
    ]
    context["metatags"] = "\n".join([context.get("metatags", ""), *tags])


def set_language(app, page, template, context, doctree):
    """Says a lesson page's language, and where the same page is in another one."""
    folder, _, name = page.rpartition("/")
    if folder not in FOLDERS:
        return
    context["language"] = FOLDERS[folder]
    found = [f for f in FOLDERS if f"{f}/{name}" in app.env.found_docs]
    for other in found if len(found) > 1 else ():
        address = os.path.relpath(f"{other}/{name}.html", folder)
        link = f'<link rel="alternate" hreflang="{FOLDERS[other]}" href="{address}">'
        context["metatags"] += f"\n{link}"


def write_factories(app, what, name, thing, options, signature, returns):
    """Writes a dataclass's `<factory>` as Sphinx can read it."""
    return signature and signature.replace("<factory>", "..."), returns


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", write_factories)
    app.connect("html-page-context", set_language)
    app.connect("html-page-context", add_social_card)
