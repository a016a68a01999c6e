"""Whole runs of a tiny encoder on tiny data."""

import errno
import json
import math
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.tracking import LOGGER_TYPE_TO_CLASS
from accelerate.utils import LoggerType
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import BertForQuestionAnswering

from bertvision.encoder.load import load_encoder
from bertvision.encoder.snapshot import find_snapshot, list_snapshots
from bertvision.errors import BertVisionError
from bertvision.heads import load_head
from bertvision.lock import lock_folder
from bertvision.runs.folder import RunFolder
from bertvision.runs.request import TuneRequest
from bertvision.runs.tuning import tune as tune_module
from bertvision.runs.tuning import tuning as tuning_module
from bertvision.runs.tuning.multitask import multitask
from bertvision.runs.tuning.tune import tune
from bertvision.tasks.examples import Questions
from bertvision.tasks.load import TaskData, load_task
from bertvision.tasks.own import OwnColumns
from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows, build_windows
from bertvision.training import tune as loop_module
from bertvision.training.schedule import rate_factor
from close import FLOAT32
from folders import everything
from tiny_run import (
    losses,
    read_lines,
    read_tensors,
    record_compiling,
    same_state,
    save_tiny_encoder,
    tiny_config,
    tiny_multitask,
    tiny_request,
    write_labels,
    write_questions,
    write_scores,
    write_several,
)

