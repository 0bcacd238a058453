"""How the report writes numbers."""

from __future__ import annotations

import math

#: Of an endpoint: near the cap the second digit says nothing.
COSINE_DIGITS = 4


def number(value: float, digits: int = 2) -> str:
    """Fixed digits, with a true minus sign; infinity and nan as signs."""
    if math.isinf(value):
        return "∞"
    return "–" if math.isnan(value) else f"{value:.{digits}f}".replace("-", "−")


def interval(low: float, high: float, digits: int = 2) -> str:
    """[low, high]."""
    return f"[{number(low, digits)}, {number(high, digits)}]"


def with_error(value: float, error: float) -> str:
    """Value ± error, if there is one."""
    return number(value) + ("" if math.isnan(error) else f" ± {number(error)}")


def percent(value: float, error: float = math.nan) -> str:
    """A share in per cent, ± its error if there is one."""
    spread = "" if math.isnan(error) or error == 0.0 else f" ± {100 * error:.1f}"
    return f"{100 * value:.1f}{spread} %"
