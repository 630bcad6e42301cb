"""A page's tags where it is shared, and the switch of versions."""

from __future__ import annotations

import pytest

from docs.served import PICTURE, meta, versions
from tests.docs.test_site import ROOT


def test_a_page_is_shared_with_its_title_its_first_sentence_and_the_picture() -> None:
    told = meta("Errors & codes", 'What "refused" means', "https://site.example/0.2/")
    assert '<meta property="og:title" content="Errors &amp; codes">' in told
    assert "What &quot;refused&quot; means" in told
    assert f'<meta property="og:image" content="https://site.example/0.2/{PICTURE}">' in told
    assert (ROOT / "docs" / PICTURE.replace("_static", "static")).is_file()


def test_versions_are_those_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TUNE_VFL_VERSIONS", raising=False)
    assert versions() == []
    monkeypatch.setenv("TUNE_VFL_VERSIONS", "0.1=https://site.example/0.1/ 0.2=https://site.example/0.2/")
    assert versions()[0] == ("0.1", "https://site.example/0.1/")
