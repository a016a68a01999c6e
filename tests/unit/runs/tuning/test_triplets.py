"""Triplets on one encoder, from names of tasks to a run that is an encoder."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bertvision.encoder.batch import padded_batch
from bertvision.encoder.load import load_encoder
from bertvision.errors import BertVisionError
from bertvision.runs.tuning.distances import measure_distances
from bertvision.runs.tuning.multitask import multitask
from bertvision.runs.tuning.triplet_request import TripletRequest
from bertvision.runs.tuning.triplets import tune_triplets
from bertvision.tasks.triplets import Triplets
from bertvision.training.options import TuneOptions
from bertvision.training.triplets import SentenceModel, TripletData, alike
from close import FLOAT32
from tiny_models import tiny_windows
from tiny_run import WINDOWS, save_tiny_encoder, tiny_encoder, tiny_multitask, write_several


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_several(tmp_path_factory.mktemp("data"))


@pytest.fixture
def asked(encoder: str, data: str) -> TripletRequest:
    options = TuneOptions(epochs=2, batch=8, lr=5e-3, warmup=0.0)
    return TripletRequest(
        task="sst2,sts,quora", data=data, encoder=encoder, windows=WINDOWS, device="cpu", held_out=0.2, options=options
    )


TOY = Triplets(
    names=("one", "two"),
    texts=["a", "b", "c", "d", "e", "f"],
    anchor=np.array([0, 1]),
    positive=np.array([1, 2]),
    negatives=np.array([[2, 3, 4, 5], [3, 4, 5, 0]]),
    set_of=np.array([0, 1]),
    group=np.array([0, 1]),
    left_out={},
)


def test_distances_are_told_by_set_and_kind() -> None:
    vectors = np.array([[0, 0], [3, 4], [0, 1], [0, 2], [0, 3], [6, 8]], dtype=np.float32)
    found = measure_distances(TOY, vectors)
    one, two = found["one"], found["two"]
    assert one.anchors == 1
    assert (one.positive.mean, one.negative.mean) == (5.0, 2.0)  # negatives are 1, 2 and 3 away
    assert one.other is not None
    assert one.other.mean == 10.0
    assert (one.in_order, one.negative.quantiles["0.5"]) == (0.0, 2.0)
    assert two.positive.mean == pytest.approx(18**0.5)  # (3, 4) to (0, 1)
    assert two.in_order == 0.0  # (0, 2) is nearer: the root of 13
    assert one.values() == {"positive": 5.0, "negative": 2.0, "other": 10.0, "in_order": 0.0}


def test_an_anchor_is_in_order_when_its_positive_is_nearest() -> None:
    near = np.array([[0, 0], [1, 0], [9, 0], [9, 9], [0, 9], [5, 5]], dtype=np.float32)
    assert measure_distances(TOY, near)["one"].in_order == 1.0


def test_the_positive_of_another_is_no_negative_if_it_is_ones_own_text_or_of_ones_group() -> None:
    # the positive of the first is the anchor of the second
    assert alike(TOY).tolist() == [[True, False], [True, True]]
    assert alike(replace(TOY, group=np.array([4, 4]))).all()


@pytest.mark.parametrize("loss", ["document", "margin", "in-batch"])
def test_a_text_is_encoded_once_and_losses_are_those_of_its_vectors(loss: str) -> None:
    torch.manual_seed(0)
    model = SentenceModel(tiny_encoder(), "mean").eval()
    windows = tiny_windows(3, 4, 5, 3, 6, 2)
    windows.ids[:] = np.arange(len(windows.ids)) % 15 + 5
    data = TripletData(triplets=TOY, windows=windows, loss=loss, margin=30.0, packed=False, pad=0)  # type: ignore[arg-type]
    seen: list[int] = []

    def watched(batch: object) -> torch.Tensor:
        vectors: torch.Tensor = model(batch)
        seen.append(len(vectors))
        return vectors

    both = data.train_batch(np.array([0, 1])).losses(watched, torch.device("cpu")).detach()
    assert seen == [6]
    assert both.shape == (2,)
    if loss != "in-batch":
        alone = [data.train_batch(np.array([row])).losses(model, torch.device("cpu")).detach() for row in range(2)]
        assert torch.allclose(both, torch.cat(alone), atol=FLOAT32)


@pytest.mark.parametrize("loss", ["margin", "in-batch"])
def test_what_belongs_together_comes_nearer(asked: TripletRequest, loss: str, tmp_path: Path) -> None:
    request = replace(asked, loss=loss, task="sst2,quora", options=replace(asked.options, epochs=4), pool="mean")  # type: ignore[arg-type]
    result = tune_triplets(request, tmp_path / "run")
    found = json.loads((result.run / "distances.json").read_text(encoding="utf-8"))
    assert set(found["before"]) == set(found["after"]) == {"dev", "held_out"}
    before, after = found["before"]["dev"]["sst2"], found["after"]["dev"]["sst2"]
    assert after["in_order"] > before["in_order"]
    ratios = [one["positive"]["mean"] / one["negative"]["mean"] for one in (before, after)]
    assert ratios[1] < ratios[0]
    assert result.metrics["sst2.in_order"] == after["in_order"]
    assert "sst2.held_out_in_order" in result.metrics


def test_a_run_on_triplets_is_an_encoder_for_several_tasks(asked: TripletRequest, data: str, tmp_path: Path) -> None:
    near = tune_triplets(replace(asked, learn="lora:2", loss="margin"), tmp_path / "near")
    assert near.snapshots[-1].head == ""
    result = multitask(tiny_multitask("sst2,sts", data, str(near.run)), tmp_path / "run")
    assert result.snapshots[-1].encoder == str(near.run)
    windows = tiny_windows(4)
    windows.ids[:] = [2, 6, 8, 3]
    batch = padded_batch(windows, np.array([0]))
    before, after = (load_encoder(name)(batch).states for name in (asked.encoder, str(near.run)))
    assert not torch.allclose(before, after, atol=FLOAT32)


def test_caps_and_what_is_left_out_are_told(asked: TripletRequest, tmp_path: Path) -> None:
    result = tune_triplets(replace(asked, caps={"sts": 5}), tmp_path / "run")
    found = json.loads((result.run / "distances.json").read_text(encoding="utf-8"))
    assert found["triplets"]["sts"] == 5
    assert found["triplets"]["sst2"] > 20
    assert set(found["left_out"]["sts"]) == {"between", "two classes", "alone"}


def test_a_resumed_run_is_the_same(asked: TripletRequest, tmp_path: Path) -> None:
    first = tune_triplets(asked, tmp_path / "run")
    again = tune_triplets(asked, tmp_path / "run", resume=True)
    assert again.metrics == first.metrics
    assert "there was nothing left to do" in again.notices[0]


def test_too_few_held_out_texts_are_a_notice_and_no_error(asked: TripletRequest, tmp_path: Path) -> None:
    result = tune_triplets(replace(asked, held_out=0.03), tmp_path / "run")
    assert any(notice.startswith("no distances on held_out: ") for notice in result.notices)
    assert "sst2.in_order" in result.metrics


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learn": "none"}, "--learn is none, but triplets teach the encoder alone"),
        ({"margin": -1.0}, "--margin is -1, at least 0 is expected"),
        ({"caps": {"cola": 3}}, "--cap names cola, which is none of the tasks"),
        ({"task": "sst2,squad2"}, "squad2: triplets are made of texts with labels or scores"),
        ({"loss": "in-batch", "options": TuneOptions(accumulate=2)}, "--accumulate is 2, but --loss in-batch compares"),
        ({"options": TuneOptions(class_weights=True)}, "--class-weights is for labels"),
    ],
)
def test_what_cannot_be_is_refused(
    asked: TripletRequest, changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BertVisionError, match=message):
        tune_triplets(replace(asked, **changes), tmp_path / "run")  # type: ignore[arg-type]
    assert not (tmp_path / "run" / "config.json").exists()
