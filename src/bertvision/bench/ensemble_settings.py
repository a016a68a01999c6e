"""EnsembleSettings: the settings of cells of the kind `ensemble`."""

from dataclasses import dataclass, fields

from bertvision.bench.heads_settings import WAYS, check_ways, fitting_ways
from bertvision.bench.settings import TaskSettings, TuneSettings
from bertvision.errors import BertVisionError
from bertvision.runs.judging.members import FEWEST_MEMBERS
from bertvision.tasks.load import find_task


@dataclass(frozen=True, slots=True, kw_only=True)
class EnsembleSettings(TaskSettings):
    """An ensemble of several tuned runs.

    Attributes:
        of: settings of the tuned runs, whose last snapshots are the members. The ensemble takes its `TaskSettings`
            from them.
        ensembles: ways of joining them, see `WAYS`.
    """

    of: tuple[TuneSettings, ...] = ()
    ensembles: tuple[str, ...] = WAYS

    def __post_init__(self) -> None:
        """Copy the `TaskSettings` of the tuned runs."""
        for one in fields(TaskSettings) if self.of else ():
            object.__setattr__(self, one.name, getattr(self.of[0], one.name))

    @property
    def reads(self) -> tuple[TuneSettings, ...]:
        """Settings of the tuned runs that the cell depends on."""
        return self.of

    @property
    def labels(self) -> list[str]:
        """Names of the members: their `learn`, followed by 2, 3, … where a name occurs again."""
        learns = [one.learn for one in self.of]
        counts = [learns[: number + 1].count(learn) for number, learn in enumerate(learns)]
        return [learn if count == 1 else f"{learn} {count}" for learn, count in zip(learns, counts, strict=True)]

    @property
    def models(self) -> list[str]:
        """Names of the models in the result: members and ensembles."""
        return [*self.labels, *fitting_ways(self.ensembles, find_task(self.task).kind)]

    def check(self) -> None:
        """Refuse settings that cannot work, before anything is measured.

        Raises:
            BertVisionError: fewer runs than an ensemble needs, one of them twice, or with different examples or
                encoders; no way of joining them that fits the task; or `greedy` without held-out examples.
        """
        twice = any(one in self.of[:number] for number, one in enumerate(self.of))
        if len(self.of) < FEWEST_MEMBERS or twice:
            again = ", one of them twice" if twice else ""
            raise BertVisionError(
                f"of names {len(self.of)} cells{again}; at least {FEWEST_MEMBERS} different ones are expected."
            )
        for one in fields(TaskSettings):
            values = list(dict.fromkeys(getattr(tuned, one.name) for tuned in self.of))
            if len(values) > 1:
                raise BertVisionError(f"of names cells of {one.name} {values[0]!r} and {values[1]!r}; one is expected.")
        check_ways(self.ensembles)
        ways = fitting_ways(self.ensembles, find_task(self.task).kind)
        if not ways:
            raise BertVisionError(
                f"ensembles is {list(self.ensembles)}; some of {', '.join(WAYS)} are expected, of scores mean."
            )
        if "greedy" in ways and not self.held_out:
            raise BertVisionError(
                "ensembles has greedy, and held_out is 0: nothing is left to choose by. Leave it out."
            )
