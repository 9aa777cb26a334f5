"""Names of Stable-Baselines3, CleanRL and old RLlib, and what they are called here.

Hints that errors end with: none of these names is accepted, since most of them mean something a
little different. `core.config.reference.compatibility` has the names that are accepted.
"""

from __future__ import annotations

from typing import NamedTuple


class Hint(NamedTuple):
    """What a setting of another library is here.

    Attributes:
        setting: Its name here, or `dict.name` of one inside a dict of settings; "" if none is it.
        note: What to mind when a value is taken over, or why there is no such setting.
        write: What to write, where the name alone does not say it.
    """

    setting: str
    note: str = ""
    write: str = ""


def _called(names: str, *hints: Hint) -> dict[str, tuple[Hint, ...]]:
    return dict.fromkeys(names.split(), hints)


def _nearest(names: str, ours: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), ours)


_STOP = (
    "a run's length is no setting of the algorithm: stop: {%s: …} in a spec, --stop or Tune's stop"
)
_INTENSITY = "e.g. 8 for batches of 32, one in every 4 steps"
_FRAGMENT = "or leave it 'auto' and set train_batch_size_per_learner to these steps x slots"
_EPSILON = "for good, or a schedule [[0, 1.0], [env step, 0.05]]; exploration_config has its parts"

