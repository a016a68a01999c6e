"""The study of a search: Optuna with its database, sampler and pruners; other modules do not need to know how."""

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
"""Names of the user attributes of a study and of a trial, and of the notes in the latter."""

ALL = "all"
"""The group of importances over the trials of all heads."""

PATIENCE_SECONDS = 120
"""How long a process waits for its turn to write to an SQLite file."""

ATTEMPTS = 6
"""How often a process tries to open a database whose tables others are creating at the same time."""

POSTGRESQL = "postgresql+psycopg"
"""SQLAlchemy's name for PostgreSQL with the driver psycopg."""

EXPECTED = "Expected is sqlite:///FILE, or postgresql://USER@HOST/NAME of a database that is there."


class WholeRungPruner(optuna.pruners.BasePruner):
    """Successive halving for trials that reach a rung together: keeps the best of all trials that reached it.

    Optuna's `SuccessiveHalvingPruner` compares a trial only with those that reached the rung before it, so that the
    first trials of a pass would never be pruned.
    """

    def __init__(self, reduction: int) -> None:
        self._reduction = reduction

    @override
    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Whether a trial is not among the best at its rung; all trials of its pass must have reported there."""
        rung = trial.last_step
        if rung is None:
            return False
        reports = [other.intermediate_values for other in study.get_trials(deepcopy=False)]
        values = sorted((scores[rung] for scores in reports if rung in scores), reverse=True)
        kept = -(-len(values) // self._reduction)
        return trial.intermediate_values[rung] < values[kept - 1]


@contextmanager
def database_errors(url: str) -> Iterator[None]:
    """Turn errors of a database into messages without its password.

    Raises:
        BertVisionError: the database cannot be used, or the connection was lost.
    """
    try:
        yield
    except (SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
        reason = _reason(error).replace(url, without_password(url))
        raise BertVisionError(f"{_refused(url)}: {reason.rstrip('.')}. {EXPECTED} The same command goes on.") from None


def _reason(error: BaseException) -> str:
    """The first line of the driver's own message: Optuna and SQLAlchemy wrap it in errors that give no reason."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None:
        chain.append(link)
        link = link.__cause__ or link.__context__
    originals = [link.orig for link in chain if isinstance(link, DBAPIError) and link.orig is not None]
    return " ".join(str(originals[-1] if originals else error).partition("\n")[0].split())


def _refused(url: str) -> str:
    return f"--storage {without_password(url)} cannot be used"


def _with_driver(url: str) -> str:
    """A URL of PostgreSQL with its driver: without one, SQLAlchemy takes a default that depends on its version."""
    return re.sub(r"^postgres(ql)?://", f"{POSTGRESQL}://", url)


def _open_database(url: str) -> optuna.storages.RDBStorage:
    """A database with Optuna's tables; if other processes create them at the same time, theirs are used."""
    options: dict[str, Any] = {"pool_pre_ping": True}
    if url.startswith("sqlite"):
        options = {"connect_args": {"timeout": PATIENCE_SECONDS}}
    template = _with_driver(url).replace("{", "{{").replace("}", "}}")  # Optuna formats it
    for attempt in range(1, ATTEMPTS):
        try:
            return optuna.storages.RDBStorage(template, engine_kwargs=options)
        except SQLAlchemyError as error:
            if not isinstance(error, IntegrityError) and "already exists" not in str(error):
                raise
            time.sleep(0.2 * attempt)
    return optuna.storages.RDBStorage(template, engine_kwargs=options)


