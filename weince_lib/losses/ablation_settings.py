"""What an ablation switches on and off: link, tail index, assignment of lambda, further losses."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from .arguments import check_number
from .evidence import TailSettings

Link = Literal["softmax", "blend", "weibit"]
Assignment = Literal["own", "shuffled", "mean", "fixed"]


@dataclass(frozen=True)
class AblationSettings:
    """One cell of the ablation; the defaults are the paper's WEINCE.

    Attributes:
        link: of the loss over all candidates: ``"softmax"`` (lambda = 0), ``"blend"``, or
            ``"weibit"`` (lambda = 1).
        tail: how beta and lambda are read from the batch; of no use to ``"softmax"``.
        fixed_beta: a tail index in place of the one read, the same for every anchor; ``None``
            takes ``tail``'s.
        assignment: whose lambda an anchor of the blend gets. ``"own"``; ``"shuffled"``: that of
            the anchor before it in the batch, whose order is random, so another image's, with the
            batch's lambdas kept as they are; ``"mean"``: the batch's mean; ``"fixed"``:
            ``fixed_lambda``.
        fixed_lambda: in [0, 1], with ``assignment="fixed"``.
        softmax_weight: of the softmax loss over the hardest negatives; 0.5 in the release.
        weibit_weight: of the Weibit loss over them; 0.5 in the release.
        hardest: how many negatives these two take; 50 in the release.

    Raises:
        ValueError: for a value outside its range, or settings that do not go together.
    """

    link: Link = "blend"
    tail: TailSettings = field(default_factory=TailSettings)
    fixed_beta: float | None = None
    assignment: Assignment = "own"
    fixed_lambda: float | None = None
    softmax_weight: float = 0.0
    weibit_weight: float = 0.0
    hardest: int = 50

    def __post_init__(self) -> None:
        for name, known in (("link", get_args(Link)), ("assignment", get_args(Assignment))):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"unknown {name} {getattr(self, name)!r}; known: {', '.join(known)}"
                )
        tail: Any = self.tail
        if not isinstance(tail, TailSettings):
            raise ValueError(f"tail must be TailSettings(...) or a preset(name), got {tail!r}")
        for name in ("softmax_weight", "weibit_weight", "fixed_beta", "fixed_lambda"):
            value = getattr(self, name)
            if value is not None or not name.startswith("fixed"):
                check_number(name, value)
        for name in ("softmax_weight", "weibit_weight"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise ValueError(
                    f"{name} must be finite and not negative, got {getattr(self, name)}"
                )
        hardest: Any = self.hardest
        if not isinstance(hardest, int) or isinstance(hardest, bool) or hardest < 1:
            raise ValueError(
                "hardest must be a whole number of negatives, 1 or more, got "
                f"{hardest!r}; give an int such as 50"
            )
        if self.fixed_beta is not None and not 0.0 < self.fixed_beta < math.inf:
            raise ValueError(f"fixed_beta must be positive and finite, got {self.fixed_beta}")
        if self.fixed_lambda is not None and not 0.0 <= self.fixed_lambda <= 1.0:
            raise ValueError(f"fixed_lambda must lie in [0, 1], got {self.fixed_lambda}")
        if (self.assignment == "fixed") != (self.fixed_lambda is not None):
            raise ValueError(
                f"assignment {self.assignment!r} and fixed_lambda = {self.fixed_lambda} do not "
                'fit; only "fixed" takes a fixed_lambda'
            )
        self._check_unused()

    def _check_unused(self) -> None:
        """What a link does not use stays at its default: one objective, one way to write it."""
        if self.link != "blend" and self.assignment != "own":
            raise ValueError(f"link {self.link!r} has no lambda to assign ({self.assignment!r})")
        if self.link == "softmax" and self.fixed_beta is not None:
            raise ValueError(f'link "softmax" has no beta; got fixed_beta = {self.fixed_beta}')
        usual = {own.name: own.default for own in dataclasses.fields(self)}["hardest"]
        if not self.has_extras and self.hardest != usual:
            raise ValueError(
                f"hardest = {self.hardest} is of no use without softmax_weight or weibit_weight; "
                f"give one of them a weight, or leave hardest at {usual}"
            )
        unread = [
            own.name
            for own in dataclasses.fields(self.tail)
            if own.name not in self._read_of_tail()
            and getattr(self.tail, own.name) != getattr(TailSettings(), own.name)
        ]
        if unread:
            raise ValueError(
                f"of tail, {', '.join(unread)} is not read with link {self.link!r}, fixed_beta = "
                f"{self.fixed_beta} and assignment {self.assignment!r}; leave it at its default"
            )

    def _read_of_tail(self) -> set[str]:
        """Names of the fields of ``tail`` that the objective depends on; the floor may stay."""
        read = {"floor"}
        if self.link != "softmax" and self.fixed_beta is None:
            read |= {"tail_index", "tail_fraction", "min_tail"}
        if self.link == "blend" and self.assignment != "fixed":
            read |= {own.name for own in dataclasses.fields(self.tail)} - {"tail_index"}
        return read

    @property
    def reads_tail(self) -> bool:
        """Whether the main loss needs the batch's tail."""
        return self.link == "blend" or (self.link == "weibit" and self.fixed_beta is None)

    @property
    def has_extras(self) -> bool:
        """Whether there is a loss over the hardest negatives."""
        return self.softmax_weight > 0 or self.weibit_weight > 0