# A setting's first hint that is a setting of the algorithm in question counts.
SETTINGS: dict[str, tuple[Hint, ...]] = {
    # Learning.
    **_called("learning_rate learn_rate step_size", Hint("lr")),
    **_called("anneal_lr", Hint("lr", "falling linearly to 0", "lr=[[0, 2.5e-4], [last step, 0]]")),
    **_called(
        "batch_size",
        Hint("minibatch_size", "what an iteration samples is train_batch_size_per_learner"),
        Hint("train_batch_size_per_learner"),
    ),
    **_called(
        "num_minibatches nminibatches",
        Hint("minibatch_size", "train_batch_size_per_learner divided by their number"),
    ),
    **_called("n_epochs update_epochs noptepochs train_pi_iters", Hint("num_epochs")),
    **_called(
        "n_steps",
        Hint("n_step"),
        Hint("rollout_fragment_length", _FRAGMENT),
    ),
    **_called(
        "num_steps nsteps rollout_steps sample_batch_size",
        Hint("rollout_fragment_length", _FRAGMENT),
    ),
    **_called("max_grad_norm grad_norm_clipping gradient_clip", Hint("grad_clip")),
    **_called("discount discount_factor", Hint("gamma")),
    **_called("gae_lambda lam", Hint("lambda_")),
    **_called("clip_range clip_coef clip_ratio cliprange clip_eps", Hint("clip_param")),
    **_called(
        "clip_range_vf clip_vloss",
        Hint("vf_clip_param", "it bounds the squared error, not how far the value moves"),
    ),
    **_called(
        "ent_coef entropy_coef entropy_coefficient",
        Hint("entropy_coeff"),
        Hint("initial_alpha", "it is learned, as 'auto' is there; alpha_lr=0 keeps it"),
    ),
    **_called(
        "vf_coef value_coef value_loss_coef",
        Hint(
            "vf_loss_coeff",
            "Stable-Baselines3's is of the squared error, CleanRL's of half of it",
        ),
    ),
    **_called(
        "target_kl",
        Hint("kl_target", "with use_kl_loss=True, a penalty; no epoch is stopped early"),
    ),
    **_called("normalize_advantage norm_adv", Hint("normalize_advantages")),
    **_called(
        "rollout_buffer_class rollout_buffer_kwargs",
        Hint("", "rollouts are plain columns [T, N]; a learner_connector changes them"),
    ),
    **_called("optimizer_class", Hint("optimizer.type")),
    **_called("use_rms_prop", Hint("optimizer.type", write="optimizer={'type': 'rmsprop'}")),
    **_called("rms_prop_eps adam_eps opt_eps", Hint("optimizer.eps")),
    **_called("weight_decay", Hint("optimizer.weight_decay")),
    # Learning from a replay buffer.
    **_called(
        "buffer_size memory_size replay_buffer_size replay_size",
        Hint("replay_buffer_config.capacity"),
    ),
    **_called("learning_starts update_after", Hint("num_steps_sampled_before_learning_starts")),
    **_called(
        "start_steps",
        Hint("random_warmup", "for num_steps_sampled_before_learning_starts environment steps"),
        Hint("exploration_config.random_timesteps"),
    ),
    **_called(
        "train_freq train_frequency gradient_steps policy_frequency update_every utd utd_ratio "
        "replay_ratio",
        Hint("training_intensity", _INTENSITY),
    ),
    **_called(
        "target_update_interval target_network_frequency target_network_update_interval",
        Hint("target_network_update_freq"),
    ),
    **_called("polyak", Hint("tau", "1 - polyak")),
    **_called("replay_buffer_class", Hint("replay_buffer_config.type")),
    **_called("replay_buffer_kwargs", Hint("replay_buffer_config")),
    **_called(
        "prioritized_replay",
        Hint(
            "replay_buffer_config.type",
            write="replay_buffer_config={'type': 'PrioritizedReplayBuffer'}",
        ),
    ),
    **_called("prioritized_replay_alpha per_alpha", Hint("replay_buffer_config.alpha")),
    **_called("prioritized_replay_beta per_beta", Hint("replay_buffer_config.beta")),
    **_called("prioritized_replay_eps per_eps", Hint("replay_buffer_config.eps")),
    **_called("optimize_memory_usage", Hint("", "it is always so: observations are stored once")),
    **_called("n_atoms", Hint("num_atoms")),
    **_called("q_lr qf_lr critic_learning_rate", Hint("critic_lr")),
    **_called("policy_lr pi_lr actor_learning_rate", Hint("actor_lr"), Hint("lr")),
    **_called("vf_lr value_lr", Hint("_lr_vf"), Hint("lr")),
    **_called("entropy_learning_rate", Hint("alpha_lr")),
    **_called("alpha", Hint("initial_alpha"), Hint("replay_buffer_config.alpha")),
    **_called("autotune", Hint("alpha_lr", "it is learned unless alpha_lr=0")),
    **_called("Q_model", Hint("q_model_config")),
    **_called("policy_model", Hint("policy_model_config")),
    **_called("optimization", Hint("actor_lr", "and critic_lr, alpha_lr")),
    **_called(
        "policy_delay target_policy_noise target_noise_clip",
        Hint("", "it is TD3's, and SAC has no counterpart"),
    ),
    # Exploration.
    **_called(
        "exploration_fraction",
        Hint("exploration_config.epsilon_timesteps", "the fraction times the run's steps"),
    ),
    **_called("exploration_initial_eps start_e", Hint("exploration_config.initial_epsilon")),
    **_called("exploration_final_eps end_e", Hint("exploration_config.final_epsilon")),
    **_called("epsilon_greedy eps_greedy", Hint("epsilon", _EPSILON)),
    **_called("action_noise", Hint("exploration_config.type")),
    **_called(
        "use_sde sde_sample_freq use_sde_at_warmup",
        Hint("", "there is no state-dependent exploration; noise on actions: exploration_config"),
    ),
    **_called("log_std_init", Hint("model.initial_log_std")),
    # Networks.
    **_called(
        "policy_kwargs net_arch hidden_sizes hidden_dim hidden_size ac_kwargs",
        Hint("model.fcnet_hiddens", write="model={'fcnet_hiddens': [64, 64]}"),
    ),
    **_called("activation activation_fn", Hint("model.fcnet_activation")),
    **_called("features_extractor_class", Hint("model.custom_model")),
    **_called("lstm_hidden_size", Hint("model.lstm_cell_size")),
    **_called(
        "policy", Hint("", "the networks follow from the spaces, and model={…} changes them")
    ),
    # Environments and processes.
    **_called("env_id env_name environment", Hint("env")),
    **_called("env_kwargs", Hint("env_config")),
    **_called(
        "n_envs num_envs nenvs",
        Hint("num_envs_per_env_runner", "times num_env_runners, if there are any"),
    ),
    **_called(
        "max_ep_len max_episode_steps",
        Hint("env_config", write="env_config={'max_episode_steps': …}"),
    ),
    **_called("capture_video render_eval", Hint("record_env")),
    **_called(
        "normalize norm_obs normalize_observations normalize_env",
        Hint("observation_filter", write="observation_filter='MeanStdFilter'"),
    ),
    **_called("norm_reward normalize_reward", Hint("clip_rewards", "rewards are not normalised")),
    **_called("device cuda use_cuda", Hint("num_gpus_per_learner")),
    **_called("n_eval_episodes", Hint("evaluation_duration")),
    **_called("eval_freq", Hint("evaluation_interval")),
    **_called("stats_window_size", Hint("metrics_num_episodes_for_smoothing")),
    # What is no setting of an algorithm.
    **_called(
        "total_timesteps n_timesteps num_timesteps timesteps max_steps total_steps",
        Hint("", _STOP % "num_env_steps_sampled_lifetime"),
    ),
    **_called("num_iterations n_iterations", Hint("", _STOP % "training_iteration")),
    **_called(
        "tensorboard_log", Hint("", "it is a key of the spec itself: loggers: [tensorboard]")
    ),
    **_called(
        "track wandb_project_name wandb_entity",
        Hint("", "MLflow tracks every sweep (key mlflow); W&B beside it: loggers: [wandb]"),
    ),
    **_called("save_freq", Hint("", "it is a key of the spec itself: checkpoint: {frequency: …}")),
    **_called("verbose", Hint("log_level")),
}

