"""Policies to report on, fitted once, and a headless browser."""

import shutil

import pandas as pd
import pytest

from models import cep1, newsvendor
from tests.quick import QUICK, fit, shorten

WEIGHTED = {**vars(QUICK), "weights": "learned"}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    shorten(monkeypatch.setattr)


def days(n, seed):
    """Return contexts by name, beside demands."""
    contexts, demands = newsvendor.sample(n, seed)
    return pd.DataFrame(contexts, columns=["rain", "price"]).assign(demand=demands)


@pytest.fixture(scope="session")
def auto():
    """Return a newsvendor's policy by 'auto'."""
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch.setattr)
        return fit(days(40, 1), scenarios=3)


@pytest.fixture(scope="session")
def mmd():
    """Return a newsvendor's policy by 'mmd', whose scenarios follow the context."""
    return fit(days(40, 1), scenarios=3, method="mmd")


@pytest.fixture(scope="session")
def static():
    """Return a policy for three demands by 'static', with weights of its own."""
    data = cep1.sample(40, 1)
    options = {"scenarios": 4, "config": WEIGHTED, "regularization": "1x"}
    return fit(data, cep1.build(), method="static", **options)


@pytest.fixture(scope="session")
def held_out():
    return days(30, 2)


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """Return a headless Chromium, or skip where there is none."""
    webdriver = pytest.importorskip("selenium.webdriver")
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("there is no Chromium with its chromedriver on this machine")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield found
    found.quit()
