"""Frame stacking: a policy sees its last k observations as one, and each is stored once.

Before an episode's first observation lie zeros, as in gymnasium's `FrameStackObservation` with
`padding_type="zero"`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from trainables.core.data.preprocessor import has_channels_first
from trainables.core.errors import ConfigError
from trainables.core.features import Feature


class FrameStack:
    """A stack of k observations that are seen as one.

    Images are stacked in their channels, and Boxes of two axes become such an image, a channel for
    each; all others become one vector, oldest first.

    Args:
        space: The space of one frame as the networks see it, a Box.
        num_frames: The number of frames k, at least 2.

    Attributes:
        num_frames: The number of frames k.
        space: The space of a stack.
        channels_first: Whether a stacked image has its channels in the first axis. The shape of the
            stack does not say: of 10 x 10 x 4 four make 10 x 10 x 16.

    Raises:
        ConfigError: if observations are no plain Box.
    """

    def __init__(self, space: gym.Space, num_frames: int):
        if not isinstance(space, gym.spaces.Box):
            raise ConfigError(
                f"frame_stack = {num_frames} needs observations of one Box, not {space}; allowed "
                "here: 1, or a memory (model: use_lstm)"
            )
        self.num_frames = num_frames
        self._shape = space.shape
        rank = len(space.shape)
        self._is_matrix = rank == 2 and num_frames < min(space.shape)
        self.channels_first = self._is_matrix or (rank == 3 and has_channels_first(space.shape))
        self._channels_last = rank == 3 and not self.channels_first
        bounds = (np.stack([bound] * num_frames) for bound in (space.low, space.high))
        low, high = (self.join(torch.from_numpy(bound)).numpy() for bound in bounds)
        self.space = gym.spaces.Box(low, high, dtype=space.dtype)

    def join(self, frames: Tensor) -> Tensor:
        """Return stacks `[..., *space.shape]` of frames `[..., k, *shape]`, oldest first."""
        if self._is_matrix:
            return frames
        if self._channels_last:
            return frames.movedim(-4, -2).flatten(-2)
        if len(self._shape) == 3:
            return frames.flatten(-4, -3)
        return frames.flatten(-len(self._shape) - 1)

    @staticmethod
    def with_last(frames: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        """Add the newest frames.

        Args:
            frames: The newest frames, `[N, *shape]`.
            before: The k-1 frames before them, `[N, k-1, *shape]`; zeros before an episode's start.

        Returns:
            All k, `[N, k, *shape]`, and the last k-1 of them.
        """
        stacked = torch.cat([before, frames.unsqueeze(1)], 1)
        return stacked, stacked[:, 1:]

    @staticmethod
    def of_rollout(frames: Tensor, before: Tensor, is_first: Tensor) -> Tensor:
        """Return the stack of every row of a rollout; none reaches across an episode's start.

        Args:
            frames: The frame of each row, `[T, N, *shape]`.
            before: The k-1 frames before row 0, `[N, k-1, *shape]`; zeros before an episode's
                start.
            is_first: Rows that begin an episode, `[T, N]`, bool.

        Returns:
            `[T, N, k, *shape]`, oldest first.
        """
        k = before.shape[1] + 1
        stacked = torch.cat([before.transpose(0, 1), frames]).unfold(0, k, 1).movedim(-1, 2)
        # Rows belong together if no episode began between them.
        episode = is_first.cumsum(0)
        episodes = torch.cat([episode.new_zeros(k - 1, episode.shape[1]), episode]).unfold(0, k, 1)
        outside = episodes != episode.unsqueeze(-1)
        return stacked.masked_fill(outside.reshape(*outside.shape, *[1] * (frames.dim() - 2)), 0)

    @staticmethod
    def connected(stacks: Tensor, rank: int, connect: Callable[..., Any]) -> Tensor:
        """Return what a connector makes of stacks; what lies before an episode stays zeros.

        The connector does not see those zeros: it may divide by what a frame holds, or expect a
        value that they do not have. They are known by being the oldest frames and nothing but
        zeros, so an episode's own first observations count as such once they are not the newest, if
        they are zeros.

        Args:
            stacks: Frames as they are stored, `[..., k, *shape]`, oldest first.
            rank: Axes of a frame.
            connect: Makes one tensor of the same rows of frames `[..., *shape]`.

        Returns:
            `[..., k, *new_shape]`.
        """
        is_blank = stacks == 0
        for _ in range(rank):
            is_blank = is_blank.all(-1)
        is_before = (~is_blank).cumsum(-1) == 0  # [..., k]; ONNX has no cumulative product
        is_before = torch.cat([is_before[..., :-1], torch.zeros_like(is_before[..., :1])], -1)
        newest = stacks.narrow(-1 - rank, -1, 1)
        made = connect(torch.where(is_before[(..., *[None] * rank)], newest, stacks))
        return made.masked_fill(is_before[(..., *[None] * (made.dim() - is_before.dim()))], 0)


class Frames(Feature):
    """Shows a policy several last observations as one."""

    stack = FrameStack


FEATURE = Frames()
