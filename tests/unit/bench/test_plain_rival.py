"""The rival against ours: the same model, the same windows, the same numbers."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel

from bertvision.bench.plain_rival import (
    PlainOptions,
    PlainSteps,
    merged,
    plain_batches,
    plain_loss,
    plain_model,
    plain_scores,
    plain_training,
)
from bertvision.encoder.learn import apply_learn, parse_learn
from bertvision.encoder.load import load_encoder
from bertvision.errors import BertVisionError
from bertvision.heads import HeadShape, build_head
from bertvision.inference.outputs import PassOptions, span_scores
from bertvision.tasks.examples import Questions, Texts
from bertvision.tasks.load import find_task, load_task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import Windows, build_windows
from bertvision.training.data import TuneData
from bertvision.training.model import TunedModel
from close import FLOAT32
from tiny_models import save_tiny, tiny_windows
from tiny_run import WINDOWS, parameters, save_tiny_encoder, write_questions

CPU = torch.device("cpu")
SPANS = find_task("squad2")
OPTIONS = PlainOptions(lr=5e-3, head_lr=5e-3, batch=8, schedule="linear", warmup=0.0, seed=0)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def windows(encoder: str, tmp_path_factory: pytest.TempPathFactory) -> Windows:
    loaded = load_task("squad2", data=write_questions(tmp_path_factory.mktemp("data"), train=40))
    train = loaded.splits["train"]
    assert isinstance(train, Questions)
    return build_windows(loaded.task, train, TextTokenizer.load(encoder), WINDOWS)


def ours(encoder: str, rival: Any) -> TunedModel:  # noqa: ANN401 - transformers' models have no type
    """Our model with the rival's output."""
    loaded = load_encoder(encoder)
    head = build_head("last_layer", HeadShape(layers=3, width=16, outputs=2), {"dropout": 0.0})
    head.project.load_state_dict(rival.qa_outputs.state_dict())
    return TunedModel(loaded, head)


