"""What results hold besides what algorithms declare: metrics with units and meanings.

Trials need none of it: the page of metrics is made of it, and specs are checked against it.
"""

from __future__ import annotations

from trainables.core.reported_metrics import MODULE, Reported

AGENT = "<agent>"
"""Stands for an agent's id in names."""

_EVALUATED = "`evaluation_interval`"
_METHODS = "`off_policy_estimation_methods`"
ESTIMATED = "evaluation/ope/<name>/"
_EVALUATED_BY_ACTORS = "`evaluation_num_env_runners`"
_CALLBACKS = "callbacks that log it"
_LEAGUE = "`league`"

SAMPLED: tuple[Reported, ...] = (
    Reported(
        "episode_return_mean",
        "reward",
        "mean return (sum of the environment's rewards, undiscounted, before `clip_rewards` and "
        "connectors) of the last `metrics_num_episodes_for_smoothing` training episodes, or of all "
        "that ended in this iteration if those are more; with exploration, so a greedy policy may "
        "do better. NaN while no episode has ended",
    ),
    Reported("episode_return_min", "reward", "the least return of the same episodes"),
    Reported("episode_return_max", "reward", "the greatest return of the same episodes"),
    Reported("episode_len_mean", "env steps", "mean length of the same episodes"),
    Reported("num_episodes", "episodes", "episodes that ended in this iteration"),
    Reported("num_episodes_lifetime", "episodes", "episodes that ended since the trial began"),
    Reported(
        "num_env_steps_sampled",
        "env steps",
        "environment steps sampled in this iteration, over all slots",
    ),
    Reported(
        "num_env_steps_sampled_lifetime",
        "env steps",
        "environment steps sampled since the trial began: the budget for `stop`, schedulers and "
        "plots",
    ),
    Reported(
        "env_steps_per_second",
        "env steps / s",
        "`num_env_steps_sampled` divided by the seconds of this iteration that sampled and "
        "learned; evaluations between iterations do not count",
    ),
    Reported("num_healthy_workers", "", "live env-runner actors; 0 if there are no actors"),
    Reported("num_env_runner_restarts", "", "restarts of env-runner actors so far"),
    Reported(
        "num_sub_environment_restarts",
        "",
        "replaced environments so far (`restart_failed_sub_environments`)",
    ),
    Reported(
        "time/sample_s", "s", "time of this iteration spent on sampling or waiting for samples"
    ),
)
"""Of every algorithm whose training steps an environment."""

COMMON: tuple[Reported, ...] = (
    Reported(
        "num_env_steps_trained_lifetime",
        "env steps",
        "environment steps trained on since the trial began: a step counts once for each train "
        "batch that contains it, for any number of epochs; for DQN and SAC rows drawn from the "
        "buffer",
    ),
    Reported("num_training_step_calls_lifetime", "", "calls of `training_step` so far"),
    Reported("num_learner_restarts", "", "restarts of learner actors so far", "`num_learners`"),
    Reported("num_cpus", "CPUs", "CPUs that Tune holds for the trial", "under Tune"),
    Reported("num_gpus", "GPUs", "GPUs that Tune holds for the trial", "under Tune"),
    Reported("time/learn_s", "s", "time of this iteration spent on gradient steps"),
    Reported(
        "time/evaluate_s",
        "s",
        "time of this iteration spent on an evaluation, or waiting for one; only in iterations "
        "with an evaluation",
        _EVALUATED,
    ),
    Reported(
        "evaluation/episode_return_mean",
        "reward",
        "mean return of the last evaluation's episodes, with the most likely actions unless "
        "`evaluation_config` sets `explore`. NaN if none has ended within "
        "`evaluation_sample_timeout_s`, or within the timesteps of `evaluation_duration`",
        _EVALUATED,
    ),
    Reported(
        "evaluation/episode_return_min",
        "reward",
        "the least of these returns",
        _EVALUATED,
    ),
    Reported(
        "evaluation/episode_return_max", "reward", "the greatest of these returns", _EVALUATED
    ),
    Reported(
        "evaluation/episode_len_mean", "env steps", "mean length of these episodes", _EVALUATED
    ),
    Reported("evaluation/num_episodes", "episodes", "episodes that ended", _EVALUATED),
    Reported(
        "evaluation/num_episodes_cut_off",
        "episodes",
        "episodes that were cut off after the timesteps of `evaluation_duration`; the means do "
        "not include them",
        _EVALUATED,
    ),
    Reported(
        "evaluation/num_env_steps",
        "env steps",
        "environment steps of the evaluation, including those of episodes that were cut off",
        _EVALUATED,
    ),
    Reported(
        "evaluation/weights_version",
        "",
        "the env runners' version of the weights that were evaluated",
        _EVALUATED,
    ),
    Reported(
        "evaluation/num_training_step_calls",
        "",
        "training steps behind the weights that were evaluated",
        _EVALUATED,
    ),
    Reported("evaluation/num_healthy_workers", "", "live evaluation actors", _EVALUATED_BY_ACTORS),
    Reported(
        "evaluation/num_timeouts",
        "",
        "how often an actor was late so far (`evaluation_sample_timeout_s`)",
        _EVALUATED_BY_ACTORS,
    ),
    Reported(
        "custom_metrics/<name>_<reduce>",
        "",
        "values that callbacks log: `mean`, `min` or `max` over the window of the episode "
        "metrics, or `sum` of this iteration",
        _CALLBACKS,
    ),
    Reported(
        "hist_stats/<name>_<reduce>",
        "",
        "mean, min and max of all numbers in the episodes' `hist_data` lists, over the window of "
        "episodes",
        _CALLBACKS,
    ),
    Reported(
        "evaluation/hist_stats/<name>_<reduce>",
        "",
        "the same of the evaluation's episodes",
        _CALLBACKS,
    ),
    Reported(
        "evaluation/custom_metrics/<name>_<reduce>",
        "",
        "values that callbacks log in evaluations, over the last evaluation",
        f"{_EVALUATED}, {_CALLBACKS}",
    ),
)
"""Of every algorithm."""

