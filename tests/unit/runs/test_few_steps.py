"""Who trains on a small table of their own is told that a few steps teach nothing."""

from pathlib import Path
from typing import Any

import pytest

from bertvision.runs.few_steps import FEW_STEPS, few_steps_notice
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.tuning.tune import tune
from bertvision.training.trainee import HeadSpec
from tiny_run import save_tiny_encoder, tiny_fit, tiny_request, write_labels, write_questions, write_scores

pytestmark = pytest.mark.usefixtures("few_strengths")

MIX, CONCAT = HeadSpec(head="layer_mix"), HeadSpec(head="layer_concat")
SOLVE = "or solve instead of training:"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder, a small table, and as few questions."""
    folder = tmp_path_factory.mktemp("place")
    save_tiny_encoder(folder / "encoder")
    write_scores(folder / "table", train=20)
    write_questions(folder / "questions", train=20)
    write_labels(folder / "named", train=20)
    return folder


def told(notices: tuple[str, ...]) -> list[str]:
    return [notice for notice in notices if "too few to learn much" in notice]


def fitted(
    place: Path,
    out: Path,
    *heads: HeadSpec,
    task: str = "own",
    data: str = "table",
    **changes: Any,  # noqa: ANN401 - any field
) -> list[str]:
    request = tiny_fit(task, str(place / data), str(place / "encoder"), *heads, **{"batch": 32, **changes})
    return told(fit_heads(request, out).notices)


def tuned(place: Path, out: Path, *, task: str = "own", data: str = "table", **changes: Any) -> list[str]:  # noqa: ANN401 - any field
    request = tiny_request(task, str(place / data), str(place / "encoder"), **{"batch": 32, **changes})
    return told(tune(request, out).notices)


def test_a_fit_of_trained_heads_says_how_many_steps_were_made_and_what_to_do(place: Path, tmp_path: Path) -> None:
    (notice,) = fitted(place, tmp_path / "run", MIX)
    assert notice == (
        "training made 1 step in 1 epoch, too few to learn much. Use more, such as --epochs 100; or solve instead of "
        "training: --heads layer_concat."
    )


def test_a_tuned_run_names_the_command_that_solves_heads(place: Path, tmp_path: Path) -> None:
    (notice,) = tuned(place, tmp_path / "run", epochs=3)
    assert "3 steps in 3 epochs" in notice
    assert notice.endswith("--epochs 100; or solve instead of training: bertvision fit own --heads layer_concat.")


def test_where_nothing_can_be_solved_only_epochs_are_named(place: Path, tmp_path: Path) -> None:
    for number, notices in enumerate(
        [
            fitted(place, tmp_path / "spans", MIX, data="questions"),
            fitted(place, tmp_path / "tokens", MIX, pool="attention"),
            fitted(place, tmp_path / "trained", CONCAT, solve=False),
            fitted(place, tmp_path / "both", MIX, CONCAT),  # which has a solved head already
            tuned(place, tmp_path / "answers", data="questions"),
        ]
    ):
        assert len(notices) == 1, number
        assert "--epochs" in notices[0]
        assert SOLVE not in notices[0]


def test_nothing_is_said_where_it_would_be_noise(place: Path, tmp_path: Path) -> None:
    assert not fitted(place, tmp_path / "solved", CONCAT)
    assert not fitted(place, tmp_path / "long", MIX, epochs=FEW_STEPS)
    assert not fitted(place, tmp_path / "named", MIX, task="sst2", data="named")
    assert not tuned(place, tmp_path / "tuned", task="sst2", data="named")
    assert not few_steps_notice("own", FEW_STEPS, 1.0)
    assert few_steps_notice("own", FEW_STEPS - 1, 1.0)
