"""DreamerV3 with Tunescape; `--bare`: its losses in a loop with nothing else.

An update is a `train()` of one, with the environment step before it, the draw of its sequences and
the writing back of their states. The bare loop has one prepared batch, torch's own Adam and one
norm for all gradients. The last line it prints is one JSON object.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import dreamer  # type: ignore[import-not-found]  # the neighbour, see there
import torch
from torch import nn

from trainables import DreamerV3Config
from trainables.core.networks.world_model.dreamer import Dreamer
from trainables.dreamerv3.losses import dreamer_loss
from trainables.dreamerv3.sizes import SIZES
from trainables.dreamerv3.update import coefficients_of


def main() -> None:
    """Builds the algorithm, fills its buffer, measures and prints."""
    args = dreamer.arguments(__doc__)
    torch.set_num_threads(1)
    widths = dreamer.WIDTHS[args.size] | ({"depth": args.depth} if args.depth else {})
    own = SIZES.get(args.size, SIZES["XS"])
    SIZES[args.size] = own._replace(size=own.size.__class__(**widths, layers=1))
    rows = dreamer.BATCH * dreamer.LENGTH
    config = (
        DreamerV3Config()
        .environment(dreamer.Images if args.images else "CartPole-v1")
        .env_runners(rollout_fragment_length=1)
        .training(
            model_size=args.size,
            training_ratio=rows,
            batch_size_B=dreamer.BATCH,
            batch_length_T=dreamer.LENGTH,
            horizon_H=dreamer.HORIZON,
            num_steps_sampled_before_learning_starts=2 * rows,
            replay_buffer_config={"capacity": 4 * rows},
        )
        .reporting(min_sample_timesteps_per_iteration=1, min_time_s_per_iteration=0)
        .debugging(seed=args.seed)
    )
    algo: Any = config.build()
    while not algo.train()["num_updates_lifetime"]:
        pass
    args.warmup = max(0, args.warmup - (not args.bare))  # what filled the buffer has updated, too
    module = algo.get_policy().module
    count = sum(parameter.numel() for parameter in module.parameters())
    dreamer.run(args, count, bare(algo, module) if args.bare else algo.train)
    algo.stop()


def bare(algo: Any, module: Dreamer) -> Callable[[], None]:
    """Returns what does an update of the losses in a bare loop."""
    policy = algo.get_policy()
    replay = algo.experience["default_policy"]
    batch = algo.prepare(policy, replay.sample_sequences(dreamer.BATCH, dreamer.LENGTH))
    slow = copy.deepcopy(module.critic)
    optimizer = torch.optim.Adam(module.parameters(), lr=4e-5)
    generator, coefficients = torch.Generator().manual_seed(0), coefficients_of(algo.config)

    def update() -> None:
        optimizer.zero_grad()
        loss, _ = dreamer_loss(
            module, dict(batch), slow, policy.distribution, coefficients, generator
        )
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1000.0)
        optimizer.step()
        with torch.no_grad():
            for own, other in zip(slow.parameters(), module.critic.parameters(), strict=True):
                own.lerp_(other, 0.02)

    return update


if __name__ == "__main__":
    main()
