"""A command without options does what its function does by default: the values stand in two places."""

import dataclasses
import inspect
from typing import Any

import pytest

from bertvision.cli import ensemble, evaluate, extract, fit, learn_options, multitask, pack, run_glue, search, tune
from bertvision.packs.make import make_pack
from bertvision.runs.fitting.extract import ExtractRequest
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.fitting.freeze_points import TOLERANCE
from bertvision.runs.judging.ensemble import ensemble as join_runs
from bertvision.runs.judging.evaluate import evaluate as evaluate_run
from bertvision.runs.request import TeacherRequest, TuneRequest
from bertvision.runs.searching.glue import GlueRequest
from bertvision.runs.searching.search_request import SearchRequest
from bertvision.runs.tuning.multitask_request import MultitaskRequest
from bertvision.training.options import TuneOptions
from bertvision.training.trainee import HeadSpec

RENAMED = {"bootstrap": "resamples", "from_": "source"}
"""Options that are called otherwise in Python."""

OTHERS = {"snapshots", "set", "validate"}
"""Options of one name that are given in another form."""


def defaults(what: Any) -> dict[str, Any]:  # noqa: ANN401 - a dataclass, an object of one, or a function
    """Every default by its name, those of groups of options included; one of None says nothing."""
    if not dataclasses.is_dataclass(what):
        found = {name: one.default for name, one in inspect.signature(what).parameters.items()}
        return {name: value for name, value in found.items() if value is not inspect.Parameter.empty}
    known: dict[str, Any] = {}
    for field in dataclasses.fields(what):
        factory = field.default_factory
        value = field.default if factory is dataclasses.MISSING else factory()
        if isinstance(what, type) and value is dataclasses.MISSING:
            continue
        known[field.name] = value if isinstance(what, type) else getattr(what, field.name)
    return known


def flat(options: type) -> dict[str, Any]:
    """Defaults of a command's options."""
    found = defaults(options)
    inner = {
        key: one for value in found.values() if dataclasses.is_dataclass(value) for key, one in defaults(value).items()
    }
    return {RENAMED.get(name, name): value for name, value in (found | inner).items() if name not in OTHERS}


@pytest.mark.parametrize(
    ("options", "asked", "least"),
    [
        (fit.FitOptions, FitRequest, 10),
        (fit.HeadLearning, HeadSpec, 5),
        (search.Options, SearchRequest, 10),
        (run_glue.Options, GlueRequest, 8),
        (run_glue.Options, GlueRequest(data="").tuning, 4),
        (tune.Options, TuneRequest, 8),
        (learn_options.LearnOptions, TuneOptions, 8),
        (multitask.Options, MultitaskRequest, 8),
        (extract.Options, ExtractRequest, 6),
        (evaluate.Options, evaluate_run, 5),
        (ensemble.Options, join_runs, 6),
        (pack.Options, make_pack, 5),
    ],
)
def test_an_option_and_what_it_asks_for_have_one_default(options: type, asked: Any, least: int) -> None:  # noqa: ANN401 - a dataclass, an object of one, or a function
    ours, theirs = flat(options), defaults(asked)
    common = ours.keys() & theirs.keys() - {"heads", "out"}  # these stand for what a command works out
    assert len(common) >= least
    assert {name: ours[name] for name in common} == {name: theirs[name] for name in common}


def test_defaults_of_other_names_agree_too() -> None:
    assert defaults(fit.FreezePoints)["tolerance"] == TOLERANCE
    assert defaults(run_glue.Options)["heads"] == defaults(GlueRequest)["heads"]
    assert defaults(search.Options)["train_all"] is not defaults(SearchRequest)["solve"]
    teacher, asked = defaults(tune.Options), defaults(TeacherRequest)
    assert (teacher["teacher_share"], teacher["teacher_temperature"]) == (asked["share"], asked["temperature"])
