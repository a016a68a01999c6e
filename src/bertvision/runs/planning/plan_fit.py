"""plan_fit: measure where the states of a fit should come from on this machine, and what each source would cost."""

from pathlib import Path

from bertvision.heads import layers_read
from bertvision.runs.fitting.fit import build_trainee, check_fit
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.fitting.frozen import freeze_task
from bertvision.runs.planning.planner import FitPlan
from bertvision.runs.planning.source import plan_source


def plan_fit(request: FitRequest, out: str | Path) -> FitPlan:
    """Measure a few batches, and plan what `fit_heads` would do with the source `auto`; leaves nothing on disk.

    Args:
        request: the settings of the fit; its `source` does not influence the plan.
        out: folder that the run would have.

    Raises:
        BertVisionError: as `fit_heads`, for settings, data and encoder.
    """
    request.check()
    frozen = freeze_task(request)
    check_fit(frozen)
    trainees = [build_trainee(spec, frozen, request) for spec in request.heads]
    return plan_source(frozen, layers_read(trainee.head for trainee in trainees), Path(out), always=True)
