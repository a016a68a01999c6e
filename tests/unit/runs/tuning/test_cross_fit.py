"""States of training examples come from encoders that never saw them."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertvision.encoder.load import fingerprint, load_encoder
from bertvision.errors import BertVisionError
from bertvision.inference.computed_states import RowStates, StreamStates, encode_texts
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.fitting.fit_tasks import fit_tasks
from bertvision.runs.fitting.folds import FoldStates
from bertvision.runs.fitting.freeze_points import fit_snapshots
from bertvision.runs.fitting.frozen import FrozenTask, freeze_task
from bertvision.runs.parts import split_train
from bertvision.runs.request import TuneRequest
from bertvision.runs.tuning import cross_fit as module
from bertvision.runs.tuning import tune as tune_module
from bertvision.runs.tuning import tuning as tuning_module
from bertvision.runs.tuning.cross_fit import tune_folds
from bertvision.runs.tuning.tune import tune
from bertvision.runs.tuning.tuning import TuneResult
from bertvision.tasks.folds import fold_numbers
from bertvision.tasks.load import load_task
from bertvision.tasks.windows import build_windows
from bertvision.training.trainee import HeadSpec
from close import EXACT, FLOAT32
from folders import everything
from tiny_run import same_state, save_tiny_encoder, tiny_fit, tiny_request, write_labels, write_pairs, write_questions

MIX = HeadSpec(head="layer_mix", lr=2e-2)
PLAIN = HeadSpec(head="last_layer", lr=2e-2)
CHANGES: dict[str, Any] = {"held_out": 0.2, "seed": 1, "snapshots": (0.5,)}


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], TuneRequest]:
    """Requests for tasks, with the folder of a cross-fit of two folds beside the data of each."""
    root = tmp_path_factory.mktemp("tasks")
    encoder = save_tiny_encoder(root / "encoder")
    writers = {"sst2": write_labels, "squad2": write_questions, "own": write_pairs}

    def make(task: str) -> TuneRequest:
        folder = root / task
        request = tiny_request(task, str(folder), encoder, **CHANGES)
        if not folder.is_dir():
            writers[task](folder)
            tune_folds(request, 2, root / f"{task}-run")
        return request

    return make


def run_of(request: TuneRequest) -> Path:
    folder = Path(request.data or "")
    return folder.with_name(f"{folder.name}-run")


def fit(request: TuneRequest, *heads: HeadSpec, **changes: Any) -> FitRequest:  # noqa: ANN401 - any field
    changes = {"seed": 1, "cross_fit": 2, **changes}
    return tiny_fit(request.task, request.data or "", str(run_of(request)), *(heads or (MIX,)), **changes)


def fold_of(request: TuneRequest, frozen: FrozenTask) -> list[int]:
    """The fold of every example that heads learn from, found by its id."""
    train = load_task(request.task, data=request.data).splits["train"]
    numbers = dict(zip(train.ids, fold_numbers(train, 2).tolist(), strict=True))
    return [numbers[key] for key in frozen.train.examples.ids]


def test_every_run_learns_from_all_but_its_fold_and_nobody_from_what_is_held_out(
    tuned: Callable[[str], TuneRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = tuned("squad2")
    seen: dict[str, set[str]] = {}

    def building(task: Any, examples: Any, *more: Any) -> Any:  # noqa: ANN401
        seen.setdefault("learnt", set(examples.ids))  # the first that are cut are those to learn from
        return build_windows(task, examples, *more)

    def stop(*_args: Any, **_more: Any) -> None:  # noqa: ANN401
        raise KeyboardInterrupt

    monkeypatch.setattr(tune_module, "build_windows", building)
    monkeypatch.setattr(tuning_module, "tune_encoder", stop)
    train = load_task("squad2", data=request.data).splits["train"]
    learnt, held_out = split_train(train, fraction=1.0, held_out=0.2, seed=1)
    assert held_out is not None
    numbers = dict(zip(train.ids, fold_numbers(train, 3).tolist(), strict=True))
    for fold in range(3):
        seen.clear()
        with pytest.raises(KeyboardInterrupt):
            tune(replace(request, folds=3, fold=fold), tmp_path / str(fold))
        assert seen["learnt"] == {key for key in learnt.ids if numbers[key] != fold}
        assert not seen["learnt"] & set(held_out.ids)
        assert 0 < len(seen["learnt"]) < len(learnt)


def test_a_cross_fit_is_a_run_for_each_fold_and_one_for_the_whole(
    tuned: Callable[[str], TuneRequest], tmp_path: Path
) -> None:
    request = tuned("sst2")
    run = run_of(request)
    assert sorted(path.name for path in run.iterdir()) == ["cross_fit.json", "fold-0", "fold-1", "whole"]
    alone = tune(request, tmp_path / "alone")
    assert same_state(alone.run, run / "whole")
    prints = {fingerprint(load_encoder(f"{run}/{name}")) for name in ("fold-0", "fold-1", "whole")}
    assert len(prints) == 3


def test_windows_are_streamed_from_the_encoder_of_their_fold(tuned: Callable[[str], TuneRequest]) -> None:
    request = tuned("squad2")
    frozen = freeze_task(fit(request))
    states = frozen.states(frozen.train, range(3))
    assert isinstance(states, FoldStates)
    folds = np.array(fold_of(request, frozen))[frozen.train.windows.example]
    assert set(folds.tolist()) == {0, 1}
    encoders = [load_encoder(f"{run_of(request)}/fold-{fold}") for fold in (0, 1)]
    planned = [rows for _, rows in frozen.plan().steps_from(0)]
    assert sorted(np.concatenate(planned).tolist()) == list(range(len(frozen.train.windows)))
    for rows in planned:
        [fold] = set(folds[rows].tolist())
        found = states.batch(rows).hidden.states
        mine, other = (
            StreamStates(encoder, frozen.train.windows, frozen.passes, range(3)).batch(rows).hidden.states
            for encoder in (encoders[fold], encoders[1 - fold])
        )
        torch.testing.assert_close(found, mine, rtol=EXACT, atol=EXACT)
        assert not torch.allclose(found, other, atol=1e-2)
    with pytest.raises(ValueError, match="a batch is of one fold"):
        states.batch(np.arange(len(folds)))


@pytest.mark.parametrize(
    ("task", "pairs"), [("sst2", "auto"), ("own", "apart"), ("own", "aligned"), ("own", "together")]
)
def test_rows_come_from_the_encoder_of_their_fold(task: str, pairs: str, tuned: Callable[[str], TuneRequest]) -> None:
    request = tuned(task)
    frozen = freeze_task(fit(request, pairs=pairs))
    found = frozen.states(frozen.train, range(3))
    assert isinstance(found, RowStates)
    folds = torch.tensor(fold_of(request, frozen))
    alone = []
    for fold in (0, 1):
        one = replace(fit(request, pairs=pairs), encoder=f"{run_of(request)}/fold-{fold}", cross_fit=None)
        states = freeze_task(one).states(frozen.train, range(3))
        assert isinstance(states, RowStates)
        alone.append(states.rows)
    for fold in (0, 1):
        mine = folds == fold
        torch.testing.assert_close(found.rows[mine], alone[fold][mine], rtol=FLOAT32, atol=FLOAT32)
        assert not torch.allclose(found.rows[mine], alone[1 - fold][mine], atol=1e-2)


def test_held_out_and_dev_examples_come_from_the_whole(tuned: Callable[[str], TuneRequest]) -> None:
    request = tuned("sst2")
    frozen = freeze_task(fit(request))
    whole = load_encoder(f"{run_of(request)}/whole")
    for part in (frozen.held_out, frozen.dev):
        assert part is not None
        found = frozen.states(part, range(3))
        assert isinstance(found, RowStates)
        expected = encode_texts(whole, [part.windows], frozen.passes, pool=frozen.pool)
        torch.testing.assert_close(found.rows, expected, rtol=EXACT, atol=EXACT)


@pytest.mark.parametrize("task", ["squad2", "sst2"])
def test_heads_are_fitted_and_an_interrupted_fit_goes_on(
    task: str, tuned: Callable[[str], TuneRequest], tmp_path: Path
) -> None:
    request = fit(tuned(task), MIX, PLAIN, epochs=2)
    result = fit_heads(request, tmp_path / "run")
    assert {row["head"] for row in result.leaderboard} == {"layer_mix", "last_layer"}
    again = fit_heads(request, tmp_path / "run", resume=True)
    assert again.leaderboard == result.leaderboard
    config = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    assert len(set(config["weights"].split("+"))) == 3
    snapshot = fit_heads(replace(request, encoder=f"{request.encoder}@0.5"), tmp_path / "half")
    assert len(snapshot.leaderboard) == 2


def test_a_killed_cross_fit_goes_on_run_by_run(
    tuned: Callable[[str], TuneRequest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = tuned("sst2")
    calls: list[str] = []

    def killed(asked: TuneRequest, out: Path, **options: Any) -> TuneResult:  # noqa: ANN401
        calls.append(out.name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return tune(asked, out, **options)

    run = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(module, "tune", killed)
        with pytest.raises(KeyboardInterrupt):
            tune_folds(request, 2, run)
    with pytest.raises(BertVisionError, match=r"holds runs already\. Go on with them: --resume"):
        tune_folds(request, 2, run)
    with pytest.raises(BertVisionError, match=r"holds no whole cross-fit: cross_fit\.json is not there.*--cross-fit 2"):
        freeze_task(replace(fit(request), encoder=str(run)))
    before = everything(run / "fold-0")
    result = tune_folds(request, 2, run, resume=True)
    assert list(result.results) == ["fold-0", "fold-1", "whole"]
    assert everything(run / "fold-0") == before
    for name in result.results:
        assert same_state(run / name, run_of(request) / name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cross_fit": 3}, r"--cross-fit is 3, but .* was tuned with 2 folds\. Use as many"),
        ({"seed": 0}, r"held out other examples .* Use --held-out 0\.2 --seed 1 --fraction 1"),
        ({"held_out": 0.3}, r"held out other examples .* Use --held-out 0\.2"),
        ({"cross_fit": 1}, "--cross-fit is 1, at least 2 is expected"),
        ({"source": "store:x"}, "a cross-fit needs stream"),
        ({"encoder": "minilm"}, "minilm holds no whole cross-fit"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    changes: dict[str, Any], message: str, tuned: Callable[[str], TuneRequest], tmp_path: Path
) -> None:
    with pytest.raises(BertVisionError, match=message):
        fit_heads(replace(fit(tuned("sst2")), **changes), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_other_training_examples_are_refused(tuned: Callable[[str], TuneRequest], tmp_path: Path) -> None:
    request = replace(fit(tuned("sst2")), data=write_labels(tmp_path / "other", train=42))
    with pytest.raises(BertVisionError, match=r"was tuned on other training examples than these\. Use its --data"):
        fit_heads(request, tmp_path / "out")


def test_a_cross_fit_is_for_one_task_and_one_snapshot(tuned: Callable[[str], TuneRequest], tmp_path: Path) -> None:
    request = fit(tuned("sst2"))
    with pytest.raises(BertVisionError, match=r"tuned for one task\. Fit the tasks one by one"):
        fit_tasks([request, replace(request, task="cola")], tmp_path / "out")
    with pytest.raises(BertVisionError, match=r"--cross-fit takes one snapshot, such as --encoder RUN@0\.3"):
        fit_snapshots(request, tmp_path / "out")
    with pytest.raises(BertVisionError, match=r"Use all of them with --cross-fit, or one: --encoder .*/whole@0\.5$"):
        fit_heads(replace(request, cross_fit=None, encoder=f"{request.encoder}@0.5"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_cross_fit_needs_two_folds_and_examples_to_learn_from(
    tuned: Callable[[str], TuneRequest], tmp_path: Path
) -> None:
    request = tuned("sst2")
    with pytest.raises(BertVisionError, match="--cross-fit is 1, at least 2 is expected"):
        tune_folds(request, 1, tmp_path / "run")
    with pytest.raises(BertVisionError, match="too few for 99 folds"):
        tune_folds(request, 99, tmp_path / "run")
    data = Path(write_labels(tmp_path / "data"))
    (data / "train.tsv").unlink()
    with pytest.raises(BertVisionError, match="sst2 has no train split here"):
        tune_folds(replace(request, data=str(data)), 2, tmp_path / "run")
    for folds, fold, message in ((2, None, "both or none"), (None, 1, "both or none"), (2, 2, "0 to 1 is expected")):
        with pytest.raises(BertVisionError, match=message):
            tune(replace(request, folds=folds, fold=fold), tmp_path / "run")
    assert not (tmp_path / "run").exists()
