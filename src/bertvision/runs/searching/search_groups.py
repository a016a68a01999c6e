"""SearchGroups: who works on which trials; a group that a killed process left behind is taken up by the next."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import optuna

from bertvision.atomic import write_json
from bertvision.errors import BertVisionError
from bertvision.lock import lock_folder
from bertvision.runs.searching.search_request import SearchRequest
from bertvision.runs.searching.search_study import all_trials, ask_trials, give_up, running
from bertvision.tasks.files import read_json

GROUPS, GROUP = "groups", "group.json"


@dataclass(frozen=True, slots=True)
class Group:
    """Trials that one process works on together.

    Attributes:
        path: its folder.
        numbers: numbers of its trials.
    """

    path: Path
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchGroups:
    """The groups of a search.

    Attributes:
        folder: folder of the search.
        study: its trials.
        request: what they depend on.
        trials: how many there are to be in all.
        size: most trials of a group.
        alone: whether no other folder has trials of the study.
    """

    folder: Path
    study: optuna.Study
    request: SearchRequest
    trials: int
    size: int
    alone: bool

    @contextmanager
    def next(self) -> Iterator[Group | None]:
        """A group for this process alone: one that was left behind, or a new one; None if there are trials enough."""
        with ExitStack() as held:
            with lock_folder(self.folder, wait=True):  # nobody else counts meanwhile
                group = self._left_behind(held) or self._new(held)
            yield group

    def _left_behind(self, held: ExitStack) -> Group | None:
        unfinished = set(running(all_trials(self.study)))
        for path in self._paths():
            group = Group(path, tuple(read_json(path / GROUP)["trials"]))
            if unfinished & set(group.numbers):
                try:
                    held.enter_context(lock_folder(path))
                except BertVisionError:
                    continue  # somebody works on it
                if set(running(all_trials(self.study))) & set(group.numbers):  # nobody ended it meanwhile
                    return group
        return None

    def _new(self, held: ExitStack) -> Group | None:
        if self.alone:
            known = {number for path in self._paths() for number in read_json(path / GROUP)["trials"]}
            for number in set(running(all_trials(self.study))) - known:
                give_up(self.study, number)  # the kill came before its group was written
        count = min(self.size, self.trials - len(all_trials(self.study)))
        if count < 1:
            return None
        numbers = ask_trials(self.study, self.request.space, count, self.request.seed)
        path = self.folder / GROUPS / f"{numbers[0]:04}"
        write_json(path / GROUP, {"trials": numbers})
        held.enter_context(lock_folder(path))
        return Group(path, tuple(numbers))

    def _paths(self) -> list[Path]:
        return sorted(path.parent for path in self.folder.glob(f"{GROUPS}/*/{GROUP}"))
