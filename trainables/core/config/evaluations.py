"""What `evaluation_config` may say: settings in which evaluations differ from training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainables.core.config.experience import OF_DATA
from trainables.core.errors import ConfigError
from trainables.core.features import FeatureSettings, feature

# What can differ in an evaluation; the policy acts as it is (filter, actions, networks).
EVALUATION_SETTINGS = (
    "env",
    "env_config",
    "explore",
    "num_env_runners",
    "num_envs_per_env_runner",
    "policy_mapping_fn",
    "seed",
    "render_env",
    "callbacks_class",
    *OF_DATA,
)


class EvaluationSettings(FeatureSettings):
    """Settings of evaluations, given as a dict or as a config."""

    def checked(
        self, config_class: Any, overrides: Mapping[str, Any], beside: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return `evaluation_config`, checked, and how many actors it says that evaluate.

        Raises:
            ConfigError: for what has no effect on an evaluation.
        """
        return _checked(config_class, overrides, beside)

    def overrides(self, given: Any, training: Any) -> dict[str, Any]:
        """Return what a config object changes of the training's config.

        Raises:
            ConfigError: naming what has no effect on an evaluation.
        """
        return evaluation_overrides(given, training)


def _checked(
    config_class: Any, overrides: Mapping[str, Any], beside: Mapping[str, Any]
) -> dict[str, Any]:
    """Return `evaluation_config`, checked, and how many actors it says that evaluate."""
    own = config_class.check(overrides)
    for name in [name for name in own if name not in EVALUATION_SETTINGS]:
        if name in config_class.without and feature("reference").is_default(name, own[name]):
            del own[name]  # as in a whole config of the reference
        else:
            raise ConfigError(
                f"evaluation_config: {name!r} has no effect on an evaluation; allowed: "
                f"{', '.join(EVALUATION_SETTINGS)}"
            )
    if "num_env_runners" not in own:
        return {"evaluation_config": own}
    number, given = own.pop("num_env_runners"), beside.get("evaluation_num_env_runners")
    if given is not None and given != number:
        raise ConfigError(
            f"evaluation_config: num_env_runners = {number} is how many actors evaluate, and "
            f"evaluation_num_env_runners = {given} says otherwise; allowed: one of the two"
        )
    return {"evaluation_config": own, "evaluation_num_env_runners": number}


def evaluation_overrides(given: Any, training: Any) -> dict[str, Any]:
    """Return what a config object given as `evaluation_config` changes of the training's config.

    That is what was set in it and is different there.

    Raises:
        ConfigError: naming what has no effect on an evaluation.
    """
    found = {
        name: value
        for name, value in given.items()
        if value != type(given).settings()[name].default
        and not (name in training and training[name] == value)
        and not name.startswith("evaluation_")
    }
    ignored = [name for name in found if name not in EVALUATION_SETTINGS]
    if ignored:
        raise ConfigError(
            f"evaluation_config: {', '.join(ignored)}: not as in the training's config, which has "
            f"no effect on an evaluation; allowed: {', '.join(EVALUATION_SETTINGS)}"
        )
    return found


SETTINGS = EvaluationSettings()
