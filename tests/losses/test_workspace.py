"""Memory lent for blocks of scores is kept between calls and never shared by two users."""

import threading

import pytest
import torch
from weince_lib.losses.workspace import KEPT, scratch

from weince_lib import weince_loss
from weince_lib.losses import workspace

LIKE = torch.empty(0)


@pytest.fixture(autouse=True)
def nothing_kept():
    workspace._thread.__dict__.clear()


def address(count=1, shape=(3, 5), like=LIKE):
    with scratch(count, shape, like) as lent:
        return lent[0].data_ptr()


def test_matrices_have_their_shape_and_do_not_overlap():
    with scratch(3, (4, 6), torch.empty(0, dtype=torch.float64)) as lent:
        for i, matrix in enumerate(lent):
            assert (matrix.shape, matrix.dtype) == ((4, 6), torch.float64)
            matrix.fill_(i)
        assert [float(matrix.mean()) for matrix in lent] == [0.0, 1.0, 2.0]


def test_the_same_memory_serves_the_next_call_of_its_size_or_less():
    first = address(2, (8, 8))
    assert address(1, (8, 8)) == first
    assert address(1, (8, 4), LIKE.double()) == first


def test_a_call_inside_a_call_gets_its_own():
    with scratch(1, (3, 5), LIKE) as (outer,):
        outer.fill_(1.0)
        with scratch(1, (3, 5), LIKE) as (inner,):
            inner.fill_(2.0)
            places = {outer.data_ptr(), inner.data_ptr()}
        assert outer.min() == 1.0
    with scratch(1, (3, 5), LIKE) as (outer,), scratch(1, (3, 5), LIKE) as (inner,):
        assert {outer.data_ptr(), inner.data_ptr()} == places


def test_threads_do_not_share():
    with scratch(1, (3, 5), LIKE) as (mine,):
        mine.fill_(1.0)
        thread = threading.Thread(target=lambda: address())
        thread.start()
        thread.join()
    found = []
    for _ in range(2):
        thread = threading.Thread(target=lambda: found.append("pieces" in vars(workspace._thread)))
        thread.start()
        thread.join()
    assert found == [False, False]


def test_large_memory_is_not_kept():
    rows = KEPT // (4 * 100) + 1
    address(1, (rows, 100))
    assert not vars(workspace._thread).get("pieces")
    for part in (2, 1, 3):  # together they would be more
        address(1, ((rows - 1) // part, 100))
    (piece,) = vars(workspace._thread)["pieces"]
    assert piece.numel() == (rows - 1) * 400 <= KEPT


def test_memory_first_lent_in_inference_mode_serves_outside_of_it():
    with torch.inference_mode(), scratch(1, (3, 5), LIKE) as (lent,):
        lent.fill_(1.0)
    with scratch(1, (3, 5), LIKE) as (lent,):
        lent.mul_(2.0)


def test_memory_comes_back_after_an_error():
    with pytest.raises(RuntimeError, match="inside"), scratch(1, (3, 5), LIKE) as (lent,):
        raise RuntimeError("inside")
    assert address() == lent.data_ptr()


def test_a_result_does_not_change_with_the_next_call():
    generator = torch.Generator().manual_seed(0)
    z = [torch.randn(40, 8, generator=generator).requires_grad_() for _ in range(2)]
    loss, evidence = weince_loss(*z, return_evidence=True)
    kept = [x.clone() for x in (loss.detach(), evidence.beta, evidence.lam, evidence.rho)]
    (gradient,) = torch.autograd.grad(loss, z[0], retain_graph=True)
    weince_loss(*(torch.randn(40, 8, generator=generator) for _ in range(2)))
    torch.testing.assert_close([loss.detach(), evidence.beta, evidence.lam, evidence.rho], kept)
    torch.testing.assert_close(torch.autograd.grad(loss, z[0])[0], gradient, rtol=0, atol=0)
