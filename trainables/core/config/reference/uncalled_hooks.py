"""Methods of the reference's classes that nothing calls here, each with what to override instead.

A class that was written for the reference would train, and do something else than it says. So it is
refused where it is given: what it defines in vain is named.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainables.core.callables import NOT_THEIRS
from trainables.core.errors import ConfigError

Hooks = Mapping[str, str]
"""Names of methods, each with what to do instead, in words."""


def _instead(advice: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), advice)


_STEP = "override update_step(batch, loss_fn, …), the whole gradient step"
_LOSS = f"loss_fn is the algorithm's loss: {_STEP}"
_OPTIMIZER = "override make_optimizer(groups, settings), which returns a torch.optim.Optimizer"
_TRAJECTORIES = "give learner_connector=…, which gets every rollout before it is learned from"
_LEARNER = "give learner_class=…, a subclass of trainables.core.learning.learner.Learner"
_NETWORK = "give model={'custom_model': …}"
_DISTRIBUTION = "the action space decides about the distribution"
_FORWARD = "override forward(features), which acts and learns"
_VALUE = "override value(features) in a subclass of the algorithm's module, e.g. ActorCritic"
_RESTORED = (
    "env runners come back by restart_failed_env_runners=True; without it, override training_step"
)

LEARNER: Hooks = {
    **_instead(
        _OPTIMIZER,
        "configure_optimizers configure_optimizers_for_module configure_optimizer_for_module "
        "configure_optimizer_per_module configure_optimizers_per_module _init_optimizers",
    ),
    **_instead(
        _LOSS, "compute_loss compute_losses compute_loss_for_module compute_loss_per_module"
    ),
    **_instead(
        _STEP,
        "compute_gradients apply_gradients postprocess_gradients postprocess_gradients_for_module "
        "postprocess_gradients_per_module _update",
    ),
    **_instead(
        "override update (all gradient steps on a train batch) or update_step (one of them)",
        "additional_update additional_update_for_module additional_update_per_module "
        "before_gradient_based_update after_gradient_based_update update_from_batch "
        "update_from_episodes",
    ),
    "build": "override __init__",
    "_make_module": _NETWORK,
    "should_module_be_updated": _STEP,
    "filter_param_dict_for_optimizer": _OPTIMIZER,
}

ALGORITHM: Hooks = {
    "get_default_config": "set the class attribute config_class",
    "get_default_policy_class": f"there is one Policy class: {_NETWORK}",
    "get_default_rl_module_spec": _NETWORK,
    "get_default_learner_class": _LEARNER,
    "execution_plan": "override training_step",
    "validate_config": "override validate() of its config class",
    "_before_evaluate": "give on_evaluate_start=… to .callbacks()",
    **_instead(
        "override setup(config)",
        "_init _get_env_id_and_creator _create_local_replay_buffer_if_necessary _make_workers",
    ),
    **_instead(
        "override step, or training_step, which it calls",
        "_run_one_training_iteration _run_one_evaluation _run_one_training_iteration_and_"
        "evaluation_in_parallel _compile_iteration_results try_recover_from_step_attempt",
    ),
    **_instead(_RESTORED, "restore_workers restore_env_runners on_worker_failures"),
}

CONFIG: Hooks = {
    **_instead(_NETWORK, "get_default_rl_module_spec get_rl_module_spec get_marl_module_spec"),
    "get_default_learner_class": _LEARNER,
    "get_default_config": "set the class attribute config_class of the algorithm",
    "build_env_to_module_connector": "set env_to_module_connector",
    "build_module_to_env_connector": "set module_to_env_connector",
    "build_learner_connector": "set learner_connector",
    **_instead("override make_learner of the algorithm", "build_learner build_learner_group"),
    "_model_config_auto_includes": "set the class attribute model_defaults",
}

POLICY: Hooks = {
    **_instead(_TRAJECTORIES, "postprocess_trajectory postprocess_fn"),
    **_instead(
        f"{_LEARNER}, and {_STEP}",
        "loss compute_loss learn_on_batch compute_gradients apply_gradients extra_grad_process "
        "extra_grad_info extra_compute_grad_fetches custom_loss",
    ),
    **_instead(f"{_LEARNER}, and {_OPTIMIZER}", "optimizer _init_optimizers"),
    **_instead(_NETWORK, "make_model make_rl_module make_model_and_action_dist"),
    **_instead(
        "override act(…), which chooses the actions of all slots",
        "action_distribution_fn action_sampler_fn extra_action_out",
    ),
    "stats_fn": "what training_step returns is reported",
}

MODULE: Hooks = {
    **_instead(
        _FORWARD,
        "_forward _forward_train _forward_inference _forward_exploration forward_train "
        "forward_inference forward_exploration forward_rnn",
    ),
    **_instead(_VALUE, "value_function compute_values"),
    **_instead(f"{_LEARNER}, and {_STEP}", "custom_loss loss compute_loss"),
    **_instead(_TRAJECTORIES, "postprocess_trajectory"),
    **_instead(
        _DISTRIBUTION,
        "get_action_dist_cls get_train_action_dist_cls get_exploration_action_dist_cls "
        "get_inference_action_dist_cls",
    ),
    "get_initial_state": "override initial_state(batch_size) in a subclass of the algorithm's "
    "module",
    "import_from_h5": "load weights with set_weights of the policy",
}

ENV_RUNNER: Hooks = {
    **_instead("give the environment as env=…", "make_env _make_env get_spaces"),
    **_instead(_NETWORK, "make_module"),
    **_instead(
        "override sample(num_steps), which returns rollouts and episodes",
        "_sample _sample_timesteps _sample_episodes sample_with_count sample_and_learn",
    ),
    **_instead(_LEARNER, "learn_on_batch learn_on_loaded_batch compute_gradients apply_gradients"),
    **_instead(_TRAJECTORIES, "postprocess_trajectory"),
    "get_metrics": "give on_episode_end=… or on_sample_end=… to .callbacks()",
    "assert_healthy": "override ping()",
}


def refuse_uncalled(given: type, hooks: Hooks) -> None:
    """Refuse a class that defines methods which nothing calls, neither here nor itself.

    Args:
        given: By a user; methods of ours and of libraries are not looked at.
        hooks: Those that are never called, of its kind.

    Raises:
        ConfigError: naming the class, each method, and what to do instead.
    """
    classes = [c for c in given.__mro__ if c.__module__.partition(".")[0] not in NOT_THEIRS]
    defined = dict.fromkeys(
        name for c in classes for name, value in vars(c).items() if name in hooks and _theirs(value)
    )
    if not defined:
        return
    used = {name for function in _functions(classes, hooks) for name in _names_in(function)}
    told = [
        f"{given.__qualname__}.{name} is never called here: {hooks[name]}"
        for name in defined
        if name not in used
    ]
    if told:
        raise ConfigError("; ".join(told))


def _functions(classes: Sequence[type], hooks: Hooks) -> Iterator[Any]:
    """Yield the functions that classes define, except those that are never called."""
    for owner in classes:
        for name, value in vars(owner).items():
            function = _function_of(value)
            if inspect.isfunction(function) and name not in hooks and _theirs(value):
                yield function


def _function_of(value: Any) -> Any:
    """Return the function behind a method, a class method or a property."""
    return getattr(value, "fget", None) or inspect.unwrap(getattr(value, "__func__", value))


def _theirs(value: Any) -> bool:
    """Whether a user wrote it: Ray copies all methods of a class into the class of its actor."""
    module = getattr(_function_of(value), "__module__", None) or ""
    return module.partition(".")[0] not in NOT_THEIRS


def _names_in(function: Any) -> Iterator[str]:
    """Yield the names that a function reads, also in functions inside it."""
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        yield from code.co_names
        codes += [constant for constant in code.co_consts if inspect.iscode(constant)]
