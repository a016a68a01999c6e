from dataclasses import replace

import numpy as np
import pytest
import torch

from bertvision.encoder.batch import padded_batch
from bertvision.encoder.packed import PACKED
from bertvision.evaluation.outputs import merge_rows
from bertvision.inference import outputs as outputs_module
from bertvision.inference.outputs import PassOptions, row_scores, span_scores
from bertvision.objectives import Pool
from bertvision.tasks.load import TASKS
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows, build_windows
from bertvision.training.model import TunedModel
from close import FLOAT32
from conftest import make_questions
from tiny_run import save_tiny_encoder, tiny_model

PADDED = PassOptions(packed=False, pad=0, bf16=False)
PACKED_PASS = PassOptions(packed=True, pad=0, bf16=False)


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> Windows:
    """Windows of different lengths; the first question has four."""
    tokenizer = TextTokenizer.load(save_tiny_encoder(tmp_path_factory.mktemp("encoder")))
    questions = make_questions(
        ("where ?", " ".join("abcdefgh" * 4), "h"), ("is it ?", "a b gold", "gold"), ("where is it ?", "c", None)
    )
    options = WindowOptions(length=16, stride=4, question=4)
    return build_windows(TASKS["answerable"], questions, tokenizer, options)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(outputs_module.BATCH_TOKENS, "cpu", 32)  # two windows at a time


@torch.no_grad()
def test_every_token_gets_the_scores_that_its_window_gives_it_alone(windows: Windows) -> None:
    model = tiny_model().eval()
    scores = span_scores(model, windows, PADDED)
    assert len(windows) == 6
    for row in range(len(windows)):
        alone, _ = model(padded_batch(windows, np.array([row])))
        begin, end = windows.bounds[row : row + 2]
        assert scores.start[begin:end] == pytest.approx(alone[0, :, 0].numpy(), abs=FLOAT32)
        assert scores.end[begin:end] == pytest.approx(alone[0, :, 1].numpy(), abs=FLOAT32)


@torch.no_grad()
def test_every_window_gets_its_pooled_row(windows: Windows) -> None:
    model = tiny_model(outputs=3).eval()
    first = row_scores(model, windows, PADDED, pool="cls")
    mean = row_scores(model, windows, PADDED, pool="mean")
    assert first.shape == mean.shape == (6, 3)
    for row in range(len(windows)):
        alone, _ = model(padded_batch(windows, np.array([row])))
        assert first[row] == pytest.approx(alone[0, 0].numpy(), abs=FLOAT32)
        assert mean[row] == pytest.approx(alone[0].mean(dim=0).numpy(), abs=FLOAT32)


@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_a_model_that_pools_before_its_head_gives_the_same_rows(windows: Windows, pool: Pool) -> None:
    late = tiny_model(outputs=3, head="layer_mix")
    early = TunedModel(late.encoder, late.head, pool=pool)
    expected = row_scores(late, windows, PADDED, pool=pool)
    assert row_scores(early, windows, PADDED, pool=pool) == pytest.approx(expected, abs=FLOAT32)
    late.encoder.config._attn_implementation = PACKED  # noqa: SLF001 - as load_encoder sets it
    assert row_scores(early, windows, PACKED_PASS, pool=pool) == pytest.approx(expected, abs=FLOAT32)


@pytest.mark.parametrize("head", ["last_layer", "dot_attention", "context_conv", "ladder"])
def test_packed_windows_score_the_same(windows: Windows, head: str) -> None:
    model = tiny_model(head=head)
    padded = span_scores(model, windows, PADDED), row_scores(model, windows, PADDED, pool="mean")
    model.encoder.config._attn_implementation = PACKED  # noqa: SLF001 - as load_encoder sets it
    packed = span_scores(model, windows, PACKED_PASS), row_scores(model, windows, PACKED_PASS, pool="mean")
    assert packed[0].start == pytest.approx(padded[0].start, abs=FLOAT32)
    assert packed[0].end == pytest.approx(padded[0].end, abs=FLOAT32)
    assert packed[1] == pytest.approx(padded[1], abs=FLOAT32)


@pytest.mark.parametrize("training", [True, False])
def test_a_pass_is_without_dropout_and_leaves_the_model_as_it_was(windows: Windows, training: bool) -> None:  # noqa: FBT001
    model = tiny_model(dropout=0.5).train(training)
    first, again = (row_scores(model, windows, PADDED, pool="cls") for _ in range(2))
    assert np.array_equal(first, again)
    assert model.training == model.encoder.model.training == training


def test_bfloat16_is_less_exact(windows: Windows) -> None:
    model = tiny_model()
    exact = row_scores(model, windows, PADDED, pool="cls")
    rough = row_scores(model, windows, replace(PADDED, bf16=True), pool="cls")
    assert not np.array_equal(exact, rough)
    assert rough == pytest.approx(exact, abs=0.1)


def test_of_several_windows_the_one_surest_of_an_answer_counts(windows: Windows) -> None:
    assert windows.example.tolist() == [0, 0, 0, 0, 1, 2]
    rows = np.array([[2, 0], [0, 1], [9, 7], [0, 0], [5, 1], [0, 3]], dtype=np.float32)
    # margins of the first question's windows: -2, 1, -2, 0
    assert merge_rows(TASKS["answerable"], windows, rows).tolist() == [[0, 1], [5, 1], [0, 3]]


def test_the_largest_score_of_several_windows_counts(windows: Windows) -> None:
    rows = np.array([[0.5], [2.5], [1.0], [2.0], [0.1], [0.2]], dtype=np.float32)
    assert merge_rows(TASKS["sts"], windows, rows).ravel().tolist() == pytest.approx([2.5, 0.1, 0.2])


def test_single_windows_are_left_as_they_are(windows: Windows) -> None:
    one_each = replace(windows, example=np.arange(6))
    rows = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    assert merge_rows(TASKS["answerable"], one_each, rows) is rows
