"""Who holds out examples of one label alone is told that their perfect scores say nothing."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.one_label import one_label_notice
from bertvision.runs.tuning.tune import tune
from bertvision.tasks.load import TASKS
from bertvision.training.trainee import HeadSpec
from tiny_run import save_tiny_encoder, tiny_fit, tiny_request, write_labels

EXPECTED = "held out is 4 examples of the label '0' alone, so scores on them say nothing and choose nothing. Hold out"

pytestmark = pytest.mark.usefixtures("few_strengths")


@pytest.mark.parametrize("made", ["fit", "tune"])
def test_a_run_tells_that_what_it_holds_out_has_one_label(made: str, tmp_path: Path) -> None:
    encoder = save_tiny_encoder(tmp_path / "encoder")
    for rare, told in ((0.05, True), (0.5, False)):
        data, out = write_labels(tmp_path / f"data-{rare}", rare=rare), tmp_path / f"run-{rare}"
        if made == "fit":
            notices = fit_heads(tiny_fit("sst2", data, encoder, HeadSpec(head="last_layer"), held_out=0.1), out).notices
        else:
            notices = tune(tiny_request("sst2", data, encoder, held_out=0.1), out).notices
        assert any(notice.startswith(EXPECTED) for notice in notices) == told


def test_only_labels_can_be_alone() -> None:
    task = TASKS["sst2"]
    assert one_label_notice(task, np.array([1]))[0].startswith("held out is 1 example of the label '1' alone")
    assert one_label_notice(task, np.array([0, 1])) == one_label_notice(task, None) == ()
    assert one_label_notice(replace(task, kind="scores", labels=()), np.array([0.5, 0.5])) == ()
