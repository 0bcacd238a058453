"""A clean stop on Ctrl-C: the step under way is finished, a checkpoint written, then the error."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class TrainingInterrupted(KeyboardInterrupt):
    """Training was stopped from outside; the message says where it will continue from."""


class StopRequest:
    """Whether somebody has asked for a stop."""

    def __init__(self) -> None:
        self.asked = False


@contextmanager
def stop_requests(*, active: bool = True) -> Iterator[StopRequest]:
    """Note the first SIGINT (Ctrl-C) or SIGTERM (a scheduler, torchrun) instead of dying of it.

    A second signal interrupts at once. The handlers from before are put back at the end. Python
    allows handlers in the main thread only; elsewhere nothing changes.

    Args:
        active: false leaves the signals alone, for training without a checkpoint to write.
    """
    request = StopRequest()

    def note(number: int, frame: Any) -> None:
        if request.asked:
            raise KeyboardInterrupt
        request.asked = True

    if not active or threading.current_thread() is not threading.main_thread():
        yield request
        return
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            # None: set by something other than Python, and cannot be put back from here.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