def alike(windows: Windows) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Windows of one length: the usual loss counts padding, too, and ours does not."""
    lengths = windows.lengths.tolist()
    common = max(set(lengths), key=lengths.count)
    return np.flatnonzero(windows.lengths == common)


@pytest.mark.parametrize("learn", ["full", "lora:2", "bitfit", "none"])
def test_weights_that_are_stored_in_16_bits_learn_in_float32(encoder: str, learn: str, tmp_path: Path) -> None:
    AutoModel.from_pretrained(encoder).to(torch.bfloat16).save_pretrained(tmp_path)
    model = plain_model(str(tmp_path), SPANS, learn, 0)
    assert {value.dtype for value in model.parameters()} == {torch.float32}


def test_the_first_loss_is_ours(encoder: str, windows: Windows) -> None:
    rival = plain_model(encoder, SPANS, "full", 0)
    model, rows = ours(encoder, rival), alike(windows)
    assert len(rows) >= 3
    data = TuneData(task=load_task("squad2").task, windows=windows, pool="cls", packed=False, pad=0)
    expected = data.train_batch(rows).losses(model, CPU).mean()
    assert plain_loss(rival, SPANS, windows, rows, CPU).item() == pytest.approx(expected.item(), abs=FLOAT32)


def test_lora_starts_as_the_encoder_and_learns_as_much_as_ours(encoder: str, windows: Windows) -> None:
    rival, plain = plain_model(encoder, SPANS, "lora:4", 0), plain_model(encoder, SPANS, "full", 0)
    rows = alike(windows)
    assert plain_loss(rival, SPANS, windows, rows, CPU).item() == pytest.approx(
        plain_loss(plain, SPANS, windows, rows, CPU).item()
    )
    model = ours(encoder, plain)
    apply_learn(model.encoder, parse_learn("lora:4"))
    counts = [sum(p.numel() for p in one.parameters() if p.requires_grad) for one in (rival, model)]
    assert counts[0] == counts[1]


@pytest.mark.parametrize("kind", ["mpnet", "roberta"])
def test_other_architectures_learn_as_much_as_ours_and_take_what_they_know(kind: str, tmp_path: Path) -> None:
    folder = save_tiny(tmp_path, kind)
    rival, model = plain_model(folder, SPANS, "lora:2", 0), load_encoder(folder)
    apply_learn(model, parse_learn("lora:2"))
    output = 16 * 2 + 2
    ours = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert sum(p.numel() for p in rival.parameters() if p.requires_grad) == ours + output
    assert plain_scores(rival, SPANS, tiny_windows(5, 9, 7), 2, CPU).shape == (21, 2)


def test_scores_of_padded_batches_are_ours(encoder: str, windows: Windows) -> None:
    rival = plain_model(encoder, SPANS, "full", 0)
    found = plain_scores(rival, SPANS, windows, 7, CPU)
    expected = span_scores(ours(encoder, rival), windows, PassOptions(packed=False, pad=0, bf16=False))
    assert found[:, 0] == pytest.approx(expected.start, abs=FLOAT32)
    assert found[:, 1] == pytest.approx(expected.end, abs=FLOAT32)


@pytest.mark.parametrize(
    ("learn", "changed"),
    [("full", {"weight", "bias"}), ("bitfit", {"bias"}), ("none", set()), ("lora:2", {"lora_A", "lora_B"})],
)
def test_what_learns_changes_and_nothing_else(learn: str, changed: set[str], encoder: str, windows: Windows) -> None:
    model = plain_model(encoder, SPANS, learn, 0)
    before = parameters(model)
    plain_training(model, SPANS, windows, OPTIONS, CPU, fractions=[1], measure=lambda _: None)
    after = parameters(model)
    different = [name for name in before if not torch.equal(before[name], after[name])]
    free = [name for name, value in model.named_parameters() if value.requires_grad]
    assert set(different) <= set(free)
    inside = {name.rpartition(".default")[0] or name for name in different if "qa_outputs" not in name}
    assert {name.rpartition(".")[2] for name in inside} == changed
    assert any("qa_outputs" in name for name in different)


def test_it_learns_and_is_measured_outside_the_clock(encoder: str, windows: Windows) -> None:
    model, steps = plain_model(encoder, SPANS, "full", 0), list[PlainSteps]()
    rows = np.arange(len(windows))
    before = plain_loss(model, SPANS, windows, rows, CPU).item()

    def measure(found: PlainSteps) -> None:
        torch.zeros(1)
        model.eval()
        steps.append(found)
        plain_scores(model, SPANS, windows, 8, CPU)

    plain_training(model, SPANS, windows, OPTIONS, CPU, fractions=[0.4, 1, 6], measure=measure)
    assert [one.epochs for one in steps] == [0.4, 1, 6]
    assert 0 < steps[0].first <= steps[0].seconds < steps[1].seconds < steps[2].seconds
    assert {one.first for one in steps} == {steps[0].first}
    assert [one.peak for one in steps] == [None] * 3
    assert plain_loss(model, SPANS, windows, rows, CPU).item() < before / 2


def test_two_snapshots_on_one_step_are_refused(encoder: str, windows: Windows) -> None:
    model = plain_model(encoder, SPANS, "none", 0)
    with pytest.raises(BertVisionError, match=r"of the snapshots 0\.01, 0\.02, 1 two fall on the same step"):
        plain_training(model, SPANS, windows, OPTIONS, CPU, fractions=[0.01, 0.02, 1], measure=lambda _: None)


def test_a_clock_stands_while_it_is_measured(encoder: str, windows: Windows, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(10_000))
    monkeypatch.setattr("bertvision.bench.plain_rival.time.perf_counter", lambda: float(next(ticks)))
    seen: list[PlainSteps] = []

    def measure(found: PlainSteps) -> None:
        seen.append(found)
        for _ in range(1000):
            next(ticks)

    plain_training(
        plain_model(encoder, SPANS, "none", 0), SPANS, windows, OPTIONS, CPU, fractions=[0.4, 1], measure=measure
    )
    # begin, end of the first step, its restart, and two stops with a restart between: one tick from each to the next
    assert [one.seconds for one in seen] == [2.0, 3.0]
    assert seen[0].first == 1.0


def test_an_epoch_has_every_window_once_in_batches_of_like_lengths(windows: Windows) -> None:
    torch.manual_seed(0)
    batches = plain_batches(windows, 8)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(windows)))
    ranges = sorted((windows.lengths[batch].min(), windows.lengths[batch].max()) for batch in batches)
    assert all(longest <= shortest for (_, longest), (shortest, _) in pairwise(ranges))
    torch.manual_seed(1)
    assert [batch.tolist() for batch in plain_batches(windows, 8)] != [batch.tolist() for batch in batches]


def test_merged_changes_answer_the_same(encoder: str, windows: Windows) -> None:
    model = plain_model(encoder, SPANS, "lora:2", 0)
    plain_training(model, SPANS, windows, OPTIONS, CPU, fractions=[1], measure=lambda _: None)
    before = plain_scores(model, SPANS, windows, 8, CPU)
    assert plain_scores(merged(model), SPANS, windows, 8, CPU) == pytest.approx(before, abs=FLOAT32)


def texts(task: str, targets: list[float], encoder: str) -> Windows:
    """Windows of so many short texts of one length."""
    words = ["the cat sat", "a dog ran", "on the mat", "the old dog"]
    scores = np.asarray(targets, dtype=np.float64)
    numbers = scores if find_task(task).kind == "scores" else scores.astype(np.int64)
    some = [words[row % len(words)] for row in range(len(targets))]
    pairs = some[::-1] if task == "stsb" else None
    examples = Texts(ids=[str(row) for row in range(len(targets))], texts=some, pairs=pairs, targets=numbers)
    return build_windows(find_task(task), examples, TextTokenizer.load(encoder), WINDOWS)


@pytest.mark.parametrize(("task", "targets"), [("sst2", [0, 1, 1, 0]), ("stsb", [0.5, 4.0, 2.5, 5.0])])
def test_texts_have_the_loss_of_their_kind(task: str, targets: list[float], encoder: str) -> None:
    found, windows = find_task(task), texts(task, targets, encoder)
    rows = np.arange(len(targets))
    model = plain_model(encoder, found, "full", 0)
    outputs = torch.from_numpy(plain_scores(model, found, windows, 3, CPU))
    right = torch.tensor(targets)
    expected = (
        torch.nn.functional.mse_loss(outputs[:, 0], right)
        if found.kind == "scores"
        else torch.nn.functional.cross_entropy(outputs, right.long())
    )
    assert plain_loss(model, found, windows, rows, CPU).item() == pytest.approx(expected.item(), abs=FLOAT32)


@pytest.mark.parametrize("learn", ["full", "lora:2", "none"])
def test_it_learns_classes(learn: str, encoder: str) -> None:
    task, windows = find_task("sst2"), texts("sst2", [0, 1, 1, 0] * 8, encoder)
    model, rows = plain_model(encoder, task, learn, 0), np.arange(32)
    before = plain_loss(model, task, windows, rows, CPU).item()
    plain_training(model, task, windows, OPTIONS, CPU, fractions=[10], measure=lambda _: None)
    assert plain_loss(model, task, windows, rows, CPU).item() < before
    learnt = {name for name, value in model.named_parameters() if value.requires_grad}
    new = {name for name in learnt if "classifier" in name}
    assert len(new) == 2
    assert (learnt == new) == (learn == "none")


@pytest.mark.parametrize("kind", ["mpnet", "roberta"])
def test_outputs_of_two_maps_learn_whole_beside_low_ranks(kind: str, tmp_path: Path) -> None:
    model = plain_model(save_tiny(tmp_path, kind), find_task("sst2"), "lora:2", 0)
    new = {name for name, value in model.named_parameters() if value.requires_grad and "classifier" in name}
    assert {name.rpartition("default.")[2] for name in new} == {
        "dense.weight",
        "dense.bias",
        "out_proj.weight",
        "out_proj.bias",
    }
