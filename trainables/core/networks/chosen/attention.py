"""The gated transformer with memory, GTrXL (Parisotto et al., 2019, arXiv 1910.06764)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from trainables.core.networks.layers import linear_layer, mlp
from trainables.core.networks.memory import Memory, State

_MIN_PIECE = 64  # rows; below that a call costs more than it saves


class GatedTransformer(Memory):
    """Layers of attention over the last steps, each sublayer normalised before and gated after.

    Each row attends to itself and to the `memory_length` rows before it that belong to its episode.
    The state keeps the inputs of every layer for as many steps, as values: no gradient flows into
    memory (section 2.2). Positions are learned vectors of the distance that are added to the keys
    (Shaw et al., 2018, arXiv 1803.02155), so that an episode may have any length.

    Args:
        num_inputs: Width of the input.
        width: Width between the layers, and of the output.
        num_layers: Number of transformer layers.
        num_heads: Attention heads of a layer.
        head_dim: Width of a head.
        memory_length: Number of earlier rows that each layer sees, M.
        mlp_width: Width of the hidden layer of each layer's MLP.
        gate_bias: Bias of the gates' update; see `GruGate`.
        initializer: "orthogonal" or "default" (PyTorch's).
        generator: Random stream of the initial weights.
    """

    def __init__(
        self,
        num_inputs: int,
        width: int,
        *,
        num_layers: int = 1,
        num_heads: int = 1,
        head_dim: int = 32,
        memory_length: int = 50,
        mlp_width: int = 32,
        gate_bias: float = 2.0,
        initializer: str = "orthogonal",
        generator: torch.Generator | None = None,
    ):
        super().__init__()
        self.width, self._memory_length = width, memory_length
        self.embedding = linear_layer(num_inputs, width, 1.0, initializer, generator)
        options = (num_heads, head_dim, memory_length, mlp_width, gate_bias, initializer, generator)
        self.layers = nn.ModuleList(TransformerLayer(width, *options) for _ in range(num_layers))

    def initial_state(self, batch_size: int) -> State:
        weight = self.embedding.weight
        shape = (batch_size, len(self.layers), self._memory_length, self.width)
        return {
            "memory": weight.new_zeros(shape),
            "num_filled": torch.zeros(batch_size, dtype=torch.int64, device=weight.device),
        }

    def forward(
        self, x: Tensor, state: State, is_first: Tensor, ends_unseen: bool = False
    ) -> tuple[Tensor, State]:
        # Attention takes memory for each pair of rows. Where no gradient would be cut off, a long
        # sequence goes in pieces: the same outputs, with memory that only grows with its rows.
        piece = max(self._memory_length, _MIN_PIECE)
        if torch.is_grad_enabled() or len(x) <= piece:
            return self._forward(x, state, is_first)
        outputs = []
        for part, first in zip(x.split(piece), is_first.split(piece), strict=True):
            output, state = self._forward(part, state, first)
            outputs.append(output)
        return torch.cat(outputs), state

    def _forward(self, x: Tensor, state: State, is_first: Tensor) -> tuple[Tensor, State]:
        num_filled = torch.where(is_first[0], 0, state["num_filled"])
        allowed = visible(is_first, num_filled, self._memory_length)
        # Rows that nobody may see are 0: what they hold must not even be multiplied.
        slots = torch.arange(self._memory_length, device=x.device)
        is_filled = slots >= self._memory_length - num_filled.unsqueeze(1)
        memory = torch.where(is_filled[:, None, :, None], state["memory"].detach(), 0.0)
        hidden = self.embedding(x).transpose(0, 1)  # [B, L, D]
        kept = []
        for number, layer in enumerate(self.layers):
            rows = torch.cat([memory[:, number], hidden], 1)  # [B, M + L, D]
            kept.append(rows[:, -self._memory_length :].detach())
            hidden = layer(rows, allowed)
        after = {
            "memory": torch.stack(kept, 1),
            "num_filled": num_rows_seen(is_first, num_filled).clamp_max(self._memory_length),
        }
        return hidden.transpose(0, 1), after


def visible(is_first: Tensor, num_filled: Tensor, memory_length: int) -> Tensor:
    """Return which rows each row may attend to, `[B, L, M + L]`: those of memory come first.

    Args:
        is_first: Whether a row begins an episode, `[L, B]`.
        num_filled: Number of rows of memory of the present episode, the last ones, `[B]`.
        memory_length: Number of rows of memory, M.
    """
    length = len(is_first)
    device = is_first.device
    episode = is_first.cumsum(0).T  # [B, L], 0 until the first reset
    slots = torch.arange(memory_length, device=device)
    in_memory = slots >= memory_length - num_filled.unsqueeze(1)
    episodes = torch.cat([torch.where(in_memory, 0, -1), episode], 1)  # [B, M + L]
    same_episode = episode.unsqueeze(2) == episodes.unsqueeze(1)
    distance = _distances(length, memory_length, device)
    return same_episode & (distance >= 0) & (distance <= memory_length)


def num_rows_seen(is_first: Tensor, num_filled: Tensor) -> Tensor:
    """Return the present episode's rows after a sequence, those of memory included, `[B]`."""
    present = is_first.cumsum(0)
    present = present == present[-1]
    return present.sum(0) + torch.where(is_first.any(0), 0, num_filled)


def _distances(length: int, memory_length: int, device: torch.device) -> Tensor:
    """Return how far before each row of a sequence the rows of memory and it lie, `[L, M + L]`."""
    rows = torch.arange(length, device=device).unsqueeze(1) + memory_length
    return rows - torch.arange(memory_length + length, device=device)


class TransformerLayer(nn.Module):
    """Attention and an MLP, each on normalised inputs ("identity map reordering") and gated.

    Its arguments are those of `GatedTransformer`.
    """

    def __init__(
        self,
        width: int,
        num_heads: int,
        head_dim: int,
        memory_length: int,
        mlp_width: int,
        gate_bias: float,
        initializer: str,
        generator: torch.Generator | None,
    ):
        super().__init__()
        self._num_heads, self._head_dim = num_heads, head_dim
        self._memory_length = memory_length
        total = num_heads * head_dim

        def linear(num_inputs: int, num_outputs: int) -> nn.Linear:
            return linear_layer(num_inputs, num_outputs, 1.0, initializer, generator)

        self.attention_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (linear(width, total) for _ in range(3))
        self.output = linear(total, width)
        # Small, so that a layer begins by looking at all it may see alike.
        position = torch.empty(num_heads, memory_length + 1, head_dim)
        self.position = nn.Parameter(position.normal_(0, 0.02, generator=generator))
        self.mlp = mlp(
            width,
            [mlp_width],
            "relu",
            num_outputs=width,
            initializer=initializer,
            generator=generator,
        )
        self.attention_gate = GruGate(width, gate_bias, initializer, generator)
        self.mlp_gate = GruGate(width, gate_bias, initializer, generator)

    def forward(self, rows: Tensor, allowed: Tensor) -> Tensor:
        """Return outputs `[B, L, D]` of the last L rows of `[B, M + L, D]`; see `visible`."""
        x = rows[:, self._memory_length :]
        x = self.attention_gate(x, torch.relu(self._attention(rows, allowed)))
        return self.mlp_gate(x, torch.relu(self.mlp(self.mlp_norm(x))))

    def _attention(self, rows: Tensor, allowed: Tensor) -> Tensor:
        normed = self.attention_norm(rows)
        query = self._heads(self.query(normed[:, self._memory_length :]))  # [B, heads, L, d]
        key, value = self._heads(self.key(normed)), self._heads(self.value(normed))
        scores = query @ key.transpose(-1, -2)  # [B, heads, L, M + L]
        # (q . r_distance) of every distance, then each pair of rows takes its own.
        by_distance = query @ self.position.transpose(-1, -2)  # [B, heads, L, M + 1]
        distance = _distances(query.shape[2], self._memory_length, rows.device)
        index = distance.clamp(0, self._memory_length).expand(*scores.shape)
        scores = (scores + by_distance.gather(-1, index)) / math.sqrt(self._head_dim)
        # Every row sees itself, so that no row of the softmax is empty.
        weights = scores.masked_fill(~allowed.unsqueeze(1), -math.inf).softmax(-1)
        attended = (weights @ value).transpose(1, 2)  # [B, L, heads, d]
        return self.output(attended.flatten(2))

    def _heads(self, x: Tensor) -> Tensor:
        """Return `[B, R, heads d]` as `[B, heads, R, d]`."""
        return x.view(*x.shape[:2], self._num_heads, self._head_dim).transpose(1, 2)


class GruGate(nn.Module):
    """A GRU that decides how much of a sublayer's output y enters its stream x (eq. 4).

    Args:
        width: Width of both.
        bias: Bias b_g; above 0 the layer begins near the identity, 2 in the paper.
        initializer: "orthogonal" or "default" (PyTorch's).
        generator: Random stream of the initial weights.
    """

    def __init__(
        self, width: int, bias: float, initializer: str, generator: torch.Generator | None = None
    ):
        super().__init__()
        self.of_output = linear_layer(width, 3 * width, 1.0, initializer, generator)
        self.of_stream = linear_layer(width, 2 * width, 1.0, initializer, generator)
        self.of_reset = linear_layer(width, width, 1.0, initializer, generator)
        with torch.no_grad():
            self.of_output.bias[width : 2 * width] -= bias

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return `(1 - z) x + z h`, `[..., width]`: update gate z, candidate h by reset gate r."""
        reset_y, update_y, candidate_y = self.of_output(y).chunk(3, -1)
        reset_x, update_x = self.of_stream(x).chunk(2, -1)
        reset, update = torch.sigmoid(reset_x + reset_y), torch.sigmoid(update_x + update_y)
        candidate = torch.tanh(candidate_y + self.of_reset(reset * x))
        return torch.lerp(x, candidate, update)
