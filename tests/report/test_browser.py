"""The page in a browser: it loads, its charts are drawn, its picker works."""

import io
import re

import numpy as np
import pandas as pd
import pytest

from models import facility_location, newsvendor, unit_commitment
from tests.quick import fit, shorten
from tests.report.conftest import days


@pytest.fixture(scope="module")
def opened(browser, tmp_path_factory):
    """Return a function that opens a policy's page, and sees that nothing complains."""
    folder, files = tmp_path_factory.mktemp("pages"), {}

    def open_page(policy, data=None, width=1200):
        key = id(policy), data is None
        if key not in files:
            files[key] = folder / f"{len(files)}.html"
            policy.report(files[key], data)
        browser.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True},
        )
        browser.get(files[key].as_uri())
        assert browser.get_log("browser") == []
        return browser

    return open_page


def count(browser, selector):
    return len(browser.find_elements("css selector", selector))


def text(browser, selector):
    return browser.find_element("css selector", selector).text


def hidden(browser, selector):
    return not browser.find_element("css selector", selector).is_displayed()


def details(browser):
    """Open the second tab, and return the browser."""
    browser.find_element("id", "tab-details").click()
    return browser


def places(browser):
    """Return where scenarios are drawn."""
    found = browser.find_elements("css selector", "#scenarios circle.scenario")
    return [float(circle.get_attribute("cx")) for circle in found]


def test_every_chart_shows_its_data(opened, auto, held_out):
    page = opened(auto, held_out)

    summary = auto.learned.summary
    assert count(page, "#scenarios circle.scenario") == 3
    assert count(page, "#scenarios circle.near") == 10
    assert count(page, "#candidates circle.dot") == len(summary["candidates"])
    assert count(page, "#cdf path.curve") == 3
    assert count(page, "#cost-table tbody tr") == 3
    details(page)
    assert count(page, "#curves svg") == count(page, "#curves path.ours")
    stages = [e.text for e in page.find_elements("css selector", "#curves h3")]
    assert stages == auto.history["stage"].unique().tolist()
    assert f"“{summary['chosen']}” won" in text(page, "#contest-words")
    assert f"{summary['confidence']:.0%}" in text(page, "#contest-words")
    assert "method='auto'" in text(page, "#call")
    assert hidden(page, "#loss-net") and count(page, ".note") == 0


def test_the_picker_changes_the_chart_and_the_decision(opened, mmd, held_out):
    page = opened(mmd, held_out)
    options = page.find_elements("css selector", "#context option")
    assert len({option.text for option in options}) == len(options) == 6
    before = places(page)

    options[4].click()

    x = chosen(options[4].text, held_out)
    picked = page.find_element("id", "picked").get_attribute("textContent")
    assert picked == options[4].text
    assert places(page) != before
    assert order(page) == pytest.approx(mmd.decide(x)["order"], rel=1e-3)
    shown = page.find_elements("css selector", "#scenario-table td")
    numbers = [float(cell.get_attribute("textContent")) for cell in shown][2::3]
    assert numbers == pytest.approx(mmd.scenarios(x)[:, 0].tolist(), rel=1e-3)


def test_buttons_step_through_contexts_and_stop_at_the_ends(opened, mmd, held_out):
    page = opened(mmd, held_out)
    picked = []
    for button in ["previous", *["next"] * 6, "previous"]:
        page.find_element("id", button).click()
        picked.append(page.execute_script("return document.all.context.selectedIndex"))

    assert picked == [0, 1, 2, 3, 4, 5, 5, 4]


def chosen(name, pairs):
    """Return the context of the pairs that an option such as 'rain 1, price 2' means."""
    words = [part.split() for part in name.split(", ")]
    apart = sum(abs(pairs[word] - float(number)) for word, number in words)
    return pairs.loc[apart.idxmin()]


def order(page):
    return float(text(page, "#decision td:last-child").replace("−", "-"))


def test_a_larger_weight_is_a_larger_mark(opened, static):
    page = opened(static)

    circles = page.find_elements("css selector", "#scenarios circle.scenario")
    sizes = [float(circle.get_attribute("r")) for circle in circles]
    weights = static.weights(static.network.center.numpy())
    expected = np.clip(9 * np.sqrt(4 * weights), 7, 15)
    assert sizes == pytest.approx(np.repeat(expected, 3).tolist(), rel=1e-6)
    assert count(page, "#scenarios path.thread") == 4


def test_loss_net_predictions_are_plotted_against_true_losses(opened, static):
    page = opened(static)

    details(page)
    found = static.learned.summary["loss_net"]
    assert count(page, "#scatter circle") == len(found["true"]) == 8
    correlation = np.corrcoef(found["predicted"], found["true"])[0, 1]
    assert f"{correlation:.2f}"[:-1] in text(page, "#loss-net-words").replace("−", "-")


def test_without_pairs_a_note_says_what_is_missing(opened, auto):
    page = opened(auto)

    assert "data=" in text(page, ".note")
    assert hidden(page, "#costs")
    assert count(page, "#scenarios circle.near") == 0
    assert text(page, "#context option") == "the mean context"


def test_narrow_screens_and_dark_mode_work(opened, static):
    page = opened(static, width=360)
    light = page.find_element("tag name", "body").value_of_css_property("background")

    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": "dark"}]},
    )
    dark = page.find_element("tag name", "body").value_of_css_property("background")
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    assert page.execute_script("return document.documentElement.scrollWidth") <= 360
    assert light != dark


