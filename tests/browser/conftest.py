"""A browser that is on this machine, or a reason to skip."""

import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium, driven by Playwright."""
    driver = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no browser here; on Debian: apt-get install chromium")
    with driver.sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=found,
            # Root, as in a container, has no sandbox; a small /dev/shm would end the page.
            args=["--no-sandbox", "--disable-dev-shm-usage"],
        )
        yield launched
        launched.close()
