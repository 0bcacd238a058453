"""Checks of single arguments that every loss shares: numbers are numbers and flags are flags."""

from __future__ import annotations

from numbers import Real

from torch import Tensor


def check_number(name: str, value: object) -> None:
    """Raise ``ValueError`` unless ``value`` is a real number (a boolean is none)."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ValueError(f"{name} must be a number such as 0.5, got {_shown(value)}")


def check_flag(name: str, value: object) -> None:
    """Raise ``ValueError`` unless ``value`` is ``True`` or ``False``: the text "False" is true."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, got {_shown(value)}")


def check_temperature(temperature: object) -> None:
    """Raise ``ValueError`` unless ``temperature`` is a finite positive number."""
    if isinstance(temperature, Tensor):
        raise ValueError(
            "temperature must be a number such as 0.5, got a tensor; to learn it, pass "
            "logit_scale=log_scale.exp() with each call of the loss, where log_scale is a "
            "parameter of the model that starts at log(1 / temperature)"
        )
    check_number("temperature", temperature)
    if not 0.0 < temperature < float("inf"):  # type: ignore[operator]
        raise ValueError(f"temperature must be positive and finite, got {temperature}")


def _shown(value: object) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)
