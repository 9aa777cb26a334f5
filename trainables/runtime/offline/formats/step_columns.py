"""The columns that a file of steps may have: ours, and RLlib's of both generations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainables.core.data.spaces import PLAIN, leaf_keys
from trainables.core.errors import ConfigError
from trainables.core.suggestions import suggestion
from trainables.runtime.offline.bounds import check_num_columns
from trainables.runtime.offline.checks import Place
from trainables.runtime.offline.episode import DataSpaces
from trainables.runtime.offline.read_options import ColumnNames

# Ours first, then RLlib's newer name, then its older one.
NAMES: dict[str, tuple[str, ...]] = {
    "obs": ("obs", "observation", "observations"),
    "action": ("action", "actions"),
    "reward": ("reward", "rewards"),
    "terminated": ("terminated", "terminateds"),
    "truncated": ("truncated", "truncateds"),
    "done": ("done", "dones"),
    "next_obs": ("next_obs", "new_obs"),
    "logp": ("logp", "action_logp"),
    "episode_id": ("episode_id", "eps_id"),
    "t": ("t",),
    "agent_id": ("agent_id", "agent_index"),
    "module_id": ("module_id", "policy_id"),
}
_HINTS = {
    "obs": ", or a column 'obs/<feature>' for each feature (in pandas: df.rename(columns={'price': "
    "'obs/price'})), or input_config={'obs_columns': […]}, a list of the features",
    "action": ", or input_config={'action_column': …}",
    "reward": ", or input_config={'reward_column': …}",
    "terminated": ", or 'truncated' or 'done'; in pandas, where rows of each episode are whole and "
    "in order: df['truncated'] = ~df['<id of the episode>'].duplicated(keep='last')",
}
TREES = ("obs", "action", "next_obs")  # a column each, or one for each leaf of a nested space


def canonical(name: str) -> str | None:
    """Return our name of a column that may have RLlib's; None: no column of steps is called so."""
    return next((ours for ours, names in NAMES.items() if name in names), None)


def known_columns(names: Sequence[str]) -> set[str]:
    """Return our names of columns that are to be compressed.

    Raises:
        ConfigError: for one that is no column.
    """
    known = [name for alike in NAMES.values() for name in alike]
    for name in names:
        if canonical(name) is None:
            raise ConfigError(
                f"output_compress_columns={list(names)!r}: no column is called {name!r}; columns: "
                f"{[*NAMES]}{suggestion(name, known)}"
            )
    return {ours for ours in map(canonical, names) if ours is not None}


class StepColumns:
    """Which of a file's columns is what.

    Args:
        columns: The names of all of them.
        file: The file, for messages.
        given: What some are called, of a table; None: of other files, whose names are fixed.

    Raises:
        DataError: if one that is needed is missing.

    Attributes:
        features: The columns that make up `obs`, a number each; empty: it is there as such.
    """

    def __init__(self, columns: Sequence[str], file: str, given: ColumnNames | None = None):
        check_num_columns(len(columns), file)
        self._all, self._names, self._file, self._given = list(columns), columns, file, given
        if len({*columns}) < len(columns):
            twice = next(name for name in columns if self._all.count(name) > 1)
            raise Place(file, 0, twice).error("there are several columns of that name")
        self._found: dict[str, str] = {}
        self.features: tuple[str, ...] = ()
        if given is not None:
            self._take_given(given)
        roots = {column.split("/")[0] for column in self._all}
        for ours, names in NAMES.items():
            for name in names if ours not in self._found else ():
                if name in roots:
                    self._found[ours] = name
                    break
        for needed in ("obs", "action", "reward"):
            if needed not in self._found:
                raise self._missing(needed)
        if not self._found.keys() & {"terminated", "truncated", "done"}:
            raise self._missing("terminated")

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __contains__(self, ours: str) -> bool:
        return ours in self._found

    def __getitem__(self, ours: str) -> str:
        return self._found[ours]

    def of_leaves(self, ours: str, spaces: DataSpaces) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Return the column of each leaf, by path, and the fields that lead to it within.

        Args:
            ours: `obs`, `action` or `next_obs`.
            spaces: What is in them.

        Raises:
            DataError: if there is none.
        """
        space = spaces.action if ours == "action" else spaces.observation
        name = self[ours]
        found: dict[str, tuple[str, tuple[str, ...]]] = {}
        leaves = leaf_keys(space)
        check_num_columns(len(leaves), f"{self._file}, column {name!r}")
        for path, keys in leaves.items():
            fields = tuple(map(str, keys))
            if path == PLAIN and name in self._all:
                found[path] = (name, ())
            elif path != PLAIN and f"{name}/{path}" in self._all:
                found[path] = (f"{name}/{path}", ())
            elif path != PLAIN and name in self._all:
                found[path] = (name, fields)
            else:
                column = name if path == PLAIN else f"{name}/{path}"
                raise Place(self._file, 0, column).error(
                    f"the column is missing, which {space} needs; columns: {self._all}"
                )
        return found

    def leaf_columns(self, ours: str) -> list[str]:
        """Return all the columns that are `obs`, `action` or `next_obs`, or a leaf of it."""
        name = self._found.get(ours)
        return [each for each in self._all if each == name or each.startswith(f"{name}/")]

    def _take_given(self, given: ColumnNames) -> None:
        """Note which columns are called otherwise; several features become one column, `obs`."""
        named = {"action": given.action, "reward": given.reward, "episode_id": given.episode}
        found = {ours: name for ours, name in named.items() if name}
        for name in (*given.obs, *found.values()):
            if name not in self._all:
                raise Place(self._file, 0, name).error(
                    f"the column is missing, which input_config names{suggestion(name, self._all)};"
                    f" columns: {self._names}"
                )
        if len(given.obs) > 1:
            self.features = given.obs
            self._all = [name for name in self._all if name.split("/")[0] != "obs"] + ["obs"]
        if given.obs:
            found["obs"] = "obs" if self.features else given.obs[0]
        self._found = found

    def _missing(self, ours: str) -> Exception:
        names = " or ".join(map(repr, NAMES[ours]))
        hint = "" if self._given is None else _HINTS.get(ours, "")
        return Place(self._file, 0, ours).error(
            f"the column is missing; needed: a column {names}{hint}; columns: {self._names}"
        )
