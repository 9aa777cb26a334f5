"""Methods of the reference that nothing calls here: a class that defines one is refused."""

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from trainables import PPOConfig
from trainables.core.config.reference.uncalled_hooks import (
    ALGORITHM,
    CONFIG,
    ENV_RUNNER,
    LEARNER,
    MODULE,
    POLICY,
    refuse_uncalled,
)
from trainables.core.errors import ConfigError
from trainables.core.learning.learner import Learner
from trainables.core.policy.policy import Policy
from trainables.ppo import PPO
from trainables.runtime.callbacks.callbacks import Callbacks
from trainables.runtime.named_code import check_named_code
from trainables.runtime.sampling.env_runner import EnvRunner


def nothing(self: Any, *args: Any, **options: Any) -> None:
    """Whatever is overridden."""


class OldLearner(Learner):
    configure_optimizer_for_module = nothing


class OldRunner(EnvRunner):
    make_env = nothing


class OldModel(nn.Module):
    value_function = nothing


class OldAlgorithm(PPO):
    @classmethod
    def get_default_policy_class(cls, config: Any) -> None:
        return None


class OldConfig(PPOConfig):
    def get_default_learner_class(self) -> type:
        return OldLearner


def test_a_learner_is_refused_where_it_is_given() -> None:
    why = (
        r"OldLearner.configure_optimizer_for_module is never called here: override "
        r"make_optimizer\(groups, settings\), which returns a torch.optim.Optimizer"
    )
    with pytest.raises(ConfigError, match=why):
        PPOConfig().training(learner_class=OldLearner)
    by_name = (
        PPOConfig().environment("CartPole-v1").training(learner_class=f"{__name__}:OldLearner")
    )
    for look in (by_name.build, by_name.learners(num_learners=1).build):  # not in its process
        with pytest.raises(ConfigError, match=why):
            look()
    with pytest.raises(ConfigError, match=why):  # as a sweep does, before a trial begins
        check_named_code(by_name)


def test_so_are_env_runners_and_networks() -> None:
    why = "OldRunner.make_env is never called here: give the environment as env="
    with pytest.raises(ConfigError, match=why):
        PPOConfig().env_runners(env_runner_cls=OldRunner)
    with pytest.raises(ConfigError, match=r"OldModel.value_function .* override value\(features\)"):
        PPOConfig().training(model={"custom_model": OldModel})
    named = (
        PPOConfig()
        .environment("CartPole-v1")
        .training(model={"custom_model": f"{__name__}:OldModel"})
    )
    with pytest.raises(ConfigError, match=r"OldModel.value_function is never called here"):
        named.build()


def test_so_are_algorithms_and_their_configs() -> None:
    why = "OldAlgorithm.get_default_policy_class is never called here: there is one Policy class"
    with pytest.raises(ConfigError, match=why):
        OldAlgorithm(config={"env": "CartPole-v1"})
    with pytest.raises(ConfigError, match=why):  # what Tune asks before a trial begins
        OldAlgorithm.default_resource_request({"env": "CartPole-v1"})
    with pytest.raises(ConfigError, match=r"OldConfig.get_default_learner_class .* learner_class="):
        OldConfig().environment("CartPole-v1").build()


def test_so_is_a_policy_that_an_algorithm_makes() -> None:
    class OldPolicy(Policy):
        postprocess_trajectory = nothing

    class WithOldPolicy(PPO):
        def _make_policies(self, *args: Any) -> dict[str, Policy]:
            made = super()._make_policies(*args)
            for policy in made.values():
                policy.__class__ = OldPolicy
            return made

    with pytest.raises(ConfigError, match=r"postprocess_trajectory is never .* learner_connector="):
        WithOldPolicy(config={"env": "CartPole-v1"})


def test_callbacks_are_refused_where_they_are_defined() -> None:
    with pytest.raises(ConfigError, match="on_postprocess_trajectory is no hook here"):
        type("OldCallbacks", (Callbacks,), {"on_postprocess_trajectory": nothing})


def test_all_that_is_never_called_is_named_at_once() -> None:
    both = type("Both", (OldLearner,), {"compute_loss_for_module": nothing})
    with pytest.raises(ConfigError, match=r"Both.compute_loss_for_module .*; Both.configure_opt"):
        PPOConfig().training(learner_class=both)


def test_a_method_that_the_class_itself_calls_passes() -> None:
    """It is one of its own that happens to have the name."""

    class Own(Learner):
        def compute_gradients(self, loss: Any) -> None:
            loss.backward()

        def update_step(self, batch: Any, loss_fn: Any, *args: Any, **options: Any) -> Any:
            loss, metrics = loss_fn(self.module, batch)
            self.compute_gradients(loss)
            self.optimizer.step()
            return metrics

    PPOConfig().training(learner_class=Own)

    class OnlyAmongThemselves(Learner):
        def additional_update(self) -> None:
            self.additional_update_for_module()

        def additional_update_for_module(self) -> None:
            self.additional_update()

    with pytest.raises(ConfigError, match="additional_update_for_module is never called here"):
        PPOConfig().training(learner_class=OnlyAmongThemselves)


@pytest.mark.parametrize(
    "hooks", [LEARNER, ALGORITHM, CONFIG, POLICY, MODULE, ENV_RUNNER], ids=lambda hooks: len(hooks)
)
def test_every_one_says_what_to_do_instead(hooks: dict[str, str]) -> None:
    for name, advice in hooks.items():
        assert len(advice) > 10
        with pytest.raises(ConfigError, match=f"Old.{name} is never called here: "):
            refuse_uncalled(type("Old", (), {name: nothing}), hooks)


@pytest.mark.parametrize(
    ("owner", "hooks"),
    [(Learner, LEARNER), (EnvRunner, ENV_RUNNER), (PPOConfig, CONFIG), (Policy, POLICY)],
)
def test_none_of_them_is_a_method_here(owner: type, hooks: dict[str, str]) -> None:
    defined = {name for base in owner.__mro__ for name in vars(base)}
    assert not defined & set(hooks)


def test_methods_that_ray_sets_on_an_actors_class_are_not_its_users() -> None:
    class Mine(PPO):
        pass

    for name in ALGORITHM:
        if hasattr(PPO, name):
            setattr(Mine, name, getattr(PPO, name))
    assert "restore_workers" in vars(Mine)
    refuse_uncalled(Mine, ALGORITHM)