KINDS = ["squad2", "squad1", "answerable", "sst2", "own"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """With dropout, as real ones have it."""
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"), dropout=0.1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The data of a task of every kind."""
    folder = tmp_path_factory.mktemp("data")
    squad2 = write_questions(folder / "squad2")
    return {
        "squad2": squad2,
        "answerable": squad2,
        "squad1": write_questions(folder / "squad1", answerable_only=True),
        "sst2": write_labels(folder / "sst2"),
        "own": write_scores(folder / "own"),
    }


@pytest.mark.parametrize("task", KINDS)
def test_every_kind_of_task_is_learnt(task: str, data: dict[str, str], encoder: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    result = tune(tiny_request(task, data[task], encoder, epochs=24, snapshots=(1, 6)), run)
    curve = losses(run)
    assert curve[-1] < 0.6 * curve[0]
    assert [snapshot.folder.name for snapshot in result.snapshots] == ["1", "6", "24"]
    # 36 of 40 examples are learnt, in batches of 8
    assert (result.run, result.steps, result.processes, result.main) == (run, 24 * 5, 1, True)
    main = {"squad2": ("best_f1", 70), "squad1": ("f1", 70), "answerable": ("accuracy", 0.7), "sst2": ("accuracy", 0.9)}
    metric, least = main.get(task, ("pearson", 0.5))
    assert result.metrics[metric] > least
    assert result.metrics == {
        name: value for name, value in read_lines(run)[-1].items() if name not in ("step", "snapshot")
    }


def test_a_run_leaves_config_metrics_snapshots_and_result(data: dict[str, str], encoder: str, tmp_path: Path) -> None:
    request = tiny_request("squad2", data["squad2"], encoder, snapshots=(0.4,), learn="top:1")
    result = tune(request, tmp_path / "run")
    assert sorted(path.name for path in result.run.iterdir()) == [
        "config.json",
        "metrics.jsonl",
        "result.json",
        "snapshots",
    ]
    config = json.loads((result.run / "config.json").read_text(encoding="utf-8"))
    assert config["request"]["options"]["lr"] == 5e-3
    assert config["request"]["encoder"] == encoder
    lines = read_lines(result.run)
    # 40 questions, 4 of them held out: 36 windows in 5 batches, of which 0.4 are 2
    steps = [(line["step"], line.get("snapshot")) for line in lines]
    assert steps == [(1, None), (2, None), (2, 0.4), (5, None), (5, 1.0)]
    assert lines[0].keys() == {"step", "loss", "lr"}
    assert {"f1", "f1_fitted", "best_f1", "held_out_best_f1", "threshold"} <= lines[2].keys()
    assert isinstance(result.metrics["total"], int)
    written = json.loads((result.run / "result.json").read_text(encoding="utf-8"))
    assert (written["steps"], written["processes"], written["metrics"]) == (5, 1, result.metrics)
    # the top layer has 2,224, two LayerNorms of 32 among them; three more stand below; the output has 34
    assert result.trainable == written["trainable"] == 2224 + 3 * 32 + 34
    assert result.notices[0] == "squad2 train has 40 rows here; the official file has 130,319."


def test_a_folder_that_another_process_tunes_in_is_refused(data: dict[str, str], encoder: str, tmp_path: Path) -> None:
    with (
        lock_folder(tmp_path / "run"),
        pytest.raises(BertVisionError, match=r"run is in use by another process \(\d+ on .*\)\. Wait for its end"),
    ):
        tune(tiny_request("sst2", data["sst2"], encoder), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("resume", [False, True])
def test_what_another_process_finished_while_this_one_loaded_is_left_alone(
    *, resume: bool, data: dict[str, str], encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = tiny_request("sst2", data["sst2"], encoder)
    before: list[object] = []

    def slow(name: str, **options: Any) -> TaskData:  # noqa: ANN401 - handed on
        monkeypatch.undo()
        tune(request, tmp_path / "run")  # the other process, from its beginning to its end
        before.append(everything(tmp_path / "run"))
        return load_task(name, **options)

    monkeypatch.setattr("bertvision.runs.data_request.load_task", slow)
    if resume:
        notices = tune(request, tmp_path / "run", resume=True).notices
        assert notices == (f"{tmp_path / 'run'} is finished; there was nothing left to do.",)
    else:
        with pytest.raises(BertVisionError, match=r"run holds a run already\. It is finished\. Use another --out\."):
            tune(request, tmp_path / "run")
    assert before == [everything(tmp_path / "run")]


def test_layers_are_compiled_where_that_is_asked_for(
    data: dict[str, str], encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tune(tiny_request("sst2", data["sst2"], encoder), tmp_path / "plain")
    names = record_compiling(monkeypatch)
    compiled = tune(tiny_request("sst2", data["sst2"], encoder, compile=True), tmp_path / "compiled")
    assert names == ["BertLayer.forward"]
    assert compiled.metrics == plain.metrics


def test_a_snapshot_is_the_model_at_that_step(data: dict[str, str], encoder: str, tmp_path: Path) -> None:
    request = tiny_request("squad2", data["squad2"], encoder, snapshots=(0.4,), schedule="constant")
    long = tune(request, tmp_path / "long")
    short = tune(tiny_request("squad2", data["squad2"], encoder, epochs=0.4, schedule="constant"), tmp_path / "short")
    early, late = long.snapshots
    assert (early.fraction, early.step, late.fraction, late.step) == (0.4, 2, 1.0, 5)
    assert (early.task, early.learn, early.encoder, early.pool) == ("squad2", "full", encoder, "cls")
    changes = short.snapshots[-1].load_changes()
    assert all(torch.equal(value, changes[name]) for name, value in early.load_changes().items())
    loaded = dict(load_encoder(f"{long.run}@0.4").model.named_parameters())
    assert all(torch.equal(value, loaded[name]) for name, value in changes.items())


def test_what_a_kill_left_of_a_snapshot_is_none(data: dict[str, str], encoder: str, tmp_path: Path) -> None:
    result = tune(tiny_request("sst2", data["sst2"], encoder), tmp_path / "run")
    shutil.copytree(result.run / "snapshots" / "1", result.run / "snapshots" / ".1.part")
    assert list_snapshots(result.run) == result.snapshots


def test_the_same_seed_gives_the_same_run_and_another_seed_another(
    data: dict[str, str], encoder: str, tmp_path: Path
) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        tune(tiny_request("sst2", data["sst2"], encoder, seed=seed), tmp_path / name)
    assert same_state(tmp_path / "a", tmp_path / "b")
    assert not same_state(tmp_path / "a", tmp_path / "c")


def test_held_out_questions_share_no_context_with_the_learnt_ones(encoder: str, tmp_path: Path) -> None:
    seen: dict[str, Questions] = {}

    def note(task: Task, examples: Questions, tokenizer: TextTokenizer, options: WindowOptions) -> Windows:
        seen[("learnt", "held_out", "dev")[len(seen)]] = examples
        return build_windows(task, examples, tokenizer, options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tune_module, "build_windows", note)
        tune(tiny_request("squad2", "builtin", encoder, fraction=0.2, epochs=0.01, held_out=0.2), tmp_path / "run")
    learnt, held_out = (set(seen[name].context_index.tolist()) for name in ("learnt", "held_out"))
    assert not learnt & held_out
    assert len(seen["learnt"]) + len(seen["held_out"]) == round(0.2 * 605)
    assert len(seen["held_out"]) >= 0.2 * 0.2 * 605
    assert len(seen["dev"]) == 143


def test_a_fraction_of_the_data_takes_fewer_steps(data: dict[str, str], encoder: str, tmp_path: Path) -> None:
    request = tiny_request("sst2", data["sst2"], encoder, fraction=0.5)
    # 20 of 40, 2 of them held out: 18 in batches of 8
    assert tune(request, tmp_path / "run").steps == 3


def test_nothing_need_be_held_out(data: dict[str, str], encoder: str, tmp_path: Path) -> None:
    result = tune(tiny_request("squad2", data["squad2"], encoder, held_out=0.0), tmp_path / "run")
    assert result.steps == 5  # all 40
    assert "f1" in result.metrics
    assert not [name for name in result.metrics if name.startswith("held_out") or name.endswith("fitted")]


def test_without_dev_a_run_is_scored_on_what_is_held_out(encoder: str, tmp_path: Path) -> None:
    folder = write_labels(tmp_path / "data")
    (Path(folder) / "dev.tsv").unlink()
    result = tune(tiny_request("sst2", folder, encoder), tmp_path / "run")
    assert result.metrics.keys() == {"held_out_accuracy"}
    assert any("no dev split" in notice for notice in result.notices)


def test_neither_held_out_nor_dev_leaves_a_run_without_scores(encoder: str, tmp_path: Path) -> None:
    folder = write_labels(tmp_path / "data")
    (Path(folder) / "dev.tsv").unlink()
    result = tune(tiny_request("sst2", folder, encoder, held_out=0.0), tmp_path / "run")
    assert result.metrics == {}
    assert len(result.snapshots) == 1


def test_a_correlation_that_is_not_defined_is_nan_and_the_run_goes_on(encoder: str, tmp_path: Path) -> None:
    folder = write_scores(tmp_path / "data", train=20)
    (Path(folder) / "dev.csv").write_text("text,score\na good,0.5\na a,0.5\n", encoding="utf-8")
    result = tune(tiny_request("own", folder, encoder, columns=OwnColumns()), tmp_path / "run")
    assert math.isnan(result.metrics["pearson"])
    assert read_lines(result.run)[-1]["pearson"] is None


@pytest.mark.parametrize(("marker", "pool"), [(None, "cls"), ({"pooling_mode_mean_tokens": True}, "mean")])
def test_the_row_that_counts_is_the_one_the_encoder_was_trained_with(
    marker: dict[str, bool] | None, pool: str, data: dict[str, str], tmp_path: Path
) -> None:
    encoder = save_tiny_encoder(tmp_path / "encoder")
    if marker is not None:
        (tmp_path / "encoder" / "1_Pooling").mkdir()
        (tmp_path / "encoder" / "1_Pooling" / "config.json").write_text(json.dumps(marker), encoding="utf-8")
    result = tune(tiny_request("sst2", data["sst2"], encoder), tmp_path / "run")
    assert result.snapshots[0].pool == pool


def test_the_row_that_counts_can_be_chosen(data: dict[str, str], encoder: str, tmp_path: Path) -> None:
    runs = {
        pool: tune(tiny_request("sst2", data["sst2"], encoder, pool=pool), tmp_path / pool) for pool in ("cls", "mean")
    }
    assert {pool: run.snapshots[0].pool for pool, run in runs.items()} == {"cls": "cls", "mean": "mean"}
    assert losses(runs["cls"].run) != losses(runs["mean"].run)


def test_a_batch_in_parts_gives_the_same_run(data: dict[str, str], tmp_path: Path) -> None:
    encoder = save_tiny_encoder(tmp_path / "encoder")  # without dropout, which draws other numbers for other parts
    curves = []
    for parts in (1, 3):
        request = tiny_request("squad2", data["squad2"], encoder, accumulate=parts, epochs=2, lr=1e-3)
        curves.append(losses(tune(request, tmp_path / str(parts)).run))
    assert curves[0] == pytest.approx(curves[1], abs=FLOAT32)


def test_dropout_can_be_switched_off(data: dict[str, str], tmp_path: Path) -> None:
    with_dropout = save_tiny_encoder(tmp_path / "with", dropout=0.3)
    without = save_tiny_encoder(tmp_path / "without", dropout=0.0)
    runs = {"given": (with_dropout, None), "off": (with_dropout, 0.0), "none": (without, None)}
    curves = {
        name: losses(tune(tiny_request("squad2", data["squad2"], encoder, dropout=dropout), tmp_path / name).run)
        for name, (encoder, dropout) in runs.items()
    }
    assert curves["off"] == curves["none"] != curves["given"]


@pytest.mark.parametrize("learn", ["top:1", "lora:2", "houlsby:4", "bitfit", "layernorm", "none"])
def test_little_that_learns_takes_little_space(learn: str, data: dict[str, str], encoder: str, tmp_path: Path) -> None:
    result = tune(tiny_request("squad2", data["squad2"], encoder, learn=learn), tmp_path / "run")
    saved = sum(value.numel() for value in read_tensors(result.run).values())
    assert saved == result.trainable < 0.75 * result.total
    assert load_encoder(str(result.run)).depth == 2


def test_a_run_says_if_its_encoder_learnt_from_what_it_holds_out(encoder: str, tmp_path: Path) -> None:
    data = write_several(tmp_path / "data")
    tune(tiny_request("sst2", data, encoder, learn="top:1", held_out=0.2), tmp_path / "first")
    for number, (seed, flattered) in enumerate([(0, False), (1, True)]):
        request = tiny_request("sst2", data, str(tmp_path / "first"), learn="top:1", seed=seed)
        several = tiny_multitask("sts,sst2", data, str(tmp_path / "first"), learn="top:1", seed=seed)
        for result in (
            tune(request, tmp_path / f"tuned-{number}"),
            multitask(several, tmp_path / f"several-{number}"),
        ):
            assert any("may flatter" in notice for notice in result.notices) == flattered


def test_a_tuned_run_can_be_tuned_further(data: dict[str, str], encoder: str, tmp_path: Path) -> None:
    first = tune(tiny_request("squad2", data["squad2"], encoder, learn="top:1"), tmp_path / "first")
    second = tune(tiny_request("sst2", data["sst2"], str(first.run), learn="top:1"), tmp_path / "second")
    assert second.snapshots[-1].encoder == str(first.run)
    tuned = dict(load_encoder(str(second.run)).model.named_parameters())
    changes = second.snapshots[-1].load_changes()
    assert all(torch.equal(value, tuned[name]) for name, value in changes.items())


def test_a_checkpoint_with_an_output_of_its_own_starts_with_it(data: dict[str, str], tmp_path: Path) -> None:
    encoder = save_tiny_encoder(tmp_path / "encoder")
    asking = BertForQuestionAnswering(tiny_config())
    asking.save_pretrained(encoder)
    request = tiny_request("squad2", data["squad2"], encoder, epochs=0.01, lr=1e-9, head_lr=1e-9)
    head = load_head(tune(request, tmp_path / "run").snapshots[0].folder)
    assert head.name == "last_layer"
    torch.testing.assert_close(head.project.weight, asking.qa_outputs.weight, atol=FLOAT32, rtol=0)


def test_scores_start_at_their_mean(data: dict[str, str], encoder: str, tmp_path: Path) -> None:
    request = tiny_request("own", data["own"], encoder, held_out=0.0, epochs=0.01, head_lr=1e-9)
    head = load_head(tune(request, tmp_path / "run").snapshots[0].folder)
    rows = (Path(data["own"]) / "train.csv").read_text(encoding="utf-8").splitlines()[1:]
    mean = sum(float(row.split(",")[1]) for row in rows) / len(rows)
    assert head.project.bias.tolist() == pytest.approx([mean], abs=FLOAT32)


def test_bfloat16_can_be_asked_for_after_float32_in_one_process(
    data: dict[str, str], encoder: str, tmp_path: Path
) -> None:
    runs = [
        tune(tiny_request("squad2", data["squad2"], encoder, dtype=dtype), tmp_path / dtype).run
        for dtype in ("float32", "bfloat16")
    ]
    assert losses(runs[0]) != losses(runs[1])
    assert all(value.dtype == torch.float32 for value in read_tensors(runs[1]).values())


def test_it_stops_early_when_held_out_scores_no_longer_rise(data: dict[str, str], encoder: str, tmp_path: Path) -> None:
    request = tiny_request(
        "sst2", data["sst2"], encoder, patience=1, epochs=5, snapshots=(1, 2, 3, 4), lr=1e-9, head_lr=1e-9
    )
    result = tune(request, tmp_path / "run")
    assert [snapshot.folder.name for snapshot in result.snapshots] == ["1", "2"]
    assert result.steps == 10


def test_classes_can_count_the_same(encoder: str, tmp_path: Path) -> None:
    folder = write_labels(tmp_path / "data", rare=0.1)
    curves = [
        losses(tune(tiny_request("sst2", folder, encoder, class_weights=weighted), tmp_path / str(weighted)).run)
        for weighted in (False, True)
    ]
    assert curves[1][0] > curves[0][0]  # the rare class, which is not known yet, counts more


def test_progress_is_shown_and_says_what_takes_long(data: dict[str, str], encoder: str, tmp_path: Path) -> None:
    shown: list[tuple[int, int, set[str], str]] = []

    def show(step: int, total: int, values: Mapping[str, float], *, doing: str = "") -> None:
        shown.append((step, total, set(values), doing))

    tune(tiny_request("squad2", data["squad2"], encoder, snapshots=(0.4,)), tmp_path / "run", show=show)
    main = {"snapshot", "loss", "f1", "exact", "f1_fitted", "best_f1"}
    assert shown == [
        (0, 5, set(), ""),
        (1, 5, {"loss", "lr"}, ""),
        (2, 5, {"loss", "lr"}, ""),
        (2, 5, set(), "scoring snapshot 0.4 …"),
        (2, 5, main, ""),
        (5, 5, {"loss", "lr"}, ""),
        (5, 5, set(), "scoring snapshot 1 …"),
        (5, 5, main, ""),
    ]


def test_every_step_is_shown_where_steps_are_slow(
    data: dict[str, str], encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bertvision.runs.watch.SHOW_SECONDS", 0.0)  # all steps are slow
    shown: list[tuple[int, set[str]]] = []

    def show(step: int, total: int, values: Mapping[str, float], *, doing: str = "") -> None:  # noqa: ARG001 - Show
        if doing == "learning …":
            shown.append((step, set(values)))

    tune(tiny_request("squad2", data["squad2"], encoder), tmp_path / "run", show=show)
    # with the newest loss, by which `PeakMemory` knows that there were only steps before
    assert shown == [(1, set()), *((step, {"loss"}) for step in range(2, 6))]


class Stop(BaseException):
    """Stands for a kill: nothing may catch it."""


def interrupt(request: TuneRequest, run: Path, step: int, *, resume: bool = False) -> None:
    """Begin a run, or go on with it, and die before a step."""

    def die(now: int, total: int, **more: Any) -> float:  # noqa: ANN401 - passed on
        if now == step:
            raise Stop
        return rate_factor(now, total, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop_module, "rate_factor", die)
        with pytest.raises(Stop):
            tune(request, run, resume=resume)


@pytest.mark.parametrize("task", ["squad2", "sst2", "own"])
def test_a_run_that_dies_anywhere_ends_as_if_nothing_had_happened(
    task: str, data: dict[str, str], encoder: str, tmp_path: Path
) -> None:
    request = tiny_request(
        task, data[task], encoder, epochs=2, snapshots=(0.4, 1, 1.6), save_every=2, learn="top:1", schedule="cosine"
    )
    tune(request, tmp_path / "whole")
    interrupt(request, tmp_path / "run", 1)  # before there is a checkpoint
    for step in (3, 5, 6, 9):
        interrupt(request, tmp_path / "run", step, resume=True)
    result = tune(request, tmp_path / "run", resume=True)
    assert same_state(tmp_path / "whole", tmp_path / "run")
    assert sorted(path.name for path in result.run.iterdir()) == sorted(
        path.name for path in (tmp_path / "whole").iterdir()
    )


def test_a_run_that_dies_while_a_snapshot_is_scored_ends_the_same(
    data: dict[str, str], encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = tiny_request("squad2", data["squad2"], encoder, snapshots=(0.4, 0.8))
    tune(request, tmp_path / "whole")

    def die(*_: object) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr("bertvision.runs.tuning.tune.main_values", die)
        for _ in range(2):  # the snapshot and its line are there, but no checkpoint
            with pytest.raises(Stop):
                tune(request, tmp_path / "run", resume=True)
    tune(request, tmp_path / "run", resume=True)
    assert same_state(tmp_path / "whole", tmp_path / "run")


def test_a_run_that_dies_at_its_very_end_is_finished_without_learning_again(
    data: dict[str, str], encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = tiny_request("squad2", data["squad2"], encoder)

    def die(*_: object) -> None:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(tuning_module, "_finish", die)
        with pytest.raises(Stop):
            tune(request, tmp_path / "run")
    before = read_lines(tmp_path / "run")
    interrupt_if_it_learns = pytest.MonkeyPatch()
    interrupt_if_it_learns.setattr(loop_module, "rate_factor", die)
    result = tune(request, tmp_path / "run", resume=True)
    interrupt_if_it_learns.undo()
    assert read_lines(tmp_path / "run") == before
    assert result.steps == 5
    assert not list((tmp_path / "run").glob("checkpoint-*"))


def test_a_finished_run_gives_its_result_again_and_stays_as_it_is(
    data: dict[str, str], encoder: str, tmp_path: Path
) -> None:
    request = tiny_request("squad2", data["squad2"], encoder)
    first = tune(request, tmp_path / "run")
    before = everything(tmp_path / "run")
    again = tune(request, tmp_path / "run", resume=True)
    assert everything(tmp_path / "run") == before
    assert (again.metrics, again.snapshots, again.total) == (first.metrics, first.snapshots, first.total)
    assert again.notices == (f"{tmp_path / 'run'} is finished; there was nothing left to do.",)


def test_a_run_is_neither_overwritten_nor_continued_as_another(
    data: dict[str, str], encoder: str, tmp_path: Path
) -> None:
    request = tiny_request("sst2", data["sst2"], encoder, save_every=2)
    interrupt(request, tmp_path / "run", 3)
    before = everything(tmp_path / "run")
    with pytest.raises(BertVisionError, match=r"holds a run already\. Go on with it: --resume"):
        tune(request, tmp_path / "run")
    other = tiny_request("sst2", data["sst2"], encoder, save_every=2, lr=1e-4, learn="top:1")
    with pytest.raises(BertVisionError, match=r"learn was full, is top:1; options\.lr was 0\.005, is 0\.0001"):
        tune(other, tmp_path / "run", resume=True)
    assert everything(tmp_path / "run") == before


def test_a_run_does_not_go_on_with_another_encoder_under_the_same_name(data: dict[str, str], tmp_path: Path) -> None:
    request = tiny_request("sst2", data["sst2"], save_tiny_encoder(tmp_path / "encoder"), save_every=2)
    interrupt(request, tmp_path / "run", 3)
    save_tiny_encoder(tmp_path / "encoder", seed=1)
    with pytest.raises(BertVisionError, match="began with an encoder with fingerprint"):
        tune(request, tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"snapshots": (0.0,)}, r"--snapshots has 0; more than 0"),
        ({"snapshots": (0.3, 2.0)}, r"--snapshots has 2; .* at most the 1 epochs"),
        ({"snapshots": (0.4, 0.41)}, r"fall on the same step"),
        ({"class_weights": True}, r"--class-weights is for tasks with one label per text; squad2 asks for spans"),
        ({"fraction": 0.03}, r"1 training examples are too few .* Use more of them, or another --held-out"),
        ({"device": "cuda"}, r"--device cuda was asked for, but there is no GPU here\. Use --device cpu"),
        ({"learn": "top:9"}, r"has 2 layers only"),
        ({"learn": "tops"}, r"--learn is 'tops', one of these is expected"),
        ({"encoder": "./nowhere"}, r"'./nowhere' is not a folder"),
        ({"batch": 0, "fraction": 2.0}, r"--batch is 0, .*; --fraction is 2, "),
        ({"tracker": "nothing"}, r"unknown tracker 'nothing'"),
        ({"data": "nowhere"}, r"nowhere does not exist"),
        ({"task": "squad3"}, r"unknown task 'squad3'"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_written(
    changes: dict[str, object], message: str, data: dict[str, str], encoder: str, tmp_path: Path
) -> None:
    given = {"task": "squad2", "data": data["squad2"], "encoder": encoder} | changes
    request = tiny_request(**given)  # type: ignore[arg-type]  # names of fields
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: False)
        with pytest.raises(BertVisionError, match=message):
            tune(request, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_task_without_a_train_split_is_refused(encoder: str, tmp_path: Path) -> None:
    folder = write_labels(tmp_path / "data")
    (Path(folder) / "train.tsv").unlink()
    with pytest.raises(BertVisionError, match="sst2 has no train split here, so there is nothing to learn from"):
        tune(tiny_request("sst2", folder, encoder), tmp_path / "run")


def test_a_loss_that_is_not_a_number_ends_the_run_and_keeps_the_snapshots(
    data: dict[str, str], encoder: str, tmp_path: Path
) -> None:
    request = tiny_request("squad2", data["squad2"], encoder, epochs=3, snapshots=(0.4,), save_every=2)

    def leap(step: int, total: int, **more: Any) -> float:  # noqa: ANN401 - passed on
        return 1e32 if step >= 5 else rate_factor(step, total, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop_module, "rate_factor", leap)
        with pytest.raises(
            BertVisionError, match=r"(loss is nan at|not finite after) step \d+\. Snapshots made before"
        ):
            tune(request, tmp_path / "run")
    kept = find_snapshot(str(tmp_path / "run"))
    assert kept is not None
    assert kept.fraction == 0.4
    assert all(bool(value.isfinite().all()) for value in kept.load_changes().values())


def fill_the_disk(patch: pytest.MonkeyPatch, file: str, after: int) -> None:
    """Let every file of a name fail after so many."""
    written: list[str] = []

    def save(tensors: dict[str, Tensor], path: Path, **_: object) -> None:
        if path.name == file:
            written.append(path.name)
        if len(written) > after:
            path.write_bytes(b"half of ")
            raise OSError(errno.ENOSPC, "No space left on device")
        save_file(tensors, path)

    patch.setattr("bertvision.tensor_files.save_file", save)


@pytest.mark.parametrize(
    ("file", "what"),
    [
        ("encoder.safetensors", "snapshots/0.8"),
        ("head.safetensors", "snapshots/0.8"),
        ("tensors.safetensors", "checkpoint-4"),
    ],
)
def test_a_full_disk_ends_the_run_with_the_last_good_snapshot_and_it_goes_on_when_there_is_room(
    file: str, what: str, data: dict[str, str], encoder: str, tmp_path: Path
) -> None:
    request = tiny_request("squad2", data["squad2"], encoder, snapshots=(0.4, 0.8))
    run = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        fill_the_disk(patch, file, after=1)
        with pytest.raises(BertVisionError, match=rf"{what} cannot be written: No space left on device"):
            tune(request, run)
    good = load_file(run / "snapshots" / "0.4" / "encoder.safetensors")
    assert all(bool(value.isfinite().all()) for value in good.values())
    assert (run / "checkpoint-2").is_dir()
    assert not list(run.rglob("*.part"))
    tune(request, run, resume=True)
    tune(request, tmp_path / "whole")
    assert same_state(tmp_path / "whole", run)


def test_a_full_disk_for_the_log_is_told(
    data: dict[str, str], encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    real = RunFolder.begin

    def begin(folder: RunFolder, request: Mapping[str, object], weights: str, **more: str | None) -> None:
        real(folder, request, weights, **more)
        monkeypatch.setattr(Path, "open", full)

    monkeypatch.setattr(RunFolder, "begin", begin)
    expected = r"metrics\.jsonl cannot be written: No space left on device\. Make room, and go on with --resume\."
    with pytest.raises(BertVisionError, match=expected):
        tune(tiny_request("squad2", data["squad2"], encoder), tmp_path / "run")


class Tracker:
    """Stands for TensorBoard."""

    name = "tensorboard"
    requires_logging_directory = True
    logged: list[tuple[int, set[str]]]
    calls: list[str]

    def __init__(self, name: str, folder: str) -> None:
        type(self).logged, type(self).calls = [], [name]
        Path(folder, "events").mkdir(parents=True)  # TensorBoard makes a folder of its own

    def start(self) -> None:
        self.calls.append("start")

    def log(self, values: dict[str, float], step: int) -> None:
        self.logged.append((step, set(values)))

    def finish(self) -> None:
        self.calls.append("finish")


def test_a_tracker_is_told_what_the_log_is_told(
    data: dict[str, str], encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accelerate.tracking.get_available_trackers", lambda: [LoggerType.TENSORBOARD])
    monkeypatch.setitem(LOGGER_TYPE_TO_CLASS, "tensorboard", Tracker)
    result = tune(tiny_request("sst2", data["sst2"], encoder, tracker="tensorboard"), tmp_path / "run")
    assert (result.run / "events").is_dir()
    assert Tracker.calls == ["bertvision", "start", "finish"]
    assert Tracker.logged == [(1, {"loss", "lr"}), (5, {"loss", "lr"}), (5, {"accuracy", "held_out_accuracy"})]


def test_neither_scoring_nor_checkpoints_count_as_seconds_of_steps(
    data: dict[str, str], encoder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("bertvision.runs.watch.time.perf_counter", lambda: clock[0])

    def slow(module: str, name: str, seconds: float) -> None:
        done = getattr(sys.modules[module], name)

        def take(*words: Any, **more: Any) -> Any:  # noqa: ANN401 - passed on
            clock[0] += seconds
            return done(*words, **more)

        monkeypatch.setattr(f"{module}.{name}", take)

    slow("bertvision.training.tune", "rate_factor", 1.0)  # called at every step
    slow("bertvision.training.tune", "save_checkpoint", 1000.0)
    slow("bertvision.runs.tuning.tune", "save_snapshot", 1000.0)
    request = tiny_request("sst2", data["sst2"], encoder, snapshots=(0.4,), learn="top:1", save_every=1)
    run = tune(request, tmp_path / "run").run
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [(line["step"], line["seconds"]) for line in lines if "seconds" in line] == [(1, 1.0), (2, 2.0), (5, 5.0)]


def test_seconds_of_steps_go_on_after_an_interruption(data: dict[str, str], encoder: str, tmp_path: Path) -> None:
    request = tiny_request("sst2", data["sst2"], encoder, epochs=2, snapshots=(0.4, 1), learn="top:1")
    interrupt(request, tmp_path / "run", 4)
    log = tmp_path / "run" / "metrics.jsonl"
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    spent = [{**line, "seconds": 1000.0} if "seconds" in line else line for line in lines]
    assert lines != spent
    log.write_text("".join(json.dumps(line) + "\n" for line in spent), encoding="utf-8")
    tune(request, tmp_path / "run", resume=True)
    seconds = [json.loads(line).get("seconds") for line in log.read_text(encoding="utf-8").splitlines()]
    known = [one for one in seconds if one is not None]
    assert known == sorted(known)
    assert 1000 < known[-1] < 1100
