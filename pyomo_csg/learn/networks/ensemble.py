"""Many small networks of one shape, trained together."""

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
    """Networks of one shape with stacked parameters, so that one step trains them all.

    A step on eight costs little more than on one. Modules that torch cannot stack, such
    as an LSTM, or cannot vectorize, such as Dropout, are called one after another. Inputs
    and outputs are on the CPU, where the solver is, whatever the device of the parameters.
    The members are copied.
    """

    def __init__(self, members: Sequence[nn.Module]):
        self._members = [copy.deepcopy(member) for member in members]
        self._is_stacked = all(_is_stackable(member) for member in members)
        if self._is_stacked:
            self._params, self._buffers = stack_module_state(self._members)
            self._base = copy.deepcopy(self._members[0]).to("meta")
            self._is_vectorized = True
        self._device = torch.device("cpu")

    def to(self, device: str) -> Ensemble:
        """Move the parameters to a torch device."""
        self._device = torch.device(device)
        if self._is_stacked:
            self._params = {n: self._to_device(t) for n, t in self._params.items()}
            self._buffers = {n: self._to_device(t) for n, t in self._buffers.items()}
        else:
            for member in self._members:
                member.to(self._device)
        return self

    def __len__(self) -> int:
        return len(self._members)

    def parameters(self) -> list[Tensor]:
        """Return the tensors for an optimizer."""
        if self._is_stacked:
            return list(self._params.values())
        return [p for member in self._members for p in member.parameters()]

    def __call__(self, *inputs: Tensor | None) -> Any:
        """Return the outputs for inputs (S, ...): member s gets the s-th of each."""
        moved = (None if i is None else i.to(self._device) for i in inputs)
        outputs = self._forward(*moved)
        if isinstance(outputs, Tensor):
            return outputs.cpu()
        return tuple(part.cpu() for part in outputs)

    @contextmanager
    def eval_mode(self) -> Iterator[None]:
        """Put the members in evaluation mode."""
        with ExitStack() as stack:
            for module in [self._base] if self._is_stacked else self._members:
                stack.enter_context(eval_mode(module))
            yield

    def clip(self, norm: float) -> None:
        """Clip the norm of each member's gradient."""
        if not self._is_stacked:
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
        """Return the parameters and the floating-point buffers."""
        if self._is_stacked:
            buffers = list(self._buffers.values())
        else:
            buffers = [b for member in self._members for b in member.buffers()]
        return self.parameters() + [b for b in buffers if b.is_floating_point()]

    def state(self) -> list[Tensor]:
        """Return a copy of :meth:`tensors`."""
        return [t.detach().clone() for t in self.tensors()]

    def load(self, state: Sequence[Tensor]) -> None:
        """Load tensors from :meth:`state`."""
        with torch.no_grad():
            for tensor, value in zip(self.tensors(), state, strict=True):
                tensor.copy_(value)

    def copy_members(
        self, source: Sequence[Tensor], target: Sequence[Tensor], members: Any
    ) -> None:
        """Copy the tensors of some members from one state to another."""
        if self._is_stacked:
            for mine, theirs in zip(source, target, strict=True):
                theirs[members] = mine[members]
            return
        for s, mine, theirs in zip(self._owners(), source, target, strict=True):
            if s in members:
                theirs.copy_(mine)

    def _owners(self) -> list[int]:
        """Return the member of each tensor of a state, if members are not stacked."""
        numbered = list(enumerate(self._members))
        buffers = [(s, b) for s, member in numbered for b in member.buffers()]
        return [s for s, member in numbered for _ in member.parameters()] + [
            s for s, buffer in buffers if buffer.is_floating_point()
        ]

    def members(self) -> list[nn.Module]:
        """Return the trained networks as separate modules on the CPU."""
        if not self._is_stacked:
            return [copy.deepcopy(member).cpu() for member in self._members]
        found = []
        for s, member in enumerate(self._members):
            mine = copy.deepcopy(member)
            stacked = {**self._params, **self._buffers}
            values = {name: t.detach()[s] for name, t in stacked.items()}
            mine.load_state_dict(values, strict=False)
            found.append(mine)
        return found

    def _forward(self, *inputs: Tensor | None) -> Any:
        if self._is_stacked and self._is_vectorized:
            axes = tuple(None if i is None else 0 for i in inputs)
            try:
                return vmap(self._call, in_dims=(0, 0, *axes))(
                    self._params, self._buffers, *inputs
                )
            except (RuntimeError, ValueError, TypeError) as error:
                # If the module itself is faulty, the call below raises its own error.
                logger.info("members are called one after another: %s", error)
                self._is_vectorized = False
        outputs = [
            self._member(s)(*(None if i is None else i[s] for i in inputs))
            for s in range(len(self))
        ]
        if isinstance(outputs[0], Tensor):
            return torch.stack(outputs)
        return tuple(torch.stack(part) for part in zip(*outputs, strict=True))

    def _member(self, s: int) -> Callable[..., Any]:
        """Return one member as a function."""
        if not self._is_stacked:
            return self._members[s]
        params, buffers = (
            {name: t[s] for name, t in stacked.items()}
            for stacked in (self._params, self._buffers)
        )
        return partial(self._call, params, buffers)

    def _to_device(self, tensor: Tensor) -> Tensor:
        moved = tensor.detach().to(self._device)
        return moved.requires_grad_(tensor.requires_grad)

    def _call(self, params: Any, buffers: Any, *inputs: Any) -> Any:
        return functional_call(self._base, (params, buffers), inputs)


def _is_stackable(member: nn.Module) -> bool:
    return not any(isinstance(module, nn.RNNBase) for module in member.modules())
