"""The episodes of recorded data, as estimators look at them."""

from __future__ import annotations

import numpy as np

from trainables.core.config.config import AlgorithmConfig
from trainables.core.errors import ConfigError
from trainables.core.estimation.episodes import RecordedEpisodes
from trainables.core.logs import logger
from trainables.core.policy.policy import Policy
from trainables.runtime.offline.data_rows import DataRows
from trainables.runtime.offline.data_set import DataSet, load_data_set
from trainables.runtime.offline.episode import DataError, DataSpaces
from trainables.runtime.offline.inputs import find_source
from trainables.runtime.offline.readers import input_creator, reader_name


def load_recorded_episodes(config: AlgorithmConfig, policy: Policy) -> RecordedEpisodes:
    """Return the episodes that a config's estimates are made from.

    Args:
        config: Of an algorithm, with `off_policy_estimation_methods`.
        policy: Whose observations and actions they are.

    Raises:
        ConfigError: if there are no files, or they hold no episode from its beginning.
    """
    items: list[str] = []
    for item in config.estimation_inputs:
        if input_creator(item) is not None:
            raise ConfigError(
                f"off_policy_estimation_methods: {reader_name(item)} gives batches, not whole "
                "episodes; allowed: evaluation_config={'input_': files}"
            )
        items += [item] if isinstance(item, str) else list(item)
    own = config.evaluation_config
    source = find_source(
        items[0] if len(items) == 1 else items,
        own.get("input_config", config.input_config),
        actions_normalized=own.get(
            "actions_in_input_normalized", config.actions_in_input_normalized
        ),
        other_keys=True,
    )
    data = load_data_set(source, DataSpaces(policy.observation_space, policy.action_space))
    return episodes_of(data, policy, config.gamma, whole=config.ope_split_batch_by_episode)


def episodes_of(
    data: DataSet, policy: Policy, gamma: float, *, whole: bool = True
) -> RecordedEpisodes:
    """Return the episodes of a data set.

    Args:
        data: What was recorded.
        policy: Whose observations and actions they are.
        gamma: Discount factor.
        whole: Whether an episode is one; else each step is, and nothing follows it.

    Raises:
        DataError: if no episode is there from its beginning.
    """
    rows, records = DataRows(data, policy), data.episodes
    if whole:
        begin = np.flatnonzero(records["first_step"] == 0)
        if not len(begin):
            raise DataError(
                f"{data.name}: the beginning of every episode is missing, and what a policy is "
                "worth counts from there; allowed: whole episodes, or "
                "ope_split_batch_by_episode=False"
            )
        cut = ~(records["terminated"] | records["truncated"])[begin]
        if len(begin) < len(records) or cut.any():
            logger.warning(
                "%s: %d of %d pieces of episodes begin amid one and are left out; %d others end "
                "amid one, where importance sampling takes them to be over",
                *(data.name, len(records) - len(begin), len(records), int(cut.sum())),
            )
    else:
        begin = np.arange(len(records))
    lengths = records["length"][begin].astype(np.int64)
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    ids = np.repeat(records["first_row"][begin], lengths) + within
    columns = data.columns
    return RecordedEpisodes(
        name=data.name,
        rows=rows,
        ids=ids,
        lengths=lengths if whole else np.ones(len(ids), np.int64),
        rewards=columns["rewards"].take(ids).astype(np.float64),
        terminated=columns["terminated"].take(ids) if whole else np.ones(len(ids), bool),
        logp=columns["logp"].take(ids).astype(np.float64),
        gamma=gamma,
    )
