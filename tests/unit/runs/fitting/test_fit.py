"""Whole fits: many heads in front of a tiny frozen encoder, judged, kept and listed."""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from bertvision.encoder.load import load_encoder
from bertvision.errors import BertVisionError, DivergedError, UnknownNameError
from bertvision.evaluation.outputs import Outputs, SpanScores
from bertvision.heads import Head, HeadShape, count_parameters, load_head
from bertvision.lock import lock_folder
from bertvision.runs.fitting import fit_run as fit_run_module
from bertvision.runs.fitting.extract import ExtractRequest, extract_states
from bertvision.runs.fitting.fit import FitResult, build_trainee, fit_heads
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.fitting.frozen import FrozenTask, freeze_task
from bertvision.runs.fitting.read import read_heads
from bertvision.runs.folder import RunFolder
from bertvision.runs.validate import Validation
from bertvision.tasks.examples import Examples
from bertvision.tasks.task import Task
from bertvision.tasks.windows import Windows, build_windows
from bertvision.training import fit as loop_module
from bertvision.training.model import TunedModel
from bertvision.training.trainee import HeadSpec
from close import FLOAT32, KEPT
from folders import everything
from tiny_run import (
    WIDTH,
    head_tensors,
    read_lines,
    record_compiling,
    same_heads,
    save_tiny_encoder,
    tiny_fit,
    write_labels,
    write_pairs,
    write_questions,
    write_scores,
)

pytestmark = pytest.mark.usefixtures("few_strengths")

PLAIN = HeadSpec(head="last_layer", lr=2e-2, options={"dropout": 0.3})
MIX = HeadSpec(head="layer_mix", lr=2e-2, seed=1)
ADAPTER = HeadSpec(head="adapter_pool", options={"size": 4}, lr=2e-2, fraction=0.5, seed=2)
CONCAT = HeadSpec(head="layer_concat", lr=2e-2)
WILD = HeadSpec(head="layer_mix", lr=1e30, clip=0.0)
IMAGE = HeadSpec(head="xception", lr=2e-2, options={"stem": (4, 6), "entry": (8, 8)}, seed=3)

