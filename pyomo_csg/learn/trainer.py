"""Train ensembles by AdamW, with reproducible seeds and thread limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from pyomo_csg.learn.distributions.features import evenly_spaced
from pyomo_csg.learn.networks.ensemble import Ensemble
from pyomo_csg.learn.progress import TimeUpError
from pyomo_csg.locks import SharedChange, process_wide_lock

_MOST_STOPPING_ROWS = 1000  # held-out rows of a fold, for early stopping
_generator_lock = process_wide_lock()
_restored_generator = SharedChange(
    lambda: torch.random.fork_rng(devices=[]), _generator_lock
)


@contextmanager
def torch_seed(seed: int | np.random.Generator = 0) -> Iterator[None]:
    """Seed torch, lock its generator for this thread, and restore it afterwards.

    Use it for short work, such as drawing initial weights. A Generator draws the seed.
    """
    number = seed if isinstance(seed, int) else int(seed.integers(2**31))
    with _generator_lock, torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        yield


@contextmanager
def shared_torch_seed(number: int) -> Iterator[None]:
    """Seed torch and restore its generator afterwards, without locking others out.

    Use it for training, which takes long. Only user modules, such as those with Dropout,
    draw numbers there. Their draws are not reproducible if two threads train at once.
    """
    with _restored_generator:
        with _generator_lock:
            torch.manual_seed(number)
        yield


@contextmanager
def _limit_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    try:
        with threadpool_limits(1):  # also those of KMeans
            yield
    finally:
        torch.set_num_threads(threads)


_thread_limit = SharedChange(_limit_threads, process_wide_lock())


@contextmanager
def reproducible_torch() -> Iterator[None]:
    """Isolate training from the caller's torch settings, which would change the policy.

    Arithmetic is limited to one thread as well, because the order of sums matters.
    """
    dtype = torch.get_default_dtype()
    with ExitStack() as stack:
        stack.enter_context(_thread_limit)
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(torch.autocast("cpu", enabled=False))
        if torch.get_default_device().type != "cpu":
            # Only then: the context makes every operation a little slower.
            stack.enter_context(torch.device("cpu"))
        stack.callback(torch.set_default_dtype, dtype)
        torch.set_default_dtype(torch.float32)
        torch.set_num_threads(1)  # torch counts per thread
        yield


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train with AdamW; the rate falls to zero along a cosine."""

    epochs: int  # passes over the longest of the members' rows
    batch: int = 50  # rows per step
    rate: float = 1e-3
    decay: float = 1e-3
    clip: float = 10.0  # the largest norm of a member's gradient

    @classmethod
    def of_steps(
        cls,
        steps: int,
        rows: Sequence[np.ndarray],
        batch: int,
        rate: float,
        decay: float,
    ) -> Schedule:
        """Return a schedule of about this many steps."""
        steps_per_epoch = cls(1, batch).steps(rows)
        return cls(max(1, round(steps / steps_per_epoch)), batch, rate, decay)

    def steps(self, rows: Sequence[np.ndarray]) -> int:
        """Return the number of steps per epoch."""
        return max(1, math.ceil(max(map(len, rows)) / self.batch))


def train_ensemble(
    ensemble: Ensemble,
    loss: Callable[[np.ndarray], Tensor],
    rows: Sequence[np.ndarray],
    schedule: Schedule,
    rng: np.random.Generator,
    after_epoch: Callable[[int, np.ndarray], None] | None = None,
) -> None:
    """Train the members on their rows, and average each over the second half of its steps.

    ``loss`` maps rows (S, B) to the members' losses (S,). ``after_epoch`` is called with
    the epoch, from 1, and the members' mean losses (S,). When the time budget is used up,
    training stops with the average so far.
    """
    optimizer = torch.optim.AdamW(
        ensemble.parameters(), schedule.rate, weight_decay=schedule.decay
    )
    steps = schedule.steps(rows)
    total = steps * schedule.epochs
    decline = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)
    mean, averaged, step = ensemble.state(), 0, 0
    # The seed is for modules that draw, such as Dropout; spawn leaves rng's order of rows.
    seed = int(rng.spawn(1)[0].integers(2**31))
    with shared_torch_seed(seed), suppress(TimeUpError):
        for epoch in range(1, schedule.epochs + 1):
            epoch_losses = np.zeros(len(ensemble))
            for batch in row_batches(rows, schedule.batch, steps, rng):
                optimizer.zero_grad()
                losses = loss(batch)
                losses.sum().backward()
                ensemble.clip(schedule.clip)
                optimizer.step()
                decline.step()
                epoch_losses += losses.detach().numpy() / steps
                step += 1
                if step > total // 2:
                    averaged += 1
                    for old, new in zip(mean, ensemble.tensors(), strict=True):
                        old.add_((new.detach() - old) / averaged)
            if after_epoch is not None:
                after_epoch(epoch, epoch_losses)
    if averaged:
        ensemble.load(mean)


