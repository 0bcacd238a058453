"""What tests of several rooms share."""

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """SIGINT as at a terminal, however the tests were started.

    A script starts what it puts into the background with SIGINT ignored, and the processes that
    this one starts would ignore it too.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
