"""A finished run is evaluated: on which examples, by which thresholds, in one pass, and never half-written."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertvision.encoder.encoder import Encoder
from bertvision.errors import BertVisionError
from bertvision.evaluation.outputs import SpanScores
from bertvision.evaluation.paper_metric import decode_paper
from bertvision.evaluation.prediction_files import read_answers, read_no_answer
from bertvision.evaluation.score import score_squad2
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.judging.evaluate import EvaluationResult, evaluate
from bertvision.runs.judging.evaluation_record import EvaluationRecord
from bertvision.runs.judging.finished import open_run
from bertvision.runs.judging.judge import BEST, FITTED, PLAIN, ZERO, Judge
from bertvision.runs.judging.kept_outputs import load_outputs
from bertvision.runs.judging.split_loss import split_loss
from bertvision.runs.judging.subject import load_subject
from bertvision.runs.tuning.tune import tune
from bertvision.tasks.examples import Questions
from bertvision.tasks.load import TASKS, load_task
from bertvision.tasks.part import Part
from bertvision.training.trainee import HeadSpec
from close import FLOAT64
from folders import everything
from tiny_run import save_tiny_encoder, tiny_fit, tiny_request, write_labels, write_pairs, write_questions, write_scores

pytestmark = pytest.mark.usefixtures("few_strengths")

MIX, PLAIN_HEAD = HeadSpec(head="layer_mix", lr=0.03), HeadSpec(head="last_layer", lr=0.03)
RESAMPLES = 200


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tuned run, and a fit of two heads on its first snapshot."""
    folder = tmp_path_factory.mktemp("runs")
    encoder, data = save_tiny_encoder(folder / "encoder"), write_questions(folder / "data", train=60, dev=40)
    tune(tiny_request("squad2", data, encoder, snapshots=(1.0,), epochs=3, held_out=0.2), folder / "tuned")
    fit_heads(tiny_fit("squad2", data, f"{folder}/tuned@1", MIX, PLAIN_HEAD, epochs=2), folder / "fit")
    return folder


@pytest.fixture(scope="module")
def result(place: Path) -> EvaluationResult:
    return evaluate(place / "fit", resamples=RESAMPLES, device="cpu")


def questions(place: Path, split: str = "dev") -> Questions:
    found = load_task("squad2", data=place / "data").splits[split]
    assert isinstance(found, Questions)
    return found


def test_every_head_and_the_own_output_have_the_scores_of_the_official_script(
    place: Path, result: EvaluationResult
) -> None:
    golds = questions(place).golds()
    assert {row.name for row in result.record.rows} == {"000-layer_mix", "001-last_layer", "own_output"}
    for row in result.record.rows:
        given = read_answers(result.folder / row.name / "predictions.json")
        sure = read_no_answer(result.folder / row.name / "no_answer.json")
        assert list(row.scores) == [ZERO, FITTED, BEST]
        assert row.scores[ZERO].threshold == 0
        for at in row.scores.values():
            assert at.threshold is not None
            official = score_squad2(golds, given, no_answer=sure, threshold=at.threshold).values
            found = {name: estimate.value for name, estimate in at.values.items()}
            assert found == pytest.approx({name: official[name] for name in found}, rel=FLOAT64)
            assert set(found) == {f"{part}{name}" for part in ("", "HasAns_", "NoAns_") for name in ("exact", "f1")}
        assert row.scores[BEST].values["f1"].value == pytest.approx(official["best_f1"], rel=FLOAT64)
        fitted = score_squad2(golds, read_answers(result.folder / row.name / "answers.json")).values
        assert row.scores[FITTED].values["f1"].value == pytest.approx(fitted["f1"], rel=FLOAT64)


