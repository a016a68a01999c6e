"""The study of a search: Optuna, its database, its sampler and its pruners, behind one wall."""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import DBAPIError, IntegrityError, SQLAlchemyError
from typing_extensions import override

from bertvision.errors import BertVisionError, MissingExtraError
from bertvision.provenance import without_password
from bertvision.runs.searching.search_space import HEAD, Kind, SearchSpace

SETTINGS, NOTES = "settings", "notes"
SECONDS, FAILURE, FOLDER, SOLVED, PROVENANCE = "seconds", "failure", "folder", "solved", "provenance"
"""What a study, and what its trials say beside their values."""

ALL = "all"
PATIENCE_SECONDS = 120
"""How long a process waits for its turn to write to an SQLite file."""

ATTEMPTS = 6
"""How often a process tries to open a database that others are just making."""

POSTGRESQL = "postgresql+psycopg"
"""How SQLAlchemy calls PostgreSQL with our driver."""

EXPECTED = "Expected is sqlite:///FILE, or postgresql://USER@HOST/NAME of a database that is there."


class WholeRungPruner(optuna.pruners.BasePruner):
    """Keeps the best share of all trials that reached a rung; for trials that reach it at the same time.

    Optuna's own pruner of this kind decides about each trial by those that reached the rung before, so that the first
    ones of a pass would always stay.
    """

    def __init__(self, reduction: int) -> None:
        self._reduction = reduction

    @override
    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Whether a trial, whose rung all others of its pass have reported, is not among the best."""
        rung = trial.last_step
        if rung is None:
            return False
        there = study.get_trials(deepcopy=False)
        values = sorted(
            (one.intermediate_values[rung] for one in there if rung in one.intermediate_values), reverse=True
        )
        kept = -(-len(values) // self._reduction)
        return trial.intermediate_values[rung] < values[kept - 1]


@contextmanager
def database_errors(url: str) -> Iterator[None]:
    """Tell what is wrong with a database, and no password.

    Raises:
        BertVisionError: it cannot be used, or not any more.
    """
    try:
        yield
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        reason = _reason(error).replace(url, without_password(url))
        raise BertVisionError(f"{_refused(url)}: {reason.rstrip('.')}. {EXPECTED} The same command goes on.") from None


def _reason(error: BaseException) -> str:
    """What the driver said first, in a line; what Optuna and SQLAlchemy make of it later names no reason."""
    chain: list[BaseException] = []
    one: BaseException | None = error
    while one is not None:
        chain.append(one)
        one = one.__cause__ or one.__context__
    said = [link.orig for link in chain if isinstance(link, DBAPIError) and link.orig is not None]
    return " ".join(str(said[-1] if said else error).partition("\n")[0].split())


def _refused(url: str) -> str:
    return f"--storage {without_password(url)} cannot be used"


def _with_driver(url: str) -> str:
    """An address of PostgreSQL that names no driver with ours, which depends on no version of SQLAlchemy."""
    return re.sub(r"^postgres(ql)?://", f"{POSTGRESQL}://", url)


def _open_database(url: str) -> optuna.storages.RDBStorage:
    """A database with Optuna's tables; where others make them at the same moment, theirs are taken."""
    options: dict[str, Any] = {"pool_pre_ping": True}
    if url.startswith("sqlite"):
        options = {"connect_args": {"timeout": PATIENCE_SECONDS}}
    for attempt in range(1, ATTEMPTS):
        try:
            return optuna.storages.RDBStorage(_with_driver(url), engine_kwargs=options)
        except SQLAlchemyError as error:
            if not isinstance(error, IntegrityError) and "already exists" not in str(error):
                raise
            time.sleep(0.2 * attempt)
    return optuna.storages.RDBStorage(_with_driver(url), engine_kwargs=options)