ESTIMATES: tuple[Reported, ...] = (
    Reported(
        f"{ESTIMATED}v_target",
        "discounted return",
        "estimate by the estimator of that name: the policy's expected discounted return of an "
        "episode from where recorded ones begin. NaN if unknown",
        _METHODS,
    ),
    Reported(f"{ESTIMATED}low", "discounted return", "lower end of its interval", _METHODS),
    Reported(f"{ESTIMATED}high", "discounted return", "upper end of it", _METHODS),
    Reported(
        f"{ESTIMATED}v_behavior",
        "discounted return",
        "mean discounted return of the recorded episodes",
        _METHODS,
    ),
    Reported(f"{ESTIMATED}v_delta", "discounted return", "`v_target` minus `v_behavior`", _METHODS),
    Reported(
        f"{ESTIMATED}v_gain",
        "",
        "`v_target` / `v_behavior`, as in RLlib; NaN unless `v_behavior` is positive",
        _METHODS,
    ),
    Reported(
        f"{ESTIMATED}num_episodes", "episodes", "recorded episodes behind the estimate", _METHODS
    ),
    Reported(
        f"{ESTIMATED}effective_sample_size",
        "episodes",
        "number of equally weighted episodes with the same information, (sum w)² / sum w² of the "
        "importance weights w of whole episodes; if it is small, the estimate is unreliable",
        f"{_METHODS} with importance weights",
    ),
    Reported(
        f"{ESTIMATED}feature_<number>",
        "",
        "how much actions change if this number of the observation is replaced by another step's",
        f"{_METHODS} of the type `FeatureImportance`",
    ),
)
"""Of every algorithm that learns from data, with estimators."""

LEAGUE: tuple[Reported, ...] = (
    Reported("league/num_policies", "", "learners and frozen copies that played", _LEAGUE),
    Reported(
        f"league/{MODULE}/elo",
        "Elo",
        "rating of a learner, fitted to the league's pay-offs (Bradley and Terry, 1952); the "
        "first copy of the league's first learner has 1000. It does not represent cycles such as "
        "rock, paper, scissors",
        _LEAGUE,
    ),
    Reported(
        f"league/{MODULE}/win_rate",
        "",
        "share of its last `win_rate_games` games against others that a learner won since it was "
        "last frozen; a draw is half a win; 0.5 before the first game",
        _LEAGUE,
    ),
    Reported(f"league/{MODULE}/num_copies", "", "frozen copies of a learner", _LEAGUE),
    Reported(
        f"league/{MODULE}/against/<opponent>",
        "",
        "share of games that a learner has won against this opponent, with lower weights for "
        "older games (`game_decay`) and two added draws: its row of the pay-off matrix, with the "
        "other learners and the last 20 copies",
        _LEAGUE,
    ),
)
"""Of every algorithm with self-play."""

_INTRINSIC = "`exploration_config` of the type "
_ANY_INTRINSIC = f"{_INTRINSIC}Curiosity, RND or Counts"
_NETWORKS = f"{_INTRINSIC}Curiosity or RND"


def _of_bonus(name: str, unit: str, meaning: str, when: str = _ANY_INTRINSIC) -> Reported:
    return Reported(f"learner/{MODULE}/curiosity/{name}", unit, meaning, when)