def test_scores_are_those_of_the_run_itself(place: Path, result: EvaluationResult) -> None:
    leaderboard = json.loads((place / "fit" / "leaderboard.json").read_text(encoding="utf-8"))
    for row in leaderboard:
        mine = result.record.row(Path(row["folder"]).name)
        assert mine.scores[ZERO].values["f1"].value == pytest.approx(row["metrics"]["f1"], rel=FLOAT64)
        assert mine.scores[FITTED].threshold == pytest.approx(row["metrics"]["threshold"], rel=FLOAT64)
        assert mine.held_out == pytest.approx(row["held_out"], rel=FLOAT64)
        assert (mine.parameters, mine.depth, mine.own, mine.seed) == (row["parameters"], row["depth"], False, 0)


def test_a_snapshot_has_one_row_and_the_scores_that_it_had_when_it_was_tuned(place: Path) -> None:
    lines = [json.loads(line) for line in (place / "tuned" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    scored = {line["snapshot"]: line for line in lines if "snapshot" in line}
    for name, fraction in ((f"{place}/tuned@1", 1.0), (f"{place}/tuned", 3.0)):
        found = evaluate(name, resamples=RESAMPLES, device="cpu")
        assert [(row.name, row.own) for row in found.record.rows] == [("own_output", True)]
        row = found.record.rows[0]
        assert row.scores[ZERO].values["f1"].value == pytest.approx(scored[fraction]["f1"], rel=FLOAT64)
        assert row.scores[FITTED].values["f1"].value == pytest.approx(scored[fraction]["f1_fitted"], rel=FLOAT64)
        assert row.scores[ZERO].against == {}
        assert found.folder == place / "tuned" / "evaluation" / f"at-{fraction:g}" / "dev"


def test_heads_are_compared_with_the_own_output_of_their_snapshot(place: Path, result: EvaluationResult) -> None:
    own = evaluate(f"{place}/tuned@1", resamples=RESAMPLES, device="cpu").record.rows[0]
    beside = result.record.row("own_output")
    for at, scores in beside.scores.items():
        assert scores.values == own.scores[at].values  # the fit held out the same examples
    for row in result.record.rows:
        for at in (ZERO, FITTED):
            for name, compared in row.scores[at].against.items():
                mine, theirs = row.scores[at].values[name].value, beside.scores[at].values[name].value
                assert mine is not None
                assert theirs is not None
                assert compared.value == pytest.approx(mine - theirs, abs=FLOAT64)
                assert compared.claimed == (compared.p < 0.05)
        assert bool(row.scores[ZERO].against) == (not row.own)
        assert row.scores[BEST].against == {}


def test_silence_everywhere_may_be_best(place: Path) -> None:
    part = Part(examples=questions(place), windows=load_subject(place / "fit").part.windows)
    tokens = len(part.windows.ids)
    worst = SpanScores(np.zeros(tokens, dtype=np.float32), np.zeros(tokens, dtype=np.float32))
    answers = {token for window in range(len(part.windows)) for token in part.windows.places(np.array([window]))[1:]}
    worst.start[sorted(answers)] = np.random.default_rng(0).random(len(answers)) + 5  # sure of a chance answer
    verdict = Judge(TASKS["squad2"], part, None).judge(worst, None)
    silence = 100 * float((~questions(place).answerable).mean())
    assert verdict.scorings[BEST].values["f1"] == pytest.approx(silence, rel=FLOAT64)
    assert verdict.scorings[ZERO].values["f1"] < silence


def test_the_record_can_be_read_again(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "fit", tmp_path / "fit")  # other tests evaluate the run again
    result = evaluate(tmp_path / "fit", resamples=RESAMPLES, device="cpu")
    assert EvaluationRecord.read(result.folder) == result.record
    content = json.loads((result.folder / EvaluationRecord.FILE).read_text(encoding="utf-8"))
    assert content["format"] == 1
    assert content["provenance"]["packages"]["torch"]
    assert content["rows"][0]["scores"]["zero"]["values"]["f1"].keys() == {"value", "low", "high"}


def test_every_row_has_the_loss_of_the_outputs_that_are_kept(place: Path, result: EvaluationResult) -> None:
    part = load_subject(place / "fit").part
    for row in result.record.rows:
        outputs = load_outputs(result.folder / row.name).split
        assert row.loss == pytest.approx(split_loss(TASKS["squad2"], part, outputs), rel=FLOAT64)


def test_a_record_of_before_the_loss_was_told_is_read_and_its_outputs_are_used(place: Path, tmp_path: Path) -> None:
    shutil.copytree(place / "fit", tmp_path / "fit")
    result = evaluate(tmp_path / "fit", resamples=RESAMPLES, device="cpu")
    path = result.folder / EvaluationRecord.FILE
    content = json.loads(path.read_text(encoding="utf-8"))
    for row in content["rows"]:
        del row["loss"]
    path.write_text(json.dumps(content), encoding="utf-8")
    before = load_subject(tmp_path / "fit").kept()
    assert before is not None
    assert [row.loss for row in before.rows] == [None] * 3
    assert evaluate(tmp_path / "fit", resamples=RESAMPLES, device="cpu").record.rows == result.record.rows


def test_rows_are_in_the_order_of_held_out_examples(result: EvaluationResult) -> None:
    scores = [row.held_out for row in result.record.rows]
    assert None not in scores
    assert scores == sorted(scores, key=lambda score: -(score or 0))


def test_the_encoder_passes_once_over_each_part_and_never_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = place / "once"
    fit_heads(tiny_fit("squad2", str(place / "data"), f"{place}/tuned@1", MIX, PLAIN_HEAD), folder)
    passes = []
    visit = Encoder.visit

    def count(self: Encoder, *args: object, **more: object) -> object:
        passes.append(1)
        return visit(self, *args, **more)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(Encoder, "visit", count)
    first = evaluate(folder, resamples=RESAMPLES, device="cpu")
    assert len(passes) == 2  # dev and held out fit a batch each
    again = evaluate(folder, resamples=RESAMPLES, device="cpu")
    assert len(passes) == 2
    assert again.record.rows == first.record.rows


def test_outputs_are_made_anew_where_the_windows_are_others(
    place: Path, result: EvaluationResult, tmp_path: Path
) -> None:
    shutil.copytree(place / "fit", tmp_path / "fit")
    other = write_questions(tmp_path / "other", train=5, dev=7)
    found = evaluate(tmp_path / "fit", data=other, resamples=RESAMPLES, device="cpu")
    assert (found.record.examples, found.record.data) == (7, other)
    assert found.record.fingerprints.split != result.record.fingerprints.split
    assert found.record.fingerprints.held_out == result.record.fingerprints.held_out  # always the run's own
    kept = load_outputs(found.folder / "000-layer_mix")
    assert isinstance(kept.split, SpanScores)
    assert kept.split.start.dtype == np.float32
    back = evaluate(tmp_path / "fit", resamples=RESAMPLES, device="cpu")
    assert back.record.rows == result.record.rows


def test_the_paper_s_answers_come_from_the_outputs_also_where_an_older_evaluation_lacks_them(
    place: Path, result: EvaluationResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = load_subject(place / "fit").part.windows
    for row in result.record.rows:
        kept = load_outputs(result.folder / row.name).split
        assert isinstance(kept, SpanScores)
        expected = decode_paper(windows, kept.start, kept.end, questions(place))
        assert read_answers(result.folder / row.name / "paper_answers.json") == expected
    shutil.copytree(place / "fit", tmp_path / "fit")
    older = tmp_path / "fit" / "evaluation" / "dev" / "own_output" / "paper_answers.json"
    content = older.read_bytes()
    older.unlink()
    monkeypatch.setattr(Encoder, "visit", lambda *_, **__: pytest.fail("the encoder ran"))
    again = evaluate(tmp_path / "fit", resamples=RESAMPLES, device="cpu")
    assert again.record.rows == result.record.rows
    assert older.read_bytes() == content


def test_answers_are_best_first_with_their_probabilities(place: Path, result: EvaluationResult) -> None:
    listed = json.loads((result.folder / "own_output" / "nbest.json").read_text(encoding="utf-8"))
    always = read_answers(result.folder / "own_output" / "predictions.json")
    silent = read_no_answer(result.folder / "own_output" / "no_answer.json")
    assert list(listed) == questions(place).ids
    for key, answers in listed.items():
        shares = [answer["probability"] for answer in answers]
        assert shares == sorted(shares, reverse=True)
        assert 0 < sum(shares) <= 1 + FLOAT64
        best = next(answer["text"] for answer in answers if answer["text"])
        assert best == always[key]
        assert (answers[0]["text"] == "") == (silent[key] >= 0)


@pytest.mark.parametrize(
    ("kind", "pairs"), [("labels", "auto"), ("scores", "auto"), ("pairs", "apart"), ("pairs", "aligned")]
)
def test_labels_and_scores_have_their_metrics(kind: str, pairs: str, tmp_path: Path) -> None:
    encoder = save_tiny_encoder(tmp_path / "encoder")
    writers = {"labels": write_labels, "scores": write_scores, "pairs": write_pairs}
    data, task = writers[kind](tmp_path / "data", train=60, dev=30), "sst2" if kind == "labels" else "own"
    tune(tiny_request(task, data, encoder, pool="mean", epochs=2, held_out=0.2), tmp_path / "tuned")
    request = tiny_fit(task, data, f"{tmp_path}/tuned", MIX, PLAIN_HEAD, pool="mean", pairs=pairs)
    fitted = fit_heads(request, tmp_path / "fit")
    found = evaluate(tmp_path / "fit", resamples=RESAMPLES, device="cpu").record
    alone = evaluate(tmp_path / "tuned", resamples=RESAMPLES, device="cpu").record
    assert len(found.rows) == 3
    assert found.row("own_output").scores[PLAIN].values == alone.rows[0].scores[PLAIN].values
    for row in fitted.leaderboard:
        values = found.row(Path(row["folder"]).name).scores[PLAIN].values
        assert values
        for name, estimate in values.items():
            assert estimate.value == pytest.approx(row["metrics"][name], rel=FLOAT64)
    given = json.loads((tmp_path / "fit/evaluation/dev/000-layer_mix/predictions.json").read_text(encoding="utf-8"))
    assert len(given) == 30
    assert {type(value) for value in given.values()} == {float if kind == "scores" else str}
    assert not list((tmp_path / "fit/evaluation").rglob("paper_answers.json"))


@pytest.mark.parametrize(
    ("sentences", "pool", "meant"),
    [(True, None, "apart"), (False, None, "together"), (True, "attention", "together")],
)
def test_a_run_of_before_texts_could_be_aligned_is_read_as_it_was_fitted(
    *, sentences: bool, pool: str | None, meant: str, tmp_path: Path
) -> None:
    encoder = save_tiny_encoder(tmp_path / "encoder")
    if sentences:
        (tmp_path / "encoder" / "1_Pooling").mkdir()
        content = json.dumps({"pooling_mode_mean_tokens": True})
        (tmp_path / "encoder" / "1_Pooling" / "config.json").write_text(content, encoding="utf-8")
    data = write_pairs(tmp_path / "data")
    fit_heads(tiny_fit("own", data, encoder, PLAIN_HEAD, pairs=meant, pool=pool), tmp_path / "fit")
    path = tmp_path / "fit" / "config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["request"]["pairs"] = None
    path.write_text(json.dumps(config), encoding="utf-8")
    assert open_run(tmp_path / "fit").request.pairs == meant
    assert evaluate(tmp_path / "fit", resamples=RESAMPLES, device="cpu").record.rows


@pytest.mark.parametrize("name", ["tuned", "tuned@1", "tuned/snapshots/1"])
def test_the_own_output_stands_beside_heads_on_the_same_files_alone(name: str, tmp_path: Path) -> None:
    encoder, data = save_tiny_encoder(tmp_path / "encoder"), write_scores(tmp_path / "data")
    tune(tiny_request("own", data, encoder, held_out=0.2), tmp_path / "tuned")
    fit_heads(tiny_fit("own", data, f"{tmp_path}/{name}", PLAIN_HEAD), tmp_path / "fit")
    assert open_run(tmp_path / "fit").own is not None
    other = write_scores(tmp_path / "other")
    fit_heads(tiny_fit("own", other, f"{tmp_path}/{name}", PLAIN_HEAD), tmp_path / "others")
    assert open_run(tmp_path / "others").own is None


def test_questions_that_all_have_an_answer_have_no_threshold(place: Path, tmp_path: Path) -> None:
    data = write_questions(tmp_path / "data", answerable_only=True)
    fit_heads(tiny_fit("squad1", data, str(place / "encoder"), MIX), tmp_path / "fit")
    found = evaluate(tmp_path / "fit", resamples=RESAMPLES, device="cpu")
    (row,) = found.record.rows
    assert found.record.own is None  # a pretrained encoder has none
    assert list(row.scores) == [PLAIN]
    assert row.scores[PLAIN].threshold is None
    assert set(row.scores[PLAIN].values) == {"exact_match", "f1"}
    assert not (found.folder / row.name / "no_answer.json").exists()


def test_a_run_that_held_nothing_out_has_no_fitted_threshold(place: Path, tmp_path: Path) -> None:
    tune(tiny_request("squad2", str(place / "data"), str(place / "encoder"), held_out=0.0), tmp_path / "run")
    found = evaluate(tmp_path / "run", resamples=RESAMPLES, device="cpu").record
    assert list(found.rows[0].scores) == [ZERO, BEST]
    assert (found.held_out_examples, found.rows[0].held_out, found.fingerprints.held_out) == (0, None, None)


def test_the_pooled_vector_is_read_where_a_run_was_tuned_with_it(place: Path, tmp_path: Path) -> None:
    data = write_labels(tmp_path / "data")
    request = tiny_request("sst2", data, str(place / "encoder"), pooled=True, head="layer_mix", held_out=0.2)
    tuned = tune(request, tmp_path / "run")
    found = evaluate(tmp_path / "run", resamples=RESAMPLES, device="cpu").record
    value = found.rows[0].scores[PLAIN].values["accuracy"].value
    assert value == pytest.approx(tuned.metrics["accuracy"], rel=FLOAT64)


def test_a_notice_tells_of_held_out_examples_that_the_encoder_learnt_from(place: Path, tmp_path: Path) -> None:
    data = str(place / "data")
    fit_heads(tiny_fit("squad2", data, f"{place}/tuned@1", MIX, seed=5), tmp_path / "fit")
    notices = evaluate(tmp_path / "fit", resamples=RESAMPLES, device="cpu").notices
    assert any("held out other examples than this fit would" in notice for notice in notices)


def test_what_cannot_be_evaluated_is_refused(place: Path, tmp_path: Path) -> None:
    fit = tiny_fit("squad2", str(place / "data"), str(place / "encoder"), MIX)
    fit_heads(fit, tmp_path / "series" / "one")
    (tmp_path / "series" / "one" / "result.json").unlink()
    for name, message in {
        str(tmp_path / "nothing"): "holds no run: config.json is not there",
        str(tmp_path / "series"): f"holds several runs. Name one of them: {tmp_path}/series/one",
        str(tmp_path / "series" / "one"): "is not finished. Go on with it",
        f"{place}/fit@1": "is a fit of heads and has no snapshots",
        f"{place}/tuned@7": "has no snapshot at 7; it has 1, 3",
    }.items():
        with pytest.raises(BertVisionError, match=message.replace(".", r"\.")):
            evaluate(name, device="cpu")
    with pytest.raises(BertVisionError, match="learned from these examples"):
        evaluate(place / "fit", split="train", device="cpu")
    with pytest.raises(BertVisionError, match="has no split 'test' here; there is: dev"):
        evaluate(place / "fit", split="test", device="cpu")


def test_questions_that_were_held_out_are_not_judged_by(place: Path, tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match="learned from these examples: they are its training split"):
        evaluate(place / "fit", data=place / "data", split="train", device="cpu")
    content = json.loads((place / "data" / "train.json").read_text(encoding="utf-8"))
    for split, articles in (("train", content["data"][:2]), ("dev", content["data"][1:])):
        (tmp_path / f"{split}.json").write_text(json.dumps({"data": articles}), encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"was fitted on 1\d of these 59 examples"):
        evaluate(place / "fit", data=tmp_path, device="cpu")


def test_texts_that_were_learnt_from_are_not_judged_by_from_elsewhere_either(place: Path, tmp_path: Path) -> None:
    data = write_labels(tmp_path / "data")
    fit_heads(tiny_fit("sst2", data, str(place / "encoder"), MIX), tmp_path / "fit")
    shutil.copy(tmp_path / "data" / "train.tsv", tmp_path / "dev.tsv")
    with pytest.raises(BertVisionError, match="learned from these examples"):
        evaluate(tmp_path / "fit", data=tmp_path / "dev.tsv", device="cpu")


@pytest.mark.parametrize("made", ["fit", "tune"])
def test_a_run_whose_data_have_changed_is_not_judged_by_what_it_may_have_learnt(
    made: str, place: Path, tmp_path: Path
) -> None:
    data, encoder, run = write_labels(tmp_path / "data"), str(place / "encoder"), tmp_path / "run"
    if made == "fit":
        fit_heads(tiny_fit("sst2", data, encoder, MIX), run)
    else:
        tune(tiny_request("sst2", data, encoder, held_out=0.2), run)
    shutil.copytree(data, tmp_path / "dev")
    write_labels(tmp_path / "data", train=44)
    for elsewhere in (None, tmp_path / "dev"):
        with pytest.raises(BertVisionError, match="run held out other training examples than its data have now"):
            evaluate(run, data=elsewhere, device="cpu")
    write_labels(tmp_path / "data")
    assert evaluate(run, resamples=RESAMPLES, device="cpu").record.rows


def test_a_run_is_evaluated_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    write_scores(Path("data"))
    save_tiny_encoder(Path("encoder"))
    tune(tiny_request("own", "data/", "encoder", held_out=0.2), Path("runs/tuned"))
    fit_heads(tiny_fit("own", "data", "runs/tuned@1", MIX), Path("runs/fit"))
    first = {name: evaluate(f"runs/{name}", resamples=RESAMPLES, device="cpu") for name in ("tuned", "fit")}
    assert [row.name for row in first["fit"].record.rows].count("own_output") == 1
    moved = home.rename(tmp_path / "moved")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    write_scores(Path("data"), train=50)  # others of the same name
    for name, before in first.items():
        again = evaluate(f"../moved/runs/{name}", resamples=RESAMPLES, device="cpu")
        assert again.record.rows == before.record.rows
        assert not any("flatter" in notice for notice in again.notices)
    shutil.rmtree(moved / "data")
    shutil.rmtree("data")
    with pytest.raises(BertVisionError, match=r"fit was made of data that it still needs, .*: data does not exist"):
        evaluate("../moved/runs/fit", data=tmp_path, device="cpu")


def test_another_encoder_than_the_run_s_is_refused(place: Path, tmp_path: Path) -> None:
    encoder = save_tiny_encoder(tmp_path / "encoder")
    fit_heads(tiny_fit("squad2", str(place / "data"), encoder, MIX), tmp_path / "fit")
    save_tiny_encoder(tmp_path / "encoder", seed=1)
    with pytest.raises(BertVisionError, match="was fitted on an encoder with fingerprint"):
        evaluate(tmp_path / "fit", device="cpu")
    assert not (tmp_path / "fit" / "evaluation").exists()


def test_an_evaluation_that_cannot_be_written_leaves_the_one_before(
    place: Path, result: EvaluationResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = everything(result.folder.parent)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("bertvision.runs.judging.evaluation_files.save_outputs", full)
    with pytest.raises(BertVisionError, match=r"evaluation/dev cannot be written: No space left on device\. Make room"):
        evaluate(place / "fit", resamples=RESAMPLES + 1, device="cpu")
    assert everything(result.folder.parent) == before


def test_outputs_that_were_cut_short_are_told(place: Path, tmp_path: Path) -> None:
    fit_heads(tiny_fit("squad2", str(place / "data"), str(place / "encoder"), MIX), tmp_path / "fit")
    folder = evaluate(tmp_path / "fit", resamples=RESAMPLES, device="cpu").folder
    path = folder / "000-layer_mix" / "outputs.safetensors"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(BertVisionError, match=r"cannot be read .* evaluate again"):
        evaluate(tmp_path / "fit", resamples=RESAMPLES, device="cpu")
    path.unlink()
    assert evaluate(tmp_path / "fit", resamples=RESAMPLES, device="cpu").folder == folder
    (folder / EvaluationRecord.FILE).write_text('{"format": 99}', encoding="utf-8")
    with pytest.raises(BertVisionError, match="has format 99, 1 is expected"):
        EvaluationRecord.read(folder)
    assert evaluate(tmp_path / "fit", resamples=RESAMPLES, device="cpu").record.rows


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize(("kind", "metric"), [("labels", "accuracy"), ("tags", "subset_accuracy")])
def test_a_file_from_elsewhere_may_lack_a_label_and_keeps_the_class_numbers(
    kind: str, metric: str, place: Path, tmp_path: Path
) -> None:
    pairs = [(f"{word} {filler}", word) for filler in "abcdefgh" for word in ("bad", "gold", "good")]
    rows: list[dict[str, Any]] = [{"text": text, "label": word if kind == "labels" else [word]} for text, word in pairs]
    write_jsonl(tmp_path / "data" / "train.jsonl", rows)
    write_jsonl(tmp_path / "data" / "dev.jsonl", rows[:12])
    fit_heads(tiny_fit("own", str(tmp_path / "data"), str(place / "encoder"), MIX, epochs=20), tmp_path / "fit")
    some = write_jsonl(tmp_path / "some.jsonl", [row for row in rows if not row["text"].startswith("bad")])
    found = evaluate(tmp_path / "fit", data=some, split="train", resamples=RESAMPLES, device="cpu")
    given = json.loads((found.folder / "000-layer_mix" / "predictions.json").read_text(encoding="utf-8"))
    golds = [row["label"] for row in rows if not row["text"].startswith("bad")]
    right = sum(gold == prediction for gold, prediction in zip(golds, given.values(), strict=True))
    assert right > 0
    assert found.record.rows[0].scores[PLAIN].values[metric].value == pytest.approx(right / 16, rel=FLOAT64)


def test_labels_from_elsewhere_that_nobody_learned_are_refused(place: Path, tmp_path: Path) -> None:
    data = write_labels(tmp_path / "data").replace("data", "data/train.tsv")
    fit_heads(tiny_fit("own", data, str(place / "encoder"), MIX), tmp_path / "fit")
    path = write_jsonl(tmp_path / "x.jsonl", [{"sentence": word, "label": word} for word in ("a", "b")])
    with pytest.raises(BertVisionError, match=r"x\.jsonl holds the labels a, b; heads learned the labels 0, 1\. Name"):
        evaluate(tmp_path / "fit", data=path, split="train", device="cpu")


def test_whole_scores_from_elsewhere_are_scores_if_the_run_learned_scores(place: Path, tmp_path: Path) -> None:
    fit_heads(tiny_fit("own", write_scores(tmp_path / "data"), str(place / "encoder"), MIX), tmp_path / "fit")
    path = write_jsonl(tmp_path / "whole.jsonl", [{"text": f"good {n}", "score": n % 2} for n in range(8)])
    found = evaluate(tmp_path / "fit", data=path, split="train", resamples=RESAMPLES, device="cpu").record
    assert (found.kind, found.examples) == ("scores", 8)
