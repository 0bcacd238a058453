"""Diagnostics of a frozen encoder's similarity tail."""

from .banks import ScoreBank, two_view_bank

__all__ = ["ScoreBank", "two_view_bank"]