def open_study(url: str, name: str, *, kind: Kind, reduction: int, settings: Mapping[str, object]) -> optuna.Study:
    """Open a study in a database; it is created if there is none of that name.

    Args:
        url: URL of the database, such as sqlite:///FILE or postgresql://USER@HOST/NAME.
        name: name of the study.
        kind: kind of trials: heads are pruned by `WholeRungPruner`, encoders by Optuna's asynchronous pruner.
        reduction: reduction factor: one in this many trials continues at a rung.
        settings: settings that must be equal in all processes that share the study.

    Raises:
        BertVisionError: the database cannot be used, or the study was begun with other settings.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    pruner: optuna.pruners.BasePruner = WholeRungPruner(reduction)
    if re.match(r"[^:]+://[^/?]*@[^/?]*@", url):  # a part of the password could be taken for the host, and be printed
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
    except ValueError:  # its message is not repeated: it may have parts of a password that is not escaped
        raise BertVisionError(f"{_refused(url)}: it is no address of a database. {EXPECTED}") from None
    wanted = json.loads(json.dumps(settings))
    with database_errors(url):
        stored = study.user_attrs.get(SETTINGS)
        if stored is None:
            study.set_user_attr(SETTINGS, wanted)
    if stored is not None and stored != wanted:
        differing = sorted(key for key in stored | wanted if stored.get(key) != wanted.get(key))
        raise BertVisionError(
            f"the study '{name}' was begun with another {', '.join(differing)}. "
            "Ask for the same, or use another --study."
        )
    return study


def ask_trials(study: optuna.Study, space: SearchSpace, count: int, seed: int) -> list[int]:
    """Begin `count` trials with parameters from the space; returns their numbers.

    The parameters depend on the seed and on the trials before, not on whether the search was interrupted.
    """
    numbers = []
    for _ in range(count):
        trial = study.ask()
        # a seed of its own for each trial: two processes that begin at once must not try the same parameters
        state = int(np.random.SeedSequence([seed, trial.number]).generate_state(1)[0])
        # each parameter by itself: a head's options exist only in trials with that head
        study.sampler = optuna.samplers.TPESampler(seed=state, multivariate=False)
        space.suggest(trial)  # type: ignore[arg-type]  # its choices may also be None
        numbers.append(trial.number)
    return numbers


def open_trial(study: optuna.Study, number: int) -> Trial:
    """A running trial by its number, also one that another process began."""
    return Trial(study, _trial(study, number)._trial_id)  # noqa: SLF001 - Optuna has no other way to reopen a trial


def report(trial: Trial, rung: int, score: float) -> None:
    """Report a trial's score at a rung, unless it was reported before an interruption."""
    if rung not in _trial(trial.study, trial.number).intermediate_values:
        trial.report(score, rung)


def last_score(study: optuna.Study, number: int) -> float | None:
    """The score of a trial at its last rung; None if there is none."""
    values = _trial(study, number).intermediate_values
    return values[max(values)] if values else None


def tell(study: optuna.Study, number: int, value: float | None, *, notes: Mapping[str, object]) -> None:
    """End a trial, as complete with a value, or as pruned without one; a finished trial stays as it is."""
    if _trial(study, number).state.is_finished():
        return
    open_trial(study, number).set_user_attr(NOTES, dict(notes))
    if value is None:
        study.tell(number, state=TrialState.PRUNED)
    else:
        study.tell(number, value)


def notes_of(trial: FrozenTrial) -> dict[str, Any]:
    """The notes of a trial, such as its seconds; empty while it runs."""
    notes: dict[str, Any] = trial.user_attrs.get(NOTES, {})
    return notes


def give_up(study: optuna.Study, number: int) -> None:
    """End a trial that was begun and will never be finished; it no longer counts."""
    study.tell(number, state=TrialState.FAIL)


def all_trials(study: optuna.Study) -> list[FrozenTrial]:
    """All trials that were not given up, in the order of their numbers."""
    return [trial for trial in study.get_trials(deepcopy=False) if trial.state != TrialState.FAIL]


def running(trials: Sequence[FrozenTrial]) -> list[int]:
    """The numbers of the unfinished trials."""
    return [trial.number for trial in trials if not trial.state.is_finished()]


def best_trial(trials: Sequence[FrozenTrial]) -> FrozenTrial | None:
    """The complete trial with the largest value, of equal ones the first; None if no trial is complete."""
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    return max(complete, key=lambda trial: (float(trial.value or 0.0), -trial.number), default=None)


def importances(trials: Sequence[FrozenTrial]) -> dict[str, dict[str, float]]:
    """Parameter importance: the share of the scores' variance that each parameter explains, by fANOVA.

    Parameters that all trials have are compared over all trials; the options of a head over the trials with that head.
    The score is that at the first rung, which all trials reached; of heads that were solved, their only score.

    Returns:
        Shares by parameter, 0 to 1: of common parameters under `all`, of a head's options under the head's name, or
        `TASK.HEAD` if it was chosen for one task. Groups in which nothing varies are left out.
    """
    first = [(trial, next(iter(sorted(trial.intermediate_values.items())), (0, trial.value))[1]) for trial in trials]
    scored = [(trial, float(score)) for trial, score in first if score is not None and trial.state.is_finished()]
    shared = set.intersection(*(set(trial.params) for trial, _ in scored)) if scored else set()
    groups = {ALL: _fanova(scored, shared)}
    choices = {name for trial, _ in scored for name in trial.params if name.rpartition(".")[2] == HEAD}
    for choice in sorted(choices):
        for head in sorted({str(trial.params[choice]) for trial, _ in scored if choice in trial.params}):
            with_head = [(trial, score) for trial, score in scored if trial.params.get(choice) == head]
            group = choice.removesuffix(HEAD) + head
            own = {name for trial, _ in with_head for name in trial.params if name.startswith(f"{group}.")}
            groups[group] = _fanova(with_head, own - shared)
    return {group: shares for group, shares in groups.items() if shares}


def _fanova(scored: Sequence[tuple[FrozenTrial, float]], names: AbstractSet[str]) -> dict[str, float]:
    """The importance of parameters, largest first; empty if none of them varies, or if all scores are equal."""
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
