"""Checks of single settings, which public functions make first: one clear line for a wrong one."""

from __future__ import annotations

import math


def check_positive(name: str, value: float) -> float:
    """The value, as a float.

    Raises:
        ValueError: unless it is positive and finite.
    """
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {value}")
    return float(value)


def check_finite(name: str, value: float) -> None:
    """Raise ``ValueError`` for NaN and infinity."""
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}")


def check_fraction(name: str, value: float) -> None:
    """Raise ``ValueError`` unless the value lies strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise ValueError(f"{name} must lie in (0, 1), got {value}")


def check_at_least(name: str, value: int, least: int) -> None:
    """Raise ``ValueError`` for a value below the least."""
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
