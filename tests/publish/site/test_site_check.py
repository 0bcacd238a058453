"""The checks on a built site see what is wrong with one, and nothing else."""

import pytest

from weince_lib.publish.site import (
    broken_links,
    loads_from_outside,
    page_weights,
    undescribed_images,
)


@pytest.fixture
def site(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "style.css").write_text("body { background: url(back.png); }")
    (tmp_path / "a b.html").write_text('<h1 id="top">A</h1><a name="old"></a>')
    (tmp_path / "index.html").write_text(
        '<link rel="stylesheet" href="style.css?v=1"><link rel="canonical" href="https://x.test/">'
        '<a href="a%20b.html#top">a</a><a href="a%20b.html#old">a</a><a href="#here">h</a>'
        '<a href="https://x.test/">outside is not ours</a><p id="here" style="color: red">'
        '<img src="deep/p.png" alt="A point.">'
    )
    (tmp_path / "deep" / "p.png").write_bytes(b"0" * 100)
    (tmp_path / "deep" / "page.html").write_text('<a href="../index.html#here">up</a>')
    return tmp_path


def add(site, html):
    page = site / "deep" / "page.html"
    page.write_text(page.read_text() + html)


def test_a_whole_site_has_no_faults(site):
    assert broken_links(site) == []
    assert loads_from_outside(site) == []
    assert undescribed_images(site) == []


@pytest.mark.parametrize(
    ("html", "fault"),
    [
        ('<a href="nowhere.html">', "deep/page.html: link to nowhere.html, which is not there"),
        ('<a href="#gone">', "deep/page.html: link to #gone, which has no such anchor"),
        ('<a href="../index.html#gone">', "has no such anchor"),
        ('<img src="q.png" alt="q">', "link to q.png, which is not there"),
        ('<script src="../x.js"></script>', "link to ../x.js, which is not there"),
        ('<a href="../../outside.html">', "which is not there"),
        ('<a href="../deep">', "which is not there"),
    ],
)
def test_broken_links_are_named(site, html, fault):
    (site.parent / "outside.html").touch()
    add(site, html)
    (found,) = broken_links(site)
    assert fault in found


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://x.test/a.js"></script>',
        '<script src="//x.test/a.js"></script>',
        '<link rel="preload stylesheet" href="https://x.test/a.css">',
        '<img alt="a" src="https://x.test/a.png">',
        '<img alt="a" srcset="https://x.test/a.png 2x">',
        '<p style="background: url(https://x.test/a.png)">',
        "<style>@import 'https://x.test/a.css';</style>",
        '<iframe src="https://x.test/"></iframe>',
    ],
)
def test_loads_from_outside_are_named(site, html):
    add(site, html)
    assert [line for line in loads_from_outside(site) if "x.test" in line]


def test_style_sheets_are_read_too(site):
    (site / "style.css").write_text("@font-face { src: url('https://x.test/f.woff'); }")
    assert loads_from_outside(site) == ["style.css: loads https://x.test/f.woff"]


def test_data_inside_the_page_is_not_a_load(site):
    add(site, '<img alt="a" src="data:image/png;base64,AA==">')
    assert loads_from_outside(site) == broken_links(site) == []


@pytest.mark.parametrize("alt", ["", 'alt=""', 'alt=" "'])
def test_images_without_text_are_named(site, alt):
    add(site, f'<img src="p.png" {alt}>')
    assert undescribed_images(site) == ["deep/page.html: p.png"]


def test_a_page_weighs_what_it_loads(site):
    weights = {w.page: w for w in page_weights(site)}
    index = weights["index.html"]
    css = (site / "style.css").stat().st_size
    assert (index.html, index.loaded) == ((site / "index.html").stat().st_size, 100 + css)
    assert next(iter(weights)) == "index.html"
    assert weights["deep/page.html"].loaded == 0


def test_a_folder_without_pages_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="make site"):
        broken_links(tmp_path)
