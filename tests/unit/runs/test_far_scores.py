"""Who trains on scores of thousands, or of thousandths, is told what to divide them by."""

from pathlib import Path

import numpy as np
import pytest

from bertvision.runs.far_scores import far_scores_notice
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.tuning.tune import tune
from bertvision.tasks.load import TASKS
from bertvision.training.trainee import HeadSpec
from tiny_run import save_tiny_encoder, tiny_fit, tiny_request

pytestmark = pytest.mark.usefixtures("few_strengths")

MIX, CONCAT = HeadSpec(head="layer_mix"), HeadSpec(head="layer_concat")


def test_scores_of_unusual_size_are_told_with_what_to_divide_them_by() -> None:
    prices, shares = np.array([1e5, 3e5]), np.array([0.001, 0.003])
    [notice] = far_scores_notice(TASKS["stsb"], prices, otherwise="--heads layer_concat")
    assert notice.startswith("scores have a standard deviation of 1e+05, and training moves outputs by steps that suit")
    assert notice.endswith("Divide scores by 100000 first; or solve instead of training: --heads layer_concat.")
    [notice] = far_scores_notice(TASKS["stsb"], shares)
    assert notice.endswith("Divide scores by 0.001 first.")


@pytest.mark.parametrize("scores", [[0.0, 5.0], [0.0, 0.1], [0.0, 50.0], [1e6, 1e6], [1e6, 1e6 + 2]])
def test_scores_of_usual_size_and_those_that_are_all_alike_are_not(scores: list[float]) -> None:
    assert far_scores_notice(TASKS["stsb"], np.array(scores)) == ()


def test_classes_have_no_size() -> None:
    assert far_scores_notice(TASKS["sst2"], np.array([0, 1000])) == ()


def test_it_is_about_heads_that_are_trained(tmp_path: Path) -> None:
    encoder, table = save_tiny_encoder(tmp_path / "encoder"), tmp_path / "prices.csv"
    rows = "".join(f"the price is {'good' if number % 2 else 'bad'},{1000.5 * number}\n" for number in range(20))
    table.write_text(f"text,label\n{rows}", encoding="utf-8")

    def told(notices: tuple[str, ...]) -> list[str]:
        return [notice for notice in notices if "standard deviation" in notice]

    assert told(fit_heads(tiny_fit("own", str(table), encoder, CONCAT), tmp_path / "solved").notices) == []
    [notice] = told(fit_heads(tiny_fit("own", str(table), encoder, MIX), tmp_path / "trained").notices)
    assert notice.endswith("--heads layer_concat.")
    [notice] = told(tune(tiny_request("own", str(table), encoder), tmp_path / "tuned").notices)
    assert notice.endswith("bertvision fit own --heads layer_concat.")
