"""tune_folds: the runs of a cross-fit, one without each fold of the training examples, and one with all of them."""

from dataclasses import dataclass, replace
from pathlib import Path

from bertvision.atomic import write_json
from bertvision.device import choose_device
from bertvision.errors import BertVisionError
from bertvision.runs.fitting.fit_request import FEWEST_FOLDS, WHOLE, fold_encoder
from bertvision.runs.fitting.folds import CROSS_FIT, FORMAT
from bertvision.runs.folder import check_series
from bertvision.runs.parts import training_split
from bertvision.runs.request import TuneRequest
from bertvision.runs.tuning.tune import tune
from bertvision.runs.tuning.tuning import TuneResult
from bertvision.runs.watch import Show, telling
from bertvision.tasks.folds import fold_numbers, folds_digest
from bertvision.training.processes import join_processes, on_main


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossFitResult:
    """The result of `tune_folds`.

    Attributes:
        run: the folder of the runs.
        results: the result of every run, by the name of its folder.
        notices: messages for the user.
        main: whether this is the main process, which reports.
    """

    run: Path
    results: dict[str, TuneResult]
    notices: tuple[str, ...]
    main: bool


def tune_folds(
    request: TuneRequest, folds: int, out: str | Path, *, resume: bool = False, show: Show | None = None
) -> CrossFitResult:
    """Tune K + 1 encoders with the same settings: `fold-0` to `fold-(K-1)` each without its fold, `whole` with all.

    No run is trained on held-out examples. With `resume`, finished runs are skipped and an interrupted one continues.

    Args:
        request: the settings of every run.
        folds: K, the number of folds.
        out: folder of the runs.
        resume: continue runs that are in the folder.
        show: shows the progress of each run.

    Raises:
        BertVisionError: the settings or the folder do not fit, or a run fails; finished runs are kept.
    """
    if folds < FEWEST_FOLDS:
        raise BertVisionError(f"--cross-fit is {folds}, at least {FEWEST_FOLDS} is expected.")
    request.check()
    folder = Path(out)
    accelerator = join_processes(cpu=choose_device(request.device).type == "cpu")
    on_main(accelerator, lambda: check_series(folder, resume=resume))
    train = training_split(request.load())
    digest = folds_digest(train, fold_numbers(train, folds))
    results = {}
    for name in (*range(folds), WHOLE):
        run_request = replace(request, folds=folds, fold=name) if isinstance(name, int) else request
        run = Path(fold_encoder(str(folder), name))
        results[run.name] = tune(run_request, run, resume=resume, show=telling(show, run.name))
    content = {"format": FORMAT, "folds": folds, "digest": digest}
    on_main(accelerator, lambda: write_json(folder / CROSS_FIT, content))
    notices = tuple(dict.fromkeys(notice for result in results.values() for notice in result.notices))
    return CrossFitResult(run=folder, results=results, notices=notices, main=accelerator.is_main_process)
