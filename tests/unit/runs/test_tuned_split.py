"""Heads are judged by examples that their encoder never learnt from."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from bertvision.errors import BertVisionError
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.folder import RunFolder
from bertvision.runs.parts import split_train
from bertvision.runs.tuned_split import (
    TunedSplit,
    check_unseen,
    learned_in_any_run,
    learnt_from,
    seen_notice,
    tuned_split,
)
from bertvision.tasks.load import load_task
from bertvision.training.trainee import HeadSpec
from tiny_run import tiny_fit, tiny_request


def tuned(folder: Path, **changes: Any) -> Path:  # noqa: ANN401 - any field
    """The folder of a run that was asked for."""
    request = tiny_request("sst2", "builtin", "minilm", **{"held_out": 0.2, **changes})
    RunFolder(folder).begin(asdict(request), "weights")
    return folder


def fit(fraction: float = 1.0, **changes: Any) -> FitRequest:  # noqa: ANN401 - any field
    return tiny_fit("sst2", "builtin", "minilm", HeadSpec(head="last_layer", fraction=fraction), **changes)


def test_a_run_says_how_it_divided_its_examples(tmp_path: Path) -> None:
    run = tuned(tmp_path, fraction=0.5, seed=3)
    assert tuned_split(run) == TunedSplit(task="sst2", fraction=0.5, held_out=0.2, seed=3)


@pytest.mark.parametrize("task", ["sst2", "squad2"])
@pytest.mark.parametrize("share", [0.05, 0.2])
def test_a_smaller_held_out_part_of_the_same_seed_lies_within_a_larger_one(task: str, share: float) -> None:
    train = load_task(task, data="builtin").splits["train"]
    learnt, held_out = split_train(train, fraction=0.5, held_out=0.2, seed=3)
    _, fewer = split_train(train, fraction=0.5, held_out=share, seed=3)
    assert held_out is not None
    assert fewer is not None
    assert set(fewer.ids) <= set(held_out.ids)
    assert not set(fewer.ids) & set(learnt.ids)


def test_what_the_run_did_not_learn_from_may_judge(tmp_path: Path) -> None:
    run = tuned(tmp_path, fraction=0.5, seed=3)
    check_unseen(fit(0.5, seed=3), run)
    check_unseen(fit(0.5, seed=3, held_out=0.1), run)


@pytest.mark.parametrize(
    "changes", [{"seed": 0}, {"fraction": 1.0}, {"held_out": 0.25}], ids=["seed", "share", "held out"]
)
def test_what_the_run_may_have_learnt_from_may_not(changes: dict[str, Any], tmp_path: Path) -> None:
    run = tuned(tmp_path, fraction=0.5, seed=3)
    expected = r"heads would be judged by examples that the encoder learned from\. Use --held-out 0\.2 --seed 3 --frac"
    with pytest.raises(BertVisionError, match=expected):
        check_unseen(fit(**{"fraction": 0.5, "seed": 3, **changes}), run)


def test_a_run_that_held_nothing_out_leaves_nothing_to_judge_by(tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=r"--held-out 0, so that nothing is left .* Tune it again with --held-o"):
        check_unseen(fit(), tuned(tmp_path, held_out=0.0))


def test_a_run_has_learnt_from_the_task_that_it_was_tuned_for(tmp_path: Path) -> None:
    run = tuned(tmp_path / "tuned")
    assert learnt_from(run, "sst2", "builtin")
    assert not learnt_from(run, "sst5", "builtin")
    assert not learnt_from(tmp_path, "sst2", "builtin")
    heads = tmp_path / "heads"
    RunFolder(heads).begin(asdict(fit()), "weights")
    assert not learnt_from(heads, "sst2", "builtin")  # a fit of heads, no encoder


def test_a_run_for_several_tasks_has_learnt_from_each_of_them(tmp_path: Path) -> None:
    RunFolder(tmp_path).begin({**asdict(tiny_request("sst2", "builtin", "minilm")), "task": "sst5,sst2"}, "weights")
    assert learnt_from(tmp_path, "sst5", "builtin")
    assert learnt_from(tmp_path, "sst2", "builtin")
    assert not learnt_from(tmp_path, "sts", "builtin")


def test_tasks_that_are_read_from_the_same_files_have_the_same_examples(tmp_path: Path) -> None:
    RunFolder(tmp_path).begin({**asdict(tiny_request("squad2", "builtin", "minilm")), "task": "squad2"}, "weights")
    assert learnt_from(tmp_path, "answerable", "builtin")
    assert not any(learnt_from(tmp_path, task, "builtin") for task in ("squad1", "own", "sst2"))
    splits = [load_task(task, data="builtin").splits["train"] for task in ("squad2", "answerable")]
    parts = [split_train(train, fraction=0.5, held_out=0.2, seed=3) for train in splits]
    assert parts[0][0].ids == parts[1][0].ids  # divided alike, so that the run's own division suits both


def test_files_of_ones_own_are_the_same_however_their_place_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("reviews", "letters"):
        Path(name).mkdir()
        Path(name, "train.csv").write_text(f"text,label\n{name},1\nnone,0\n", encoding="utf-8")
    RunFolder(Path("tuned")).begin({**asdict(tiny_request("sst2", "reviews/", "minilm")), "task": "own"}, "weights")
    for data in ("reviews/", "reviews", "./reviews", str(tmp_path / "reviews"), "letters/../reviews/train.csv"):
        assert learnt_from(Path("tuned"), "own", data)
    assert not any(learnt_from(Path("tuned"), "own", data) for data in ("letters", "letters/train.csv", "nowhere"))
    assert not any(learnt_from(Path("tuned"), "own", data) for data in ("hub:reviews", None))


def test_files_of_ones_own_that_are_gone_are_known_by_what_they_were_called(tmp_path: Path) -> None:
    run = tmp_path / "tuned"
    RunFolder(run).begin({**asdict(tiny_request("sst2", "reviews", "minilm")), "task": "own"}, "weights")
    assert learnt_from(run, "own", "reviews")
    assert not learnt_from(run, "own", "letters")


def test_an_encoder_has_learned_in_whichever_run_led_to_it(tmp_path: Path) -> None:
    first, second = tuned(tmp_path / "first"), tmp_path / "second"
    RunFolder(second).begin(asdict(tiny_request("sst5", "builtin", str(first))), "weights")
    for encoder in (str(first), f"{first}@0.5", str(second)):
        assert learned_in_any_run(replace(fit(), encoder=encoder))
    assert learned_in_any_run(replace(fit(), task="sst5", encoder=str(second)))
    assert not learned_in_any_run(replace(fit(), task="sst5", encoder=str(first)))
    assert not learned_in_any_run(fit())


def test_a_fit_tells_that_its_encoder_learnt_from_what_it_holds_out(tmp_path: Path) -> None:
    run = tuned(tmp_path, seed=3)
    assert seen_notice(replace(fit(seed=3), encoder=str(run))) == ()
    (notice,) = seen_notice(replace(fit(seed=0), encoder=f"{run}@0.5"))
    assert notice.startswith("thresholds and choices may flatter:")
    assert seen_notice(replace(fit(seed=0), encoder=f"{run}/snapshots/0.5")) == (notice,)
    assert "Use --held-out 0.2 --seed 3" in notice
    assert seen_notice(fit(seed=0)) == ()


def test_tuning_further_tells_that_too(tmp_path: Path) -> None:
    run = str(tuned(tmp_path / "first", seed=3))
    further = tiny_request("sst2", "builtin", run, seed=3, held_out=0.1)
    assert seen_notice(further) == ()
    assert seen_notice(replace(further, task="sst5", held_out=0.3)) == ()
    assert seen_notice(replace(further, fraction=0.5, held_out=0.0)) == ()  # nothing is judged
    assert seen_notice(replace(further, held_out=0.3)) != ()
    assert seen_notice(replace(further, fraction=0.5, task="sts,sst2")) != ()
    (notice,) = seen_notice(tiny_request("sst2", "builtin", f"{run}@1", seed=4, held_out=0.1))
    assert "than this run would: --held-out is 0.1, --seed 4, --fraction 1, so heads would be judged by" in notice


def test_every_run_that_led_to_an_encoder_counts(tmp_path: Path) -> None:
    first = tuned(tmp_path / "first", seed=3)
    RunFolder(tmp_path / "second").begin(asdict(tiny_request("sst5", "builtin", str(first), seed=1)), "weights")
    assert seen_notice(replace(fit(seed=3), encoder=str(tmp_path / "second"))) == ()
    (notice,) = seen_notice(replace(fit(seed=1), encoder=str(tmp_path / "second")))
    assert f"{first} held out other examples" in notice
