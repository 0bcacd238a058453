"""The profile for Colab wants a GPU and says where to choose one; the notebooks ask first."""

import pytest
import torch

from weince_lib.publish import notebooks
from weince_lib.runs.config import ConfigError
from weince_lib.runs.gpu import require_gpu


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("profile", ["quick", "cpu", "colab"])
def test_only_colab_without_a_gpu_is_refused(monkeypatch, profile, there):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    if profile == "colab" and not there:
        with pytest.raises(ConfigError, match=r"no GPU here; choose one under Runtime > Change"):
            require_gpu(profile)
    else:
        require_gpu(profile)


@pytest.mark.parametrize("name", ["06_train_vision", "07_train_text"])
def test_notebooks_ask_before_they_measure_or_train(name):
    source = notebooks.source_path(name).read_text(encoding="utf-8")
    asked = source.index("\nrequire_gpu(profile)\n")
    assert asked < source.index("{expected_hours(each):")
