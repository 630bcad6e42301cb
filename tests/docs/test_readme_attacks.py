"""The README's lines on attacks without a search, run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

README = Path(__file__).parents[2] / "README.md"


def lines_of_the_readme() -> str:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    return next(b for b in blocks if "View.from_gradients" in b)


def test_attacks_are_run_on_what_a_loop_of_ones_own_received(capsys: pytest.CaptureFixture[str]) -> None:
    g = torch.Generator().manual_seed(0)
    y = (torch.rand(1000, generator=g) < 0.2).long()
    residual = torch.rand(1000, generator=g) * 0.4 + 0.1
    embeddings = torch.randn(1000, 6, generator=g) + 2 * y.unsqueeze(-1)
    given = {
        # p - y of a model that leans to the common class: rare rows have the longer gradients.
        "gradients": torch.where(y == 1, residual - 1, residual).unsqueeze(-1) * torch.randn(1, 6, generator=g) / 256,
        "embeddings": embeddings,
        "y": y,
        "ids": torch.cat([(y == c).nonzero().flatten()[:10] for c in (0, 1)]),
    }
    exec(lines_of_the_readme(), given)  # noqa: S102 - the README's own lines
    by_norm, by_completion = map(float, capsys.readouterr().out.split())
    assert by_norm > 0.95
    assert by_completion > 0.95


def test_the_readme_shows_at_most_a_dozen_lines() -> None:
    assert len([line for line in lines_of_the_readme().splitlines() if line.strip()]) <= 12
