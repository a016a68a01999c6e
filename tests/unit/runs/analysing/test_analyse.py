"""A finished run is analysed: the same answers as its evaluation, one pass, two models compared, files as told."""

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bertvision.encoder.encoder import Encoder
from bertvision.errors import BertVisionError
from bertvision.evaluation.outputs import Outputs
from bertvision.evaluation.prediction_files import read_answers
from bertvision.evaluation.squad_metric import score_questions
from bertvision.heads import load_head
from bertvision.runs.analysing.analyse import AnalysisResult, analyse
from bertvision.runs.analysing.analysis_record import AnalysedModel, AnalysisRecord
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.fitting.freeze_points import fit_snapshots
from bertvision.runs.judging.evaluate import evaluate
from bertvision.runs.judging.evaluation_record import EvaluationRecord
from bertvision.runs.judging.judge import Judge, Verdict
from bertvision.runs.judging.read_subjects import SharedPass
from bertvision.runs.judging.subject import load_subject
from bertvision.runs.tuning.tune import tune
from bertvision.tasks.examples import Questions
from bertvision.tasks.load import load_task
from bertvision.training.trainee import HeadSpec
from close import FLOAT32, FLOAT64
from folders import everything
from tiny_run import (
    save_tiny_encoder,
    tiny_fit,
    tiny_request,
    write_labels,
    write_pairs,
    write_questions,
    write_scores,
    write_tags,
)