# Of the dicts of settings, by the setting that holds them: what keys of others are called in them.
INSIDE: dict[str, dict[str, str]] = {
    "model": {
        **dict.fromkeys(("net_arch", "hidden_sizes", "hidden_dim", "hiddens"), "fcnet_hiddens"),
        **dict.fromkeys(("activation", "activation_fn"), "fcnet_activation"),
        "ortho_init": "fcnet_initializer",
        "log_std_init": "initial_log_std",
        "share_features_extractor": "vf_share_layers",
        "features_extractor_class": "custom_model",
        "features_extractor_kwargs": "custom_model_config",
        "lstm_hidden_size": "lstm_cell_size",
    },
    "optimizer": {
        "class": "type",
        "epsilon": "eps",
        "adam_epsilon": "eps",
        "betas": "beta1",
        "alpha": "decay",
    },
    "replay_buffer_config": {"buffer_size": "capacity", "size": "capacity"},
}

_PG = "PPO with num_epochs=1 and minibatch_size=None"
_PRIORITIZED = "replay_buffer_config={'type': 'PrioritizedReplayBuffer'}"

# What comes nearest to an algorithm that is not here.
ALGORITHMS: dict[str, str] = {
    **_nearest("TD3 DDPG D4PG ApexDDPG REDQ DroQ CrossQ TQC", "SAC"),
    **_nearest("CRR DT TD3BC AWAC", "CQL"),
    **_nearest("A3C ACER", "IMPALA"),
    **_nearest("TRPO NPG ACKTR", "PPO, with use_kl_loss=True for a bound of the KL divergence"),
    **_nearest("PG VPG", _PG),
    **_nearest("REINFORCE", f"{_PG}, use_critic=False and use_gae=False"),
    **_nearest("PPO1 PPO2 PPG", "PPO"),
    **_nearest("RecurrentPPO PPOLSTM", "PPO with model={'use_lstm': True}"),
    **_nearest("MAPPO", "PPO, with .multi_agent(centralized_critic=True)"),
    **_nearest("AlphaStar", "PPO, with .multi_agent(league={…})"),
    **_nearest("MaskablePPO", "PPO; a Dict observation with the key action_mask masks actions"),
    **_nearest("DDPPO", "PPO with num_learners of 2 or more"),
    **_nearest("IMPACT", "APPO"),
    **_nearest("DDQN DoubleDQN", "DQN with double_q=True, its default"),
    **_nearest("DuelingDQN", "DQN with dueling=True, its default"),
    **_nearest("SimpleQ", "DQN with double_q=False and dueling=False"),
    **_nearest("C51", "DQN with num_atoms=51"),
    **_nearest("QRDQN IQN FQF", "DQN with num_atoms=51, which is C51"),
    **_nearest("Rainbow", f"DQN with noisy=True, num_atoms=51, n_step=3 and {_PRIORITIZED}"),
    **_nearest("ApexDQN Apex", f"DQN with num_env_runners of 1 or more and {_PRIORITIZED}"),
    **_nearest("R2D2 DRQN", "DQN with model={'use_lstm': True}"),
    **_nearest("VDN", "QMIX with mixer='vdn'"),
    **_nearest("ARS ES CMAES", "PPO; there is no algorithm without gradients"),
}

# Methods of an algorithm.
METHODS: dict[str, str] = {
    "learn": "train() is one iteration; tune.Tuner trains until a stop criterion",
    "predict": "use compute_single_action(obs)",
}
