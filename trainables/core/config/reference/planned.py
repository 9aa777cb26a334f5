"""What is not there yet, or will not come, by the names that people look for it under.

One table: imports, Tune's registry, specs, the command line and settings all answer from it.
"""

from __future__ import annotations

from trainables.core.config.reference.other_libraries import ALGORITHMS

# What comes later, by the names of settings.
OFFLINE_EVALUATION = "offline evaluation"

# Classes of the reference that have no namesake here, each with what takes its place.
FEATURES_ABSENT: dict[str, str] = {
    **dict.fromkeys(
        ("Curiosity", "ICM", "IntrinsicCuriosityModel"),
        "it is a type of exploration: exploration_config={'type': 'Curiosity'}",
    ),
    "RND": "it is a type of exploration: exploration_config={'type': 'RND'}",
    **dict.fromkeys(
        ("JsonReader", "DatasetReader", "OfflineData"),
        "give files, or a callable, as input_ of .offline_data()",
    ),
    "MultiAgentBatch": "what a policy learns from is a Batch, one for each policy",
    **dict.fromkeys(
        ("JsonWriter", "DatasetWriter"),
        "set output of .offline_data(), or run `tunescape record`",
    ),
}

# Algorithms that will not come and that nothing here comes near to, each with the reason. Those
# that something comes near to are in `other_libraries.ALGORITHMS`.
ALGORITHMS_ABSENT: dict[str, str] = {
    "MADDPG": "no algorithm learns action values of all agents together; nearest: PPO, with "
    ".multi_agent(centralized_critic=True)",
    **dict.fromkeys(("Dreamer", "DreamerV2", "PlaNet"), "nearest: DreamerV3, the present one"),
    **dict.fromkeys(
        ("AlphaZero", "MuZero", "LeelaChessZero"), "no algorithm searches a tree of actions"
    ),
    **dict.fromkeys(("MAML", "MBMPO"), "no algorithm learns over a distribution of tasks"),
    **dict.fromkeys(("BanditLinUCB", "BanditLinTS", "Bandit"), "no algorithm is for bandits alone"),
    "SlateQ": "no algorithm is for slates",
}


def whats_become_of(name: str) -> str | None:
    """What becomes of an algorithm or feature that is not here, a sentence; None if unheard of.

    Args:
        name: As people write it: `TD3`, `planet`, `QR-DQN`, `TD3Config`.
    """
    for called in (name, name.removesuffix("Config")):
        for known, why in (ALGORITHMS_ABSENT | FEATURES_ABSENT).items():
            if _letters(known) == _letters(called):
                return f"{known} is not in Tunescape: {why}"
        for known, ours in ALGORITHMS.items():
            if _letters(known) == _letters(called):
                return f"{known} is not in Tunescape; nearest: {ours}"
    return None


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name)).lower()
