"""The site, built once from the committed notebooks: whole, light, readable, and by itself."""

import os
import re
import time
import warnings
from pathlib import Path

import pytest
from browser import launched, served

from weince_lib.experiments import load_claims
from weince_lib.publish import notebooks, site
from weince_lib.publish.site.check import read_site

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "pages"
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.delenv("WEINCE_HOME", raising=False)
        warnings.filterwarnings("error", message="Sphinx says")
        start = time.process_time()
        front = site.build(folder)  # stops on a broken link, a load from outside or a warning
        seconds = time.process_time() - start
    assert front == folder / "index.html"
    assert seconds < 120
    return folder


def text_of(built, page):
    return (built / page).read_text(encoding="utf-8")


def test_every_notebook_and_the_claims_have_a_page(built):
    names = notebooks.names()
    assert {p.stem for p in (built / "notebooks").glob("*.html")} == set(names)
    front = text_of(built, "index.html")
    for name in names:
        assert f'href="notebooks/{name}.html"' in front
    claims = read_site(built)[built.resolve() / "claims.html"]
    assert {claim.id for claim in load_claims()} <= claims.anchors


def test_no_link_is_broken_and_nothing_comes_from_outside(built):
    assert site.broken_links(built) == []
    assert site.loads_from_outside(built) == []


def test_every_image_has_a_text(built):
    assert site.undescribed_images(built) == []
    images = re.findall(r'<img alt="([^"]+)"', text_of(built, "notebooks/05_weince_loss.html"))
    assert len(images) >= 4
    assert any("The slope of the left line is β" in alt for alt in images)


def test_no_page_weighs_more_than_3_mb(built):
    heaviest = site.page_weights(built)[0]
    assert heaviest.total < 3_000_000, heaviest


def test_equations_keep_the_papers_numbers(built):
    page = text_of(built, "notebooks/05_weince_loss.html")
    assert r"\tag{3.1}" in page
    assert r"\tag{3.2}" in page


def test_header_of_a_notebook_leads_to_its_claims_and_neighbours(built):
    page = text_of(built, "notebooks/05_weince_loss.html")
    assert 'href="../claims.html#claims-of-05-weince-loss"' in page
    assert 'href="06_train_vision.html"' in page


def test_long_code_is_folded(built):
    assert 'hide above-input">' in text_of(built, "notebooks/05_weince_loss.html")


def test_reference_documents_the_loss(built):
    page = read_site(built)[built.resolve() / "library" / "losses.html"]
    assert {"weince_lib.losses.WEINCELoss", "weince_lib.losses.weince_loss"} <= page.anchors


def watched(context):
    """What all pages of a context ask for from now on, and what goes wrong on them."""
    asked, trouble = [], []
    context.on("request", lambda request: asked.append(request.url))
    # A request that is still open when its page is left is aborted, and no failure of the site's.
    context.on(
        "requestfailed",
        lambda r: None if "ERR_ABORTED" in r.failure else trouble.append(f"failed: {r.url}"),
    )
    context.on(
        "response", lambda r: trouble.append(f"{r.status}: {r.url}") if r.status > 399 else None
    )
    context.on(
        "console", lambda m: trouble.append(f"console: {m.text}") if m.type == "error" else None
    )
    context.on("weberror", lambda error: trouble.append(f"script: {error.error}"))
    return asked, trouble


def shot(page, name):
    """Keep a picture of a page in the folder WEINCE_SCREENSHOTS, if one is named."""
    if folder := os.environ.get("WEINCE_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def test_in_a_browser_nothing_fails_and_readers_find_their_way(built):
    with launched() as browser, served(built) as address:
        context = browser.new_context(viewport={"width": 1200, "height": 900})
        context.set_default_timeout(120_000)
        asked, trouble = watched(context)
        page = context.new_page()

        # Every notebook's formulas are typeset, none with an error.
        for name in notebooks.names():
            page.goto(f"{address}/notebooks/{name}.html")
            if page.locator(".math").count():
                page.wait_for_selector("mjx-container", state="attached")
                page.evaluate("MathJax.startup.promise")
                assert page.locator("mjx-container [data-mjx-error], mjx-merror").count() == 0, name
            if name.startswith(("00", "02", "05")):
                shot(page, name)

        # The figures are there, the code can be put away and comes back.
        page.goto(f"{address}/notebooks/05_weince_loss.html")
        sizes = page.eval_on_selector_all("article img", "all => all.map(i => i.naturalWidth)")
        assert sizes
        assert min(sizes) > 0
        code = page.locator("div.cell_input").locator("visible=true").first
        assert code.is_visible()
        switch = page.locator("button.code-switch")
        assert switch.inner_text() == "Hide code"
        switch.click()
        assert not code.is_visible()
        switch.click()

        # Light and dark.
        def ground():
            return page.evaluate("getComputedStyle(document.body).backgroundColor")

        grounds = {ground()}
        for _ in range(3):
            page.locator(".theme-toggle").locator("visible=true").first.click()
            grounds.add(ground())
        assert len(grounds) == 2

        # Search finds the loss by name.
        page.goto(f"{address}/search.html?q=WEINCELoss")
        page.wait_for_selector("#search-results ul.search li a")
        hits = page.eval_on_selector_all("#search-results a", "all => all.map(a => a.href)")
        assert any("library/losses.html" in hit for hit in hits), hits

        # Text of a claim does not stick to the edge of its box.
        page.goto(f"{address}/claims.html")
        box = page.locator(".claim").first
        assert box.evaluate("e => parseFloat(getComputedStyle(e).paddingLeft)") >= 8
        shot(page, "claims")

        # Every other page loads too.
        for path in sorted(built.rglob("*.html")):
            page.goto(f"{address}/{path.relative_to(built)}")

        # On a phone nothing sticks out sideways.
        phone = context.new_page()
        phone.set_viewport_size({"width": 390, "height": 800})
        pages = ["index", "claims", "library/losses"]
        for name in [*pages, *(f"notebooks/{n}" for n in notebooks.names())]:
            phone.goto(f"{address}/{name}.html")
            if phone.locator(".math").count():
                phone.wait_for_selector("mjx-container", state="attached")
                phone.evaluate("MathJax.startup.promise")
            width = phone.evaluate("document.documentElement.scrollWidth")
            assert width <= 390, f"{name} is {width} pixels wide"
            if name == "claims":
                shot(phone, "phone")

        assert trouble == []
        assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
