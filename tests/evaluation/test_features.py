"""Frozen features are computed once, and never taken for another encoder's or data set's."""

import numpy as np
import pytest
import torch
from torch import nn

from weince_lib.evaluation import cached_features
from weince_lib.evaluation.features import features_key


def encoder(seed=0, bias=True):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 5, bias=bias), nn.BatchNorm1d(5)).eval()


IMAGES = torch.randint(0, 256, (7, 3, 2, 2), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def counting():
    """An extractor that counts its calls."""

    def extract(model, images):
        extract.calls += 1
        with torch.no_grad():
            return model(images.float())

    extract.calls = 0
    return extract


def test_second_call_reads_the_same_bits(tmp_path, counting):
    folder = tmp_path / "deep" / "features"
    first = cached_features(encoder(), IMAGES, "a", folder=folder, extract=counting)
    again = cached_features(encoder(), IMAGES, "a", folder=folder, extract=counting)
    assert counting.calls == 1
    assert torch.equal(first, again)
    assert again.dtype == torch.float32
    assert [path.name for path in folder.iterdir()] == [features_key(encoder(), "a") + ".npy"]


def test_key_depends_on_weights_buffers_structure_and_images():
    changed = encoder()
    with torch.no_grad():
        changed[1].weight[3, 4] += 1e-6
    statistics = encoder()
    statistics[2].running_mean[0] = 0.25
    slope = nn.Sequential(*encoder(), nn.LeakyReLU(0.1))
    steeper = nn.Sequential(*encoder(), nn.LeakyReLU(0.2))
    keys = [features_key(m, "a") for m in (encoder(), changed, statistics, slope, steeper)]
    keys += [features_key(encoder(), "b"), features_key(encoder(bias=False), "a")]
    assert len(set(keys)) == len(keys)
    assert features_key(encoder(), "a") == keys[0]


@pytest.mark.parametrize("damage", ["cut", "length"])
def test_damaged_file_is_made_anew(tmp_path, counting, damage):
    whole = cached_features(encoder(), IMAGES, "a", folder=tmp_path, extract=counting)
    (path,) = tmp_path.iterdir()
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-5])
    else:
        np.save(path, whole[:3].numpy())
    again = cached_features(encoder(), IMAGES, "a", folder=tmp_path, extract=counting)
    assert counting.calls == 2
    assert torch.equal(again, whole)
    assert torch.equal(torch.from_numpy(np.load(path)), whole)


def test_images_need_a_hash():
    with pytest.raises(ValueError, match="images_hash"):
        features_key(encoder(), "")
