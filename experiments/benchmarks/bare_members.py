"""How much faster one process trains K runs of PPO together than processes train them one by one.

The bare loop of `bare_ppo.py`, lifted by a leading axis: K x N slots of one vector environment, all
parameters as `[K, P]`, networks as batched products, and Adam, clipping, permutations and masks per
member. It is the ceiling of trial batching: whatever a framework does comes on top::

    python -m experiments.benchmarks.bare_members --members 1 5 8 32

Each line is one arrangement on two cores, in turns: two processes of `bare_ppo.py`, one process
with K members on one thread or two, and two processes with half of the members each.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor

from experiments.benchmarks.bare_ppo import BarePPO, Settings, mlp
from experiments.benchmarks.gather import HERE, console, keep, table

SIZES = {"actor": (4, 64, 64, 2), "critic": (4, 64, 64, 1)}
GAINS = {"actor": 0.01, "critic": 1.0}
CORES = 2


class Members:
    """K runs of PPO on the native vector CartPole as one tensor program.

    Args:
        settings: Those of each.
        seeds: The seed of each, `[K]`.
    """

    def __init__(self, settings: Settings, seeds: list[int]) -> None:
        self.s, self.k = settings, len(seeds)
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        self.env = gym.make_vec(
            "CartPole-v1",
            num_envs=settings.slots * self.k,
            vectorization_mode="vector_entry_point",
        )
        self.flat = torch.stack([self._initial(seed) for seed in seeds])  # [K, P]
        self.grad = torch.zeros_like(self.flat)
        self.first, self.second = torch.zeros_like(self.flat), torch.zeros_like(self.flat)
        self.steps = 0
        self.lr = torch.full((self.k, 1), settings.lr)
        self.layers = self._views(self.flat)
        for layers, grads in zip(
            self.layers.values(), self._views(self.grad).values(), strict=True
        ):
            for (weight, bias), (weight_grad, bias_grad) in zip(layers, grads, strict=True):
                weight.requires_grad_()
                bias.requires_grad_()
                weight.grad, bias.grad = weight_grad, bias_grad
        t, n = settings.rollout_length, settings.slots
        self.obs = np.zeros((t + 1, self.k * n, 4), np.float32)
        self.actions = np.zeros((t, self.k * n), np.int64)
        self.rewards = np.zeros((t, self.k * n), np.float32)
        self.terminated = np.zeros((t, self.k * n), bool)
        self.ended = np.zeros((t, self.k * n), bool)
        self.valid = np.zeros((t, self.k * n), bool)
        self.obs[t], _ = self.env.reset(seed=seeds[0])
        self.resetting = np.zeros(self.k * n, bool)
        self.env_steps = 0

    @staticmethod
    def _initial(seed: int) -> Tensor:
        torch.manual_seed(seed)
        nets = [mlp([*sizes], GAINS[name]) for name, sizes in SIZES.items()]
        return torch.cat([p.detach().reshape(-1) for net in nets for p in net.parameters()])

    def _views(self, flat: Tensor) -> dict[str, list[tuple[Tensor, Tensor]]]:
        """Weights `[K, in, out]` and biases `[K, 1, out]` of each network, in place."""
        found: dict[str, list[tuple[Tensor, Tensor]]] = {}
        at = 0
        for name, sizes in SIZES.items():
            found[name] = []
            for n_in, n_out in pairwise(sizes):
                weight = flat[:, at : at + n_in * n_out].view(self.k, n_out, n_in).mT
                at += n_in * n_out
                bias = flat[:, at : at + n_out].view(self.k, 1, n_out)
                at += n_out
                found[name].append((weight.detach(), bias.detach()))
        return found

    def apply(self, name: str, rows: Tensor) -> Tensor:
        """A network's outputs, `[K, B, out]`, of rows `[K, B, in]`."""
        layers = self.layers[name]
        for number, (weight, bias) in enumerate(layers):
            rows = torch.baddbmm(bias, rows, weight)
            if number < len(layers) - 1:
                rows = rows.tanh()
        return rows

    def iterate(self) -> None:
        """One rollout of all members, and their updates."""
        self.sample()
        self.learn()

    @torch.no_grad()
    def sample(self) -> None:
        """Steps every slot `rollout_length` times."""
        n = self.s.slots
        self.obs[0] = self.obs[-1]
        noise = torch.empty(self.k, self.s.rollout_length, n, 2)
        for member, generator in zip(noise, self.generators, strict=True):
            member.exponential_(generator=generator)
        for t in range(self.s.rollout_length):
            logits = self.apply("actor", torch.from_numpy(self.obs[t]).view(self.k, n, 4))
            action = logits.softmax(-1).div_(noise[:, t]).argmax(-1).view(-1).numpy()
            obs, reward, terminated, truncated, _ = self.env.step(action)
            ended = terminated | truncated
            self.obs[t + 1], self.actions[t], self.rewards[t] = obs, action, reward
            self.terminated[t], self.ended[t] = terminated, ended
            np.logical_not(self.resetting, out=self.valid[t])
            self.resetting = ended
        self.env_steps += int(self.valid.sum())

    def learn(self) -> None:
        """Updates for `epochs` over minibatches of each member's valid rows."""
        s, n, t = self.s, self.s.slots, self.s.rollout_length
        every = torch.from_numpy(self.obs).view(t + 1, self.k, n, 4).transpose(0, 1)
        every = every.reshape(self.k, (t + 1) * n, 4)
        with torch.no_grad():
            values = self.apply("critic", every).view(self.k, t + 1, n).transpose(0, 1)
            logits = self.apply("actor", every[:, : t * n])
        values_of_slots = values.reshape(t + 1, self.k * n).numpy()
        advantages = self.advantages(values_of_slots)
        advantage = self._by_member(advantages)
        actions = self._by_member(self.actions)
        target = advantage + self._by_member(values_of_slots[:-1])
        old_logp = logits.log_softmax(-1).gather(2, actions[..., None]).squeeze(2)
        valid = self._by_member(self.valid)
        counts = valid.sum(1).tolist()
        rows = [member.nonzero().squeeze(1) for member in valid]
        columns = (every, actions, old_logp, advantage, target)
        longest = math.ceil(max(counts) / s.minibatch_size) * s.minibatch_size
        picks = torch.zeros(self.k, longest, dtype=torch.int64)
        weights = torch.zeros(self.k, longest)
        for member, count in enumerate(counts):
            weights[member, :count] = 1
        for _ in range(s.epochs):
            for member, (own, generator) in enumerate(zip(rows, self.generators, strict=True)):
                order = torch.randperm(len(own), generator=generator)
                picks[member, : len(own)] = own[order]
            parts = zip(
                picks.split(s.minibatch_size, 1), weights.split(s.minibatch_size, 1), strict=True
            )
            for pick, weight in parts:
                if (weight.sum(1) < 2).any():
                    continue  # one row has no standard deviation
                self.update(*[_taken(column, pick) for column in columns] + [weight])

    def _by_member(self, columns: np.ndarray) -> Tensor:
        """Columns `[T, K N]` as `[K, T N]`."""
        t = len(columns)
        by_member = torch.from_numpy(columns).view(t, self.k, self.s.slots).transpose(0, 1)
        return by_member.reshape(self.k, t * self.s.slots)

    def update(
        self,
        obs: Tensor,
        actions: Tensor,
        old_logp: Tensor,
        advantage: Tensor,
        target: Tensor,
        weight: Tensor,
    ) -> None:
        """One gradient step of every member, of rows `[K, B]`; `weight` is 1 where there is one."""
        s = self.s
        share = weight / weight.sum(1, keepdim=True)
        logp_all = self.apply("actor", obs).log_softmax(-1)
        logp = logp_all.gather(2, actions[..., None]).squeeze(2)
        ratio = (logp - old_logp).exp()
        centred = advantage - (advantage * share).sum(1, keepdim=True)
        variance = (centred.square() * weight).sum(1, keepdim=True)
        std = (variance / (weight.sum(1, keepdim=True) - 1)).sqrt()
        advantage = centred / (std + 1e-8)
        clipped = ratio.clamp(1 - s.clip, 1 + s.clip)
        policy_loss = -(torch.min(ratio * advantage, clipped * advantage) * share).sum()
        value = self.apply("critic", obs).squeeze(2)
        value_loss = ((value - target).square() * share).sum()
        self.grad.zero_()
        (policy_loss + s.vf_coeff * value_loss).backward()
        self.step()

    @torch.no_grad()
    def step(self) -> None:
        """Adam with each member's own rate, of gradients clipped by each member's norm."""
        norm = torch.linalg.vector_norm(self.grad, dim=1, keepdim=True)
        self.grad *= (self.s.max_grad_norm / (norm + 1e-6)).clamp_max(1)
        self.steps += 1
        self.first.lerp_(self.grad, 0.1)
        self.second.mul_(0.999).addcmul_(self.grad, self.grad, value=0.001)
        root = (self.second / (1 - 0.999**self.steps)).sqrt_().add_(1e-5)
        self.flat -= self.lr / (1 - 0.9**self.steps) * self.first / root

    def advantages(self, values: np.ndarray) -> np.ndarray:
        """Generalised advantage estimation, `[T, K N]`; `values` is `[T + 1, K N]`."""
        s = self.s
        delta = self.rewards + s.gamma * values[1:] * ~self.terminated - values[:-1]
        keep_on = s.gamma * s.lambda_ * ~self.ended
        out = np.empty_like(delta)
        running = np.zeros(delta.shape[1], np.float32)
        for t in reversed(range(s.rollout_length)):
            running = delta[t] + keep_on[t] * running
            out[t] = running
        return out