HEADS = [
    *(HeadSpec(head="layer_mix", lr=0.03, seed=seed, options={"layers": "0..2"}) for seed in (0, 1)),
    *(HeadSpec(head="layer_mix", lr=0.03, seed=seed, options={"layers": "0..1"}) for seed in (0, 1)),
    HeadSpec(head="dot_attention", lr=0.03),
    HeadSpec(head="layer_mix", lr=0.03, fraction=0.5),
]
ASKED = "dev7"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tuned run, and fits of six heads on its two snapshots."""
    folder = tmp_path_factory.mktemp("runs")
    encoder, data = save_tiny_encoder(folder / "encoder"), write_questions(folder / "data", train=60, dev=40)
    tune(tiny_request("squad2", data, encoder, snapshots=(1.0,), epochs=3, held_out=0.2), folder / "tuned")
    fit_snapshots(tiny_fit("squad2", data, f"{folder}/tuned", *HEADS, epochs=2), folder / "fits")
    return folder


@pytest.fixture(scope="module")
def run(place: Path) -> Path:
    return place / "fits" / "at-1"


@pytest.fixture(scope="module")
def result(run: Path) -> AnalysisResult:
    return analyse(run, question=ASKED, device="cpu")


def questions(place: Path) -> Questions:
    found = load_task("squad2", data=place / "data").splits["dev"]
    assert isinstance(found, Questions)
    return found


def model(result: AnalysisResult, name: str | None) -> AnalysedModel:
    return next(one for one in result.record.models if one.name == name)


def test_models_of_a_run_that_was_not_evaluated_yet_are_judged_once(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run, tmp_path / "fit", ignore=shutil.ignore_patterns("evaluation", "analysis.json"))
    judge, judged = Judge.judge, list[Outputs]()

    def count(self: Judge, outputs: Outputs, held_out: Outputs | None) -> Verdict:
        judged.append(outputs)
        return judge(self, outputs, held_out)

    monkeypatch.setattr(Judge, "judge", count)
    models = analyse(tmp_path / "fit", device="cpu").record.models
    assert len(judged) == len(models) == 7


def test_the_record_can_be_read_again(run: Path, result: AnalysisResult) -> None:
    assert result.folder == run
    assert AnalysisRecord.read(run) == result.record
    content = json.loads((run / AnalysisRecord.FILE).read_text(encoding="utf-8"))
    assert (content["format"], content["record"]) == (1, "analysis")
    assert content["provenance"]["packages"]["torch"]
    assert content["command"] == f"bertvision analyse {run} --split dev --question {ASKED}"


def test_models_have_the_scores_and_the_order_of_the_evaluation(run: Path, result: AnalysisResult) -> None:
    evaluation = EvaluationRecord.read(run / "evaluation" / "dev")  # made on the way
    assert [one.name for one in result.record.models] == [row.name for row in evaluation.rows]
    assert (result.record.metric, result.record.at) == ("f1", "fitted")
    for mine, row in zip(result.record.models, evaluation.rows, strict=True):
        fitted = row.scores["fitted"]
        assert (mine.threshold, mine.score) == (fitted.threshold, fitted.values["f1"].value)
        assert mine.question_types is not None
        overall = mine.question_types.overall
        assert overall.all is not None
        assert overall.has_answer is not None
        assert overall.all.f1 == pytest.approx(mine.score, rel=FLOAT64)
        assert overall.has_answer.f1 == pytest.approx(fitted.values["HasAns_f1"].value, rel=FLOAT64)


def test_errors_are_counted_on_the_answers_at_the_fitted_threshold(
    place: Path, run: Path, result: AnalysisResult
) -> None:
    for one in result.record.models:
        answers = read_answers(run / "evaluation" / "dev" / one.name / "answers.json")
        scores = score_questions(questions(place).golds(), answers)
        wrong = scores.answerable & (scores.exact < 1)
        assert one.second_answers is not None
        assert one.second_answers.has_answer_errors == wrong.sum()
        assert one.second_answers.predicted_empty == (wrong & ~scores.answered).sum()
        assert one.calibration is not None
        assert one.calibration.fitted_on == result.record.held_out_examples == 12
        assert one.calibration.before.accuracy == pytest.approx(scores.exact.mean(), rel=FLOAT64)
        assert sum(bin_.count for bin_ in one.calibration.after.bins) == 40


def test_the_best_head_is_compared_with_the_own_output(place: Path, run: Path, result: AnalysisResult) -> None:
    record = result.record
    assert record.first == next(one.name for one in record.models if not one.own)
    assert record.second == "own_output"
    assert record.errors == f"errors-{record.first}-vs-own_output.csv"
    given = [
        read_answers(run / "evaluation" / "dev" / str(name) / "answers.json") for name in (record.first, record.second)
    ]
    ours, theirs = (score_questions(questions(place).golds(), answers).exact == 1 for answers in given)
    with (run / record.errors).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    ids = questions(place).ids
    assert [one["id"] for one in rows] == [ids[row] for row in np.flatnonzero(~(ours & theirs))]
    assert all(one[str(record.first)] == given[0][one["id"]] for one in rows)
    assert all(one["own_output right"] == str(bool(theirs[ids.index(one["id"])])).lower() for one in rows)
    assert record.context_lengths is not None
    assert record.context_lengths.first.count == ours.sum()
    assert record.context_lengths.second_only.count == (theirs & ~ours).sum()


def test_learned_weights_are_those_of_the_heads_over_seeds(run: Path, result: AnalysisResult) -> None:
    groups = {one.group.models: one for one in result.record.layer_weights}
    assert set(groups) == {
        ("000-layer_mix", "001-layer_mix"),
        ("002-layer_mix", "003-layer_mix"),
        ("005-layer_mix",),
    }
    whole = groups["000-layer_mix", "001-layer_mix"]
    weights = []
    for name in whole.group.models:
        found = load_head(run / "heads" / name).layer_weights()
        assert found is not None
        weights.append(found.detach().double().numpy()[0])
    (learned,) = whole.report.sets
    assert whole.report.layers == (0, 1, 2)
    assert [one.mean for one in learned.weights] == pytest.approx(np.mean(weights, axis=0), rel=FLOAT64)
    assert learned.centre.seeds == 2
    assert groups["005-layer_mix",].report.sets[0].centre.low is None


@torch.inference_mode()
def test_attention_is_the_mean_over_real_tokens(run: Path, result: AnalysisResult) -> None:
    (found,) = result.record.attention
    assert found.group.models == ("004-dot_attention",)
    assert found.outputs == ("start", "end")
    subject = load_subject(run)
    shared = SharedPass(subject, "cpu")
    head = load_head(run / "heads" / "004-dot_attention")
    sums, tokens, asked = torch.zeros(2, 2), 0, None
    for rows, batch in shared.batches(subject.part, range(1, 3)):
        for place, row in enumerate(rows.tolist()):  # one window alone, without its padding
            real = batch.hidden.states[place : place + 1][:, :, batch.hidden.mask[place]]
            attention = head.layer_attention(real)
            assert attention is not None
            mine = attention[0].sum(dim=1)  # (layers, outputs)
            sums, tokens = sums + mine, tokens + real.shape[2]
            if subject.part.examples.ids[subject.part.windows.example[row]] == ASKED:
                asked = mine / real.shape[2]
    assert asked is not None
    for report, expected in ((found.all, sums / tokens), (found.question, asked)):
        assert report is not None
        assert report.layers == (1, 2)
        for output, one in enumerate(report.sets):
            assert [layer.mean for layer in one.weights] == pytest.approx(expected[:, output].tolist(), abs=FLOAT32)
            assert sum(layer.mean for layer in one.shares) == pytest.approx(1.0, rel=FLOAT64)


def test_prefix_heads_give_a_sweep_with_measured_seconds(result: AnalysisResult) -> None:
    (sweep,) = result.record.depth_sweeps
    assert [point.models for point in sweep.points] == [
        ("002-layer_mix", "003-layer_mix"),
        ("000-layer_mix", "001-layer_mix"),
    ]
    assert [point.cost_share for point in sweep.points] == [0.5, 1.0]
    cost = result.record.cost
    assert (cost.layers, cost.depths, cost.timed_examples, cost.device) == (2, (1, 2), 16, "cpu")
    for point, encoder in zip(sweep.points, cost.seconds, strict=True):
        scores = [model(result, name).score or 0.0 for name in point.models]
        assert point.score is not None
        assert point.score.mean == pytest.approx(np.mean(scores), rel=FLOAT64)
        assert point.seconds is not None
        assert point.seconds > encoder > 0
    assert sweep.points[-1].seconds_share == 1.0
    assert sweep.cumulative is not None
    assert sweep.cumulative.depths == (1, 2)


def test_efficiency_counts_what_learnt_and_how_long(place: Path, run: Path, result: AnalysisResult) -> None:
    rows = {row.cost.name: row for row in result.record.efficiency}
    assert list(rows) == [one.name for one in result.record.models]
    tuned = json.loads((place / "tuned" / "result.json").read_text(encoding="utf-8"))
    own = rows["own_output"].cost
    assert own.parameters == tuned["trainable"] == result.record.cost.trained_parameters
    lines = [json.loads(line) for line in (place / "tuned" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    seconds = [line["seconds"] for line in lines if "seconds" in line]
    assert seconds == sorted(seconds)
    assert own.training_seconds == [line["seconds"] for line in lines if line["step"] <= 6 and "seconds" in line][-1]
    assert own.training_seconds < seconds[-1]  # of the whole run, which goes on for two epochs
    leaderboard = json.loads((run / "leaderboard.json").read_text(encoding="utf-8"))
    for row in leaderboard:
        cost = rows[Path(row["folder"]).name].cost
        assert (cost.parameters, cost.training_seconds) == (row["parameters"], row["seconds"])
        assert cost.inference_seconds is not None
        assert cost.f1 == model(result, cost.name).score


def test_curves_tell_of_steps_of_data_and_of_snapshots(place: Path, result: AnalysisResult) -> None:
    record = result.record
    assert [curve.name for curve in record.learning.scores] == [f"00{n}-{spec.head}" for n, spec in enumerate(HEADS)]
    (less,) = record.less_data
    assert less.fractions == (0.5, 1.0)
    assert less.scores[0].mean == model(result, "005-layer_mix").score
    assert record.logged_metric == "f1_fitted"
    assert record.freeze is not None
    assert record.freeze.epochs == (1.0, 3.0)
    tuned = analyse(place / "tuned", device="cpu").record
    assert record.freeze.own == tuned.learning.scores[0].values
    assert tuned.freeze is None


def test_a_snapshot_has_its_own_output_alone(place: Path) -> None:
    found = analyse(f"{place}/tuned@1", device="cpu")
    assert found.folder == place / "tuned" / "at-1"
    assert AnalysisRecord.read(found.folder) == found.record
    assert [one.name for one in found.record.models] == ["own_output"]
    assert (found.record.first, found.record.second, found.record.errors) == (None, None, None)
    assert found.record.context_lengths is None
    assert len(found.record.efficiency) == 1


def test_kept_outputs_are_read_and_only_a_few_windows_are_encoded(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "fit"
    data, encoder = str(place / "data"), str(place / "encoder")
    fit_heads(tiny_fit("squad2", data, encoder, HeadSpec(head="layer_mix"), HeadSpec(head="last_layer")), run)
    evaluate(run, resamples=200, device="cpu")
    before = everything(run / "evaluation")
    windows = []
    forward = Encoder.forward

    def count(self: Encoder, batch: object, **options: object) -> object:
        windows.append(len(batch.ids))  # type: ignore[attr-defined] # of a batch
        return forward(self, batch, **options)  # type: ignore[arg-type] # as it was called

    monkeypatch.setattr(Encoder, "forward", count)
    record = analyse(run, device="cpu").record
    assert set(windows) == {16}  # those that are timed
    assert everything(run / "evaluation") == before
    assert record.second is not None  # without an own output, the second best head
    assert {record.first, record.second} == {"000-layer_mix", "001-last_layer"}
    assert record.attention == ()
    assert record.cost.trained_parameters is None


def test_another_analysis_replaces_the_files(run: Path, result: AnalysisResult, tmp_path: Path) -> None:
    copy = tmp_path / "at-1"
    shutil.copytree(run, copy)
    (copy / "errors-old-vs-own_output.csv").write_text("id\n", encoding="utf-8")
    again = analyse(copy, device="cpu").record
    assert [path.name for path in copy.glob("errors-*")] == [again.errors]
    assert again.freeze is None  # nothing beside it tells of snapshots
    assert replace(again.models[0], name="") == replace(result.record.models[0], name="")


def test_labels_have_confusion_calibration_and_errors(place: Path, tmp_path: Path) -> None:
    data = write_labels(tmp_path / "data", train=60, dev=30)
    specs = [HeadSpec(head="layer_mix", lr=0.02), HeadSpec(head="weighted_attention", lr=0.02)]
    fit_heads(tiny_fit("sst2", data, str(place / "encoder"), *specs), tmp_path / "fit")
    record = analyse(tmp_path / "fit", device="cpu", question="3").record
    assert (record.metric, record.at) == ("accuracy", "plain")
    for one in record.models:
        assert one.confusion is not None
        assert one.calibration is not None
        right = sum(one.confusion.counts[label][label] for label in range(2))
        assert one.score == pytest.approx(right / 30, rel=FLOAT64)
        assert one.calibration.before.accuracy == pytest.approx(right / 30, rel=FLOAT64)
        assert [row.gold for row in one.confusion.labels] == [15, 15]
    (attention,) = record.attention
    assert attention.question is not None
    assert len(attention.outputs) == len(attention.all.sets) == 2
    assert record.errors is not None
    assert (tmp_path / "fit" / record.errors).is_file()
    assert record.efficiency == ()  # accuracy has no F1


def test_tags_are_counted_and_compared(place: Path, tmp_path: Path) -> None:
    data = write_tags(tmp_path / "data")
    specs = [HeadSpec(head="layer_mix", lr=0.02), HeadSpec(head="last_layer", lr=0.02)]
    fit_heads(tiny_fit("own", data, str(place / "encoder"), *specs), tmp_path / "fit")
    record = analyse(tmp_path / "fit", device="cpu").record
    for one in record.models:
        assert one.tags is not None
        right, named = sum(row.right for row in one.tags), sum(row.gold + row.predicted for row in one.tags)
        assert one.score == pytest.approx(2 * right / named, rel=FLOAT64)  # micro F1
    assert record.errors is not None
    assert [row.cost.f1 for row in record.efficiency] == pytest.approx(
        [100 * (one.score or 0.0) for one in record.models], rel=FLOAT64
    )


def test_scores_are_spread_and_set_against_true_ones(place: Path, tmp_path: Path) -> None:
    data = write_scores(tmp_path / "data", dev=20)
    specs = [HeadSpec(head="layer_mix", lr=0.02), HeadSpec(head="last_layer", lr=0.02)]
    fit_heads(tiny_fit("own", data, str(place / "encoder"), *specs), tmp_path / "fit")
    record = analyse(tmp_path / "fit", device="cpu").record
    for one in record.models:
        assert one.histogram is not None
        assert one.scatter is not None
        assert sum(one.histogram.golds) == sum(one.histogram.predictions) == len(one.scatter.golds) == 20
        pearson = np.corrcoef(one.scatter.golds, one.scatter.predictions)[0, 1]
        assert one.score == pytest.approx(pearson, abs=FLOAT32)
    assert record.errors is None
    assert record.context_lengths is None


def test_an_unknown_question_is_answered_with_the_nearest(run: Path) -> None:
    before = everything(run)
    with pytest.raises(BertVisionError, match=r"'dev1x', and dev has no example of that id. Did you mean 'dev1'\?"):
        analyse(run, question="dev1x", device="cpu")
    assert everything(run) == before


def test_a_run_that_was_not_analysed_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=r"is not there\. Make it: bertvision analyse RUN"):
        AnalysisRecord.read(tmp_path)


def test_without_held_out_questions_answers_are_at_0_and_nothing_is_calibrated(place: Path, tmp_path: Path) -> None:
    request = tiny_request("squad2", str(place / "data"), str(place / "encoder"), held_out=0.0)
    tune(request, tmp_path / "tuned")
    record = analyse(tmp_path / "tuned", device="cpu").record
    (own,) = record.models
    assert (record.at, own.threshold, own.calibration, own.held_out) == ("zero", 0.0, None, None)
    assert (record.logged_metric, record.held_out_examples) == ("f1", 0)
    assert own.second_answers is not None


def test_questions_that_all_have_an_answer_know_no_threshold(place: Path, tmp_path: Path) -> None:
    data = write_questions(tmp_path / "data", train=60, dev=30, answerable_only=True)
    fit_heads(tiny_fit("squad1", data, str(place / "encoder"), *HEADS[:2]), tmp_path / "fit")
    record = analyse(tmp_path / "fit", device="cpu").record
    assert record.at == "plain"
    for one in record.models:
        assert one.threshold is None
        assert one.second_answers is not None
        assert one.second_answers.predicted_empty == 0
        assert one.calibration is not None
        assert one.question_types is not None
        assert one.question_types.overall.no_answer is None


def test_whether_there_is_an_answer_is_a_label_of_a_question(place: Path, tmp_path: Path) -> None:
    fit_heads(tiny_fit("answerable", str(place / "data"), str(place / "encoder"), *HEADS[:2]), tmp_path / "fit")
    record = analyse(tmp_path / "fit", device="cpu").record
    assert record.kind == "labels"
    assert record.errors is not None
    with (tmp_path / "fit" / record.errors).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    assert {row["text"] for row in rows} == {"where is it ?"}
    wrong = [sum(row[f"{name} right"] == "false" for row in rows) for name in (record.first, record.second)]
    for name, count in zip((record.first, record.second), wrong, strict=True):
        found = next(one for one in record.models if one.name == name)
        assert found.score == pytest.approx(1 - count / 40, rel=FLOAT64)


@pytest.mark.parametrize("way", ["apart", "aligned"])
def test_the_texts_of_a_pair_may_be_encoded_apart(way: str, place: Path, tmp_path: Path) -> None:
    request = tiny_fit("own", write_pairs(tmp_path / "data"), str(place / "encoder"), *HEADS[2:4], pairs=way)
    fit_heads(request, tmp_path / "fit")
    record = analyse(tmp_path / "fit", device="cpu").record
    assert all(row.cost.inference_seconds for row in record.efficiency)
    assert record.cost.depths == (1, 2)


def test_an_own_output_that_needs_a_pass_of_its_own_is_analysed_but_not_timed(place: Path, tmp_path: Path) -> None:
    options = {"pooled": True, "head": "layer_mix", "held_out": 0.2}
    tune(tiny_request("answerable", str(place / "data"), str(place / "encoder"), **options), tmp_path / "tuned")
    result = analyse(tmp_path / "tuned", question="dev1", device="cpu")
    (own,) = result.record.models
    assert own.confusion is not None
    assert own.calibration is not None
    assert result.record.cost.depths == (2,)
    assert result.record.layer_weights == ()  # its layers have other numbers
    assert any("attends to layers, so there is nothing to tell of dev1" in notice for notice in result.notices)
    (row,) = result.record.efficiency
    assert row.cost.training_seconds is not None
    assert row.cost.inference_seconds is None
    values = json.loads((tmp_path / "tuned" / "result.json").read_text(encoding="utf-8"))["metrics"]
    assert row.cost.f1 == pytest.approx(100 * values["f1"], rel=FLOAT64)  # of the answers on dev, in percent


def test_a_temperature_is_not_judged_by_the_examples_that_it_was_fitted_on(place: Path, tmp_path: Path) -> None:
    data = Path(write_labels(tmp_path / "data"))
    (data / "dev.tsv").unlink()
    fit_heads(tiny_fit("sst2", str(data), str(place / "encoder"), HeadSpec(head="layer_mix")), tmp_path / "fit")
    record = analyse(tmp_path / "fit", device="cpu").record
    assert (record.split, record.examples) == ("held_out", record.held_out_examples)
    assert [one.calibration for one in record.models] == [None]
    assert record.models[0].confusion is not None


def test_heads_that_differ_in_weight_decay_are_no_seeds_of_each_other(place: Path, tmp_path: Path) -> None:
    heads = [HeadSpec(head="layer_mix", lr=0.02, weight_decay=decay) for decay in (0.0, 0.5)]
    fit = tiny_fit("squad2", str(place / "data"), str(place / "encoder"), *heads)
    fit_heads(fit, tmp_path / "fit")
    record = analyse(tmp_path / "fit", device="cpu").record
    assert [weights.group.models for weights in record.layer_weights] == [("000-layer_mix",), ("001-layer_mix",)]
