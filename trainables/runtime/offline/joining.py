"""Rows of steps as files hold them, joined to episodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from trainables.core.logs import logger
from trainables.runtime.offline.checks import Place
from trainables.runtime.offline.episode import Episode

Key = tuple[str, str]
"""An episode, and the agent whose rows they are."""

_MOST_BYTES = 256 * 2**20  # of rows that wait for more of their episode
_NUM_GIVEN = 4096  # episodes that are remembered when they have been given


@dataclass(frozen=True)
class Steps:
    """Rows of a file, in its order: of one episode or of several.

    Attributes:
        obs: What was seen before each action, `[N, *shape]`.
        actions: In the environment's terms, `[N, *shape]`.
        rewards: `[N]`, float32.
        terminated: `[N]`, bool.
        truncated: `[N]`, bool.
        logp: `[N]`, float32, NaN where nobody noted it.
        starts: The first row of each run, `[R]`: of consecutive steps of one episode; see
            `run_starts`.
        first_steps: The number of each run's first row within its episode, `[R]`; None if the file
            does not tell.
        ids: The episode of each run; None if the file does not tell.
        agents: The agent of each run; None if the file does not tell.
        next_obs: What each run's last action led to, `[R, *shape]`.
        has_next: Whether that is known, `[R]`.
        file: The file.
        row: The row of the first one within it.
        modules: The module that acted in each run; None if the file does not tell.
    """

    obs: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    logp: np.ndarray
    starts: np.ndarray
    first_steps: np.ndarray | None
    ids: list[str] | None
    agents: list[str] | None
    next_obs: np.ndarray
    has_next: np.ndarray
    file: str
    row: int
    modules: list[str] | None = None


def run_starts(ended: np.ndarray, ids: np.ndarray | None, steps: np.ndarray | None) -> np.ndarray:
    """Return the first row of each run of consecutive steps of one episode, `[R]`.

    Args:
        ended: Whether an episode ends with each row, `[N]`.
        ids: Numbers that tell episodes apart, `[N]`.
        steps: The number of each row within its episode, `[N]`.
    """
    begins = np.ones(len(ended), np.bool_)
    begins[1:] = ended[:-1]
    if ids is not None:
        begins[1:] |= ids[1:] != ids[:-1]
    if steps is not None:
        begins[1:] |= steps[1:] != steps[:-1] + 1
    return np.flatnonzero(begins)


@dataclass(frozen=True)
class _Given:
    """An episode that is not waited for any more."""

    next_step: int
    how: str  # "terminated" or "truncated"; empty: it has not ended


@dataclass
class _Begun:
    """An episode that has not ended yet: pieces of it, one after another."""

    first_step: int
    file: str
    row: int
    module: str
    pieces: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    num_rows: int = 0
    nbytes: int = 0
    last_file: str = ""
    next_obs: np.ndarray | None = None  # [1, *shape]

    def may_lead_to(self, steps: Steps, row: int, module: str) -> bool:
        """Return whether a row of the same name, but of no number, may be the next one.

        Within a file it is, if the same module acted. Names of several files may be alike: there
        it must have been led to.
        """
        if self.module != module:
            return False
        if self.last_file == steps.file or self.next_obs is None:
            return self.last_file == steps.file
        return bool(np.array_equal(self.next_obs[0], steps.obs[row]))


class EpisodeJoiner:
    """Joins runs of rows to episodes, also those that lie apart, in several files.

    A run goes on with an episode if it has the same id, and agent, and its steps follow. What waits
    for more of its episode is bounded: beyond `most_bytes` the one that waits longest is given as
    it is, and what comes of it later as an episode of its own, with its `first_step`.

    Where nobody noted what an episode's last action led to: if it was truncated there, the
    observation before the action stands for the one after it, so that algorithms bootstrap from the
    value of the last row. If its recording ends amid it, the last row is left out: it only says
    what the action before it led to.

    Attributes:
        num_ends: Rows at which an episode terminated or was truncated.
    """

    def __init__(self, most_bytes: int = _MOST_BYTES):
        self.num_ends = self._num_left_out = self._num_repeated = 0
        self._most, self._nbytes = most_bytes, 0
        self._begun: dict[Key, _Begun] = {}
        self._given: dict[Key, _Given] = {}  # the last ones

    def add(self, steps: Steps) -> Iterator[Episode]:
        """Take rows; yield the episodes that are whole with them.

        Raises:
            DataError: if an episode has rows out of order, or goes on after its end.
        """
        stops = np.append(steps.starts[1:], len(steps.obs))
        ended = (steps.terminated | steps.truncated)[stops - 1]
        self.num_ends += int(ended.sum())
        for run, (start, stop) in enumerate(
            zip(steps.starts.tolist(), stops.tolist(), strict=True)
        ):
            key = (
                "" if steps.ids is None else steps.ids[run],
                "" if steps.agents is None else steps.agents[run],
            )
            yield from self._extend(steps, run, key, start, stop)
            if ended[run]:
                yield from self._give(key)
        while self._nbytes > self._most:
            yield from self._give(next(iter(self._begun)))

    def end_file(self, *, has_steps: bool) -> Iterator[Episode]:
        """Yield what goes on in no further file.

        Args:
            has_steps: Whether the file says which rows go on with which: by names of episodes,
                and by numbers of rows or by what actions led to.
        """
        if not has_steps:
            yield from self.finish()

    def finish(self) -> Iterator[Episode]:
        """Yield what has not ended."""
        for key in [*self._begun]:
            yield from self._give(key)

    def tell(self, name: str, column: str) -> None:
        """Log what was done for want of a last observation, and how to do without.

        Args:
            name: The source.
            column: What the column with next observations is called in it.
        """
        if self._num_repeated:
            logger.warning(
                "%s: %d episodes are truncated, and nothing says what their last action led to: "
                "they bootstrap from the value of their last row's observation; a column %r, "
                "needed in that row only, tells better",
                *(name, self._num_repeated, column),
            )
        if self._num_left_out:
            logger.warning(
                "%s: the last rows of %d episodes are left out: they neither terminate nor are "
                "truncated there, and nothing says what the action led to; give a column %r, or "
                "'truncated' where a limit ended them",
                *(name, self._num_left_out, column),
            )

    def _extend(self, steps: Steps, run: int, key: Key, start: int, stop: int) -> Iterator[Episode]:
        first = None if steps.first_steps is None else int(steps.first_steps[run])
        module = "" if steps.modules is None else steps.modules[run]
        begun = self._begun.get(key)
        if steps.ids is not None:
            self._check(begun, key, first, Place(steps.file, steps.row + start))
        if begun is not None and first not in (None, begun.first_step + begun.num_rows):
            yield from self._give(key)
            begun = None
        if begun is not None and first is None and not begun.may_lead_to(steps, start, module):
            yield from self._give(key)
            begun = None
        if begun is None:
            begun = _Begun(first or 0, steps.file, steps.row + start, module)
            self._begun[key] = begun
        rows = slice(start, stop)
        columns = (steps.obs, steps.actions, steps.rewards, steps.logp)
        flags = (steps.terminated[stop - 1 : stop], steps.truncated[stop - 1 : stop])
        ends = bool(flags[0][0] or flags[1][0])
        # What is given at once is not copied twice; what waits must not keep all rows alive.
        piece = tuple(each[rows] if ends else each[rows].copy() for each in columns)
        begun.pieces.append((*piece, *flags))
        begun.num_rows += stop - start
        begun.last_file = steps.file
        added = sum(each.nbytes for each in piece)
        begun.nbytes += added
        self._nbytes += added
        begun.next_obs = steps.next_obs[run : run + 1].copy() if steps.has_next[run] else None

    def _check(self, begun: _Begun | None, key: Key, first: int | None, at: Place) -> None:
        """Raise if a run whose first step is `first` cannot be of the episode that it names."""
        name, given = key[0], self._given.get(key)
        if not first:  # 0: another episode of the same name, e.g. another writer's
            return
        if begun is not None and first < begun.first_step + begun.num_rows:
            raise at.of("t").error(
                f"step {first} of the episode {name!r} comes after step "
                f"{begun.first_step + begun.num_rows - 1}; needed: steps in order, each once"
            )
        if begun is None and given is not None and given.how and first == given.next_step:
            raise at.error(
                f"the episode {name!r} goes on with step {first}, but step {first - 1} has "
                f"{given.how} it"
            )

    def _give(self, key: Key) -> Iterator[Episode]:
        begun = self._begun.pop(key)
        self._nbytes -= begun.nbytes
        obs, actions, rewards, logp, terminated, truncated = zip(*begun.pieces, strict=True)
        is_terminated, is_truncated = bool(terminated[-1][0]), bool(truncated[-1][0])
        how = "terminated" if is_terminated else "truncated" if is_truncated else ""
        self._given[key] = _Given(begun.first_step + begun.num_rows, how)
        if len(self._given) > _NUM_GIVEN:
            del self._given[next(iter(self._given))]
        num = begun.num_rows
        last = begun.next_obs
        if last is None and how:
            last = obs[-1][-1:]  # nothing is made of it where a terminal state is worth 0
            self._num_repeated += is_truncated and not is_terminated
        elif last is None:
            last, num = obs[-1][:0], num - 1
            self._num_left_out += 1
            if num == 0:
                return
        noted = np.concatenate(logp)[:num]
        yield Episode(
            obs=np.concatenate([*obs, last]),
            actions=np.concatenate(actions)[:num],
            rewards=np.concatenate(rewards)[:num],
            terminated=is_terminated,
            truncated=is_truncated,
            logp=None if np.isnan(noted).all() else noted,
            episode_id=key[0],
            first_step=begun.first_step,
            file=begun.file,
            row=begun.row,
            module_id=begun.module,
            agent_id=key[1],
        )
