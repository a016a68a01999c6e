"""Analyses read what real runs write, not only what their own tests make up."""

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from bertvision.analysis.cumulative import cumulative_scores
from bertvision.analysis.curves import fit_curves, freeze_curve, less_data_curves, tune_curves
from bertvision.analysis.layer_weights import learned_weights
from bertvision.heads import load_head
from bertvision.runs.fitting.fit import FitResult, fit_heads
from bertvision.runs.fitting.freeze_points import fit_snapshots
from bertvision.runs.folder import RunFolder
from bertvision.runs.tuning.tune import tune
from bertvision.training.trainee import HeadSpec
from tiny_run import save_tiny_encoder, tiny_fit, tiny_request, write_labels

MIXES = [HeadSpec(head="layer_mix", lr=2e-2, seed=seed, fraction=part) for part in (0.5, 1.0) for seed in (0, 1)]
PREFIXES = [HeadSpec(head="layer_mean", lr=2e-2, options={"layers": f"0..{depth}"}) for depth in range(3)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an encoder and data."""
    folder = tmp_path_factory.mktemp("analysed")
    save_tiny_encoder(folder / "encoder")
    write_labels(folder / "data")
    return folder


@pytest.fixture(scope="module")
def fitted(folder: Path) -> FitResult:
    """Learned pooling with half and all of the data and two seeds, and a prefix head for every layer."""
    request = tiny_fit("sst2", str(folder / "data"), str(folder / "encoder"), *MIXES, *PREFIXES, epochs=2)
    return fit_heads(request, folder / "fit")


def test_the_log_of_a_fit_gives_its_learning_curves(fitted: FitResult) -> None:
    names = [spec.head for spec in (*MIXES, *PREFIXES)]
    found = fit_curves(RunFolder(fitted.run).lines(), names)
    trained = [row for row in fitted.leaderboard if not row["solved"]]
    assert len(found.losses) == len(found.scores) == len(trained) > 0
    # the best held-out score on the way is that of the head that was kept
    best = sorted(max(curve.values) for curve in found.scores)
    assert best == sorted(row["held_out"] for row in trained)


def test_a_leaderboard_gives_curves_over_the_share_of_data(fitted: FitResult) -> None:
    curve = less_data_curves([row for row in fitted.leaderboard if row["head"] == "layer_mix"], "accuracy")[0]
    assert curve.fractions == (0.5, 1.0)
    assert [score.seeds for score in curve.scores] == [2, 2]
    halves = [row["metrics"]["accuracy"] for row in fitted.leaderboard if row["fraction"] == 0.5]
    assert curve.scores[0].mean == pytest.approx(sum(halves) / 2)


def test_heads_of_a_run_tell_their_layer_weights_over_seeds(fitted: FitResult) -> None:
    rows = [row for row in fitted.leaderboard if row["head"] == "layer_mix" and row["fraction"] == 1.0]
    report = learned_weights([load_head(fitted.run / row["folder"]) for row in rows])
    assert report is not None
    (only,) = report.sets
    assert (report.layers, only.centre.seeds) == ((0, 1, 2), 2)
    assert sum(share.mean for share in only.shares) == pytest.approx(1.0)
    json.dumps(asdict(report), allow_nan=False)


def test_prefix_heads_of_a_run_give_cumulative_scores(fitted: FitResult) -> None:
    rows = sorted((row for row in fitted.leaderboard if row["head"] == "layer_mean"), key=lambda row: int(row["depth"]))
    scores = np.array([[row["metrics"]["accuracy"] for row in rows]])
    found = cumulative_scores([row["depth"] for row in rows], scores)
    assert found.depths == (0, 1, 2)
    assert [score.mean for score in found.scores] == scores[0].tolist()


def test_a_tuned_run_and_its_freeze_points_give_curves(folder: Path) -> None:
    data, encoder, run = str(folder / "data"), str(folder / "encoder"), folder / "tuned"
    tune(tiny_request("sst2", data, encoder, snapshots=(0.5,), held_out=0.2, learn="top:1"), run)
    learning = tune_curves(RunFolder(run).lines(), "accuracy")
    assert len(learning.losses[0].values) > 0
    table = fit_snapshots(tiny_fit("sst2", data, str(run), MIXES[-1]), folder / "freeze").table
    found = freeze_curve(table, "accuracy")
    assert found.epochs == (0.5, 1.0)
    assert found.own == learning.scores[0].values
    assert found.names == ("layer_mix", "layer_mix")
    assert found.freeze_point in found.epochs
