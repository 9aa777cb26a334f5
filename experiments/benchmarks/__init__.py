"""PPO on CartPole against RLlib, Stable-Baselines3 and a bare loop; see README.md."""
