"""LSTM and GRU: what a recurrent network has seen since the episode's start."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from trainables.core.networks.memory import Memory, State

_WEIGHTS = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
_SHUT = 1e4  # the sigmoid of its opposite is 0


class RecurrentMemory(Memory):
    """An LSTM (Hochreiter and Schmidhuber, 1997) or a GRU (Cho et al., 2014).

    Orthogonal weights and zero biases, as recurrent PPO commonly has them; the forget gate's bias
    is no exception.

    Args:
        num_inputs: Width of the input.
        width: Width of the cell, which is its output.
        is_gru: Whether it is a GRU instead of an LSTM.
        initializer: "orthogonal" (gain 1, zero biases) or "default" (PyTorch's).
        generator: Random stream of the initial weights.
    """

    _lstm_drives: Tensor

    def __init__(
        self,
        num_inputs: int,
        width: int,
        *,
        is_gru: bool = False,
        initializer: str = "orthogonal",
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        self.width = width
        self._is_gru = is_gru
        make: type[nn.GRU] | type[nn.LSTM] = nn.GRU if is_gru else nn.LSTM
        # By way of "meta", so that the global random stream is left alone.
        self.cell = make(num_inputs, width, device="meta").to_empty(device="cpu")
        for parameter in self.cell.parameters():
            if initializer == "default":
                bound = width**-0.5
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
            elif parameter.dim() == 2:
                nn.init.orthogonal_(parameter, generator=generator)
            else:
                nn.init.zeros_(parameter)
        if not is_gru:
            one, none = torch.ones(width), torch.zeros(width)
            shut = -_SHUT * one
            resets = torch.cat([shut, shut, none, shut])  # input, forget, cell, output
            keeps = torch.cat([shut, -shut, none, none])
            self.register_buffer("_lstm_drives", torch.stack([resets, keeps], 1), persistent=False)

    def initial_state(self, batch_size: int) -> State:
        zeros = next(self.parameters()).new_zeros(batch_size, self.width)
        return {"h": zeros} if self._is_gru else {"h": zeros, "c": zeros.clone()}

    def forward(
        self, x: Tensor, state: State, is_first: Tensor, ends_unseen: bool = False
    ) -> tuple[Tensor, State]:
        # An exported program is one for all inputs, and cannot ask.
        if torch.compiler.is_compiling() or is_first[0].any():
            keep = ~is_first[0].unsqueeze(1)
            # A selection, since 0 x infinity would not be 0.
            state = {name: torch.where(keep, part, 0.0) for name, part in state.items()}
        if len(x) == 1:  # acting
            state = self._step(x[0], state)
            return state["h"].unsqueeze(0), state
        if not is_first[1:].any():
            return self._run(x, state, self._weights())
        if ends_unseen:
            return self._run_over_ends(x, state, is_first)
        later = is_first.clone()
        later[0] = False
        return self._run_with_resets(x, state, later)

    def _step(self, x: Tensor, state: State) -> State:
        """Return the state after one row `[B, num_inputs]`, at a third of a sequence's cost."""
        weights = self._weights()
        if self._is_gru:
            return {"h": torch.gru_cell(x, state["h"], *weights)}
        h, c = torch.lstm_cell(x, (state["h"], state["c"]), *weights)
        return {"h": h, "c": c}

    def _run(self, x: Tensor, state: State, weights: list[Tensor]) -> tuple[Tensor, State]:
        options = (True, 1, 0.0, self.training, False, False)
        h = state["h"].unsqueeze(0)
        if self._is_gru:
            y, h = torch.gru(x, h, weights, *options)
            return y, {"h": h.squeeze(0)}
        y, h, c = torch.lstm(x, [h, state["c"].unsqueeze(0)], weights, *options)
        return y, {"h": h.squeeze(0), "c": c.squeeze(0)}

    def _run_with_resets(self, x: Tensor, state: State, resets: Tensor) -> tuple[Tensor, State]:
        """Run over a sequence with resets `[L, B]`, in one call too: cut up, it would take many.

        A row is put in before each row that resets, whose inputs drive the gates so far that the
        state behind it is 0; the shorter sequences are filled up with rows that keep it.
        """
        num_rows, batch_size, num_inputs = x.shape
        inserted = resets.cumsum(0)
        longest = num_rows + int(inserted[-1].max())
        # Where a row goes: [L * B] of [longest * B]. Flat, since one index is faster than two.
        rows = inserted.mul_(batch_size) + torch.arange(resets.numel(), device=x.device).view_as(
            resets
        )
        at = rows.flatten()
        inputs = x.new_zeros(longest * batch_size, num_inputs + 2)
        inputs[:, -1] = 1  # the last two columns: whether a row resets, whether it keeps
        inputs[at, -1] = 0
        inputs[rows[resets] - batch_size, -2:] = x.new_tensor([1, 0])
        padded = nn.functional.pad(x.flatten(0, 1), (0, 2))
        inputs = inputs.index_copy(0, at, padded).view(longest, batch_size, -1)
        y, after = self._run(inputs, state, self._driven_weights())
        y = y.flatten(0, 1).index_select(0, at).view(num_rows, batch_size, -1)
        return y, after | {"h": y[-1]}

    def _run_over_ends(self, x: Tensor, state: State, is_first: Tensor) -> tuple[Tensor, State]:
        """Run over it likewise; the rows before those that reset stand for the rows put in."""
        drives = x.new_zeros(*x.shape[:2], 2)
        drives[:-1, :, 0] = is_first[1:]
        # What they hold must not drive the gates back, nor a GRU's candidate, which is not shut.
        x = x.masked_fill(drives[..., :1] != 0, 0.0)
        return self._run(torch.cat([x, drives], -1), state, self._driven_weights())

    def _driven_weights(self) -> list[Tensor]:
        """Return weights that take the two columns of `_drives` behind their input."""
        weight_ih, *others = self._weights()
        return [torch.cat([weight_ih, self._drives()], 1), *others]

    def _drives(self) -> Tensor:
        """Return input weights `[gates, 2]` of what resets the state and of what keeps it."""
        if not self._is_gru:
            return self._lstm_drives
        # Reset and update gate shut: the state becomes tanh of the candidate's bias. Its opposite
        # makes that 0, and takes back the bias's gradient, too. Nothing has to be kept: the output
        # is the state.
        bias = self._weights()[2]
        closed = torch.full_like(bias[: 2 * self.width], -_SHUT)
        resets = torch.cat([closed, -bias[2 * self.width :]])
        return torch.stack([resets, torch.zeros_like(resets)], 1)

    def _weights(self) -> list[Tensor]:
        """Return input weights, recurrent weights and their biases."""
        # By name: to walk over `parameters()` costs a tenth of a step.
        return [getattr(self.cell, name) for name in _WEIGHTS]
