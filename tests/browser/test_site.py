"""The site, built once from the committed notebooks: whole, readable, and by itself."""

import re
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from weince_lib.experiments import load_claims
from weince_lib.publish import notebooks, site

pytestmark = pytest.mark.slow
#: What makes a browser fetch something at once from another host.
OUTSIDE = re.compile(
    r"""(?:<(?:img|script|iframe|source)[^>]*\ssrc|<link[^>]*stylesheet[^>]*\shref)="(?:https?:)?//
    |(?:url\(|@import\s)\s*['"]?(?:https?:)?//""",
    re.VERBOSE,
)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "pages"
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("WEINCE_HOME", raising=False)
        # Stops on a broken link, a missing picture and whatever else Sphinx warns of.
        assert site.build(folder) == folder / "index.html"
    return folder


@pytest.fixture(scope="module")
def text(built):
    return {str(p.relative_to(built)): p.read_text("utf-8") for p in built.rglob("*.html")}


class Silent(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address(built):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Silent, directory=str(built)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_every_notebook_and_every_claim_has_its_place(text):
    for name in notebooks.names():
        assert f'href="notebooks/{name}.html"' in text["index.html"]
        assert f"notebooks/{name}.html" in text
    for claim in load_claims():
        assert text["claims.html"].count(f'id="{claim.id}"') == 1


def test_nothing_comes_from_outside(built, text):
    sheets = {path.name: path.read_text("utf-8") for path in built.rglob("*.css")}
    assert [name for name, held in (text | sheets).items() if OUTSIDE.search(held)] == []


def test_pictures_have_a_text(text):
    for name, page in text.items():
        for picture in re.findall(r"<img\b[^>]*>", page):
            assert re.search(r'alt="[^"]+"', picture), name


def test_in_a_browser_nothing_fails_and_readers_find_their_way(browser, built, address):
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    context.set_default_timeout(120_000)
    asked, trouble = [], []
    context.on("request", lambda request: asked.append(request.url))
    context.on("response", lambda r: trouble.append(r.url) if r.status > 399 else None)
    context.on("console", lambda m: trouble.append(m.text) if m.type == "error" else None)
    context.on("weberror", lambda error: trouble.append(str(error.error)))
    page = context.new_page()

    # Every page loads, and its formulas are typeset without an error.
    for path in sorted(built.rglob("*.html")):
        name = path.relative_to(built)
        page.goto(f"{address}/{name}")
        if page.locator(".math").count():
            page.wait_for_selector("mjx-container", state="attached")
            page.evaluate("MathJax.startup.promise")
            assert page.locator("mjx-container [data-mjx-error], mjx-merror").count() == 0, name

    # The figures are there, and the code can be put away.
    page.goto(f"{address}/notebooks/05_weince_loss.html")
    assert min(page.eval_on_selector_all("article img", "all => all.map(i => i.naturalWidth)")) > 0
    code = page.locator("div.cell_input").locator("visible=true").first
    page.locator("button.code-switch").click()
    assert not code.is_visible()

    # Search finds the loss by name.
    page.goto(f"{address}/search.html?q=WEINCELoss")
    page.wait_for_selector("#search-results ul.search li a")
    hits = page.eval_on_selector_all("#search-results a", "all => all.map(a => a.href)")
    assert any("library/weince_lib.losses.html" in hit for hit in hits), hits

    # A link to a folded claim unfolds it.
    page.goto(f"{address}/claims.html#equation-3-1-blended-logits")
    page.locator("#equation-3-1-blended-logits").wait_for(state="attached")
    assert page.locator("details[open]").count() == 1

    assert trouble == []
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
    context.close()