def test_the_page_loads_nothing_and_escapes_names(opened):
    evil = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    model = newsvendor.build()
    model.name = evil
    history = days(30, 1).rename(columns={"rain": evil})

    policy = fit(history, model, method="mmd")
    page = opened(policy, history)

    assert evil in text(page, "h1 em")
    assert evil in text(details(page), "#facts")
    assert count(page, "img") == 0
    entries = "return performance.getEntriesByType('resource').length"
    assert page.execute_script(entries) == 0


@pytest.fixture(scope="module")
def units():
    """Return a policy for a small unit commitment, and held-out days by name."""
    model = unit_commitment.build(("gas", "turbine"), 6)
    contexts, loads = unit_commitment.sample(40, 1)
    loads = loads[:, :6] / 3
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch.setattr)
        policy = fit((contexts[:30], loads[:30]), model, scenarios=2, method="mmd")
    return policy, (contexts[30:], loads[30:])


def test_the_verdict_is_at_the_top(opened, mmd, held_out):
    page = opened(mmd, held_out)
    said = text(page, "#verdict").split("\n")
    expected = [s.replace("+-", "±") for s in mmd.verdict(held_out).sentences]
    assert said == expected
    top = page.find_element("id", "verdict").rect["y"]
    assert top < page.find_element("id", "decisions").rect["y"]
    doubt = "doubt" in page.find_element("id", "verdict").get_attribute("class")
    assert doubt == (not mmd.verdict(held_out).beats)


def test_hours_are_a_profile_and_units_by_hours_a_map(opened, units):
    policy, rows = units
    page = opened(policy, rows)
    assert count(page, "#scenarios path.scenario-line") == 2
    assert count(page, "#scenarios polygon.fan") == 2
    heads = [e.text for e in page.find_elements("css selector", "#decision h4")]
    assert [head.split(" ")[0] for head in heads] == ["unit.on", "unit.started"]
    maps = page.find_elements("css selector", "#decision table.heat")
    shown = maps[0].find_elements("css selector", "td")
    names = [v.name for v in policy.two_stage.first_stage_variables]
    labels = [cell.get_attribute("title").split(": ")[0] for cell in shown]
    assert labels == [
        f"unit.on[{u}, {t}]" for u in ("gas", "turbine") for t in range(1, 7)
    ]
    number = page.execute_script("return document.all.context.selectedIndex")
    content = page.execute_script(
        "return JSON.parse(document.getElementById('content').textContent)"
    )
    decision = dict(zip(names, content["contexts"][number]["decision"], strict=True))
    for cell in shown:
        unit, hour = re.findall(r"\[(.*), (.*)\]", cell.get_attribute("title"))[0]
        share = float(re.search(r"[\d.]+", cell.get_attribute("style"))[0])
        assert share == decision[f"unit[{unit}].on[{hour}]"]


def test_no_number_is_left_out_and_tables_can_be_searched_and_sorted(opened, units):
    policy, rows = units
    page = opened(policy, rows)
    page.find_element("css selector", "#every summary").click()
    every = len(policy.two_stage.first_stage_variables)
    assert count(page, "#all-numbers tbody tr") == every == 24
    search = page.find_element("css selector", "#all-numbers input")
    search.send_keys("gas].on")
    assert count(page, "#all-numbers tbody tr") == 6
    assert "6 of 24" in text(page, "#all-numbers .kicker")
    search.clear()
    search.send_keys("[3]")
    page.find_elements("css selector", "#all-numbers .sort")[0].click()
    names = [
        e.text
        for e in page.find_elements("css selector", "#all-numbers td:first-child")
    ]
    assert names == sorted(names) and len(names) == 4
    csv = page.execute_script(
        "return new Promise((done) => { URL.createObjectURL = (blob) => { "
        "blob.text().then(done); return ''; }; document.all.save.click(); })"
    )
    table = pd.read_csv(io.StringIO(csv), index_col="variable")
    assert len(table) == every and np.isin(table.to_numpy(), [0, 1]).all()


def test_sites_that_are_open_everywhere_do_not_look_half_open(opened):
    contexts, demands = facility_location.sample(30, 1)
    model = facility_location.build(3, 4)
    policy = fit((contexts, demands[:, :4]), model, method="mmd")
    page = opened(policy, (contexts[:8], demands[:8, :4]))
    for row in page.find_elements("css selector", "#decision .list tr"):
        name, mark, value = row.find_elements("css selector", "td")
        circles = mark.find_elements("css selector", "circle")
        if name.text.startswith("open"):
            place = float(circles[0].get_attribute("cx"))
            assert place == {"0": 8, "1": 112}[value.text]
        else:
            assert circles or mark.text == "same in all"


@pytest.mark.parametrize("width", [360, 1100])
def test_wide_pictures_fit_phones(opened, units, width):
    page = opened(*units, width=width)
    assert page.execute_script("return document.documentElement.scrollWidth") <= width


def test_print_shows_both_tabs(opened, mmd, held_out):
    page = opened(mmd, held_out)
    assert hidden(page, "#call")
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    shown = not hidden(page, "#call"), hidden(page, "#save")
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
    assert shown == (True, True)
