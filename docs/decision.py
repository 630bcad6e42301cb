"""Draw the picture of the first page from the study that is searched there: python -m docs.decision loans."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path

from reports.gathered import gather
from reports.looks import COLORS
from tune_vfl import load_study
from tune_vfl.analysis import formatting
from tune_vfl.analysis.decision import Decision
from tune_vfl.analysis.setting import Setting

HERE = Path(__file__).parent
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 370, 62, 22, 34, 62
LOW, HIGH = 0.5, 0.92
# In a page of the site the picture has the page's colors, elsewhere those of paper.
STYLE = (
    "svg:root{color:#1d2733;background:#fff}"
    "#decision text{fill:currentColor;font:15px sans-serif}#decision line{stroke:currentColor}"
    "#decision .soft{opacity:.75}"
    "#decision g:hover>*{stroke-width:4}"
)


def across(leakage: float) -> float:
    """Return where a leakage is drawn."""
    return LEFT + leakage * (WIDTH - LEFT - RIGHT)


def up(utility: float) -> float:
    """Return where a utility is drawn."""
    return HEIGHT - BOTTOM - (utility - LOW) / (HIGH - LOW) * (HEIGHT - TOP - BOTTOM)


def text(x: float, y: float, words: str, more: str = "") -> str:
    """Return words at a place."""
    return f'<text x="{x:.0f}" y="{y:.0f}" {more}>{escape(words)}</text>'


def line(x: tuple[float, float], y: tuple[float, float], more: str = "") -> str:
    """Return a line between two places."""
    return f'<line x1="{x[0]:.1f}" x2="{x[1]:.1f}" y1="{y[0]:.1f}" y2="{y[1]:.1f}" {more}/>'


def mark(setting: Setting, place: int) -> str:
    """Return a setting's point, in the color and shape of its defense; a pointer on it shows its numbers."""
    x, y = across(setting.leakage), up(setting.utility)
    shape = (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6.5"',
        f'<rect x="{x - 6:.1f}" y="{y - 6:.1f}" width="12" height="12"',
        f'<path d="M{x:.1f} {y - 7:.1f}l7 13h-14z"',
    )[place]
    says = (
        f"{setting.defense} {formatting.setting(setting.params)}: AUC {formatting.short(setting.utility)}, leakage "
        f"{formatting.short_span(setting.leakage, setting.leakage_interval)}, found by {setting.outcome.strongest}"
    )
    return f'<g><title>{escape(says)}</title>{shape} fill="{COLORS[place]}" stroke="#fff" stroke-width="1.2"/></g>'


def frame(limit: float) -> Iterator[str]:
    """Yield the axes and the limit of the leakage."""
    end, floor = across(1), up(LOW)
    yield (
        f'<rect x="{across(limit):.1f}" y="{TOP}" width="{end - across(limit):.1f}" height="{floor - TOP:.1f}"'
        ' fill="#d55e00" opacity=".12"/>'
    )
    yield line((across(limit),) * 2, (TOP, floor), 'style="stroke:#d55e00" stroke-dasharray="2 3"')
    yield text(across(limit) + 6, floor - 10, f"more than {limit:g}: not allowed", 'class="soft"')
    yield line((LEFT, end), (floor, floor)) + line((LEFT, LEFT), (TOP, floor))
    for share in (0, 0.25, 0.5, 0.75, 1):
        yield text(across(share), floor + 20, f"{share:g}", 'text-anchor="middle"')
    for utility in (0.5, 0.6, 0.7, 0.8, 0.9):
        yield text(LEFT - 8, up(utility) + 5, f"{utility:g}", 'text-anchor="end"')
    yield text(
        (LEFT + end) / 2, HEIGHT - 14, "leakage: 0 is no label given away, 1 is every one", 'text-anchor="middle"'
    )
    y = (TOP + floor) / 2
    yield text(18, y, "AUC of the model", f'text-anchor="middle" transform="rotate(-90 18 {y:.0f})"')


def drawn(settings: tuple[Setting, ...], decision: Decision) -> Iterator[str]:
    """Yield the parts of the picture: frame, references, all settings, and the one to deploy."""
    best, without, alone = decision.setting, decision.undefended, decision.alone
    if best is None or without is None or alone is None or without.leakage is None or best.leakage_interval is None:
        raise SystemExit("the picture shows a setting to deploy: this study has none")
    yield from frame(decision.constraints["leakage"])
    y = up(alone.utility)
    yield line((LEFT, across(1)), (y, y), 'stroke-dasharray="7 5" opacity=".7"')
    yield text(LEFT + 8, y - 8, "the bank alone", 'class="soft"')
    names = list(dict.fromkeys(setting.defense for setting in settings))
    shown = sorted((s for s in settings if s.utility >= LOW), key=lambda s: s.utility)
    yield from (mark(setting, names.index(setting.defense)) for setting in shown)
    lower = formatting.count(len(settings) - len(shown), "setting lies", "settings lie")
    yield text(LEFT + 14, up(LOW) - 10, f"{lower} lower", 'class="soft"')
    x, y = across(without.leakage), up(without.utility)
    says = f"no defense: AUC {formatting.short(without.utility)}, leakage {formatting.short(without.leakage)}"
    cross = f'd="M{x - 7:.1f} {y - 7:.1f}l14 14m0 -14l-14 14" stroke="currentColor" stroke-width="3"'
    yield f"<g><title>{escape(says)}</title><path {cross}/></g>"
    yield text(x - 12, y + 30, "✕ no defense", 'text-anchor="end"')
    x, y = across(best.leakage), up(best.utility)
    yield line(tuple(map(across, best.leakage_interval)), (y, y), 'stroke-width="2" pointer-events="none"')  # type: ignore[arg-type]
    ring = 'r="12" fill="none" stroke="currentColor" stroke-width="3" pointer-events="none"'
    yield f'<circle cx="{x:.1f}" cy="{y:.1f}" {ring}/>'
    yield text(LEFT + 8, y + 34, f"deploy {best.defense} {formatting.setting(best.params)}", 'style="font-weight:bold"')
    for place, name in enumerate(names):
        sign = "●■▲"[place]
        yield text(LEFT + 8 + 100 * place, 20, f"{sign} {name}", f'style="fill:{COLORS[place]};font-weight:bold"')


def main(study: str) -> None:
    """Write the picture beside its page."""
    (found,) = gather(load_study(study).record())
    parts = "\n".join(drawn(found.found.points, found.decision))
    head = f'<svg id="decision" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
    title = "AUC and leakage of 24 settings of three defenses; the most useful one that surely leaks at most half"
    page = f'{head} aria-label="{title}">\n<style>{STYLE}</style>\n{parts}\n</svg>\n'
    (HERE / "decision.svg").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
