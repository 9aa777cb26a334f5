"""A2C learns, from one gradient step a rollout."""

from learning_runs import greedy_return, train


def test_cartpole() -> None:
    algo, result = train("a2c/cartpole", seed=0, num_env_steps=80_000)
    assert result["episode_return_mean"] >= 150
    assert greedy_return(algo) >= 400


def test_a_policy_that_cannot_learn_fails_this_test() -> None:
    """The same run without gradients stays where a random policy is."""
    _, result = train("a2c/cartpole", seed=0, num_env_steps=20_000, lr=0.0)
    assert result["episode_return_mean"] < 50
