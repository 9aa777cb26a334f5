"""PPO, DQN and SAC against RLlib, Stable-Baselines3 and bare loops; see README.md."""
