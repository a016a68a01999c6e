"""Ensembles of heads of a run, of several runs and of snapshots: who is a member, what comes out, what is refused."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertvision.encoder.encoder import Encoder
from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.evaluation.ensemble import How
from bertvision.evaluation.outputs import Outputs, SpanScores
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.judging.ensemble import EnsembleResult, ensemble, gather_candidates
from bertvision.runs.judging.ensemble_record import EnsembleRecord
from bertvision.runs.judging.evaluate import evaluate
from bertvision.runs.judging.judge import FITTED, PLAIN, ZERO, Judge, Verdict
from bertvision.runs.judging.kept_outputs import load_outputs
from bertvision.runs.judging.subject import load_subject
from bertvision.runs.tuning.tune import tune
from bertvision.training.trainee import HeadSpec
from close import FLOAT32, FLOAT64
from folders import everything
from tiny_run import WINDOWS, save_tiny_encoder, tiny_fit, tiny_request, write_labels, write_questions, write_scores

pytestmark = pytest.mark.usefixtures("few_strengths")

MIX, PLAIN_HEAD = HeadSpec(head="layer_mix", lr=0.03), HeadSpec(head="last_layer", lr=0.03)
RESAMPLES = 200


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tuned run, and fits of heads on both of its snapshots."""
    folder = tmp_path_factory.mktemp("runs")
    encoder, data = save_tiny_encoder(folder / "encoder"), write_questions(folder / "data", train=60, dev=40)
    tune(tiny_request("squad2", data, encoder, snapshots=(1.0,), epochs=2, held_out=0.2), folder / "tuned")
    for snapshot in ("1", "2"):
        request = tiny_fit("squad2", data, f"{folder}/tuned@{snapshot}", MIX, PLAIN_HEAD, epochs=2)
        fit_heads(request, folder / f"fit{snapshot}")
    return folder


def join(*runs: Path | str, how: How = "mean", heads: list[str] | None = None) -> EnsembleResult:
    return ensemble(runs, how=how, heads=heads, resamples=RESAMPLES, device="cpu")


def scores_of(folder: Path) -> SpanScores:
    outputs = load_outputs(folder).split
    assert isinstance(outputs, SpanScores)
    return outputs


@pytest.mark.parametrize("how", ["max", "mean"])
def test_members_are_joined_token_by_token(place: Path, how: How) -> None:
    result = join(place / "fit1", how=how, heads=["layer_mix", "own_output"])
    evaluation = place / "fit1" / "evaluation" / "dev"
    windows = load_subject(place / "fit1").part.windows
    joined = scores_of(result.folder / "ensemble")
    members = [scores_of(evaluation / name) for name in ("000-layer_mix", "own_output")]
    for side in ("start", "end"):
        for begin, end in zip(windows.bounds[:-1], windows.bounds[1:], strict=True):
            exponents = [np.exp(getattr(one, side)[begin:end].astype(np.float64)) for one in members]
            shares = [one / one.sum() for one in exponents]
            expected = np.maximum(*shares) if how == "max" else np.sqrt(shares[0] * shares[1])
            assert np.exp(getattr(joined, side)[begin:end]) == pytest.approx(expected, rel=FLOAT32)
    assert [member.weight for member in result.record.members] == [0.5, 0.5]


