"""The page in a browser: drawn within the time, nothing clipped or fetched, light and dark, on a phone and on paper."""

import random
import shutil
import time
from dataclasses import replace

import pytest

from tests.helpers.reports import write_report
from tests.helpers.studies import made_up_outcome, made_up_study, made_up_trial
from tune_vfl.defenses.base import DEFENSES
from tune_vfl.records.campaigns import CampaignRecord

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
MOST_BYTES, MOST_SECONDS = 10_000_000, 3.0
SEVEN_THOUSANDTHS = 0.007


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    if CHROMIUM is None:
        pytest.skip("no chromium on the path: apt-get install chromium")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


def searched(name, defense, trials, best, dice):
    """A study of three parameters, whose settings lie below a line of its own."""
    listed = []
    for number in range(trials):
        noise = dice.random()
        outcome = made_up_outcome(best - 0.25 * noise**3 - abs(dice.gauss(0, 0.03)), 0.51 + 0.47 * (1 - noise))
        params = {"scale": 10 ** (5 * noise - 5), "k": dice.randint(1, 9), "anchor": dice.choice(["teacher", "label"])}
        listed.append(replace(made_up_trial(number, scale=1.0, outcome=outcome), params=params))
    return replace(made_up_study(2, name=name, defense=defense), trials=tuple(listed))


def campaign(studies, trials):
    dice = random.Random(0)  # noqa: S311 - made-up numbers
    defenses = [n for n in DEFENSES.names() if n != "none"][:studies]
    parts = tuple(searched(f"c-{d}", d, trials, 0.97 - k * SEVEN_THOUSANDTHS, dice) for k, d in enumerate(defenses))
    return CampaignRecord("c", parts, studies * trials)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return write_report(campaign(9, 14), tmp_path_factory.mktemp("small") / "out")


