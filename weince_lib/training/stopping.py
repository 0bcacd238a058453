"""A clean stop on Ctrl-C: the step under way is finished, a checkpoint written, then the error.

A signal that the process was started to ignore stays ignored. A shell script, for example, starts
what it puts into the background with SIGINT ignored (``command &``), so that Ctrl-C at its terminal
leaves the command alone. SIGTERM (``kill PID``) stops such a command cleanly.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
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
    allows handlers in the main thread only; elsewhere nothing changes, nor with ``active`` false.
    """
    request = StopRequest()

    def note(number: int, frame: Any) -> None:
        if request.asked:
            raise KeyboardInterrupt
        request.asked = True

    if not active or threading.current_thread() is not threading.main_thread():
        yield request
        return
    with _handled((signal.SIGINT, signal.SIGTERM), note):
        yield request


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt at SIGTERM, as Python does at Ctrl-C.

    For commands: ``kill`` then leaves no temporary files behind, and ends with the same message as
    Ctrl-C. Within training, :func:`stop_requests` takes over.
    """

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _handled((signal.SIGTERM,), interrupt):
        yield


@contextmanager
def _handled(numbers: tuple[int, ...], handler: Callable[[int, Any], None]) -> Iterator[None]:
    """Handle those of the signals that are not ignored; put back what was there before."""
    wanted = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in wanted}
    try:
        yield
    finally:
        for number, old in before.items():
            # None: set by something other than Python, and cannot be put back from here.
            signal.signal(number, signal.SIG_DFL if old is None else old)
