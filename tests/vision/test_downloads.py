"""Downloads: from a server on this machine, through torchvision, to the data folder."""

import dataclasses
import functools
import http.server
import tarfile
import threading

import numpy as np
import published_files as made
import pytest

from weince_lib.vision.datasets import load, loading


def spec(name):
    return loading.DATA_SETS[name].published()


@pytest.fixture
def site(tmp_path):
    """A server on this machine, and the folder it offers."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_given):
            pass

    folder = tmp_path / "site"
    folder.mkdir()
    serve = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", folder
        server.shutdown()


def offer(monkeypatch, site, name="cifar10"):
    """Offer a small set's archive; return its content and the archive's path."""
    address, folder = site
    truth = made.make_cifar(monkeypatch, folder, name)
    known = spec(name)
    path = folder / known.archive.file
    with tarfile.open(path, "w:gz") as archive:
        archive.add(folder / known.folder, known.folder)
    offered = dataclasses.replace(
        known.archive, url=f"{address}/{path.name}", md5=made.md5(path.read_bytes())
    )
    made.publish(monkeypatch, known, archive=offered)
    return truth, path


def test_a_set_is_downloaded_to_the_data_folder_and_unpacked(monkeypatch, tmp_path, site):
    truth, path = offer(monkeypatch, site)
    monkeypatch.setenv("WEINCE_DATA", str(tmp_path / "home"))
    assert np.array_equal(load("cifar10", "test").images.numpy(), truth["test"][0])
    path.unlink()
    assert np.array_equal(load("cifar10", "train").images.numpy(), truth["train"][0])


def test_an_archive_put_there_by_hand_needs_no_network(monkeypatch, tmp_path, site):
    truth, path = offer(monkeypatch, site)
    (tmp_path / "home").mkdir()
    path.rename(tmp_path / "home" / path.name)
    found = load("cifar10", "test", root=tmp_path / "home")
    assert np.array_equal(found.images.numpy(), truth["test"][0])


def test_a_damaged_download_is_one_error_with_the_expected_hash(monkeypatch, tmp_path, site):
    _, path = offer(monkeypatch, site)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(FileNotFoundError, match="corrupted") as error:
        load("cifar10", "test", root=tmp_path / "home")
    assert f"(MD5 {spec('cifar10').archive.md5})" in str(error.value)
    assert "\n" not in str(error.value)


def test_tiny_imagenet_is_downloaded_and_stays_zipped(monkeypatch, tmp_path, site):
    address, folder = site
    made.make_tiny_imagenet(monkeypatch, folder, zipped=True)
    known = spec("tiny-imagenet")
    path = folder / known.archive.file
    made.publish(
        monkeypatch, known, archive=dataclasses.replace(known.archive, url=f"{address}/{path.name}")
    )
    assert len(load("tiny-imagenet", "test", root=tmp_path / "home")) == 5
    assert [p.name for p in (tmp_path / "home").iterdir()] == [path.name]
