"""Open-loop predictions: what a world model expects of an episode that it stops looking at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trainables.core.data.features import PREV_ACTION, VECTOR, ImageSpec, map_tensors
from trainables.core.data.layout import ObservationLayout
from trainables.core.errors import ConfigError
from trainables.core.networks.world_model.dreamer import Dreamer
from trainables.core.networks.world_model.rssm import Latent
from trainables.core.policy.policy import Policy


@dataclass(frozen=True)
class OpenLoop:
    """An episode beside what a world model makes of it.

    It sees the first observations, and of the others only the actions that led to them.

    Attributes:
        context: How many observations it sees.
        vector: The vector part of what happened, `[T, F]`; None if there is none.
        predicted_vector: And of what it expects.
        images: Each image of what happened by name, `[T, H, W, C]`; bytes are divided by 255.
        predicted_images: And of what it expects.
        rewards: That led to each observation, `[T]`; 0 of the first.
        predicted_rewards: `[T]`.
        continues: Whether each observation is of no terminal state, `[T]`.
        predicted_continues: How likely that is, times gamma, which the model has learned with it,
            `[T]`.
    """

    context: int
    vector: np.ndarray | None
    predicted_vector: np.ndarray | None
    images: dict[str, np.ndarray]
    predicted_images: dict[str, np.ndarray]
    rewards: np.ndarray
    predicted_rewards: np.ndarray
    continues: np.ndarray
    predicted_continues: np.ndarray


@torch.no_grad()
def open_loop(
    policy: Policy,
    obs: np.ndarray,
    actions: np.ndarray,
    rewards: np.ndarray,
    terminated: bool,
    *,
    context: int,
    seed: int = 0,
) -> OpenLoop:
    """Return what a policy's world model predicts of an episode.

    Args:
        policy: Of DreamerV3.
        obs: Observations in rows of the space's layout, `[T, *shape]`.
        actions: As the environment took them, stored as the policy's distribution does, `[T-1, …]`.
        rewards: Of the actions, `[T-1]`.
        terminated: Whether the last action led to a terminal state.
        context: How many observations the model sees, at least 1 and less than T.
        seed: Of the one dream that is drawn.

    Raises:
        ConfigError: if the policy has no world model, or the episode is too short.
    """
    module = policy.module
    if not isinstance(module, Dreamer):
        raise ConfigError(
            f"the policy's network, {type(module).__name__}, has no world model; allowed: policies "
            "of DreamerV3"
        )
    if not 1 <= context < len(obs):
        raise ConfigError(
            f"context = {context} is not allowed: the episode has {len(obs)} observations; "
            f"allowed: 1 to {len(obs) - 1}"
        )
    device = policy.device
    rows = _stored(policy, obs, actions, rewards)
    features = policy.features(rows)
    assert isinstance(features, dict)
    sequence = map_tensors(lambda part: part.unsqueeze(1), features)
    assert isinstance(sequence, dict)
    is_first = torch.zeros(len(obs), 1, dtype=torch.bool, device=device)
    is_first[0] = True
    latents = _imagined(module, sequence, is_first, context, seed)

    states = latents.features
    decoded = module.decoder(states)
    goes_on = module.continuation(states).squeeze(-1).sigmoid()
    continues = np.ones(len(obs), bool)
    continues[-1] = not terminated
    images = policy.observations.preprocessor.spec.images
    vector = features.get(VECTOR)
    return OpenLoop(
        context=context,
        vector=None if vector is None else _array(vector),
        predicted_vector=_array(decoded[VECTOR][:, 0]) if VECTOR in decoded else None,
        images={name: _pixels(features[name], image) for name, image in images.items()},
        predicted_images={name: _pixels(decoded[name][:, 0], i) for name, i in images.items()},
        rewards=np.concatenate([[0.0], rewards]),
        predicted_rewards=_array(module.reward.mean(module.reward(states))[:, 0]),
        continues=continues,
        predicted_continues=_array(goes_on[:, 0]),
    )


def _imagined(
    module: Dreamer, features: dict[str, Tensor], is_first: Tensor, context: int, seed: int
) -> Latent:
    """Return the states of an episode, `[T, 1, …]`: seen at first, then dreamed."""
    length, device = len(is_first), is_first.device
    generator = torch.Generator(device).manual_seed(seed)
    noise = torch.rand((length, 1, module.size.stoch), generator=generator, device=device)
    seen = {name: part[:context] for name, part in features.items()}
    done = features[PREV_ACTION]
    latents, _ = module.rssm.follow(
        module.encoder(seen),
        done[:context],
        is_first[:context],
        module.rssm.initial(1),
        noise[:context],
    )
    steps = [Latent(latents.h[t], latents.z[t]) for t in range(context)]
    for t in range(context, length):
        steps.append(module.rssm.dream(steps[-1], done[t], noise[t]))
    return Latent(torch.stack([s.h for s in steps]), torch.stack([s.z for s in steps]))


def _stored(
    policy: Policy, obs: np.ndarray, actions: np.ndarray, rewards: np.ndarray
) -> np.ndarray:
    """Return observations as the policy stores them, each with the action that led to it."""
    observations = policy.observations
    layout = observations.layout
    rows = layout.zeros((len(obs),))
    for path, leaf in ObservationLayout(policy.observation_space).leaves(obs).items():
        rows[path] = leaf
    begins = np.zeros(len(actions), bool)
    extras = observations.extras(torch.from_numpy(actions).to(policy.device), rewards, begins)
    for name, extra in (extras or {}).items():
        rows[name][1:] = extra
    return rows


def _pixels(values: Tensor, image: ImageSpec) -> np.ndarray:
    """Return images as they are drawn: channels last, bytes divided by 255, `[T, H, W, C]`."""
    pixels = values.to(torch.float32) / image.scale
    return _array(pixels.movedim(-3, -1) if image.channels_first else pixels)


def _array(tensor: Tensor) -> np.ndarray:
    found: np.ndarray = tensor.detach().cpu().numpy()
    return found