Ask = Callable[..., FitRequest]


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Makes requests for a task of any kind."""
    folder = tmp_path_factory.mktemp("data")
    encoder = save_tiny_encoder(tmp_path_factory.mktemp("encoder"), dropout=0.1)
    data = {
        "squad2": write_questions(folder / "squad2", train=60),
        "sst2": write_labels(folder / "sst2"),
        "own": write_scores(folder / "own"),
        "pairs": write_pairs(folder / "pairs"),
    }

    def make(task: str, *heads: HeadSpec, **changes: Any) -> FitRequest:  # noqa: ANN401 - any field
        return tiny_fit("own" if task == "pairs" else task, data[task], encoder, *heads, **changes)

    return make


def by_head(result: FitResult) -> dict[str, dict[str, Any]]:
    return {row["head"]: row for row in result.leaderboard}


def metrics(result: FitResult) -> list[Any]:
    return [(row["folder"], row["metrics"]) for row in result.leaderboard]


@pytest.mark.parametrize(("task", "main"), [("squad2", "f1"), ("sst2", "accuracy"), ("own", "pearson")])
def test_the_leaderboard_lists_every_head_best_first(task: str, main: str, ask: Ask, tmp_path: Path) -> None:
    result = fit_heads(ask(task, PLAIN, MIX, ADAPTER, CONCAT, epochs=2), tmp_path / "run")
    written = json.loads((tmp_path / "run" / "leaderboard.json").read_text(encoding="utf-8"))
    assert isinstance(written, list)
    assert written == result.leaderboard
    assert sorted(row["head"] for row in written) == ["adapter_pool", "last_layer", "layer_concat", "layer_mix"]
    scores = [row["metrics"][main] for row in written]
    assert scores == sorted(scores, reverse=True)
    for row in written:
        assert {"head", "options", "seed", "parameters", "seconds", "metrics", "folder"} <= row.keys()
        assert all(isinstance(value, float | int) and math.isfinite(value) for value in row["metrics"].values())
        assert row["seconds"] > 0
        head = load_head(tmp_path / "run" / row["folder"])
        outputs = 1 if task == "own" else 2
        assert (head.name, head.full_shape) == (row["head"], HeadShape(layers=3, width=WIDTH, outputs=outputs))
        assert json.loads(json.dumps(head.options)) == row["options"]
        assert count_parameters(head) == row["parameters"]
    adapter = by_head(result)["adapter_pool"]
    assert (adapter["options"]["size"], adapter["seed"], adapter["fraction"], adapter["lr"]) == (4, 2, 0.5, 2e-2)
    training = {"lr": 2e-2, "schedule": "linear", "warmup": 0.06, "weight_decay": 0.01, "clip": 1.0}
    assert adapter.items() >= training.items()
    assert not list((tmp_path / "run").glob("*checkpoint*"))


def test_a_folder_that_another_process_fits_in_is_refused(ask: Ask, tmp_path: Path) -> None:
    with (
        lock_folder(tmp_path / "run"),
        pytest.raises(BertVisionError, match=r"run is in use by another process \(\d+ on .*\)\. Wait for its end"),
    ):
        fit_heads(ask("sst2", PLAIN), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("resume", [False, True])
def test_what_another_process_finished_while_this_one_loaded_is_left_alone(
    *, resume: bool, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ask("sst2", MIX)
    before: list[object] = []

    def slow(asked: FitRequest) -> FrozenTask:
        frozen = freeze_task(asked)
        monkeypatch.undo()
        fit_heads(request, tmp_path / "run")  # the other process, from its beginning to its end
        before.append(everything(tmp_path / "run"))
        return frozen

    monkeypatch.setattr("bertvision.runs.fitting.fit.freeze_task", slow)
    if resume:
        notices = fit_heads(request, tmp_path / "run", resume=True).notices
        assert notices == (f"{tmp_path / 'run'} is finished; there was nothing left to do.",)
    else:
        with pytest.raises(BertVisionError, match=r"run holds a run already\. It is finished\. Use another --out\."):
            fit_heads(request, tmp_path / "run")
    assert before == [everything(tmp_path / "run")]


def test_layers_and_what_heads_do_layer_by_layer_are_compiled_where_that_is_asked_for(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ladder = HeadSpec(head="ladder", options={"size": 4, "heads": 2}, lr=2e-2)
    recurrent = HeadSpec(head="recurrent", options={"size": 4}, lr=2e-2)
    attention = HeadSpec(head="encoder_attention", options={"heads": 2, "size": 2}, lr=2e-2)
    heads = (ladder, recurrent, attention)
    plain = fit_heads(ask("squad2", *heads), tmp_path / "plain")
    names = record_compiling(monkeypatch)
    compiled = fit_heads(ask("squad2", *heads, compile=True), tmp_path / "compiled")
    steps = ["_Rung.forward", "_Rung.forward_packed", "Recurrent._cell", "EncoderAttention._outputs"]
    assert names == ["BertLayer.forward", *steps]
    assert metrics(compiled) == metrics(plain)


@pytest.mark.parametrize("task", ["squad2", "sst2", "own"])
def test_a_head_from_its_folder_gives_the_metrics_again(task: str, ask: Ask, tmp_path: Path) -> None:
    request = ask(task, PLAIN, ADAPTER, CONCAT, validate=(0.5,))
    result = fit_heads(request, tmp_path / "run")
    frozen = freeze_task(request)
    validation = Validation(
        task=frozen.task, held_out=frozen.held_out, dev=frozen.dev, pool=frozen.pool, passes=frozen.passes
    )
    for row in result.leaderboard:
        head = load_head(result.run / row["folder"])
        model = TunedModel(load_encoder(request.encoder), head, pool=None if task == "squad2" else frozen.pool)
        again, _ = validation.score(model)
        assert again == pytest.approx(row["metrics"], abs=FLOAT32)


@pytest.mark.parametrize("task", ["squad2", "sst2"])
def test_a_head_has_the_same_result_alone_and_among_others(task: str, ask: Ask, tmp_path: Path) -> None:
    together = fit_heads(ask(task, WILD, PLAIN, MIX, ADAPTER, epochs=4, solve=False), tmp_path / "together")
    found = head_tensors(together.run)
    for number, spec in enumerate((PLAIN, MIX, ADAPTER), start=1):
        # the largest share of the data is the run's: a head that sees half of it needs one that sees all
        few = (spec,) if spec.fraction == 1.0 else (spec, PLAIN)
        alone = fit_heads(ask(task, *few, epochs=4, solve=False), tmp_path / f"alone{number}")
        kept = head_tensors(alone.run).items()
        mine = {name.partition(":")[2]: value for name, value in kept if name.startswith("000-")}
        theirs = {name.partition(":")[2]: value for name, value in found.items() if name.startswith(f"{number:03}-")}
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(value, theirs[name]) for name, value in mine.items())
        assert by_head(together)[spec.head]["metrics"] == by_head(alone)[spec.head]["metrics"]


def test_another_seed_gives_another_result_and_the_same_seed_the_same(ask: Ask, tmp_path: Path) -> None:
    specs = [replace(MIX, seed=seed) for seed in (3, 3, 4)]
    result = fit_heads(ask("sst2", *specs, solve=False), tmp_path / "run")
    found = head_tensors(result.run)
    weights = [found[f"{number:03}-layer_mix:project.weight"] for number in range(3)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_smaller_shares_lie_within_larger_ones_and_count_examples(ask: Ask) -> None:
    for task in ("sst2", "squad2"):
        request = ask(task, PLAIN)
        frozen = freeze_task(request)
        shares = [build_trainee(replace(PLAIN, fraction=share), frozen, request) for share in (0.1, 0.25, 0.5)]
        rows = [trainee.rows for trainee in shares]
        assert [trainee.every for trainee in shares] == [10 if task == "squad2" else 11, 4, 2]
        for smaller, larger in ((rows[0], rows[1]), (rows[1], rows[2])):
            assert smaller is not None
            assert larger is not None
            assert (smaller <= larger).all()
            assert smaller.sum() < larger.sum()
        assert build_trainee(PLAIN, frozen, request).rows is None


def test_heads_for_scores_begin_with_the_mean_score_of_what_they_learn_from(ask: Ask) -> None:
    request = ask("own", MIX, ADAPTER)
    frozen = freeze_task(request)
    targets = frozen.train.windows.targets
    whole, half = (build_trainee(spec, frozen, request) for spec in (MIX, ADAPTER))
    assert half.rows is not None
    assert whole.head.project.bias.item() == pytest.approx(targets.mean())
    assert half.head.project.bias.item() == pytest.approx(targets[half.rows].mean())
    assert targets.mean() != pytest.approx(targets[half.rows].mean())


def test_one_that_diverges_is_told_of_and_not_listed(ask: Ask, tmp_path: Path) -> None:
    result = fit_heads(ask("sst2", WILD, PLAIN, epochs=4, solve=False), tmp_path / "run")
    assert [row["head"] for row in result.leaderboard] == ["last_layer"]
    [notice] = [notice for notice in result.notices if "dropped" in notice]
    assert notice.startswith("head 0 (layer_mix) was dropped: its loss was ")
    assert notice.endswith(" at step 16.")
    [line] = [line for line in read_lines(result.run) if "dropped" in line]
    assert (line["dropped"], line["step"]) == (0, 16)


def test_one_that_was_kept_before_it_diverged_is_listed(ask: Ask, tmp_path: Path) -> None:
    slow_to_anger = replace(WILD, lr=1e19, schedule="linear", warmup=0.9)
    request = ask("sst2", slow_to_anger, PLAIN, epochs=4, solve=False, validate=(0.25,))
    result = fit_heads(request, tmp_path / "run")
    assert any("head 0 (layer_mix) was dropped" in notice for notice in result.notices)
    row = by_head(result)["layer_mix"]
    assert row["folder"] == "heads/000-layer_mix"
    assert load_head(result.run / row["folder"]).project.weight.isfinite().all()


def test_if_all_diverge_that_is_said_with_a_reason_for_each_and_nothing_is_finished(ask: Ask, tmp_path: Path) -> None:
    request = ask("sst2", WILD, replace(WILD, seed=1), epochs=4)
    expected = (
        r"^no head was kept: head 0 \(layer_mix\) was dropped: its loss was \w+ at step 16\. "
        r"head 1 \(layer_mix\) was dropped: its loss was \w+ at step 16\. Use a smaller --lr and another --out\."
    )
    for resume in (False, True):
        with pytest.raises(DivergedError, match=expected):
            fit_heads(request, tmp_path / "run", resume=resume)
        assert not (tmp_path / "run" / "leaderboard.json").exists()
        assert RunFolder(tmp_path / "run").result() is None


@pytest.mark.parametrize("task", ["squad2", "sst2", "own"])
def test_one_whose_outputs_are_not_finite_is_never_kept(
    task: str, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(range(10))

    def spoilt(heads: Sequence[Head], *words: Any, **more: Any) -> list[Outputs]:  # noqa: ANN401 - handed on
        found, time = read_heads(heads, *words, **more), next(times)
        if time < 2:  # at the first validation head 0, at the second head 1, which is the first of two then
            outputs = found[0]
            column = outputs.end if isinstance(outputs, SpanScores) else outputs[:, 0]
            column[-1] = (math.nan, math.inf)[time]  # one number of many
        return found

    monkeypatch.setattr(fit_run_module, "read_heads", spoilt)
    request = ask(task, PLAIN, MIX, CONCAT, solve=False, validate=(0.5,))
    result = fit_heads(request, tmp_path / "run")
    assert sorted(by_head(result)) == ["layer_concat", "layer_mix"]
    reason = "its outputs on held-out examples were not finite at step"
    lines = read_lines(result.run)
    half, end = sorted({line["step"] for line in lines if "validated" in line})
    drops = [line for line in lines if "dropped" in line]
    assert drops == [
        {"step": half, "dropped": 0, "reason": f"{reason} {half}"},
        {"step": end, "dropped": 1, "reason": f"{reason} {end}"},
    ]
    assert [notice for notice in result.notices if "dropped" in notice] == [
        f"head 0 (last_layer) was dropped: {reason} {half}.",
        f"head 1 (layer_mix) was dropped: {reason} {end}.",
    ]
    judged = [(line["head"], line["step"]) for line in lines if "validated" in line]
    assert judged == [(1, half), (2, half), (2, end)]
    monkeypatch.undo()
    alone = fit_heads(replace(request, heads=(MIX,)), tmp_path / "alone")
    held_out = [line["score"] for line in read_lines(alone.run) if line.get("validated") == 0.5]
    assert by_head(result)["layer_mix"]["held_out"] == held_out[0]  # its weights are those of the first validation


def test_a_head_that_learns_too_fast_for_numbers_does_not_win_with_no_answer(tmp_path: Path) -> None:
    encoder, data = save_tiny_encoder(tmp_path / "encoder"), write_questions(tmp_path / "data")
    heads = HeadSpec(head="layer_mix"), HeadSpec(head="adapter_pool", lr=1e30)
    result = fit_heads(tiny_fit("squad2", data, encoder, *heads, batch=16, epochs=1 / 3), tmp_path / "run")
    assert list(by_head(result)) == ["layer_mix"]
    assert any("head 1 (adapter_pool) was dropped: its outputs" in notice for notice in result.notices)


@pytest.mark.parametrize("solve", [True, False])
def test_an_encoder_with_a_state_that_is_not_finite_is_named(*, solve: bool, ask: Ask, tmp_path: Path) -> None:
    encoder = Path(save_tiny_encoder(tmp_path / "encoder"))
    weights = load_file(encoder / "model.safetensors")
    weights["encoder.layer.1.output.dense.weight"][0, 0] = math.nan
    save_file(weights, encoder / "model.safetensors", metadata={"format": "pt"})
    request = replace(ask("sst2", PLAIN, MIX, solve=solve), encoder=str(encoder))
    with pytest.raises(BertVisionError, match=rf"^a state of {encoder} is not finite\. Is the encoder whole\?$"):
        fit_heads(request, tmp_path / "run")
    with pytest.raises(DivergedError, match=r"no head was kept: .* its loss was nan .* Is the encoder whole\?$"):
        fit_heads(replace(ask("squad2", PLAIN), encoder=str(encoder)), tmp_path / "spans")


def test_the_log_is_not_read_again_for_every_head(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = RunFolder.lines
    reads: list[int] = []

    def counted(self: RunFolder) -> list[dict[str, object]]:
        reads.append(1)
        return lines(self)

    monkeypatch.setattr(RunFolder, "lines", counted)
    fit_heads(ask("sst2", PLAIN, MIX, CONCAT, solve=False), tmp_path / "once")
    once = len(reads)
    fit_heads(ask("sst2", PLAIN, MIX, CONCAT, MIX, solve=False, validate=(0.25, 0.5)), tmp_path / "often")
    assert len(reads) == 2 * once


def test_a_fit_that_goes_on_knows_the_best_scores_and_whom_it_solved(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ask("sst2", PLAIN, MIX, CONCAT, epochs=2, validate=(1,))
    judge = fit_run_module.FitRun.judge

    def worse(self: fit_run_module.FitRun, numbers: Sequence[int], step: int) -> dict[int, float | None]:
        if step > 4 and killed:
            raise PulledPlugError
        return dict.fromkeys(judge(self, numbers, step), 1.0 / step)

    monkeypatch.setattr(fit_run_module.FitRun, "judge", worse)
    for resume, killed in ((False, True), (True, True), (True, False)):
        with pytest.raises(PulledPlugError) if killed else nullcontext():
            fit_heads(request, tmp_path / "run", resume=resume)
    lines = read_lines(tmp_path / "run")
    assert [line["kept"] for line in lines if "validated" in line] == [True, False]
    assert [line["head"] for line in lines if "strength" in line] == [0, 2]


def test_the_best_of_each_by_held_out_score_is_kept(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([0.5, 0.2, 0.4, 0.6, 0.5, 0.9])  # of two heads at three times
    score_outputs = Validation.score_outputs
    seen: list[dict[str, torch.Tensor]] = []

    def judged(self: Validation, held_out: Any, dev: Any) -> tuple[dict[str, float], float | None]:  # noqa: ANN401
        values, score = score_outputs(self, held_out, dev)
        return values, next(scores) if dev is None else score

    keep = fit_run_module.FitRun._save  # noqa: SLF001
    kept: list[int] = []

    def noted(self: fit_run_module.FitRun, number: int) -> None:
        keep(self, number)
        kept.append(number)
        seen.append(head_tensors(tmp_path / "run"))

    monkeypatch.setattr(Validation, "score_outputs", judged)
    monkeypatch.setattr(fit_run_module.FitRun, "_save", noted)
    result = fit_heads(ask("sst2", PLAIN, MIX, solve=False, validate=(0.25, 0.5)), tmp_path / "run")
    assert kept == [0, 1, 1, 1]
    lines = [line for line in read_lines(result.run) if "validated" in line]
    assert [(line["head"], line["validated"], line["kept"]) for line in lines] == [
        *[(0, 0.25, True), (1, 0.25, True)],
        *[(0, 0.5, False), (1, 0.5, True)],
        *[(0, 1, False), (1, 1, True)],
    ]
    end = head_tensors(result.run)
    assert torch.equal(end["000-last_layer:project.weight"], seen[0]["000-last_layer:project.weight"])
    assert torch.equal(end["001-layer_mix:project.weight"], seen[-1]["001-layer_mix:project.weight"])
    assert not torch.equal(end["001-layer_mix:project.weight"], seen[1]["001-layer_mix:project.weight"])


def test_held_out_examples_are_read_again_only_for_heads_that_were_better_before(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([0.5, 0.4, 0.3, 0.6])  # of two heads at two times
    score_outputs = Validation.score_outputs
    read: list[tuple[list[str], int]] = []

    def judged(self: Validation, held_out: Any, dev: Any) -> tuple[dict[str, float], float | None]:  # noqa: ANN401
        values, score = score_outputs(self, held_out, dev)
        return values, next(scores) if dev is None else score

    def noted(heads: Sequence[Head], states: Any, windows: Windows, **options: Any) -> list[Outputs]:  # noqa: ANN401
        read.extend([([head.name for head in heads], len(windows))] if heads else [])
        return read_heads(heads, states, windows, **options)

    monkeypatch.setattr(Validation, "score_outputs", judged)
    monkeypatch.setattr(fit_run_module, "read_heads", noted)
    request = ask("squad2", PLAIN, MIX, validate=(0.5,))
    fit_heads(request, tmp_path / "run")
    frozen = freeze_task(request)
    assert frozen.dev is not None
    held_out, both = len(frozen.held_out.windows), ["last_layer", "layer_mix"]
    assert read == [(both, held_out)] * 2 + [(["last_layer"], held_out), (both, len(frozen.dev.windows))]


def test_a_head_whose_score_is_not_defined_is_kept_until_there_is_a_better_one(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([math.nan, 0.5, math.nan, math.nan, math.nan, math.nan])
    score_outputs = Validation.score_outputs

    def judged(self: Validation, held_out: Any, dev: Any) -> tuple[dict[str, float], float | None]:  # noqa: ANN401
        values, score = score_outputs(self, held_out, dev)
        return (values, next(scores)) if dev is None else (values | {"accuracy": math.nan}, score)

    monkeypatch.setattr(Validation, "score_outputs", judged)
    result = fit_heads(ask("sst2", PLAIN, MIX, solve=False, validate=(0.25, 0.5)), tmp_path / "run")
    lines = [line for line in read_lines(result.run) if "validated" in line]
    assert [line["kept"] for line in lines] == [True, True, False, False, False, False]
    assert [line["score"] for line in lines] == [None, 0.5, None, None, None, None]
    assert [row["metrics"]["accuracy"] for row in result.leaderboard] == [None, None]  # as JSON has no NaN


def test_copies_of_texts_do_not_flatter_the_folds_of_a_solved_head(ask: Ask, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    texts = [f"{first} {second}" for first in "abcdefgh" for second in "abcd"]
    labels = random.permutation(["yes", "no"] * 16)  # which the texts tell nothing of
    lines = [f"{text},{label}\n" for text, label in zip(texts, labels, strict=True)]
    (tmp_path / "own.csv").write_text("text,label\n" + "".join(random.permutation(lines * 6)), encoding="utf-8")
    request = replace(ask("own", CONCAT, replace(CONCAT, fraction=0.5)), data=str(tmp_path / "own.csv"))
    losses = [line["loss"] for line in read_lines(fit_heads(request, tmp_path / "run").run) if "strength" in line]
    assert len(losses) == 2
    assert min(losses) > 0.9 * math.log(2)


def test_convex_heads_are_solved_for_rows_and_trained_if_asked(ask: Ask, tmp_path: Path) -> None:
    solved = fit_heads(ask("sst2", PLAIN, MIX, CONCAT), tmp_path / "solved")
    lines = [line for line in read_lines(solved.run) if "strength" in line]
    assert [line["head"] for line in lines] == [0, 2]
    assert {head for line in read_lines(solved.run) for head in line.get("losses", {})} == {"1"}
    trained = fit_heads(ask("sst2", PLAIN, MIX, CONCAT, solve=False), tmp_path / "trained")
    assert {head for line in read_lines(trained.run) for head in line.get("losses", {})} == {"0", "1", "2"}
    everyone = fit_heads(ask("sst2", PLAIN, CONCAT), tmp_path / "everyone")  # nobody is left to train
    assert by_head(everyone)["layer_concat"]["metrics"] == by_head(solved)["layer_concat"]["metrics"]
    assert by_head(everyone)["layer_concat"]["metrics"]["held_out_accuracy"] > 0.7
    spans = fit_heads(ask("squad2", PLAIN), tmp_path / "spans")
    assert not any("strength" in line for line in read_lines(spans.run))


@pytest.mark.parametrize("pairs", ["apart", "together"])
def test_pairs_are_learnt_apart_and_together(pairs: str, ask: Ask, tmp_path: Path) -> None:
    result = fit_heads(ask("pairs", PLAIN, MIX, pairs=pairs, epochs=4, pool="mean"), tmp_path / "run")
    for row in result.leaderboard:
        shape = load_head(result.run / row["folder"]).full_shape
        assert shape.width == (2 * WIDTH if pairs == "apart" else WIDTH)
    if pairs == "apart":  # whether two words are the same can be seen from their difference
        assert result.leaderboard[0]["metrics"]["accuracy"] > 0.8


def test_without_a_dev_split_held_out_metrics_rank(ask: Ask, tmp_path: Path) -> None:
    request = ask("sst2", PLAIN, MIX)
    data = Path(write_labels(tmp_path / "data"))
    (data / "dev.tsv").unlink()
    result = fit_heads(replace(request, data=str(data)), tmp_path / "run")
    assert all(name.startswith("held_out_") for row in result.leaderboard for name in row["metrics"])
    assert len(result.leaderboard) == 2


class PulledPlugError(Exception):
    """What ends a fit in the middle."""


@pytest.mark.parametrize(("task", "at"), [("squad2", 8), ("sst2", 7), ("sst2", 14)])
def test_an_interrupted_fit_ends_as_one_that_was_left_alone(
    task: str, at: int, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ask(task, PLAIN, WILD, ADAPTER, MIX, IMAGE, epochs=4, solve=False, validate=(0.8, 3))
    whole = fit_heads(request, tmp_path / "whole")
    learn = loop_module._Fitting.learn  # noqa: SLF001 - in the midst of it

    def pull(self: Any, batch: Any, rows: Any, step: int) -> None:  # noqa: ANN401
        if step == at:
            raise PulledPlugError
        learn(self, batch, rows, step)

    with monkeypatch.context() as patch:
        patch.setattr(loop_module._Fitting, "learn", pull)  # noqa: SLF001
        with pytest.raises(PulledPlugError):
            fit_heads(request, tmp_path / "run")
    resumed = fit_heads(request, tmp_path / "run", resume=True)
    assert same_heads(resumed.run, whole.run)
    assert metrics(resumed) == metrics(whole)
    assert read_lines(resumed.run) == read_lines(whole.run)
    assert resumed.notices == whole.notices
    assert any("layer_mix) was dropped" in notice for notice in resumed.notices)
    texts = (resumed.run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    spent = [line["seconds"]["0"] for line in map(json.loads, texts) if "seconds" in line]
    passes = [line["spent"] for line in map(json.loads, texts) if "spent" in line]
    for seconds in (spent, passes):
        assert seconds == sorted(seconds)  # what was spent before counts, too
        assert seconds[0] < seconds[-1]
    assert all(one <= whole for one, whole in zip(spent, passes, strict=True))  # the encoder runs, too


def test_a_finished_fit_gives_its_result_again_and_another_request_is_refused(ask: Ask, tmp_path: Path) -> None:
    request = ask("sst2", PLAIN, MIX)
    first = fit_heads(request, tmp_path / "run")
    before = everything(first.run)
    again = fit_heads(request, tmp_path / "run", resume=True)
    assert again.leaderboard == first.leaderboard
    assert again.notices == (f"{first.run} is finished; there was nothing left to do.",)
    with pytest.raises(BertVisionError, match=r"holds a run already. It is finished. Use another --out"):
        fit_heads(request, tmp_path / "run")
    for other in (replace(request, epochs=2.0), replace(request, heads=(MIX, PLAIN))):
        with pytest.raises(BertVisionError, match=r"was asked for something else: (epochs was 1|heads was )"):
            fit_heads(other, tmp_path / "run", resume=True)
    assert everything(first.run) == before


def test_a_leaderboard_that_is_none_is_refused(ask: Ask, tmp_path: Path) -> None:
    request = ask("sst2", PLAIN)
    result = fit_heads(request, tmp_path / "run")
    (result.run / "leaderboard.json").write_text("{}", encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"leaderboard.json holds no list. Start anew with another --out"):
        fit_heads(request, tmp_path / "run", resume=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"heads": (PLAIN, replace(PLAIN, head="nothing"))}, "unknown head 'nothing'"),
        ({"heads": (replace(PLAIN, options={"drop": 1}),)}, "unknown option of head 'last_layer' 'drop'"),
        ({"validate": (2.0,)}, "--validate has 2; more than 0 and at most the 1 epochs of the run is expected"),
        ({"validate": (0.99,)}, r"--validate 0\.99 and 1 fall on the same step 4 of 4"),
        ({"epochs": 0.0, "batch": 0}, "--epochs is 0, .*; --batch is 0, "),
        ({"encoder": "nowhere/at-all"}, "nowhere/at-all"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    changes: dict[str, Any], message: str, ask: Ask, tmp_path: Path
) -> None:
    with pytest.raises(BertVisionError, match=message):
        fit_heads(replace(ask("sst2", PLAIN), **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_unknown_task_is_refused(ask: Ask, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown task"):
        fit_heads(replace(ask("sst2", PLAIN), task="nothing"), tmp_path / "run")


def test_whoever_watches_is_told_how_far_it_is(ask: Ask, tmp_path: Path) -> None:
    told: list[tuple[int, int, dict[str, float], str]] = []

    def show(step: int, total: int, values: Any, *, doing: str = "") -> None:  # noqa: ANN401
        told.append((step, total, dict(values), doing))

    fit_heads(ask("sst2", PLAIN, MIX, solve=False, validate=(0.5,)), tmp_path / "run", show=show)
    assert [(step, total) for step, total, _, _ in told] == [(0, 4), (2, 4), (2, 4), (4, 4), (4, 4), (4, 4)]
    assert [doing for *_, doing in told if doing] == [
        "judging heads at 0.5 epochs …",
        "judging heads at 1 epoch …",
        "scoring 2 heads …",
    ]
    assert told[1][2]["heads"] == 2
    assert 0 < told[1][2]["lowest loss"] < 2
    assert np.isfinite(told[3][2]["lowest loss"])


def test_every_step_is_told_where_steps_are_slow(ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertvision.runs.fitting.fit_run.SHOW_SECONDS", 0.0)  # all steps are slow
    told: list[int] = []
    request = ask("sst2", PLAIN, solve=False, validate=())
    fit_heads(request, tmp_path / "run", show=lambda step, *_, **__: told.append(step))
    assert set(told) == set(range(5))


def test_one_head_is_not_called_heads(ask: Ask, tmp_path: Path) -> None:
    told: list[str] = []
    fit_heads(ask("sst2", PLAIN), tmp_path / "run", show=lambda *_, doing="", **__: told.append(doing))
    assert told[-1] == "scoring 1 head …"


def stored(request: FitRequest, folder: Path, encoder: str | None = None) -> FitRequest:
    """The same request, from a store of float16 states made for it, or for another encoder."""
    extract_states(
        ExtractRequest(
            task=request.task, data=request.data, windows=request.windows, encoder=encoder or request.encoder
        ),
        folder,
    )
    return replace(request, source=f"store:{folder}")


@pytest.mark.parametrize("task", ["squad2", "sst2"])
def test_heads_from_a_store_end_where_those_from_the_encoder_do(task: str, ask: Ask, tmp_path: Path) -> None:
    request = ask(task, PLAIN, MIX, ADAPTER, solve=False)
    streamed = fit_heads(request, tmp_path / "streamed")
    from_store = fit_heads(stored(request, tmp_path / "store"), tmp_path / "stored")
    ours, theirs = head_tensors(from_store.run), head_tensors(streamed.run)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        # the bias of a span raises all tokens alike: its gradient is rounding alone, which AdamW enlarges
        if task != "squad2" or not name.endswith("project.bias"):
            torch.testing.assert_close(value, theirs[name], rtol=KEPT, atol=KEPT)


def test_a_store_of_another_encoder_is_refused_with_the_command_that_makes_the_right_one(
    ask: Ask, tmp_path: Path
) -> None:
    request = ask("squad2", PLAIN)
    other = save_tiny_encoder(tmp_path / "other", seed=5)
    expected = (
        rf"does not fit: fingerprint is .*\. Make one that does: bertvision extract squad2 --data {request.data} "
        rf"--length 64 --stride 16 --question 24 --encoder {request.encoder} --layers 2\.\.2 --keep fp16 "
        rf"--store {tmp_path}/store-2$"
    )
    with pytest.raises(BertVisionError, match=expected):
        fit_heads(stored(request, tmp_path / "store", other), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("task", ["squad2", "sst2"])
def test_a_store_without_a_layer_that_a_head_reads_is_refused_before_anything_is_written(
    task: str, ask: Ask, tmp_path: Path
) -> None:
    request = ask(task, MIX)
    extract_states(ExtractRequest(**request.data_fields(), layers="1..2", device="cpu"), tmp_path / "store")
    with pytest.raises(
        BertVisionError, match=r"it has layers 1\.\.2, 0\.\.2 are asked for\. Make one that does: bertvisi"
    ):
        fit_heads(replace(request, source=f"store:{tmp_path / 'store'}"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_whole_of_a_split_is_cut_into_windows_once(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = stored(ask("squad2", MIX), tmp_path / "store")
    sizes: list[int] = []

    def count(task: Task, examples: Examples, *more: Any) -> Windows:  # noqa: ANN401 - handed on
        sizes.append(len(examples))
        return build_windows(task, examples, *more)

    monkeypatch.setattr("bertvision.runs.task_parts.build_windows", count)
    fit_heads(request, tmp_path / "run")
    assert sorted(sizes) == [12, 12, 48, 60]  # held out, dev, learnt from, and both of train


def test_pairs_that_are_encoded_apart_do_not_come_from_a_store(ask: Ask, tmp_path: Path) -> None:
    request = replace(ask("pairs", PLAIN), pairs="apart", source=f"store:{tmp_path}")
    with pytest.raises(BertVisionError, match="a store keeps pairs together"):
        fit_heads(request, tmp_path / "run")


@pytest.mark.parametrize("source", ["store:", "disk", "stream:x"])
def test_states_come_from_a_stream_or_a_store(source: str, ask: Ask) -> None:
    with pytest.raises(BertVisionError, match=f"--from is '{source}', auto, stream or store:DIR is expected"):
        replace(ask("sst2", PLAIN), source=source).check()


@pytest.mark.parametrize("head", ["ladder", "context_conv", "pooled_adapter_ngram"])
def test_a_head_that_looks_at_neighbours_is_refused_where_there_is_one_row_per_text(
    head: str, ask: Ask, tmp_path: Path
) -> None:
    with pytest.raises(BertVisionError, match=f"'{head}' looks at neighbouring tokens.* bertvision tune sst2"):
        fit_heads(ask("sst2", HeadSpec(head=head)), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_leaderboard_says_who_was_solved_and_how_deep_the_kept_head_reads(ask: Ask, tmp_path: Path) -> None:
    result = by_head(fit_heads(ask("sst2", CONCAT, MIX, replace(PLAIN, options={"layers": "0..1"})), tmp_path / "run"))
    assert {name: (row["solved"], row["depth"]) for name, row in result.items()} == {
        "layer_concat": (True, 2),
        "layer_mix": (False, 2),
        "last_layer": (True, 1),
    }


@pytest.mark.parametrize("solve", [True, False])
def test_class_weights_let_every_class_count_the_same(*, solve: bool, tmp_path: Path) -> None:
    encoder, data = save_tiny_encoder(tmp_path / "encoder"), write_labels(tmp_path / "data", train=200, rare=0.1)
    found = []
    for weighted in (False, True):
        request = tiny_fit("sst2", data, encoder, PLAIN, pool="mean", solve=solve, class_weights=weighted)
        result = fit_heads(request, tmp_path / str(weighted))
        bias = load_head(result.run / result.leaderboard[0]["folder"]).project.bias.detach()
        found.append(float(bias[1] - bias[0]))
    assert found[1] > found[0] + 0.1  # the rare class is said more readily


def test_class_weights_are_refused_where_there_are_no_classes(tmp_path: Path) -> None:
    encoder, data = save_tiny_encoder(tmp_path / "encoder"), write_questions(tmp_path / "data")
    with pytest.raises(BertVisionError, match="--class-weights is for tasks with one label per text; squad2 asks for"):
        fit_heads(tiny_fit("squad2", data, encoder, PLAIN, class_weights=True), tmp_path / "run")
    assert not (tmp_path / "run").exists()
