"""SearchGroups: which process works on which trials; the group of a killed process is continued by another one."""

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
    """Trials that one process runs together.

    Attributes:
        path: folder of the group; its lock says that a process works on it.
        numbers: numbers of its trials.
    """

    path: Path
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchGroups:
    """The groups of a search.

    Attributes:
        folder: folder of the search.
        study: its study.
        request: settings of the trials.
        trials: total number of trials to run.
        size: largest number of trials in a group.
        alone: whether all trials of the study belong to this folder, not to other machines.
    """

    folder: Path
    study: optuna.Study
    request: SearchRequest
    trials: int
    size: int
    alone: bool

    @contextmanager
    def next(self) -> Iterator[Group | None]:
        """A group for this process alone: an abandoned one, or a new one; None if there are enough trials.

        The group stays locked until the context is left.
        """
        with ExitStack() as locks:
            with lock_folder(self.folder, wait=True):  # so that two processes do not begin the same trials
                group = self._abandoned(locks) or self._new(locks)
            yield group

    def _abandoned(self, locks: ExitStack) -> Group | None:
        """A group with unfinished trials on which no process works any more."""
        unfinished = set(running(all_trials(self.study)))
        for path in self._paths():
            group = Group(path, tuple(read_json(path / GROUP)["trials"]))
            if unfinished & set(group.numbers):
                try:
                    locks.enter_context(lock_folder(path))
                except BertVisionError:
                    continue  # another process works on it
                if set(running(all_trials(self.study))) & set(group.numbers):  # unless it was finished meanwhile
                    return group
        return None

    def _new(self, locks: ExitStack) -> Group | None:
        """A group of new trials; None if there are enough."""
        if self.alone:
            known = {number for path in self._paths() for number in read_json(path / GROUP)["trials"]}
            for number in set(running(all_trials(self.study))) - known:
                give_up(self.study, number)  # a process was killed before it wrote the group of this trial
        count = min(self.size, self.trials - len(all_trials(self.study)))
        if count < 1:
            return None
        numbers = ask_trials(self.study, self.request.space, count, self.request.seed)
        path = self.folder / GROUPS / f"{numbers[0]:04}"
        write_json(path / GROUP, {"trials": numbers})
        locks.enter_context(lock_folder(path))
        return Group(path, tuple(numbers))

    def _paths(self) -> list[Path]:
        return sorted(path.parent for path in self.folder.glob(f"{GROUPS}/*/{GROUP}"))