class EarlyStopping:
    """Restores members to where their mean held-out loss was least.

    ``losses`` maps rows (S, B) to the members' losses (S, B). ``held_out`` has the rows of
    each fold; members come fold by fold, and those on all folds share an objective and an
    epoch. So one without held-out rows, such as that on all rows, follows the others of its
    objective. Epoch 0 is the average of the second half. Without any held-out rows, all
    members keep that average.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        losses: Callable[[np.ndarray], Tensor],
        held_out: Sequence[np.ndarray] | None,
    ):
        some = [
            mine[evenly_spaced(len(mine), _MOST_STOPPING_ROWS)]
            for mine in held_out or []
        ]
        self._ensemble, self._losses = ensemble, losses
        rows, self._shares = _pad_rows(some)
        groups = len(ensemble) // max(1, len(some))
        self._rows = np.tile(rows, (groups, 1))
        self._epochs = np.zeros(groups, dtype=int)
        self._least = np.full(groups, np.inf)
        self._state: list[Tensor] = []

    def update(self, epoch: int) -> dict[str, Any]:
        """Return the mean held-out loss, and keep the members that are at their best."""
        if not self._rows.size:
            return {}
        with torch.no_grad(), self._ensemble.eval_mode():
            losses = self._losses(self._rows).numpy()
        by_fold = losses.reshape(len(self._least), *self._shares.shape)
        found = (self._shares * by_fold).sum(axis=(1, 2))
        better = found < self._least
        self._least[better], self._epochs[better] = found[better], epoch
        now = self._ensemble.state()
        members = np.flatnonzero(np.repeat(better, len(self._shares)))
        self._state = self._state or now
        self._ensemble.copy_members(now, self._state, members)
        return {"held_out": float(found.mean())}

    def finish(self) -> list[dict[str, float]]:
        """Load the best members; return the epoch and the loss of each objective."""
        self.update(0)
        if not self._state:
            return []
        self._ensemble.load(self._state)
        return [
            {"best_epoch": int(epoch), "best_held_out": float(least)}
            for epoch, least in zip(self._epochs, self._least, strict=True)
        ]


def _pad_rows(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (S, B) and their weights in a mean over members of their means."""
    longest = max((len(mine) for mine in rows), default=0)
    members = max(1, sum(len(mine) > 0 for mine in rows))
    padded = np.zeros((len(rows), longest), dtype=int)
    shares = np.zeros((len(rows), longest))
    for s, mine in enumerate(rows):
        padded[s, : len(mine)] = mine
        shares[s, : len(mine)] = 1 / (members * max(1, len(mine)))
    return padded, shares


def sampled_rows(
    rows: Sequence[np.ndarray], programs: int, epochs: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Return at most ``programs / epochs`` of each member's rows, drawn at random.

    A few passes over some rows solve as many programs as one pass over all of them.
    """
    most = max(1, programs // epochs)
    return [
        mine if len(mine) <= most else np.sort(rng.choice(mine, most, replace=False))
        for mine in rows
    ]


def sample_schedule(
    rows: Sequence[np.ndarray],
    steps: int,
    batch: int,
    rate: float,
    rng: np.random.Generator,
    decay: float = 0.0,
) -> tuple[list[np.ndarray], Schedule]:
    """Return some of each member's rows, for about this many steps, and their schedule."""
    some = sampled_rows(rows, steps * batch, 1, rng)
    return some, Schedule.of_steps(steps, some, batch, rate, decay)


def row_batches(
    rows: Sequence[np.ndarray], size: int, steps: int, rng: np.random.Generator
) -> np.ndarray:
    """Return shuffled rows (steps, S, size); a member with fewer rows repeats them."""
    needed = steps * size
    members = []
    for member_rows in rows:
        rounds = math.ceil(needed / len(member_rows))
        order = np.concatenate([rng.permutation(member_rows) for _ in range(rounds)])
        members.append(order[:needed].reshape(steps, size))
    return np.stack(members, axis=1)
