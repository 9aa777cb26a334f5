"""`Bundles`: what a trial asks Ray for, and which part of it each of its actors gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ray
from ray.tune.execution.placement_groups import PlacementGroupFactory
from ray.util import get_current_placement_group

from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.runtime.actors.feasibility import check_cluster, shown
from trainables.runtime.actors.own_ray import join_or_start
from trainables.runtime.actors.process import ActorOptions

DRIVER = "driver"
ENV_RUNNERS = "env_runners"
EVALUATION_ENV_RUNNERS = "evaluation_env_runners"
LEARNERS = "learners"


@dataclass(frozen=True)
class Role:
    """The processes of one kind in a trial, each with a bundle of its own.

    Attributes:
        title: What one of them is called in messages.
        count: How many there are.
        needs: What one of them needs, e.g. `{"CPU": 1, "GPU": 0.5}`; {} for nothing.
        settings: What decides that.
    """

    title: str
    count: int
    needs: dict[str, float]
    settings: tuple[str, ...]

    @property
    def num_bundles(self) -> int:
        """One for each process; none if they need nothing, for Ray has no empty bundles."""
        return self.count if self.needs else 0


class Bundles:
    """A trial's bundles: the driver's, then those of env runners, evaluation and learners.

    Args:
        config: The trial's config.

    Attributes:
        roles: The kinds of processes by name, in the order of their bundles.

    Example:
        >>> Bundles(PPOConfig().resources(num_gpus=1, num_workers=2)).request().bundles
        [{'CPU': 1.0, 'GPU': 1.0}, {'CPU': 1.0}, {'CPU': 1.0}]
    """

    def __init__(self, config: AlgorithmConfig):
        self._strategy = config.placement_strategy
        self._env_vars = dict(config.extra_python_environs_for_worker or {})
        self.roles = _roles(config)

    def request(self) -> PlacementGroupFactory:
        """Return what Tune asks Ray for.

        Raises:
            ConfigError: if no process needs anything.
        """
        driver, *others = self.roles.values()
        bundles = [dict(role.needs) for role in others for _ in range(role.num_bundles)]
        if not driver.needs and not bundles:
            raise ConfigError(
                f"{' = 0 and '.join(driver.settings)} = 0: a trial without any resources cannot "
                "be scheduled; allowed: a driver or actors that need something"
            )
        return PlacementGroupFactory([dict(driver.needs), *bundles], strategy=self._strategy)

    def first_index(self, role: str) -> int:
        """Return the index, in the trial's placement group, of the first bundle of a role.

        A driver that needs nothing has none: Tune leaves it out, and the others move up.
        """
        before = list(self.roles)[: list(self.roles).index(role)]
        return sum(self.roles[name].num_bundles for name in before)

    def options(self, role: str, num_threads: int = 1) -> ActorOptions:
        """Return what each process of a role is started with.

        Args:
            role: The kind of the processes.
            num_threads: How many methods one runs at the same time.
        """
        needs = dict(self.roles[role].needs)
        cpus, gpus = needs.pop("CPU", 0), needs.pop("GPU", 0)
        return ActorOptions(cpus, gpus, needs, self._env_vars, num_threads)

    def check_room(self) -> None:
        """See that all actors fit on the cluster together; else some would wait, without a word.

        In a trial they have its placement group, and each `ActorGroup` checks its own bundles.
        Outside Tune a Ray is started on this machine if none is joined.

        Raises:
            ConfigError: if they do not fit.
        """
        actors = [role for name, role in self.roles.items() if name != DRIVER and role.count]
        if not actors:
            return
        if not ray.is_initialized():
            join_or_start()
        if get_current_placement_group() is None:
            needs = [role.needs for role in actors for _ in range(role.num_bundles)]
            check_cluster(needs, "PACK", f"It asks for {self.help()}.")

    def help(self) -> str:
        """Say of each kind of process what it needs and which settings decide it."""
        return "; ".join(
            f"{role.count} {role.title}{'s' if role.count != 1 else ''}"
            f" of {shown(role.needs)}"
            f" ({', '.join(role.settings)})"
            for role in self.roles.values()
            if role.count
        )


def _roles(config: AlgorithmConfig) -> dict[str, Role]:
    in_process = config.num_learners == 0
    gpus = 0 if config.fake_gpus else 1  # faked ones are not asked for: there may be none
    driver: dict[str, Any] = {"CPU": config.num_cpus_for_main_process}
    learner = {"CPU": config.num_cpus_per_learner, "GPU": gpus * config.num_gpus_per_learner}
    env_runner = {
        "CPU": config.num_cpus_per_env_runner,
        "GPU": gpus * config.num_gpus_per_env_runner,
        **config.custom_resources_per_env_runner,
    }
    of_env_runner = (
        "num_cpus_per_env_runner",
        "num_gpus_per_env_runner",
        "custom_resources_per_env_runner",
    )
    if in_process:
        driver["GPU"] = learner["GPU"]
    return {
        DRIVER: Role(
            "driver",
            1,
            _some(driver),
            ("num_cpus_for_main_process", *(["num_gpus_per_learner"] if in_process else [])),
        ),
        ENV_RUNNERS: Role(
            "env runner",
            config.num_env_runners,
            _some(env_runner),
            ("num_env_runners", *of_env_runner),
        ),
        EVALUATION_ENV_RUNNERS: Role(
            "evaluation env runner",
            config.evaluation_num_env_runners,
            _some(env_runner),
            ("evaluation_num_env_runners", *of_env_runner),
        ),
        LEARNERS: Role(
            "learner",
            config.num_learners,
            _some(learner),
            ("num_learners", "num_cpus_per_learner", "num_gpus_per_learner"),
        ),
    }


def _some(resources: dict[str, Any]) -> dict[str, float]:
    """Return resources without what is not needed."""
    return {name: float(amount) for name, amount in resources.items() if amount}
