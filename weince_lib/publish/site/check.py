"""Checks on a built site: links and anchors, what pages load and weigh, texts of images."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes that make a browser fetch something at once, by element.
LOADS = {
    "img": ("src", "srcset"),
    "script": ("src",),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
}
#: Kinds of ``<link>`` that are fetched; others (next, canonical) are only told.
FETCHED_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "prefetch", "manifest"}
CSS_LOAD = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


@dataclass
class Page:
    """What one page holds: its anchors, its links, what it loads, and images without a text."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    undescribed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Weight:
    """Bytes of a page and of all it loads."""

    page: str
    html: int
    loaded: int

    @property
    def total(self) -> int:
        """All bytes a first visit transfers, fonts aside."""
        return self.html + self.loaded


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = Page()
        self._in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if given.get("id"):
            self.page.anchors.add(given["id"])
        if tag == "a":
            if given.get("name"):
                self.page.anchors.add(given["name"])
            if "href" in given:
                self.page.links.append(given["href"])
        if tag == "link" and FETCHED_LINKS & set(given.get("rel", "").lower().split()):
            self.page.loads.append(given.get("href", ""))
        for attribute in LOADS.get(tag, ()):
            if attribute in given:
                urls = [part.split()[0] for part in given[attribute].split(",") if part.strip()]
                self.page.loads += urls if attribute == "srcset" else [given[attribute]]
        if tag == "img" and not given.get("alt", "").strip():
            self.page.undescribed.append(given.get("src", ""))
        self.page.loads += _css_loads(given.get("style", ""))
        self._in_style = tag == "style"

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.page.loads += _css_loads(data)

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False


def read_page(path: Path) -> Page:
    """Parse one HTML file."""
    reader = _Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader.page


def read_site(folder: Path) -> dict[Path, Page]:
    """Parse every page of a site.

    Raises:
        FileNotFoundError: if the folder has no pages.
    """
    pages = {path: read_page(path) for path in sorted(folder.resolve().rglob("*.html"))}
    if not pages:
        raise FileNotFoundError(f"no pages in {folder}; build the site with `make site`")
    return pages


def broken_links(folder: Path) -> list[str]:
    """Links and loaded files that are not on the site, anchors included; one line each."""
    pages = read_site(folder)
    root = folder.resolve()
    found = []
    for path, page in pages.items():
        for link in dict.fromkeys([*page.links, *page.loads]):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            where = path.relative_to(root)
            if not target.is_relative_to(root) or not target.is_file():
                found.append(f"{where}: link to {link}, which is not there")
                continue
            known = pages[target].anchors if target in pages else {unquote(parts.fragment)}
            if parts.fragment and unquote(parts.fragment) not in known:
                found.append(f"{where}: link to {link}, which has no such anchor")
    return found


def loads_from_outside(folder: Path) -> list[str]:
    """What pages and style sheets would fetch from another host; one line each."""
    root = folder.resolve()
    loads = {path: page.loads for path, page in read_site(folder).items()}
    for sheet in root.rglob("*.css"):
        loads[sheet] = _css_loads(sheet.read_text(encoding="utf-8"))
    return [
        f"{path.relative_to(root)}: loads {url}"
        for path, urls in loads.items()
        for url in urls
        if urlsplit(url).netloc or urlsplit(url).scheme not in ("", "data")
    ]


def undescribed_images(folder: Path) -> list[str]:
    """Images without alternative text; one line each."""
    root = folder.resolve()
    return [
        f"{path.relative_to(root)}: {source}"
        for path, page in read_site(folder).items()
        for source in page.undescribed
    ]


def page_weights(folder: Path) -> list[Weight]:
    """What each page weighs with its images, scripts and style sheets, heaviest first."""
    root = folder.resolve()
    weights = []
    for path, page in read_site(folder).items():
        local = {urlsplit(u).path for u in page.loads if not urlsplit(u).scheme}
        files = {(path.parent / unquote(p)).resolve() for p in local if p}
        loaded = sum(file.stat().st_size for file in files if file.is_file())
        weights.append(Weight(str(path.relative_to(root)), path.stat().st_size, loaded))
    return sorted(weights, key=lambda w: w.total, reverse=True)


def _css_loads(text: str) -> list[str]:
    return [first or second for first, second in CSS_LOAD.findall(text)]
