"""Many small networks of one shape, trained as one."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from pyomo_csg.learn.networks.task_nets import eval_mode

logger = logging.getLogger(__name__)


class Ensemble:
    """Networks of one shape whose parameters are stacked, so that a step moves them all.

    A step on eight costs little more than on one. Modules that torch cannot stack, such
    as an LSTM, or cannot call as one, such as Dropout, are called one after another.
    Wherever the parameters are, inputs and outputs are on the CPU, where the solver is.

    Parameters
    ----------
    members : sequence of Module
        They stay as they are: copies are trained.
    """

    def __init__(self, members: Sequence[nn.Module]):
        self._members = [copy.deepcopy(member) for member in members]
        self._stacked = all(_stackable(member) for member in members)
        if self._stacked:
            self._params, self._buffers = stack_module_state(self._members)
            self._base = copy.deepcopy(self._members[0]).to("meta")
            self._as_one = True
        self._device = torch.device("cpu")

    def to(self, device: str) -> Ensemble:
        """Keep the parameters on a device of torch's."""
        self._device = torch.device(device)
        if self._stacked:
            self._params = {n: self._moved(t) for n, t in self._params.items()}
            self._buffers = {n: self._moved(t) for n, t in self._buffers.items()}
        else:
            for member in self._members:
                member.to(self._device)
        return self

    def __len__(self) -> int:
        return len(self._members)

    def parameters(self) -> list[Tensor]:
        """Return what an optimizer moves."""
        if self._stacked:
            return list(self._params.values())
        return [p for member in self._members for p in member.parameters()]

    def __call__(self, *inputs: Tensor | None) -> Any:
        """Return what the members say of inputs (S, ...): one each on the first axis."""
        there = (None if i is None else i.to(self._device) for i in inputs)
        outputs = self._called(*there)
        if isinstance(outputs, Tensor):
            return outputs.cpu()
        return tuple(part.cpu() for part in outputs)

    @contextmanager
    def eval_mode(self) -> Iterator[None]:
        """Let the members act as when they are used, not as when they learn."""
        with ExitStack() as stack:
            for module in [self._base] if self._stacked else self._members:
                stack.enter_context(eval_mode(module))
            yield

    def clip(self, norm: float) -> None:
        """Bring each member's own gradient to at most this norm."""
        if not self._stacked:
            for member in self._members:
                nn.utils.clip_grad_norm_(member.parameters(), norm)
            return
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        if not gradients:
            return
        squares = sum(g.flatten(1).square().sum(1) for g in gradients)
        factor = (norm / (torch.as_tensor(squares).sqrt() + 1e-12)).clamp(max=1.0)
        for g in gradients:
            g.mul_(factor.reshape(-1, *[1] * (g.dim() - 1)))

    def tensors(self) -> list[Tensor]:
        """Return the parameters, and the buffers that a module may move by itself."""
        if self._stacked:
            buffers = list(self._buffers.values())
        else:
            buffers = [b for member in self._members for b in member.buffers()]
        return self.parameters() + [b for b in buffers if b.is_floating_point()]

    def state(self) -> list[Tensor]:
        """Return a copy of :meth:`tensors`."""
        return [t.detach().clone() for t in self.tensors()]

    def load(self, state: Sequence[Tensor]) -> None:
        """Take tensors as :meth:`state` gave them."""
        with torch.no_grad():
            for mine, given in zip(self.tensors(), state, strict=True):
                mine.copy_(given)

    def members(self) -> list[nn.Module]:
        """Return the networks, each on its own again."""
        if not self._stacked:
            return [copy.deepcopy(member).cpu() for member in self._members]
        found = []
        for s, member in enumerate(self._members):
            mine = copy.deepcopy(member)
            stacked = {**self._params, **self._buffers}
            values = {name: t.detach()[s] for name, t in stacked.items()}
            mine.load_state_dict(values, strict=False)
            found.append(mine)
        return found

    def _called(self, *inputs: Tensor | None) -> Any:
        if self._stacked and self._as_one:
            axes = tuple(None if i is None else 0 for i in inputs)
            try:
                return vmap(self._call, in_dims=(0, 0, *axes))(
                    self._params, self._buffers, *inputs
                )
            except (RuntimeError, ValueError, TypeError) as error:
                # If the module itself is at fault, it will say so when called alone.
                logger.info("members are called one after another: %s", error)
                self._as_one = False
        outputs = [
            self._member(s)(*(None if i is None else i[s] for i in inputs))
            for s in range(len(self))
        ]
        if isinstance(outputs[0], Tensor):
            return torch.stack(outputs)
        return tuple(torch.stack(part) for part in zip(*outputs, strict=True))

    def _member(self, s: int) -> Callable[..., Any]:
        """Return a member to be called on its own."""
        if not self._stacked:
            return self._members[s]
        params, buffers = (
            {name: t[s] for name, t in stacked.items()}
            for stacked in (self._params, self._buffers)
        )
        return partial(self._call, params, buffers)

    def _moved(self, tensor: Tensor) -> Tensor:
        moved = tensor.detach().to(self._device)
        return moved.requires_grad_(tensor.requires_grad)

    def _call(self, params: Any, buffers: Any, *inputs: Any) -> Any:
        return functional_call(self._base, (params, buffers), inputs)


def _stackable(member: nn.Module) -> bool:
    return not any(isinstance(module, nn.RNNBase) for module in member.modules())
