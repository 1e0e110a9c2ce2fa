"""The page in a real browser: what people see, do and keep while it refreshes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from headgate.page.server import PageServer
from headgate.settings import GateSettings
from headgate.store.settings_file import SettingsFile
from tests.eventually import eventually
from tests.page.conftest import SHOTS, TOKEN, ended_now
from tests.view.virtual_gate import CAPACITY, VirtualGate

if TYPE_CHECKING:
    from playwright.sync_api import Page

Serve = Callable[..., PageServer]
Look = Callable[..., "Page"]

#: How people look at it.
SCREENS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"viewport": {"width": 360, "height": 780}},
}


def verdict(page: Page, level: str) -> None:
    """Wait until the page's first line says so."""
    page.locator(f".verdict.level-{level}").wait_for(timeout=20_000)


def says(page: Page, text: str) -> None:
    page.get_by_text(text).first.wait_for(timeout=20_000)


def until(page: Page, expression: str) -> None:
    """Wait until it is true; asked from outside, because the page's policy lets nothing be evaluated."""
    eventually(lambda: page.evaluate(expression), expression, within_s=20.0)


def drawn(page: Page, charts: int) -> None:
    """Wait until so many charts are drawn."""
    until(page, f"document.querySelectorAll('.chart .scatterlayer').length >= {charts}")