INTRINSIC: tuple[Reported, ...] = (
    _of_bonus(
        "bonus_mean",
        "reward",
        "mean bonus added to a step's reward, over the last experience; with `intrinsic_gamma` "
        "the mean bonus that its own value function learned from, times eta",
    ),
    _of_bonus(
        "intrinsic_share",
        "",
        "sum of the bonuses divided by their sum with the absolute rewards of the environment; 1 "
        "means that all rewards were bonuses",
    ),
    _of_bonus("curr_eta", "", "`eta` at this environment step"),
    _of_bonus(
        "states_visited",
        "states",
        "different states so far in the training data; with a replay buffer the mean over the "
        "iteration's updates",
        f"{_ANY_INTRINSIC} in a Discrete observation space, Counts in any",
    ),
    _of_bonus(
        "inverse_loss",
        "nats",
        "error of the inverse model about actions: cross-entropies; for continuous actions half "
        "the squared errors",
        f"{_INTRINSIC}Curiosity",
    ),
    _of_bonus(
        "forward_loss",
        "",
        "mean of |f(phi(s), a) - phi(s')|² / 2 over the gradient steps",
        f"{_INTRINSIC}Curiosity",
    ),
    _of_bonus(
        "predictor_loss",
        "",
        "mean squared error of the predictor of random features",
        f"{_INTRINSIC}RND",
    ),
    _of_bonus(
        "vf_loss",
        "",
        "mean of (V - v)² of the value function of bonuses",
        "`intrinsic_gamma`",
    ),
    _of_bonus("grad_norm", "", "L2 norm of the gradient of the networks of the bonus", _NETWORKS),
)
"""Of every algorithm that explores by rewards for what is new."""

_MANY = "an environment of several agents"


def _of_agents(within: str, which: str, when: str) -> tuple[Reported, ...]:
    """Return the metrics of agents' returns.

    Args:
        within: What their names begin with.
        which: Of which episodes they are.
        when: See `Reported`.
    """
    return (
        Reported(
            f"{within}module/{MODULE}/episode_return_mean",
            "reward",
            f"mean return of an agent with this policy, over {which}",
            when,
        ),
        Reported(
            f"{within}module/{MODULE}/episode_return_min",
            "reward",
            "the least of these returns",
            when,
        ),
        Reported(
            f"{within}module/{MODULE}/episode_return_max",
            "reward",
            "the greatest of these returns",
            when,
        ),
        Reported(
            f"{within}agent/{AGENT}/episode_return_mean",
            "reward",
            f"mean return of this agent over {which}",
            when,
        ),
    )


SEVERAL_AGENTS: tuple[Reported, ...] = (
    Reported(
        "num_agent_steps_sampled_lifetime",
        "agent steps",
        "actions of agents since the trial began, including those of hand-written policies",
        _MANY,
    ),
    *_of_agents("", "the training episodes of the window", _MANY),
    *_of_agents("evaluation/", "the last evaluation's episodes", f"{_EVALUATED}, {_MANY}"),
)
"""Of every algorithm in an environment of several agents, once an episode has ended."""

TUNES: tuple[Reported, ...] = (
    Reported("training_iteration", "", "results so far, one for each call of `train()`"),
    Reported("time_this_iter_s", "s", "wall-clock time of this call, evaluations included"),
    Reported("time_total_s", "s", "the sum of these over the trial's life, pauses left out"),
    Reported("time_since_restore", "s", "the same since the trial was last loaded or begun"),
    Reported("iterations_since_restore", "", "results since the trial was last loaded or begun"),
)
"""What Tune adds to the results of any trainable, besides ids, host, date and the settings."""

SEEDS: tuple[Reported, ...] = (
    Reported(
        "seeds/<objective>/low",
        "as the objective",
        "lower end of the 95 % percentile bootstrap interval of the interquartile mean, which is "
        "the value under the objective's own key",
    ),
    Reported("seeds/<objective>/high", "as the objective", "upper end of it"),
    Reported("seeds/<objective>/min", "as the objective", "the least over the seeds"),
    Reported("seeds/<objective>/max", "as the objective", "the greatest over the seeds"),
    Reported("seed_<seed>/<objective>", "as the objective", "the objective's value with this seed"),
    Reported(
        "seed_<seed>/num_env_steps_sampled_lifetime",
        "env steps",
        "environment steps sampled with this seed",
    ),
    Reported("num_seeds", "", "seeds of the trial"),
    Reported("median_seed", "", "the seed with the median objective: its policy is the trial's"),
)
"""What a trial of several seeds (`seeds: 5`) adds; every other metric is the mean over seeds."""
