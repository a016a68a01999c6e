"""Runs that go on know their data again: what is held out now must not have been learnt before."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from bertvision.errors import BertVisionError
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.tuning.multitask import multitask
from bertvision.runs.tuning.triplet_request import TripletRequest
from bertvision.runs.tuning.triplets import tune_triplets
from bertvision.runs.tuning.tune import tune
from bertvision.training.options import TuneOptions
from bertvision.training.trainee import HeadSpec
from tiny_run import WINDOWS, save_tiny_encoder, tiny_fit, tiny_multitask, tiny_request, write_labels

Run = Callable[..., object]


class PulledPlugError(Exception):
    pass


@pytest.fixture(params=["fit", "tune", "multitask", "triplets"])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Begins a run of texts in the folder `data`, or goes on with it."""
    encoder, out = save_tiny_encoder(tmp_path / "encoder"), tmp_path / "run"
    data = str(tmp_path / "data")
    if request.param == "fit":
        asked = tiny_fit("sst2", data, encoder, HeadSpec(head="layer_mix"), solve=False)
        return partial(fit_heads, asked, out)
    if request.param == "tune":
        return partial(tune, tiny_request("sst2", data, encoder), out)
    if request.param == "triplets":
        options = TuneOptions(epochs=1, batch=8)
        texts = TripletRequest(
            task="sst2", data=data, encoder=encoder, windows=WINDOWS, device="cpu", held_out=0.2, options=options
        )
        return partial(tune_triplets, texts, out)
    return partial(multitask, tiny_multitask("sst2", data, encoder), out)


def test_a_run_does_not_go_on_with_other_labels(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_labels(tmp_path / "data")

    def pull(*_: object, **__: object) -> None:
        raise PulledPlugError

    with monkeypatch.context() as patch:
        patch.setattr("bertvision.runs.folder.RunFolder.forget_after", pull)
        with pytest.raises(PulledPlugError):
            run()
    before = (tmp_path / "data" / "train.tsv").read_text(encoding="utf-8")
    write_labels(tmp_path / "data", rare=0.4)
    with pytest.raises(BertVisionError, match=r"run began with other training examples: the data have changed since"):
        run(resume=True)
    (tmp_path / "data" / "train.tsv").write_text(before, encoding="utf-8")
    assert run(resume=True)
