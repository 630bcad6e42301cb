"""Tags and links of pages that depend on where the site is served: a picture for sharing, and the other versions.

``TUNE_VFL_SITE`` (https://HOST/0.2/) is the address of this build, ``TUNE_VFL_VERSIONS`` (0.1=https://HOST/0.1/ ...)
has those of others. Without the first pages have no picture, which wants a whole address; without the second no switch.
"""

from __future__ import annotations

import os
import re
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from docutils.nodes import document
    from sphinx.application import Sphinx

PICTURE = "_static/decision.png"


def versions() -> list[tuple[str, str]]:
    """Return names and addresses of the other versions that are served."""
    told = os.environ.get("TUNE_VFL_VERSIONS", "").split()
    return [(name, address) for name, _, address in (one.partition("=") for one in told)]


def meta(title: str, told: str, site: str) -> str:
    """Return the Open Graph tags of a page: title, description and picture for those who share its address."""
    tags = {"og:title": title, "og:description": told, "og:image": f"{site.rstrip('/')}/{PICTURE}"}
    return "".join(f'<meta property="{name}" content="{escape(value)}">\n' for name, value in tags.items())


def told_first(doctree: document) -> str:
    """Return the first paragraph of a page."""
    return next((node.astext().replace("\n", " ") for node in doctree.findall() if node.tagname == "paragraph"), "")


def serve(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: document | None) -> None:
    """Give a page its tags, and the switch the other versions."""
    context["versions"] = versions()
    if doctree is not None and (site := os.environ.get("TUNE_VFL_SITE")):
        title = re.sub(r"<[^>]+>", "", context.get("title", ""))
        context["metatags"] = context.get("metatags", "") + meta(title, told_first(doctree), site)
