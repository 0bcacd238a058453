"""A browser for tests: Debian's chromium, or whichever of its relatives is on the path."""

import shutil
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find_browser():
    """The browser's path; None if there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@contextmanager
def served(folder):
    """Serve a folder on a free port of the loopback interface; gives its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Silent, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def launched():
    """A running headless browser; skips the test, with the reason, where there is none."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no playwright: pip install 'weince-lib[browser]'"
    )
    path = find_browser()
    if path is None:
        pytest.skip(f"no browser on the path; tried {', '.join(NAMES)}")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
