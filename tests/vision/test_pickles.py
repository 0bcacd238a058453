"""Pickles of unknown origin: arrays are read, code is not run."""

import os
import pickle

import numpy as np
import pytest

from weince_lib.vision.datasets import pickles


class Runs:
    """Runs a command when it is unpickled."""

    def __init__(self, function, *given):
        self.call = (function, given)

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_arrays_and_plain_values_are_read_in_every_protocol(tmp_path, protocol):
    content = {"data": np.arange(6, dtype=np.uint8).reshape(2, 3), "labels": [1, 2], "name": "é"}
    (tmp_path / "batch").write_bytes(pickle.dumps(content, protocol=protocol))
    found = pickles.read_pickle(tmp_path / "batch")
    assert np.array_equal(found["data"], content["data"])
    assert (found["labels"], found["name"]) == ([1, 2], "é")


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_pickle_that_runs_code_is_refused_before_it_does(tmp_path, protocol):
    marker = tmp_path / "it ran"
    for trap in (
        Runs(os.mkdir, str(marker)),
        Runs(eval, f"__import__('os').mkdir({str(marker)!r})"),
        Runs(getattr, "x", "upper"),
    ):
        path = tmp_path / "batch"
        path.write_bytes(pickle.dumps({"data": trap}, protocol=protocol))
        with pytest.raises(ValueError, match="only numpy arrays are admitted") as error:
            pickles.read_pickle(path)
        assert str(path) in str(error.value)
    assert not marker.exists()


def test_damaged_pickles_are_named(tmp_path):
    whole = pickle.dumps({"data": np.zeros(100)})
    for content in (b"", whole[:-30], b"\x80\x04no pickle"):
        (tmp_path / "batch").write_bytes(content)
        with pytest.raises(ValueError, match=r"batch cannot be read: .*get it again"):
            pickles.read_pickle(tmp_path / "batch")
