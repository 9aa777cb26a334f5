"""Settings in RLlib's older files whose value changes with their name, or that were one of several.

`modernise_values` writes them as they are written today, so that the file means what it meant.
"""

from __future__ import annotations

from typing import Any

from experiments.spec.legacy.notes import leave_out, put
from search_spaces.documents import Document

_LEARN_TOGETHER = ("PPO", "APPO", "IMPALA", "DQN", "SAC", "CQL")  # with `num_learners`
_NUM_LEARNERS = ("num_learners", "num_learner_workers")
_GPUS_PER_LEARNER = ("num_gpus_per_learner", "num_gpus_per_learner_worker")
# What the releases had by default that named these settings.
_MAX_TIMESTEPS, _EXPLORATION_FRACTION, _BETA_FRACTION = 100_000, 0.1, 0.2
_BETA, _FINAL_BETA = 0.4, 0.4
_EXPLORATION = ("exploration_fraction", "exploration_final_eps")
_BETAS = (
    "final_prioritized_replay_beta",
    "prioritized_replay_beta_annealing_timesteps",
    "beta_annealing_fraction",
)


def modernise_values(document: Document) -> None:
    """Write in `config` what older settings stand for.

    Raises:
        SpecError: A setting is given under two names with different values, or cannot be shared
            among the learners that several GPUs stand for.
    """
    config = document.data["config"]
    _epsilon(document, config)
    _replay_beta(document, config)
    config.pop("schedule_max_timesteps", None)
    _learners(document, config)
    _circular_buffer(document, config)
    _kl_penalty(document, config)


def _epsilon(document: Document, config: dict[str, Any]) -> None:
    """A fraction of `schedule_max_timesteps`, as a number of steps."""
    given = {name: config.pop(name) for name in _EXPLORATION if name in config}
    if "exploration_final_eps" in given:
        final = given["exploration_final_eps"]
        put(document, ("exploration_final_eps",), final, ("exploration_config", "final_epsilon"))
    if "exploration_fraction" in given or (given and "schedule_max_timesteps" in config):
        longest = config.get("schedule_max_timesteps", _MAX_TIMESTEPS)
        steps = round(longest * given.get("exploration_fraction", _EXPLORATION_FRACTION))
        put(document, ("exploration_fraction",), steps, ("exploration_config", "epsilon_timesteps"))


def _replay_beta(document: Document, config: dict[str, Any]) -> None:
    """The first and the last value, and how long it takes, as one schedule."""
    given = {name: config.pop(name) for name in _BETAS if name in config}
    if not given:
        return
    replay = config.get("replay_buffer_config") or {}
    first = replay.pop("beta", _BETA) if isinstance(replay, dict) else _BETA
    last = given.get(_BETAS[0], _FINAL_BETA)
    fraction = given.get("beta_annealing_fraction", _BETA_FRACTION)
    longest = config.get("schedule_max_timesteps", _MAX_TIMESTEPS)
    steps = given.get(_BETAS[1], round(longest * fraction))
    value = first if first == last else [[0, first], [steps, last]]
    put(document, (next(iter(given)),), value, ("replay_buffer_config", "beta"))


def _learners(document: Document, config: dict[str, Any]) -> None:
    """Several GPUs were of one learner; here each has its own, and its share of the train batch."""
    if isinstance(config.get("gpu"), bool):
        put(document, ("gpu",), int(config.pop("gpu")), ("num_gpus",))
    gpus, given = config.get("num_gpus"), [name for name in _NUM_LEARNERS if name in config]
    if given:
        if any(name in config for name in _GPUS_PER_LEARNER):
            config.pop("num_gpus", None)  # of the driver, which learns nothing then
        _share_batch(document, config, given[0])
    elif isinstance(gpus, int) and gpus > 1 and document.data["trainable"] in _LEARN_TOGETHER:
        _share_batch(document, config, "num_gpus")
        del config["num_gpus"]
        put(document, ("num_gpus",), gpus, ("num_learners",))
        put(document, ("num_gpus",), 1, ("num_gpus_per_learner",))


def _share_batch(document: Document, config: dict[str, Any], among: str) -> None:
    """The train batch was of all learners together."""
    batch, learners = config.get("train_batch_size"), config[among]
    if batch is None or not isinstance(learners, int) or learners < 2:
        return
    if not isinstance(batch, int) or batch % learners:
        raise document.error(
            ("config", "train_batch_size"),
            f"config: train_batch_size = {batch!r} cannot be shared by {learners} learners "
            f"({among}); write what each has as train_batch_size_per_learner",
        )
    del config["train_batch_size"]
    put(document, ("train_batch_size",), batch // learners, ("train_batch_size_per_learner",))


def _circular_buffer(document: Document, config: dict[str, Any]) -> None:
    """Pass over the last train batches in turn: draws from APPO's circular buffer of them."""
    size, passes = config.get("minibatch_buffer_size"), config.get("num_sgd_iter", 1)
    if not isinstance(size, int) or size < 2:
        return
    if passes == 1:
        leave_out(document, "minibatch_buffer_size", "it has no effect with one pass")
    elif document.data.get("trainable") == "APPO":
        config.pop("minibatch_buffer_size")
        config.pop("num_sgd_iter")
        size_of, passes_of = ("minibatch_buffer_size",), ("num_sgd_iter",)
        put(document, size_of, size, ("circular_buffer_num_batches",))
        put(document, passes_of, passes, ("circular_buffer_iterations_per_batch",))


def _kl_penalty(document: Document, config: dict[str, Any]) -> None:
    """PPO penalised the KL divergence there unless its weight was 0; here where it is asked to."""
    if document.data.get("trainable") == "PPO" and config.get("kl_coeff"):
        config.setdefault("use_kl_loss", True)