def open_all(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")


def shoot(page: Page, name: str) -> None:
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


@pytest.fixture
def busy_page(serve: Serve, busy_store: Path) -> PageServer:
    return serve(busy_store, secret=TOKEN)


def test_a_burst_is_seen_as_it_is_shed_and_released(serve: Serve, look: Look, control: Path) -> None:
    gate = VirtualGate(control, clock=ended_now(60))
    gate.batches(8, CAPACITY // 2)
    page = look(serve(control).url)
    verdict(page, "healthy")
    says(page, "1 query is healthy: nothing is shed.")
    drawn(page, 2)
    gate.batches(14, 5 * CAPACITY)
    verdict(page, "shedding")
    says(page, "More comes than fits; it sheds so that the target is held.")
    shoot(page, "burst")
    gate.batches(12, CAPACITY // 2)
    verdict(page, "healthy")
    says(page, "Everything is kept again since batch")
    until(page, "document.getElementById('link-state').textContent === 'live'")
    assert page.title() == "Healthy · Headgate"


def test_the_query_stops_and_the_store_vanishes_and_comes_back(
    serve: Serve, look: Look, control: Path
) -> None:
    gate = VirtualGate(control, clock=ended_now(20))
    gate.batches(12, 1000)
    page = look(serve(control).url)
    verdict(page, "healthy")
    gate.stop()
    verdict(page, "stopped")
    says(page, "No query is running.")
    shutil.move(control, control.with_name("away"))
    verdict(page, "unknown")
    says(page, "The control store cannot be read: it is not there any more.")
    assert page.locator("article h2").inner_text().startswith("rides"), "what was known stays"
    until(page, "document.getElementById('link-state').textContent === 'the store cannot be read'")
    shoot(page, "store-gone")
    shutil.move(control.with_name("away"), control)
    verdict(page, "stopped")
    until(page, "document.getElementById('link-state').textContent === 'live'")


def test_a_changed_target_is_a_step_in_its_line(serve: Serve, look: Look, control: Path) -> None:
    """Drawn back over the time before, it would say that batches were late which were not."""
    gate = VirtualGate(control, settings=GateSettings(hold=3), clock=ended_now(40))
    gate.batches(20, CAPACITY)
    page = look(serve(control).url)
    drawn(page, 2)
    heights = "document.querySelector('.chart').data.find((one) => one.name === 'target').y.join()"
    assert page.evaluate(heights) == "3,3"
    SettingsFile(control, "rides").change(hold="1 second")
    gate.run.refresh()  # as the loop does between batches
    gate.batches(20, CAPACITY)
    until(page, f"{heights} === '3,3,1,1'")
    says(page, "The target is 1.00 s. Before batch 20 it was 3.00 s.")
    shoot(page, "changed-target")


def test_a_slow_sink_is_trouble_at_a_glance(serve: Serve, look: Look, control: Path) -> None:
    gate = VirtualGate(control, "orders", clock=ended_now(200))
    gate.batches(6, CAPACITY // 2)
    gate.batches(30, 5 * CAPACITY, takes=lambda kept: 6.0 + 1e-7 * kept)
    page = look(serve(control).url)
    verdict(page, "trouble")
    says(page, "futile: the sink is slow")
    assert page.locator("article").inner_text().count("Shedding did not shorten the batches") == 1
    drawn(page, 2)
    shoot(page, "slow-sink")


def test_a_page_whose_server_is_gone_says_so(serve: Serve, look: Look, control: Path) -> None:
    VirtualGate(control).batches(3, 1000)
    server = serve(control)
    page = look(server.url)
    verdict(page, "healthy")
    server.stop()
    until(page, "document.getElementById('link-state').textContent.startsWith('not connected')")
    look.said.clear()  # type: ignore[attr-defined]  # the browser's own line on the lost connection


@pytest.mark.parametrize(("name", "options"), [*SCREENS.items()], ids=[*SCREENS])
def test_everything_is_there_in_light_dark_and_on_a_phone(
    busy_page: PageServer, look: Look, name: str, options: dict[str, Any]
) -> None:
    page = look(busy_page.url, **options)
    verdict(page, "shedding")
    drawn(page, 8)
    shoot(page, name)
    page.screenshot(path=SHOTS / f"{name}-top.png")
    open_all(page)
    wide = page.evaluate("document.scrollingElement.scrollWidth - window.innerWidth")
    assert wide <= 0, f"the page is {wide} pixels wider than the screen"
    shoot(page, f"{name}-open")
    for text in (
        "priority = 'high'", "completeness", "The dearest keys", "Jain's index is",
        "can still be repaid", "price: dearer rows are dropped first",
    ):  # fmt: skip
        assert page.get_by_text(text).first.is_visible(), text


def test_the_first_line_leads_to_the_query_that_it_names(busy_page: PageServer, look: Look) -> None:
    page = look(busy_page.url)
    drawn(page, 8)
    page.locator("#verdict a", has_text="rides").press("Enter")
    until(page, "document.querySelector(':target h2').textContent.startsWith('rides')")
    top = "document.querySelector(':target').getBoundingClientRect().top"
    until(page, f"{top} >= -1 && {top} < window.innerHeight / 2")


@pytest.mark.parametrize("options", [*SCREENS.values()], ids=[*SCREENS])
def test_no_serious_finding_of_axe(busy_page: PageServer, look: Look, options: dict[str, Any]) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="make setup installs it")
    page = look(busy_page.url, **options)
    drawn(page, 8)
    open_all(page)
    found = axe.Axe().run(page).response["violations"]
    serious = [f for f in found if f["impact"] in ("serious", "critical")]
    assert not [(f["id"], [n["html"] for n in f["nodes"]][:3]) for f in serious]


def test_a_change_needs_the_token_and_holds(serve: Serve, look: Look, control: Path) -> None:
    gate = VirtualGate(control, settings=GateSettings(hold=1), clock=ended_now(10))
    gate.batches(5, 1000)
    page = look(serve(control, secret=TOKEN).url)
    page.get_by_text("Settings", exact=True).click()
    page.get_by_label("Mode").select_option("monitor")
    page.get_by_label("Batches within").fill("1500 ms")
    button = page.get_by_role("button", name="Change from the next batch on")
    button.click()
    page.get_by_label("Token").fill("not the token at all")
    page.get_by_role("button", name="Use it").click()
    button.click()
    says(page, "the token is wrong to change settings")
    assert SettingsFile(control, "rides").overrides() == {}
    page.get_by_label("Token").fill(TOKEN.decode())
    page.keyboard.press("Enter")
    button.click()
    says(page, "Changed; it holds from the next batch on.")
    until(page, "document.querySelector('.now-mode').textContent === 'monitor'")
    assert SettingsFile(control, "rides").overrides() == {"mode": "monitor", "hold": "1500 ms"}
    page.get_by_label("Min keep").fill("7")
    button.click()
    says(page, "min_keep=7.0")
    assert "min_keep" not in SettingsFile(control, "rides").overrides()
    look.said.clear()  # type: ignore[attr-defined]  # the browser notes each 401 and 400 as an error


def test_a_page_that_may_not_look_any_longer_is_not_called_live(
    serve: Serve, look: Look, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    VirtualGate(control, clock=ended_now(10)).batches(5, 1000)
    monkeypatch.setattr("headgate.page.server.is_loopback", lambda host: False)
    page = look(serve(control, secret=TOKEN).url)
    link = "document.getElementById('link-state').textContent"
    until(page, f"{link} === 'not connected: a token is needed to look at this page: ' + "
                "'give what is in the page\\'s --token-file'")  # fmt: skip
    page.get_by_label("Token").fill(TOKEN.decode())
    page.keyboard.press("Enter")
    verdict(page, "healthy")
    until(page, f"{link} === 'live'")
    page.evaluate("sessionStorage.setItem('headgate-token', 'of yesterday')")
    until(page, f"{link}.startsWith('not connected: the token is wrong')")
    assert page.evaluate("document.body.classList.contains('cut-off')")
    says(page, "the token is wrong to look at this page")
    look.said.clear()  # type: ignore[attr-defined]  # the browser notes each 401 as an error


def test_what_if_is_answered_in_words(serve: Serve, look: Look, control: Path) -> None:
    gate = VirtualGate(control, clock=ended_now(60))
    for number in range(60):
        gate.batch(3 * CAPACITY if number > 20 else CAPACITY // 2)
    page = look(serve(control).url)
    page.get_by_text("What if the target were another one?").click()
    page.get_by_role("textbox", name="Target").fill("500 ms")
    page.get_by_role("button", name="Work it out").press("Enter")
    says(page, "In these 60 batches")
    shoot(page, "what-if")
    page.get_by_role("textbox", name="Target").fill("soon")
    page.get_by_role("button", name="Work it out").click()
    says(page, "soon")
    look.said.clear()  # type: ignore[attr-defined]  # the browser notes a 400 as an error


def test_the_hours_that_can_be_asked_about_go_on(
    serve: Serve, look: Look, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that is open for days would ask about hours of the day on which it was opened."""
    VirtualGate(control, clock=ended_now(30)).batches(20, 1000)
    hours = [("the last hour", 0.0), ("09:00 to 10:00", 1.0), ("08:00 to 09:00", 2.0)]
    monkeypatch.setattr("headgate.page.render.hours_of", lambda job, now: hours)
    page = look(serve(control).url)
    page.get_by_text("What if the target were another one?").click()
    page.get_by_label("Target", exact=True).fill("3 s")
    page.get_by_label("Over").select_option("09:00 to 10:00")
    page.get_by_label("Target", exact=True).focus()
    texts = "[...document.querySelector('select[name=since]').options].map((o) => o.text).join()"
    chosen = "document.querySelector('select[name=since]').selectedOptions[0].text"
    hours[1:] = [("10:00 to 11:00", 3.0), ("09:00 to 10:00", 1.0)]
    until(page, f"{texts} === 'the last hour,10:00 to 11:00,09:00 to 10:00'")
    assert page.evaluate(chosen) == "09:00 to 10:00"
    hours[1:] = [("11:00 to 12:00", 4.0)]
    until(page, f"{texts} === 'the last hour,11:00 to 12:00'")
    assert page.evaluate(chosen) == "the last hour"
    assert page.get_by_label("Target", exact=True).input_value() == "3 s", "what was typed stays"


def test_focus_open_panels_and_typed_words_outlive_a_refresh(
    serve: Serve, look: Look, control: Path
) -> None:
    gate = VirtualGate(control, clock=ended_now(30))
    gate.batches(5, 1000)
    page = look(serve(control, secret=TOKEN).url)
    drawn(page, 2)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the queries"
    page.get_by_text("Latest batches as a table").press("Enter")  # by the keyboard alone
    page.get_by_text("Settings", exact=True).press("Enter")
    page.get_by_label("Min keep").fill("0.2")
    gate.batches(3, 4321)
    page.get_by_role("cell", name="4,321").first.wait_for()
    assert page.get_by_label("Min keep").input_value() == "0.2"
    assert page.evaluate("document.activeElement.name") == "min_keep"
    assert page.locator("details[open]").count() == 2


def test_nothing_of_a_stream_is_run_as_html(serve: Serve, look: Look, control: Path) -> None:
    from headgate import ValueClasses

    evil = "name = '<img src=x onerror=alert(1)><script>document.title=1</script>'"
    gate = VirtualGate(control, settings=GateSettings(rate=0.5), policy=ValueClasses((evil,)))
    gate.batches(2, 1000, counts={1: 10})
    page = look(serve(control).url)
    page.get_by_text("Plan in force").click()
    assert page.get_by_role("rowheader", name=evil).is_visible()
    eventually(lambda: page.title().endswith("Headgate"), "the page's own title")
