"""Contrastive losses that set their own sharpness: nothing is tuned, no label is read.

Each rule of :data:`RULES` reads a few statistics of the shortfalls delta = 1 - s without gradient:
med delta+ of the positives, med delta- of the negatives, and the tail index of the negatives near
the cap. Over the batch (of all ranks, if gathered) they are medians over anchors of each anchor's
own value; over steps, running means that are kept with the state. The loss takes them as constants.

``"tail"``
    The endpoint link -b log(1 + epsilon - s), decoupled, with b twice the median Hill index and
    epsilon = r / (1 - r), r = med delta+ / med delta-. Positives that follow a spherical Cauchy law
    on uniform negatives have b = m, the local dimension, which is twice the tail index, and
    epsilon = med delta+ / (1 - med delta+); a uniform law has med delta- = 1.

    *Scale.* r and b do not change when all shortfalls shrink alike, but epsilon is a distance in
    units of the cosine: for shortfalls far below it the link is a straight line of fixed slope, the
    candidates become alike and the loss rises to log n. With epsilon = med delta+ nothing
    would hold the scale: in trials the embeddings shrank until med delta- was 4e-4.

    *Would sink it.* Its R@1 or probe lies more than 0.3 points below the tuned softmax's; or a
    fixed b, half or twice what the rule sets, does better by more than that.

``"median"``
    InfoNCE with tau = med delta- / log n, n the number of negatives: a positive at cosine 1 and n
    negatives at the median then have equal weight, so that the odds are even at every n.

    *Scale.* This tau follows the scale, so med delta- counts as no less than :data:`LEAST_MEDIAN`:
    embeddings that shrink below it meet a fixed temperature, as in InfoNCE.

    *Would sink it.* At batch sizes of 64 and 512 the best fixed temperature does not move with
    1 / log n: one tau, tuned once at 256, does as well there.

``"kl"``
    The margin of the positive under the worst weights of the negatives in a Kullback-Leibler ball,

        min over tau of  tau (log mean exp(s- / tau) + log(n / k)) - s+.

    The minimum is the largest mean of the negatives' cosines under weights of entropy log k or
    more: each anchor has its own tau, at which k negatives compete in effect. By the envelope
    theorem its gradient is that at the best tau held fixed.

    k = :data:`KL_SHARE` n, at least :data:`LEAST_COMPETITORS`. A softmax at the temperatures that
    do best leaves a few of 510 negatives in effect; a fifth of them was ten times too soft.

    *Scale.* The loss is a difference of cosines and shrinks with the scale: where positives are
    nearer than negatives it is negative, and a smaller scale gives less of it.

    *Would sink it.* The ranking of methods over data sets does not follow the effective number of
    negatives; then fixing this number fixes nothing that matters.

Two further rules are rivals and no bets:

``"hill"``, ``"hill-1.5"``
    The pure endpoint link -beta log(delta), with the positive in the denominator, beta the median
    Hill index of the negatives or 1.5 times as much. At beta equal to the index the number of
    negatives that count changes from most of them to a few, so that a fixed beta is too soft on one
    data set and too sharp on another.

    *Scale.* Nothing holds it: the loss does not change when all shortfalls shrink alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Unpack

import torch
from torch import Tensor

from .arguments import loss_dtype
from .candidates import Batch, CandidateProblem
from .dense import candidate_cross_entropy, cosines
from .distributed import gather_constant
from .evidence import TailSettings, endpoint_likelihood, smallest
from .infonce import ContrastiveLoss, LossOptions
from .link import endpoint_coordinate
from .streaming import READERS, candidate_nll, read_blocks

#: Weight of the past in a running mean, that of batch normalisation: a memory of ten steps. It
#: evens out what differs between batches, and is short beside the hundreds of steps in which
#: the embeddings spread out at the start of training.
MOMENTUM = 0.9
#: A tail is the paper's: a tenth of the negatives, at least 32.
TAIL = TailSettings(tail_index="hill", evidence="likelihood")
#: Bounds of an anchor's tail index, those of the ablation's running index. Equal scores have an
#: index without bound; b = 32 is sharper than any temperature in use.
INDEX_BOUNDS = (0.5, 16.0)
#: Bounds of r. Duplicates as positives have r = 0; 0.001 is about the rounding of a cosine in half
#: precision. Positives no nearer than negatives have r of 1 or more; at 1/2 the endpoint is at
#: cosine 2 and the link nearly straight.
RATIO_BOUNDS = (0.001, 0.5)
#: Half of the median shortfall of a uniform law on the sphere.
LEAST_MEDIAN = 0.5
#: The rule "tail" leaves, with b at twice the tail index, 4 of 510 negatives in effect.
KL_SHARE = 0.01
#: With one competitor the margin is a hinge on the hardest negative alone.
LEAST_COMPETITORS = 2.0
#: Range of an anchor's tau in the rule "kl". Six halvings of its logarithm find it to a tenth, and
#: six safeguarded Newton steps from there to rounding.
TAU_BOUNDS, HALVINGS, NEWTON_STEPS = (0.01, 10.0), 6, 6


@dataclass(frozen=True)
class Sharpness:
    """What a rule sets; tensors on the device of the embeddings, without gradient.

    Attributes:
        slope: of the logits at cosine 0, shape ``()`` or ``(A,)``.
        offset: epsilon, shape ``()``; None is the softmax.
        weight: of each anchor's loss, shape ``(A,)``; None is 1.
        constant: added to the loss, shape ``()``; None is 0.
    """

    slope: Tensor
    offset: Tensor | None = None
    weight: Tensor | None = None
    constant: Tensor | None = None


@dataclass(frozen=True)
class Rule:
    """One way for a loss to set its sharpness.

    Attributes:
        read: as :data:`~weince_lib.losses.streaming.READERS` without settings of its own. Returns
            each anchor's numbers, shape ``(rows, m)``; NaN where there is none.
        names: of these numbers, in order.
        set: takes the running means of the positives' median and of these numbers, in order (NaN
            where nothing has been read yet), the batch's own numbers, shape ``(A, m)``, and n.
        decoupled: whether the positive is left out of the denominator.
        pure: whether the endpoint lies at cosine 1. Shortfalls then need a floor, and those near
            the cap are taken in float64 by a look of the loss's own.
    """

    read: Callable[[Tensor, int, bool, float], Tensor]
    names: tuple[str, ...]
    set: Callable[[Sequence[Tensor], Tensor, int], Sharpness]
    decoupled: bool
    pure: bool = False


def _medians(delta: Tensor, negatives: int, full: bool) -> tuple[Tensor, Tensor]:
    """Each row's median (nearest rank), and its smallest shortfalls, the median's rank or more."""
    half = (negatives + 1) // 2
    if full:
        reach = max(half, min(TAIL.tail_size(negatives) + 1, negatives))
        if reach > half:
            ordered = smallest(delta, reach, True)
            return ordered[:, half - 1].clone(), ordered
        least = smallest(delta, half, False)
        return least[:, -1].clone(), least
    ordered = delta.sort(dim=1).values
    numbers = torch.isfinite(ordered).sum(1, keepdim=True)
    median = ordered.gather(1, ((numbers + 1) // 2 - 1).clamp_min(0))[:, 0]
    return torch.where(torch.isfinite(median), median, torch.nan), ordered


def _read_median(delta: Tensor, negatives: int, full: bool, resolution: float) -> Tensor:
    return _medians(delta, negatives, full)[0][:, None]


def _read_tail(delta: Tensor, negatives: int, full: bool, resolution: float) -> Tensor:
    median, least = _medians(delta, negatives, full)
    size = TAIL.tail_size(negatives)
    tail = smallest(least, min(size + 1, negatives), False).clamp_min(TAIL.floor)
    index, _, usable = endpoint_likelihood(tail, resolution)
    usable = usable & torch.isfinite(tail[:, -1])
    index = torch.where(usable, index.clamp(*INDEX_BOUNDS), torch.nan)
    return torch.stack([median, index], 1)


def _read_kl(delta: Tensor, negatives: int, full: bool, resolution: float) -> Tensor:
    """The tau at which each row's softmax has the entropy log k, and k; NaN and 0 without any."""
    low, high = (torch.full_like(delta[:, :1], math.log(1.0 / tau)) for tau in reversed(TAU_BOUNDS))
    x = (low + high) / 2
    counts = torch.isfinite(delta)
    numbers = counts.sum(1, keepdim=True)
    delta = (delta - delta.amin(1, keepdim=True)).masked_fill(~counts, torch.inf)
    finite = delta.masked_fill(~counts, 0.0)
    k = (KL_SHARE * numbers.to(x)).clamp_min(LEAST_COMPETITORS)
    wanted = k.log()
    for step in range(HALVINGS + NEWTON_STEPS):
        inverse = x.exp()
        p = torch.exp(-inverse * delta)  # the nearest has 1, so that no sum is 0
        total = p.sum(1, keepdim=True)
        p = p / total
        mean = (p * finite).sum(1, keepdim=True)
        variance = (p * (finite - mean).square()).sum(1, keepdim=True)
        entropy = total.log() + inverse * mean
        soft = entropy > wanted  # a smaller tau is wanted
        low, high = torch.where(soft, x, low), torch.where(soft, high, x)
        newton = x + (entropy - wanted) / (inverse.square() * variance).clamp_min(1e-12)
        near = (newton >= low) & (newton <= high) & (step + 1 >= HALVINGS)
        x = torch.where(near, newton, (low + high) / 2)
    some = numbers > 0
    return torch.cat([(-x).exp().where(some, torch.nan), k.where(some, 0.0)], 1)


