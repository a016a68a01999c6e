"""fit_heads: train heads on a frozen encoder; the run keeps every head's best weights and a leaderboard."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bertvision.atomic import write_json
from bertvision.errors import BertVisionError, DivergedError
from bertvision.heads import blank_head, layers_read
from bertvision.heads.options import ATTENTION, TOKENS
from bertvision.inference.computed_states import RowStates
from bertvision.lock import lock_folder
from bertvision.runs.cut_texts import cut_notice
from bertvision.runs.far_scores import far_scores_notice
from bertvision.runs.few_steps import few_steps_notice
from bertvision.runs.fitting.fit_request import AUTO, FitRequest
from bertvision.runs.fitting.fit_run import FitRun
from bertvision.runs.fitting.frozen import FrozenTask, freeze_task
from bertvision.runs.fitting.solve import CONVEX, Solver
from bertvision.runs.fitting.standardise import sample_windows, standardise_heads
from bertvision.runs.folder import RunFolder
from bertvision.runs.one_label import one_label_notice
from bertvision.runs.planning.source import find_plan, follow_plan, remove_own_store
from bertvision.runs.tuned_split import learned_in_any_run, seen_notice
from bertvision.runs.watch import Show
from bertvision.tasks.batches import example_groups, subset_rows
from bertvision.tasks.files import read_json
from bertvision.training.checkpoint import remove_checkpoints
from bertvision.training.fit import FitWatcher, States, fit_trainees
from bertvision.training.trainee import HeadSpec, Trainee

LEADERBOARD = "leaderboard.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """The result of a fit.

    Attributes:
        run: its folder.
        leaderboard: a row per head with its options, seed, parameters, seconds and metrics, best first.
        notices: messages for the user.
    """

    run: Path
    leaderboard: list[dict[str, Any]]
    notices: tuple[str, ...]


def fit_heads(  # noqa: PLR0913 - what it depends on, by keyword
    request: FitRequest,
    out: str | Path,
    *,
    resume: bool = False,
    show: Show | None = None,
    frozen: FrozenTask | None = None,
    dev: bool = True,
) -> FitResult:
    """Train many heads in one pass over a frozen encoder; a killed fit continues with `resume`.

    Args:
        request: the settings.
        out: folder of the run.
        resume: continue an interrupted fit in this folder.
        show: progress callback.
        frozen: the result of `freeze_task` for this request; None loads data and encoder.
        dev: whether heads are scored on the dev split; False scores them on held-out examples alone, so that dev
            remains unused.

    Raises:
        BertVisionError: the settings, the data, the encoder and the folder do not fit together, or a file cannot be
            written; existing files are kept.
        DivergedError: every head was dropped before any was saved.
    """
    request.check()
    folder = RunFolder(Path(out))
    finished = _finished(folder, request, resume=resume)
    if finished is not None:
        return finished
    frozen = frozen or freeze_task(request)
    if not dev:
        frozen = replace(frozen, dev=None)
    check_fit(frozen)
    trainees = [build_trainee(spec, frozen, request) for spec in request.heads]
    layers = layers_read(trainee.head for trainee in trainees)
    frozen.check_stores(layers)
    plan = find_plan(frozen, layers, folder.path, show) if request.source == AUTO else None
    with lock_folder(folder.path):
        finished = _finished(folder, request, resume=resume)  # another process may have finished it meanwhile
        if finished is not None:
            return finished
        examples, held_out = frozen.examples_digest, frozen.held_out_digest
        folder.begin(asdict(request), frozen.fingerprint, examples=examples, held_out=held_out)
        if plan is not None:
            frozen = follow_plan(plan, frozen, folder.path, show)
        run = FitRun(folder, frozen, trainees, show)
        learn_heads(run)
        leaderboard = run.leaderboard()
        if leaderboard:
            write_json(folder.path / LEADERBOARD, leaderboard)
            folder.finish({"heads": len(leaderboard)})
            remove_checkpoints(folder.path)
        if plan is not None:
            remove_own_store(folder.path)  # a finished run, or one without heads, is not resumed
        if not leaderboard:
            raise DivergedError(
                f"no head was kept: {' '.join(run.notices)} Use a smaller --lr and another --out. Is the encoder whole?"
            )
    reasons = () if plan is None else plan.reasons[:1]
    parts = frozen.parts
    cut = cut_notice(frozen.task, frozen.train.windows, parts.options, parts.tokenizer)
    one_label = one_label_notice(frozen.task, frozen.held_out.windows.targets)
    notices = (*parts.notices, *seen_notice(request), *one_label, *cut, *_training_notices(run), *reasons, *run.notices)
    return _result(folder, notices)


def learn_heads(run: FitRun, *, watcher: FitWatcher | None = None) -> None:
    """Solve the convex heads if the request says so, and train all others.

    Args:
        run: the run whose heads they are; it saves them.
        watcher: callbacks of the training; None takes those of the run.

    Raises:
        BertVisionError: a file cannot be written, or the GPU has too little memory.
    """
    frozen, request = run.frozen, run.frozen.request
    states = frozen.states(frozen.train, run.layers)
    solver = _solver(run, states) if request.solve else None
    for number, trainee in enumerate(run.trainees):
        if solver is not None and isinstance(trainee.head, CONVEX):
            run.on_solved(number, solver.solve(trainee))
        else:
            run.trained.append(number)
    trained = [run.trainees[number] for number in run.trained]
    if not trained:
        return
    if request.compile:
        for trainee in trained:
            trainee.head.compile_steps()
    plan = frozen.plan()
    windows = frozen.train.windows
    rows_read = windows.lengths if frozen.task.kind == "spans" else np.ones(len(windows), dtype=np.int64)
    standardise_heads(trained, states, sample_windows(plan, rows_read))
    fit_trainees(
        trained, frozen.fit_data(states), plan, run=run.folder.path, fractions=request.fractions, watcher=watcher or run
    )


def check_fit(frozen: FrozenTask) -> None:
    """Check that the heads can be built and trained on a task's data, before anything is written.

    Raises:
        BertVisionError: a head cannot be built or cannot read these states, `validate` does not fit the number of
            steps, or the task has no classes to weight.
    """
    request = frozen.request
    for spec in request.heads:
        head = blank_head(spec.head, frozen.shape, spec.options)
        if head.token_pool is not None:
            raise BertVisionError(
                f"head '{spec.head}': {TOKENS}={ATTENTION} is for all heads of a fit: --pool {ATTENTION}"
            )
        if frozen.task.kind != "spans" and not head.token_wise:
            raise BertVisionError(
                f"head '{spec.head}' looks at neighbouring tokens, and a fit has one row per text. "
                f"Leave it out, or tune it: bertvision tune {request.task} --learn none --head {spec.head}"
            )
    frozen.plan().snapshot_steps(request.fractions, option="--validate")
    _ = frozen.class_weights  # raises for a task without classes


def build_trainee(spec: HeadSpec, frozen: FrozenTask, request: FitRequest) -> Trainee:
    """A head for training, with the mask of its training windows if it uses fewer examples than others.

    The run loads only the largest share of the examples that any head uses; smaller shares are subsets of larger ones.
    """
    rows = None
    if spec.fraction < request.largest:
        examples = frozen.train.examples
        chosen = np.zeros(len(examples), dtype=np.bool_)
        chosen[subset_rows(len(examples), spec.fraction / request.largest, request.seed)] = True
        rows = chosen[frozen.train.windows.example]
    if request.pool == ATTENTION:
        spec = replace(spec, options={**spec.options, TOKENS: ATTENTION})
    trainee = Trainee(spec, frozen.shape, device=frozen.encoder.device, rows=rows)
    if frozen.task.kind == "scores":
        # with a bias of 0, all weights would first grow to predict the mean score from what all texts have in common
        targets = frozen.train.windows.targets
        trainee.head.project.bias.data.fill_(float(np.mean(targets if rows is None else targets[rows])))
    return trainee


def _solver(run: FitRun, states: States) -> Solver | None:
    """The solver of convex heads; None unless states are one row per text in memory."""
    frozen = run.frozen
    if not isinstance(states, RowStates):
        return None
    held_out = None
    if frozen.folds is None and isinstance(run.held_out, RowStates) and learned_in_any_run(frozen.request):
        held_out = run.held_out, frozen.held_out.windows.targets
    windows, (groups, _) = frozen.train.windows, example_groups(frozen.train.examples)
    return Solver(
        frozen.task,
        train=(states, windows.targets),
        groups=groups[windows.example],
        held_out=held_out,
        weights=frozen.class_weights,
    )


def _training_notices(run: FitRun) -> tuple[str, ...]:
    """Notices about few steps and about scores of unusual size; none if all heads were solved."""
    frozen, request = run.frozen, run.frozen.request
    if not run.trained:
        return ()
    solved = len(run.trained) < len(request.heads)
    otherwise = "--heads layer_concat" if frozen.in_memory and request.solve and not solved else ""
    return (
        *few_steps_notice(request.task, frozen.plan().total, request.epochs, otherwise=otherwise),
        *far_scores_notice(frozen.task, frozen.train.windows.targets, otherwise=otherwise),
    )


def _finished(folder: RunFolder, request: FitRequest, *, resume: bool) -> FitResult | None:
    """The result of a fit that is finished; None if it can begin or be resumed.

    Raises:
        BertVisionError: it cannot, as the folder holds something else.
    """
    folder.check(asdict(request), resume=resume)
    if folder.result() is None:
        return None
    if request.source == AUTO:
        remove_own_store(folder.path)
    return _result(folder, (f"{folder.path} is finished; there was nothing left to do.",))


def _result(folder: RunFolder, notices: Sequence[str]) -> FitResult:
    leaderboard = read_json(folder.path / LEADERBOARD)
    if not isinstance(leaderboard, list):
        raise BertVisionError(f"{folder.path / LEADERBOARD} holds no list. Start anew with another --out.")
    return FitResult(run=folder.path, leaderboard=leaderboard, notices=tuple(notices))