def open_study(url: str, name: str, *, kind: Kind, reduction: int, settings: Mapping[str, object]) -> optuna.Study:
    """A study in a database, new or as it is.

    Args:
        url: URL of the database, such as sqlite:///FILE or postgresql://USER@HOST/NAME.
        name: name of the study.
        kind: kind of trials: heads of a pass are pruned by whole rungs, tuned encoders one by one as Optuna does.
        reduction: one of so many trials goes on from rung to rung.
        settings: what all processes must have alike.

    Raises:
        BertVisionError: the database cannot be used, or the study in it is about something else.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner: optuna.pruners.BasePruner = WholeRungPruner(reduction)
    if re.match(r"[^:]+://[^/?]*@[^/?]*@", url):  # what follows the first would be taken for a host, and told
        raise BertVisionError(f"{_refused(url)}: an @ of a name or password is written %40. {EXPECTED}")
    if kind != "heads":
        pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=reduction)
    try:
        with database_errors(url):
            study = optuna.create_study(
                storage=_open_database(url),
                study_name=name,
                direction="maximize",
                pruner=pruner,
                load_if_exists=True,
            )
    except ImportError:
        if _with_driver(url).startswith(f"{POSTGRESQL}:"):
            raise MissingExtraError(f"{_refused(url)}: PostgreSQL", "psycopg", "postgresql") from None
        raise BertVisionError(f"{_refused(url)}: its driver is not installed. {EXPECTED}") from None
    except ValueError:  # its words may be parts of a password that is not written as an address needs it
        raise BertVisionError(f"{_refused(url)}: it is no address of a database. {EXPECTED}") from None
    wanted = json.loads(json.dumps(settings))
    with database_errors(url):
        found = study.user_attrs.get(SETTINGS)
        if found is None:
            study.set_user_attr(SETTINGS, wanted)
    if found is not None and found != wanted:
        differing = sorted(key for key in found | wanted if found.get(key) != wanted.get(key))
        raise BertVisionError(
            f"the study '{name}' was begun with another {', '.join(differing)}. "
            "Ask for the same, or use another --study."
        )
    return study


def ask_trials(study: optuna.Study, space: SearchSpace, count: int, seed: int) -> list[int]:
    """Begin so many trials; their numbers.

    What is chosen depends on the seed and on the trials before, and not on whether a search was interrupted.
    """
    numbers = []
    for _ in range(count):
        trial = study.ask()
        # by its number, which no other process has: two that begin at once would try the same
        state = int(np.random.SeedSequence([seed, trial.number]).generate_state(1)[0])
        # each value by itself: options of a head exist for that head alone
        study.sampler = optuna.samplers.TPESampler(seed=state, multivariate=False)
        space.suggest(trial)  # type: ignore[arg-type]  # its choices may also be None
        numbers.append(trial.number)
    return numbers


def open_trial(study: optuna.Study, number: int) -> Trial:
    """A trial that runs, whoever began it."""
    return Trial(study, _trial(study, number)._trial_id)  # noqa: SLF001 - the one way back to a trial that was begun


def report(trial: Trial, rung: int, score: float) -> None:
    """Note a score at a rung, if it was not noted before a kill."""
    if rung not in _trial(trial.study, trial.number).intermediate_values:
        trial.report(score, rung)


def last_score(study: optuna.Study, number: int) -> float | None:
    """The score of a trial at its last rung; None if there is none."""
    values = _trial(study, number).intermediate_values
    return values[max(values)] if values else None


def tell(study: optuna.Study, number: int, value: float | None, *, notes: Mapping[str, object]) -> None:
    """End a trial: complete with a value, or pruned without one; one that has ended stays as it is."""
    if _trial(study, number).state.is_finished():
        return
    open_trial(study, number).set_user_attr(NOTES, dict(notes))
    if value is None:
        study.tell(number, state=TrialState.PRUNED)
    else:
        study.tell(number, value)


def notes_of(trial: FrozenTrial) -> dict[str, Any]:
    """What was noted of a trial; nothing while it runs."""
    notes: dict[str, Any] = trial.user_attrs.get(NOTES, {})
    return notes


def give_up(study: optuna.Study, number: int) -> None:
    """End a trial that was begun and never will be finished; it does not count."""
    study.tell(number, state=TrialState.FAIL)


def all_trials(study: optuna.Study) -> list[FrozenTrial]:
    """Every trial that counts, by number."""
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state != TrialState.FAIL]


def running(trials: Sequence[FrozenTrial]) -> list[int]:
    """Numbers of those that are not finished."""
    return [trial.number for trial in trials if not trial.state.is_finished()]


def best_trial(trials: Sequence[FrozenTrial]) -> FrozenTrial | None:
    """The complete one with the largest value; of equal ones the first."""
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    return max(complete, key=lambda trial: (float(trial.value or 0.0), -trial.number), default=None)


def importances(trials: Sequence[FrozenTrial]) -> dict[str, dict[str, float]]:
    """How much of the differences between trials each name explains, by fANOVA, in shares of 1.

    Of all trials, the names that all of them have; and of the trials of each head, its own options. Trials are compared
    by their score at the first rung, which all of them reached; heads that were solved by their one score.

    Returns:
        Shares by name, under `all` and under the name of each head, of a task's own heads under `TASK.HEAD`; nothing
        where nothing varies.
    """
    first = [(trial, next(iter(sorted(trial.intermediate_values.items())), (0, trial.value))[1]) for trial in trials]
    scored = [(trial, float(score)) for trial, score in first if score is not None and trial.state.is_finished()]
    shared = set.intersection(*(set(trial.params) for trial, _ in scored)) if scored else set()
    found = {ALL: _fanova(scored, shared)}
    choices = {name for trial, _ in scored for name in trial.params if name.rpartition(".")[2] == HEAD}
    for choice in sorted(choices):
        for head in sorted({str(trial.params[choice]) for trial, _ in scored if choice in trial.params}):
            mine = [(trial, score) for trial, score in scored if trial.params.get(choice) == head]
            group = choice.removesuffix(HEAD) + head
            own = {name for trial, _ in mine for name in trial.params if name.startswith(f"{group}.")}
            found[group] = _fanova(mine, own - shared)
    return {group: shares for group, shares in found.items() if shares}


def _fanova(scored: Sequence[tuple[FrozenTrial, float]], names: AbstractSet[str]) -> dict[str, float]:
    varied = sorted(name for name in names if len({trial.params[name] for trial, _ in scored}) > 1)
    if not varied or len({score for _, score in scored}) < 2:
        return {}
    study = optuna.create_study(direction="maximize")
    for trial, score in scored:
        params = {name: trial.params[name] for name in varied}
        distributions = {name: trial.distributions[name] for name in varied}
        study.add_trial(optuna.create_trial(params=params, distributions=distributions, value=score))
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {
        name: round(float(share), 4) for name, share in sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    }


def _trial(study: optuna.Study, number: int) -> FrozenTrial:
    return study.get_trials(deepcopy=False)[number]