def _taken(column: Tensor, pick: Tensor) -> Tensor:
    """Rows `[K, B, …]` of a column `[K, R, …]`."""
    if column.dim() == 2:
        return column.gather(1, pick)
    return column.gather(1, pick[..., None].expand(-1, -1, column.shape[2]))


# ------------------------------------------------------------------ measuring


def rate_of(make: Callable[[], Any], threads: int, seconds: float) -> float:
    """Environment steps per second of whole training, after a warm-up of two iterations."""
    torch.set_num_threads(threads)
    loop = make()
    for _ in range(2):
        loop.iterate()
    first, start = loop.env_steps, time.perf_counter()
    while time.perf_counter() - start < seconds:
        loop.iterate()
    return float((loop.env_steps - first) / (time.perf_counter() - start))


def alone(seed: int, seconds: float) -> float:
    """A process of one run."""
    return rate_of(lambda: BarePPO(Settings(), seed), 1, seconds)


def together(seeds: list[int], threads: int, seconds: float) -> float:
    """A process of several runs."""
    return rate_of(lambda: Members(Settings(), seeds), threads, seconds)


def main() -> None:
    """Measures, prints a table and writes `bare_members.json`."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--members", type=int, nargs="+", default=[1, 2, 5, 8, 16, 32])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=6.0, help="of a measurement")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the JSON")
    args = parser.parse_args()
    found: dict[str, dict[str, list[float]]] = {}
    with ProcessPoolExecutor(CORES, mp_context=get_context("spawn")) as pool:
        for _ in range(args.rounds):
            for count in args.members:
                seeds = [*range(count)]
                halves = [seeds[::2], seeds[1::2]] if count > 1 else [seeds, seeds]
                arrangements: dict[str, list[tuple[Any, ...]]] = {
                    "processes": [(alone, seed, args.seconds) for seed in range(CORES)],
                    "one thread": [(together, seeds, 1, args.seconds)],
                    "two threads": [(together, seeds, CORES, args.seconds)],
                    "two hosts": [(together, half, 1, args.seconds) for half in halves],
                }
                for name, calls in arrangements.items():
                    each = [future.result() for future in [pool.submit(*c) for c in calls]]
                    found.setdefault(str(count), {}).setdefault(name, []).append(sum(each))
    view = table(
        "PPO on CartPole, two cores: steps/s, and over processes",
        *("members", "processes", "one thread", "two threads", "two hosts"),
    )
    for count, rates in found.items():
        base = median(rates["processes"])
        ratios = {
            name: median(rate / own for rate, own in zip(of, rates["processes"], strict=True))
            for name, of in rates.items()
        }
        view.add_row(
            count,
            f"{base:,.0f}",
            *(
                f"{median(rates[name]):,.0f} ({ratios[name]:.2f})"
                for name in ("one thread", "two threads", "two hosts")
            ),
        )
    console.print(view)
    keep(args.out, "bare_members", {"rounds": args.rounds, "seconds": args.seconds}, found)


if __name__ == "__main__":
    main()