def opened(browser, path, *, width=1300, scheme="light", touch=False):
    """Return the page with its frontier drawn, and what it complained of or asked for."""
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=touch)
    heard = []
    page.on("console", lambda said: heard.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.on("request", lambda asked: heard.append(asked.url) if not asked.url.startswith(("file:", "data:")) else None)
    page.goto(path.as_uri())
    page.evaluate("document.querySelector('.plot').scrollIntoView()")
    page.wait_for_selector(".plot .main-svg")
    return page, heard


@pytest.fixture(scope="module")
def shown(browser, small):
    """The page as most people open it, for what leaves it as it was."""
    page, _ = opened(browser, small)
    yield page
    page.close()


CLIPPED = """() => [...document.querySelectorAll('main *')].filter(e => {
  const box = e.getBoundingClientRect(), style = getComputedStyle(e);
  if (e.closest('.scroll') && !e.classList.contains('scroll') || e.closest('svg') || !box.width) return false;
  const cut = style.overflowX === 'hidden' && e.scrollWidth > e.clientWidth + 1 && !e.closest('.js-plotly-plot');
  return box.right > innerWidth + 1 || box.left < -1 || cut;
}).map(e => e.tagName + '.' + e.className)"""

# Texts of a figure that stick out of it.
OUTSIDE = """() => [...document.querySelectorAll('.plot .main-svg text')].filter(t => {
  const box = t.getBoundingClientRect(), frame = t.closest('.plot').getBoundingClientRect();
  return box.width && (box.right > frame.right + 2 || box.left < frame.left - 2 || box.bottom > frame.bottom + 2);
}).map(t => t.textContent)"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1300, 400])
def test_nothing_is_clipped_asked_for_or_wrong(browser, small, width, scheme):
    page, heard = opened(browser, small, width=width, scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate(OUTSIDE) == []
    assert heard == []
    titles = "[...document.querySelector('.modebar').querySelectorAll('[data-title]')].map(b => b.dataset.title)"
    buttons = page.evaluate(titles)
    assert len(buttons) == 6
    assert not any("hare" in b or "loud" in b for b in buttons), "a figure stays where it is"
    ink = page.evaluate("getComputedStyle(document.querySelector('.plot .main-svg .xtitle')).fill")
    assert (sum(map(int, ink.strip("rgb()").split(", "))) > 384) == (scheme == "dark")
    page.close()


def test_a_point_shows_its_setting_and_the_command_that_exports_it(shown):
    page = shown
    page.locator(".plot .main-svg").first.wait_for()
    at = page.evaluate("""() => {
      const plot = document.querySelector('.plot'), box = plot.getBoundingClientRect(), full = plot._fullLayout;
      const trace = plot.data.find(t => t.meta === 'front');
      return [box.left + full.xaxis._offset + full.xaxis.l2p(trace.x[0]),
              box.top + full.yaxis._offset + full.yaxis.l2p(trace.y[0]), trace.customdata[0]];
    }""")
    page.mouse.move(at[0], at[1])
    page.wait_for_selector(".hoverlayer .hovertext")
    hovered = " ".join(page.locator(".hoverlayer .hovertext").all_text_contents())
    assert "scale=" in hovered
    assert "export c" in hovered
    page.mouse.click(at[0], at[1])
    page.wait_for_selector(".picked code")
    assert page.locator(".picked code").first.text_content() == f"tune-vfl export c --select {at[2]} -o best.json"


def test_a_defense_can_be_hidden_and_shown_again(shown):
    page = shown
    key = page.locator(".key").first
    name = key.get_attribute("data-name")
    group = "document.querySelector('.plot').data.filter(t => t.legendgroup === name && t.visible !== false)"
    count = f"name => {group}.length"
    before = page.evaluate(count, name)
    key.click()
    page.wait_for_function(f"name => ({count})(name) === 0", arg=name)
    assert key.get_attribute("aria-pressed") == "false"
    key.click()
    page.wait_for_function(f"([name, n]) => ({count})(name) === n", arg=[name, before])
    assert before >= 2


def test_on_paper_and_without_scripts_the_printed_figures_take_their_place(browser, small):
    page, _ = opened(browser, small, scheme="dark")
    seen = "s => [...document.querySelectorAll(s)].map(e => e.getClientRects().length > 0)"
    assert not any(page.evaluate(seen, ".still"))
    page.emulate_media(media="print", color_scheme="dark")
    assert all(page.evaluate(seen, ".still"))
    assert not any(page.evaluate(seen, ".plot"))
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("[...document.images].every(i => i.naturalWidth > 300 && i.alt.length > 40)")
    page.close()
    plain = browser.new_context(java_script_enabled=False).new_page()
    plain.goto(small.as_uri())
    assert plain.locator(".still").first.is_visible()
    plain.close()


def test_the_page_of_a_running_search_draws_with_the_script_beside_it(browser, tmp_path):
    running = replace(campaign(2, 14), trials=40)
    page, heard = opened(browser, write_report(running, tmp_path / "out", refreshing=True))
    assert heard == []
    assert page.evaluate("document.querySelector('.still').getClientRects().length") == 0
    page.close()


def test_five_thousand_settings_would_fit(tmp_path):
    """A setting of a longer search adds no more to its page than one of a shorter search."""
    few, many = (write_report(campaign(2, n), tmp_path / str(n)).stat().st_size for n in (40, 160))
    assert few < many
    assert few + (5000 - 80) * (many - few) / 240 < MOST_BYTES


@pytest.mark.slow  # a benchmark: ten seconds of a core for a page of twenty defenses, drawn and opened
def test_five_thousand_settings_of_twenty_defenses_open_in_time(browser, tmp_path):
    path = write_report(campaign(20, 250), tmp_path / "out")
    assert path.stat().st_size < MOST_BYTES
    page = browser.new_page(viewport={"width": 1300, "height": 900})
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})  # other programs' time is not the page's
    began = time.monotonic()
    page.goto(path.as_uri())
    page.evaluate("document.querySelector('.plot').scrollIntoView()")
    page.wait_for_selector(".plot .main-svg")
    page.wait_for_function("document.querySelectorAll('.plot .scatterlayer .point').length >= 5000")
    waited = time.monotonic() - began
    spent = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}["TaskDuration"]
    page.close()
    assert min(waited, spent) < MOST_SECONDS