def _set_tail(means: Sequence[Tensor], own: Tensor, n: int) -> Sharpness:
    near, far, index = means
    ratio = torch.where(far > TAIL.floor, near / far, torch.nan)
    ratio = torch.nan_to_num(ratio, nan=RATIO_BOUNDS[1]).clamp(*RATIO_BOUNDS)
    # 1 + epsilon = 1 / (1 - r). Until a batch has a tail: the slope of a softmax at 1 / log n.
    power = torch.where(torch.isnan(index), math.log(max(n, 2)) / (1.0 - ratio), 2.0 * index)
    return Sharpness(power * (1.0 - ratio), ratio / (1.0 - ratio))


def _set_median(means: Sequence[Tensor], own: Tensor, n: int) -> Sharpness:
    far = torch.nan_to_num(means[1], nan=1.0).clamp_min(LEAST_MEDIAN)
    return Sharpness(math.log(max(n, 2)) / far)


def _set_kl(means: Sequence[Tensor], own: Tensor, n: int) -> Sharpness:
    tau, k = own.unbind(1)
    weight = torch.where(k > 0, tau, 0.0)
    # log mean + log(n / k) = log sum - log k, and the log sum is the loss's own.
    constant = -(weight * k.clamp_min(1.0).log()).mean()
    return Sharpness(1.0 / torch.where(k > 0, tau, 1.0), weight=weight, constant=constant)


