"""Configuration of the site: python -m sphinx -W -c docs . build/site.

With ``TUNE_VFL_REPOSITORY`` (https://github.com/OWNER/NAME) each page has a link to where it is edited; `served.py` has
what else is known only where the site is served.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from sphinx.util.nodes import make_refnode

from docs.kept import show
from docs.llms import write_llms
from docs.served import serve
from docs.tables import Generated
from tune_vfl.machine.version import VERSION

project = "tune-vfl"
version = release = VERSION
copyright = "the authors of tune-vfl; Apache-2.0"  # noqa: A001 - Sphinx reads this name

# The source is the root of the repository, so that a link between two pages is the same here and where Git shows them.
root_doc = "docs/index"
include_patterns = ["README.md", "docs/**", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "[!.]*/README.md"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]

highlight_language = "bash"
default_role = "code"
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
napoleon_use_ivar = True
add_module_names = False

# A function of this package that a docstring mentions must be on a page. Types in signatures may be private, and names
# of other packages are not looked up on their sites.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!tune_vfl\.).*"), (r"py:(class|mod)", r"tune_vfl\..*")]

html_theme = "furo"
html_title = "tune-vfl"
html_copy_source = False
copybutton_selector = "div:not(.highlight-text) > div.highlight pre"  # what a program printed is not to be typed
if repository := os.environ.get("TUNE_VFL_REPOSITORY"):
    html_theme_options = {"source_repository": repository, "source_branch": "main", "source_directory": ""}
html_extra_path = ["site"]
html_static_path = ["static"]
html_css_files = ["lines.css"]
templates_path = ["templates"]
html_sidebars = {
    "**": [
        *(f"sidebar/{part}.html" for part in ("brand", "search", "scroll-start", "navigation", "scroll-end")),
        "versions.html",
    ]
}


def find_public(app, env, node, content):
    """Resolve a name by its last part where the whole one is the module in which it is written."""
    domain, last = env.domains.python_domain, node["reftarget"].rpartition(".")[2]
    kinds = domain.objtypes_for_role(node["reftype"]) or ()
    entries = [e for n, e in domain.objects.items() if n.rpartition(".")[2] == last and e.objtype in kinds]
    if len({entry.node_id for entry in entries}) != 1:
        return None
    return make_refnode(app.builder, node["refdoc"], entries[0].docname, entries[0].node_id, content)


def setup(app):
    """Register what this site has of its own."""
    app.add_directive("generated", Generated)
    app.connect("source-read", show)
    app.connect("missing-reference", find_public)
    app.connect("html-page-context", serve)
    app.connect("build-finished", write_llms)