def test_models_of_a_run_that_was_not_evaluated_yet_are_judged_once(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(place / "fit1", tmp_path / "fit", ignore=shutil.ignore_patterns("evaluation", "ensembles"))
    judge, judged = Judge.judge, list[Outputs]()

    def count(self: Judge, outputs: Outputs, held_out: Outputs | None) -> Verdict:
        judged.append(outputs)
        return judge(self, outputs, held_out)

    monkeypatch.setattr(Judge, "judge", count)
    members = join(tmp_path / "fit").record.members
    assert len(judged) == len(members) + 1 == 4  # the members, and what they are together


def test_models_that_are_joined_in_several_ways_are_judged_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ways: list[How] = ["max", "mean", "greedy"]
    alone = {how: join(place / "fit1", how=how) for how in ways}
    judged = []
    judge = Judge.judge

    def count(self: Judge, outputs: Outputs, held_out: Outputs | None) -> Verdict:
        judged.append(outputs)
        return judge(self, outputs, held_out)

    monkeypatch.setattr(Judge, "judge", count)
    candidates = gather_candidates([place / "fit1"], ways=ways, resamples=RESAMPLES, device="cpu")
    for how in ways:
        record, expected = candidates.join(how).record, alone[how].record
        assert replace(record, seconds=0.0, provenance={}) == replace(expected, seconds=0.0, provenance={})
    assert len(judged) == 3 + len(ways)  # two heads, the own output, and what they became


def test_a_greedy_choice_is_at_least_as_good_on_held_out_questions_as_the_best_member(place: Path) -> None:
    record = join(place / "fit1", place / "fit2", how="greedy").record
    weights = [member.weight for member in record.members]
    assert sum(weights) == pytest.approx(1, rel=FLOAT64)
    best = record.members[0].row
    assert record.against == best.name
    assert record.steps == sorted(record.steps)
    assert best.held_out is not None
    assert record.steps[0] >= best.held_out - FLOAT64
    assert record.ensemble.held_out == pytest.approx(record.steps[-1], rel=FLOAT64)
    used = [member.row for member in record.members if member.weight]
    assert record.ensemble.parameters == sum(row.parameters for row in used)


def test_runs_of_several_snapshots_go_together_and_a_shared_member_counts_once(place: Path) -> None:
    record = join(place / "fit1", place / "fit2", f"{place}/fit1").record
    fit1, fit2 = f"{place}/fit1", f"{place}/fit2"
    names = {f"{run}:{name}" for run in (fit1, fit2) for name in ("000-layer_mix", "001-last_layer", "own_output")}
    assert {member.row.name for member in record.members} == names
    assert len({member.encoder for member in record.members}) == 2
    fit_heads(tiny_fit("squad2", str(place / "data"), f"{place}/tuned@1", MIX, seed=0, epochs=1), place / "more")
    labels = {member.row.name for member in join(place / "fit1", place / "more").record.members}
    assert f"{place}/fit1:own_output" in labels
    assert f"{place}/more:own_output" not in labels


def test_runs_of_one_encoder_share_its_pass_and_what_is_kept_is_used(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, head in (("one", MIX), ("two", PLAIN_HEAD)):
        fit_heads(tiny_fit("squad2", str(place / "data"), f"{place}/tuned@1", head), tmp_path / name)
    passes = []
    visit = Encoder.visit

    def count(self: Encoder, *args: object, **more: object) -> object:
        passes.append(1)
        return visit(self, *args, **more)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(Encoder, "visit", count)
    first = join(tmp_path / "one", tmp_path / "two")
    assert len(passes) == 2  # dev and held out, once for both runs
    assert join(tmp_path / "one", tmp_path / "two").record.ensemble == first.record.ensemble
    evaluate(tmp_path / "two", resamples=RESAMPLES, device="cpu")
    assert len(passes) == 2


def test_the_record_and_the_answers_are_written(place: Path) -> None:
    result = join(place / "fit1", how="max")
    assert EnsembleRecord.read(result.folder) == result.record
    assert result.folder.parent == place / "fit1" / "ensembles" / "dev"
    answers = json.loads((result.folder / "ensemble" / "predictions.json").read_text(encoding="utf-8"))
    assert len(answers) == 40
    by_the_paper = json.loads((result.folder / "ensemble" / "paper_answers.json").read_text(encoding="utf-8"))
    assert by_the_paper.keys() == answers.keys()
    against = result.record.ensemble.scores[ZERO].against["f1"].value
    best = next(one.row for one in result.record.members if one.row.name == result.record.against)
    mine, theirs = (row.scores[ZERO].values["f1"].value for row in (result.record.ensemble, best))
    assert mine is not None
    assert theirs is not None
    assert against == pytest.approx(mine - theirs, abs=FLOAT64)
    assert FITTED in result.record.ensemble.scores


@pytest.mark.parametrize("how", ["max", "mean", "greedy"])
def test_labels_are_joined_by_their_probabilities(how: How, place: Path, tmp_path: Path) -> None:
    data = write_labels(tmp_path / "data", train=60, dev=30)
    fit_heads(tiny_fit("sst2", data, str(place / "encoder"), MIX, PLAIN_HEAD), tmp_path / "fit")
    record = join(tmp_path / "fit", how=how).record
    assert "accuracy" in record.ensemble.scores[PLAIN].values
    if how == "greedy":
        assert max(member.row.held_out or 0 for member in record.members) <= (record.ensemble.held_out or 0)


def test_scores_know_the_mean_alone(place: Path, tmp_path: Path) -> None:
    data = write_scores(tmp_path / "data", train=60, dev=30)
    fit_heads(tiny_fit("own", data, str(place / "encoder"), MIX, PLAIN_HEAD), tmp_path / "fit")
    result = join(tmp_path / "fit")
    evaluation = tmp_path / "fit" / "evaluation" / "dev"
    rows = [load_outputs(evaluation / name).split for name in ("000-layer_mix", "001-last_layer")]
    joined = load_outputs(result.folder / "ensemble").split
    assert isinstance(joined, np.ndarray)
    first, second = rows
    assert isinstance(first, np.ndarray)
    assert isinstance(second, np.ndarray)
    assert joined == pytest.approx((first + second) / 2, rel=FLOAT32)
    with pytest.raises(BertVisionError, match="--how is max, but scores have no probabilities"):
        join(tmp_path / "fit", how="max")


def test_members_that_do_not_go_together_are_refused(place: Path, tmp_path: Path) -> None:
    data, encoder = str(place / "data"), str(place / "encoder")
    fit_heads(tiny_fit("squad2", data, encoder, MIX, seed=4), tmp_path / "seed")
    with pytest.raises(BertVisionError, match="held out other training examples"):
        join(place / "fit1", tmp_path / "seed")
    shorter = replace(WINDOWS, question=2)
    fit_heads(tiny_fit("squad2", data, encoder, MIX, windows=shorter), tmp_path / "short")
    with pytest.raises(BertVisionError, match="cut the questions into other token windows"):
        join(place / "fit1", tmp_path / "short")
    labels = write_labels(tmp_path / "labels")
    fit_heads(tiny_fit("sst2", labels, encoder, MIX), tmp_path / "labels-fit")
    with pytest.raises(BertVisionError, match=r"is for squad2, .* for sst2"):
        join(place / "fit1", tmp_path / "labels-fit")
    with pytest.raises(UnknownNameError, match=r"unknown member 'layer_mox'\. Did you mean 'layer_mix'"):
        join(place / "fit1", heads=["layer_mox"])
    with pytest.raises(BertVisionError, match="at least two members, there is 000-layer_mix"):
        join(place / "fit1", heads=["layer_mix"])
    other = write_questions(tmp_path / "other", train=60, dev=7)
    fit_heads(tiny_fit("squad2", other, f"{place}/tuned@1", MIX), tmp_path / "other-fit")
    with pytest.raises(BertVisionError, match=r"have other examples in dev\. Name one place with --data"):
        join(place / "fit1", tmp_path / "other-fit")


def test_a_folder_that_is_no_ensemble_is_left_as_it_is(place: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("mine", encoding="utf-8")
    before = everything(tmp_path)
    with pytest.raises(BertVisionError, match="is there already and is no ensemble"):
        ensemble([place / "fit1"], out=tmp_path / "mine", device="cpu")
    assert everything(tmp_path) == before
    for _ in range(2):  # its own may be written again
        ensemble([place / "fit1"], out=tmp_path / "ours", resamples=RESAMPLES, device="cpu")
    assert EnsembleRecord.read(tmp_path / "ours").runs == [f"{place}/fit1"]


def test_a_greedy_choice_needs_held_out_examples(place: Path, tmp_path: Path) -> None:
    tune(tiny_request("squad2", str(place / "data"), str(place / "encoder"), held_out=0.0), tmp_path / "run")
    with pytest.raises(BertVisionError, match="held nothing out, so that nothing chooses"):
        join(tmp_path / "run", how="greedy")


def test_examples_with_the_same_numbers_are_not_the_same_held_out_examples(place: Path, tmp_path: Path) -> None:
    encoder, data = str(place / "encoder"), write_labels(tmp_path / "one")
    shutil.copytree(data, tmp_path / "two")
    header, *rows = (tmp_path / "two" / "train.tsv").read_text(encoding="utf-8").splitlines()
    swapped = [header, *(f"h {row}" for row in rows)]
    (tmp_path / "two" / "train.tsv").write_text("\n".join(swapped) + "\n", encoding="utf-8")
    for name in ("one", "two"):
        fit_heads(tiny_fit("sst2", str(tmp_path / name), encoder, MIX), tmp_path / f"fit-{name}")
    with pytest.raises(BertVisionError, match="held out other training examples"):
        join(tmp_path / "fit-one", tmp_path / "fit-two")


def test_examples_that_judge_do_not_choose_members_too(place: Path, tmp_path: Path) -> None:
    data = Path(write_labels(tmp_path / "data"))
    (data / "dev.tsv").unlink()
    fit_heads(tiny_fit("sst2", str(data), str(place / "encoder"), MIX, PLAIN_HEAD), tmp_path / "fit")
    with pytest.raises(BertVisionError, match="is judged by the very examples that it held out"):
        join(tmp_path / "fit", how="greedy")
    assert join(tmp_path / "fit").record.split == "held_out"


def test_of_equally_good_members_the_smallest_is_the_one_to_beat(place: Path, tmp_path: Path) -> None:
    data = write_labels(tmp_path / "data")
    same = [HeadSpec(head=head, lr=1e-9) for head in ("layer_concat", "layer_mean")]
    fit_heads(tiny_fit("sst2", data, str(place / "encoder"), *same, solve=False), tmp_path / "fit")
    candidates = gather_candidates([tmp_path / "fit"], ways=["mean"], resamples=RESAMPLES, device="cpu")
    verdicts = {label: replace(verdict, held_out=0.5) for label, verdict in candidates.verdicts.items()}
    record = replace(candidates, verdicts=verdicts).join("mean").record
    assert [member.row.name for member in record.members] == ["001-layer_mean", "000-layer_concat"]
    assert record.against == "001-layer_mean"
    assert record.members[0].row.scores[PLAIN].against == {}
    assert record.members[1].row.scores[PLAIN].against


def test_an_ensemble_of_no_run_is_refused() -> None:
    with pytest.raises(BertVisionError, match="no run was named"):
        ensemble([])