def _set_hill(factor: float, means: Sequence[Tensor], own: Tensor, n: int) -> Sharpness:
    index = means[2]
    power = torch.where(torch.isnan(index), math.log(max(n, 2)), factor * index)
    return Sharpness(power, torch.zeros_like(power))


#: What two of the rules read of the tail.
_TAIL_NAMES = ("negative_shortfall", "tail_index")
#: For another rule, write what it reads of a block and what it sets, and one entry here.
RULES: dict[str, Rule] = {
    "tail": Rule(_read_tail, _TAIL_NAMES, _set_tail, decoupled=True),
    "median": Rule(_read_median, ("negative_shortfall",), _set_median, decoupled=False),
    "kl": Rule(_read_kl, ("temperature", "competitors"), _set_kl, decoupled=True),
    "hill": Rule(_read_tail, _TAIL_NAMES, partial(_set_hill, 1.0), decoupled=False, pure=True),
    "hill-1.5": Rule(_read_tail, _TAIL_NAMES, partial(_set_hill, 1.5), decoupled=False, pure=True),
}


def _read_rule(block: Tensor, negatives: int, full: bool, resolution: float, rule: str) -> Tensor:
    return RULES[rule].read(block, negatives, full, resolution)


READERS["rule"] = _read_rule


class SelfSettingLoss(ContrastiveLoss):
    """A loss with nothing to tune: ``SelfSettingLoss("tail")(z0, z1)``; see this module's head.

    In training mode a batch counts in the running means before its own loss is taken, so that the
    first batch's loss uses that batch alone; in evaluation mode the means stay as they are. The
    means are part of the ``state_dict``: a run that is resumed must load it.

    Args:
        rule: a key of :data:`RULES`: ``"tail"``, ``"median"`` or ``"kl"``; ``"hill"`` and
            ``"hill-1.5"`` are rivals of these.
        **options: those of :class:`weince_lib.losses.InfoNCELoss`, which has no ``temperature``
            here and no ``logit_scale`` in its call.

    Attributes:
        totals: buffer, discounted sums of ``statistics``, shape ``(m + 1,)``.
        weights: buffer, the sums of their weights, same shape; 0 before the first batch. Dividing
            by them corrects the start of the mean, as Adam does.

    Raises:
        ValueError: for an unknown rule.
    """

    sets_itself = True
    totals: Tensor
    weights: Tensor

    def __init__(self, rule: str = "tail", **options: Unpack[LossOptions]) -> None:
        super().__init__(None, **options)
        if rule not in RULES:
            raise ValueError(f"unknown rule {rule!r}; known: {', '.join(RULES)}")
        self.rule = rule
        self.names = ("positive_shortfall", *RULES[rule].names)
        for buffer in ("totals", "weights"):
            self.register_buffer(buffer, torch.zeros(len(self.names)))

    def statistics(self) -> dict[str, float]:
        """The running means by name, NaN before there is one."""
        values = (self.totals / self.weights).tolist()
        return dict(zip(self.names, values, strict=True))

    def forward(  # type: ignore[override]  # it has no temperature to scale
        self, z0: Tensor, z1: Tensor, *, ids: Tensor | None = None, negatives: Tensor | None = None
    ) -> Tensor:
        """Return the scalar loss of two ``(N, d)`` batches, float32 (float64 for float64 input).

        In nats per anchor; of the rule "kl" in units of the cosine. Negative values occur.
        """
        batch = Batch(z0, z1, **self._batch_options(ids, negatives))
        problems = batch.problems(twice_differentiable=self.impl == "reference")
        loss = self.problem_loss(problems, all_ranks=self.gather_distributed)
        self.enqueue(z1, ids)
        return loss.to(loss_dtype(z0))

    def problem_loss(
        self, problems: Sequence[CandidateProblem], *, all_ranks: bool = False
    ) -> Tensor:
        """The loss of candidate problems that make one batch, for code that forms its own.

        Args:
            problems: of equally many anchors each.
            all_ranks: whether the medians are taken over the anchors of all processes.

        Returns:
            Scalar, as :meth:`forward`'s, in the dtype of the problems.
        """
        dense = self.impl == "reference"
        scored = [cosines(problem) for problem in problems] if dense else []
        readings, kept = [], []
        for i, problem in enumerate(problems):
            if dense:
                full = problem.anchor_ids is None
                own = self._read(*scored[i], problem.positives, problem.negatives, full)
                shortfalls = None
            else:
                width = len(RULES[self.rule].names)
                own, shortfalls = read_blocks(
                    problem, f"rule {self.rule}", (), width, self.memory_budget
                )
            readings.append(own)
            # The pure link looks at shortfalls near the cap anew, in float64.
            kept.append(None if RULES[self.rule].pure else shortfalls)
        positive = torch.cat([problem.positive.detach() for problem in problems])
        means = self._means(
            positive, torch.cat(readings), update=self.training, all_ranks=all_ranks
        )
        rule, losses = RULES[self.rule], []
        for i, problem in enumerate(problems):
            how = rule.set(means, readings[i], problem.negatives)
            if dense:
                loss = self._dense(*scored[i], problem.positives, how)
            else:
                loss = candidate_nll(
                    problem,
                    how.slope.to(problem.dtype).expand(problem.positives.shape),
                    shortfalls=kept[i],
                    memory=self.memory_budget,
                    offset=how.offset,
                    decoupled=rule.decoupled,
                    weight=how.weight,
                )
            losses.append(loss if how.constant is None else loss + how.constant)
        return torch.stack(losses).mean()

    def from_cosines(self, scores: Tensor, positives: Tensor, counts: Tensor) -> Tensor:
        """The loss of a matrix of cosines, in plain operations; the running means stay as they are.

        Args:
            scores: cosines, float64, shape ``(A, C)``.
            positives: column of each anchor's positive, shape ``(A,)``.
            counts: which scores count, as many in each row, boolean, shape ``(A, C)``.
        """
        negatives = int(counts[0].sum()) - 1
        own = self._read(scores, counts, positives, negatives, full=True)
        positive = (1.0 - scores.detach()).gather(1, positives[:, None])[:, 0]
        means = self._means(positive, own, update=False, all_ranks=self.gather_distributed)
        return self._dense(scores, counts, positives, RULES[self.rule].set(means, own, negatives))

    @torch.no_grad()
    def _means(
        self, positive: Tensor, numbers: Tensor, *, update: bool, all_ranks: bool
    ) -> tuple[Tensor, ...]:
        """The statistics that the loss takes, each of shape ``()``; NaN where there is none."""
        if all_ranks:
            positive, numbers = gather_constant(positive), gather_constant(numbers)
        new = torch.cat([positive.nanmedian()[None], numbers.nanmedian(dim=0).values])
        known = torch.isfinite(new)
        if update:
            share = (1.0 - MOMENTUM) * known
            kept = torch.where(known, MOMENTUM, 1.0)
            self.totals.mul_(kept).add_(share * torch.where(known, new, 0.0))
            self.weights.mul_(kept).add_(share)
        # In evaluation mode without a state the batch speaks for itself.
        started = self.weights > 0
        means = self.totals / torch.where(started, self.weights, 1.0)
        return torch.where(started, means, new).to(new.dtype).unbind()

    @torch.no_grad()
    def _read(
        self, scores: Tensor, counts: Tensor, positives: Tensor, negatives: int, full: bool
    ) -> Tensor:
        is_negative = counts.scatter(1, positives[:, None], value=False)
        delta = (1.0 - scores).masked_fill(~is_negative, torch.inf)
        return RULES[self.rule].read(delta, negatives, full, torch.finfo(delta.dtype).eps)

    def _dense(self, scores: Tensor, counts: Tensor, positives: Tensor, how: Sharpness) -> Tensor:
        if how.offset is not None:
            scores = endpoint_coordinate(scores, offset=how.offset)
        return candidate_cross_entropy(
            scores * how.slope.expand(positives.shape)[:, None],
            positives,
            counts,
            decoupled=RULES[self.rule].decoupled,
            weight=how.weight,
        )

    def _apply(self, fn: Any, recurse: bool = True) -> SelfSettingLoss:
        """Move and cast as any module, but the means to nothing narrower than float32."""
        before = {name: getattr(self, name) for name in ("totals", "weights")}
        super()._apply(fn, recurse)
        for name, value in before.items():
            after = getattr(self, name)
            if torch.finfo(after.dtype).bits < 32:
                setattr(self, name, value.to(after.device, torch.float32))
        return self

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        if f"{prefix}totals" not in state_dict:
            errors: list[str] = rest[-1]
            errors.append(
                f"the loss sets its own sharpness (rule {self.rule!r}) from running means, and "
                "this state has none; save loss.state_dict() beside the model's and load it, or "
                "load no state into the loss to start the means anew"
            )
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def own_settings(self) -> dict[str, Any]:
        """The rule, for ``print(loss)``."""
        return {"rule": self.rule}
