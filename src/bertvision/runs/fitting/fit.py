"""fit_heads: a task, an encoder and heads → a run with every head's best weights and a leaderboard."""

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
from bertvision.runs.tuned_split import seen_notice
from bertvision.runs.watch import Show
from bertvision.tasks.batches import example_groups, subset_rows
from bertvision.tasks.files import read_json
from bertvision.training.checkpoint import remove_checkpoints
from bertvision.training.fit import FitWatcher, States, fit_trainees
from bertvision.training.trainee import HeadSpec, Trainee

LEADERBOARD = "leaderboard.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class FitResult:
    """What came out of a fit.

    Attributes:
        run: its folder.
        leaderboard: every head with its options, seed, parameters, seconds and metrics, best first.
        notices: what the user should know.
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
    """Train many heads in one pass over a frozen encoder; a killed fit goes on with `resume`.

    Args:
        request: what to fit.
        out: folder of the run.
        resume: go on with a fit that was interrupted.
        show: is told how far it is.
        frozen: what `freeze_task` gave for this request; None loads it.
        dev: whether the leaderboard tells how good heads are on dev; False leaves it to whoever judges them later.

    Raises:
        BertVisionError: something in the request does not fit, or something cannot be written; what is there is kept.
        DivergedError: every head was dropped before one was kept.
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
    choice = find_plan(frozen, layers, folder.path, show) if request.source == AUTO else None
    with lock_folder(folder.path):
        finished = _finished(folder, request, resume=resume)  # another process may have been here meanwhile
        if finished is not None:
            return finished
        examples, held_out = frozen.examples_digest, frozen.held_out_digest
        folder.begin(asdict(request), frozen.fingerprint, examples=examples, held_out=held_out)
        if choice is not None:
            frozen = follow_plan(choice, frozen, folder.path, show)
        run = FitRun(folder, frozen, trainees, show)
        learn_heads(run)
        leaderboard = run.leaderboard()
        if leaderboard:
            write_json(folder.path / LEADERBOARD, leaderboard)
            folder.finish({"heads": len(leaderboard)})
            remove_checkpoints(folder.path)
        if choice is not None:
            remove_own_store(folder.path)  # nobody will come back to it
        if not leaderboard:
            raise DivergedError(
                f"no head was kept: {' '.join(run.notices)} Use a smaller --lr and another --out. Is the encoder whole?"
            )
    reasons = () if choice is None else choice.reasons[:1]
    parts = frozen.parts
    cut = cut_notice(frozen.task, frozen.train.windows, parts.options, parts.tokenizer)
    alone = one_label_notice(frozen.task, frozen.held_out.windows.targets)
    notices = (*parts.notices, *seen_notice(request), *alone, *cut, *_of_training(run), *reasons, *run.notices)
    return _result(folder, notices)


def learn_heads(run: FitRun, *, watcher: FitWatcher | None = None) -> None:
    """Solve the heads that can be solved, and train the others.

    Args:
        run: has them, and keeps them.
        watcher: follows those that are trained; None lets the run follow them.

    Raises:
        BertVisionError: something cannot be written.
    """
    frozen, request = run.frozen, run.frozen.request
    states = frozen.states(frozen.train, run.layers)
    solver = _solver(frozen, states) if request.solve else None
    for number, trainee in enumerate(run.trainees):
        if solver is not None and isinstance(trainee.head, CONVEX):
            run.on_solved(number, solver.solve(trainee))
        else:
            run.following.append(number)
    trained = [run.trainees[number] for number in run.following]
    if not trained:
        return
    if request.compile:
        for trainee in trained:
            trainee.head.compile_steps()
    plan = frozen.plan()
    windows = frozen.train.windows
    read = windows.lengths if frozen.task.kind == "spans" else np.ones(len(windows), dtype=np.int64)
    standardise_heads(trained, states, sample_windows(plan, read))
    fit_trainees(
        trained, frozen.fit_data(states), plan, run=run.folder.path, fractions=request.fractions, watcher=watcher or run
    )


def check_fit(frozen: FrozenTask) -> None:
    """Refuse what cannot be done with a task's data, while nothing is written.

    Raises:
        BertVisionError: a head cannot be built or read these states, or cannot be judged where it was asked for.
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
    _ = frozen.class_weights  # so that a task without classes is refused at once


def build_trainee(spec: HeadSpec, frozen: FrozenTask, request: FitRequest) -> Trainee:
    """A head and the windows it learns from: those of a share of the examples, which lies within larger shares.

    The largest share of all heads is what the run is about; smaller ones are shares of that.
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
        # from zero every weight would first grow with what all texts have in common, such as how far any two are apart
        targets = frozen.train.windows.targets
        trainee.head.project.bias.data.fill_(float(np.mean(targets if rows is None else targets[rows])))
    return trainee


def _solver(frozen: FrozenTask, states: States) -> Solver | None:
    """Solves heads on rows in memory; None where there are none."""
    if not isinstance(states, RowStates):
        return None
    windows, (groups, _) = frozen.train.windows, example_groups(frozen.train.examples)
    return Solver(
        frozen.task,
        train=(states, windows.targets),
        groups=groups[windows.example],
        weights=frozen.class_weights,
    )


def _of_training(run: FitRun) -> tuple[str, ...]:
    """Notices where heads were trained, in few steps or on scores of unusual size; none where all were solved."""
    frozen, request = run.frozen, run.frozen.request
    if not run.following:
        return ()
    solved = len(run.following) < len(request.heads)
    otherwise = "--heads layer_concat" if frozen.in_memory and request.solve and not solved else ""
    return (
        *few_steps_notice(request.task, frozen.plan().total, request.epochs, otherwise=otherwise),
        *far_scores_notice(frozen.task, frozen.train.windows.targets, otherwise=otherwise),
    )


def _finished(folder: RunFolder, request: FitRequest, *, resume: bool) -> FitResult | None:
    """See whether a fit can begin or go on; what came out if it has ended."""
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
