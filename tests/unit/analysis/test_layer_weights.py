import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from bertvision.analysis.layer_weights import layer_report, learned_weights, mean_attention, window_attention
from bertvision.errors import BertVisionError
from bertvision.heads import Head, HeadShape, build_head
from close import FLOAT32, FLOAT64

SHAPE = HeadShape(layers=3, width=4, outputs=2)
ONE_TO_THREE = [0.0, float(np.log(2)), float(np.log(3))]  # their softmax is 1/6, 2/6, 3/6


def mixed(mix: list[float], scale: float, **options: object) -> Head:
    head = build_head("layer_mix", SHAPE, options)
    with torch.no_grad():
        head.get_parameter("pool.mix").copy_(torch.tensor(mix))
        head.get_parameter("pool.scale").fill_(scale)
    return head


def test_weights_are_scaled_and_shares_are_not() -> None:
    report = learned_weights([mixed(ONE_TO_THREE, 2.0).eval()])
    assert report is not None
    (only,) = report.sets
    assert report.layers == (0, 1, 2)
    assert [weight.mean for weight in only.weights] == pytest.approx([2 / 6, 4 / 6, 6 / 6], rel=FLOAT32)
    assert [share.mean for share in only.shares] == pytest.approx([1 / 6, 2 / 6, 3 / 6], rel=FLOAT32)
    # 0 · 1/6 + 1 · 2/6 + 2 · 3/6; with the layers reversed it would be 2/3
    assert only.centre.mean == pytest.approx(8 / 6, rel=FLOAT32)


def test_a_sparse_gate_gives_exact_zeros_also_above_the_last_layer_that_counts() -> None:
    # sparsemax of (0.5, 0.1, -1) is (0.7, 0.3, 0)
    report = learned_weights([mixed([0.5, 0.1, -1.0], 1.0, gate="sparsemax").eval()])
    assert report is not None
    assert [share.mean for share in report.sets[0].shares] == pytest.approx([0.7, 0.3, 0.0], rel=FLOAT32)
    assert report.sets[0].centre.mean == pytest.approx(0.3, rel=FLOAT32)


def test_weights_over_seeds_have_means_and_intervals() -> None:
    # shares (1/2, 1/2, 0) and (0, 1/2, 1/2): centres 1/2 and 3/2; t with one degree of freedom is 12.7062
    report = layer_report(np.array([[[1.0, 1.0, 0.0]], [[0.0, 3.0, 3.0]]]))
    (only,) = report.sets
    assert [weight.mean for weight in only.weights] == [0.5, 2.0, 1.5]
    assert [share.mean for share in only.shares] == [0.25, 0.5, 0.25]
    assert (only.centre.mean, only.centre.seeds) == (1.0, 2)
    # spread √(1/2), its error 1/2
    assert only.centre.low == pytest.approx(1.0 - 12.7062 / 2, rel=FLOAT32)
    assert only.centre.high == pytest.approx(1.0 + 12.7062 / 2, rel=FLOAT32)


def test_document_002s_heads_have_a_set_for_each_output_from_layer_1_on() -> None:
    head = build_head("layer_weights", SHAPE)
    with torch.no_grad():
        head.get_parameter("mix").copy_(torch.tensor([[1.0, -3.0], [2.0, 2.0]]))
        head.get_parameter("scale").copy_(torch.tensor([1.0, -0.5]))
    report = learned_weights([head])
    assert report is not None
    assert report.layers == (1, 2)
    start, end = report.sets
    assert [weight.mean for weight in start.weights] == [1.0, -3.0]
    assert [weight.mean for weight in end.weights] == [-1.0, -1.0]
    # a negative weight counts by its size: (1 · 1 + 2 · 3) / 4, and half-way
    assert (start.centre.mean, end.centre.mean) == (1.75, 1.5)


def test_a_prefix_head_numbers_the_layers_as_the_encoder_does() -> None:
    report = learned_weights([build_head("layer_mix", SHAPE, {"layers": "1..2"})])
    assert report is not None
    assert report.layers == (1, 2)
    assert report.sets[0].centre.mean == 1.5


def test_dropped_layers_count_while_a_head_learns() -> None:
    head = mixed(ONE_TO_THREE, 1.0, layer_dropout=0.9).train()
    report = learned_weights([head])
    assert report is not None
    assert report.sets[0].centre.mean == pytest.approx(8 / 6, rel=FLOAT32)


def test_a_head_that_does_not_weigh_layers_has_no_report() -> None:
    assert learned_weights([build_head("last_layer", SHAPE)]) is None


def test_heads_of_different_kinds_are_no_seeds_of_one() -> None:
    for other in (build_head("pooled_adapter", SHAPE), mixed(ONE_TO_THREE, 1.0, gate="sparsemax")):
        with pytest.raises(BertVisionError, match="heads that differ in their seed alone are expected"):
            learned_weights([mixed(ONE_TO_THREE, 1.0), other])
    with pytest.raises(BertVisionError, match="no head was given"):
        learned_weights([])


def test_weights_that_cannot_be_are_refused() -> None:
    with pytest.raises(BertVisionError, match=r"shape \(2, 3\); \(seeds, sets, layers\) is expected"):
        layer_report(np.ones((2, 3)))
    with pytest.raises(BertVisionError, match="all layer weights of a head are 0 or not finite"):
        layer_report(np.zeros((1, 1, 3)))


def test_a_report_turns_into_json() -> None:
    content = json.loads(json.dumps(asdict(layer_report(np.ones((1, 1, 3)))), allow_nan=False))
    assert content["sets"][0]["centre"] == {"mean": 1.0, "low": None, "high": None, "seeds": 1}


# three tokens × three outputs × two layers; the first two tokens are a window, the last is one by itself
ATTENTION = np.array(
    [
        [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]],
        [[0.3, 0.7], [0.4, 0.6], [0.5, 0.5]],
        [[0.6, 0.4], [0.0, 1.0], [1.0, 0.0]],
    ]
)
LENGTHS = np.array([2, 1])


def test_attention_is_averaged_over_the_tokens_of_a_window() -> None:
    found = window_attention(ATTENTION, LENGTHS)
    expected = [[[0.2, 0.8], [0.3, 0.7], [0.4, 0.6]], [[0.6, 0.4], [0.0, 1.0], [1.0, 0.0]]]
    np.testing.assert_allclose(found, expected, rtol=FLOAT64)


def test_the_attention_of_a_head_goes_in_by_its_real_tokens() -> None:
    shape = HeadShape(layers=3, width=4, outputs=2)
    head = build_head("dot_attention", shape)
    states = torch.randn(2, 2, 5, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    attention = head.layer_attention(states)
    assert attention is not None
    tokens = attention.permute(0, 2, 3, 1)[mask].detach().double().numpy()
    found = window_attention(tokens, mask.sum(dim=1).numpy())
    by_hand = attention[1, :, :2, 0].mean(dim=1)  # the second window's two tokens, first output
    assert found[1, 0].tolist() == pytest.approx(by_hand.tolist(), rel=FLOAT32)


def test_over_windows_every_token_counts_the_same() -> None:
    windows = window_attention(ATTENTION, LENGTHS)
    # output 0, layer 0: (0.1 + 0.3 + 0.6) / 3, not the mean 0.4 of the two windows
    found = mean_attention(windows, LENGTHS)
    assert found[0].tolist() == pytest.approx([1 / 3, 2 / 3], rel=FLOAT64)


def test_the_attention_of_one_question_is_that_of_its_windows() -> None:
    found = mean_attention(window_attention(ATTENTION, LENGTHS), LENGTHS, np.array([1]))
    assert found.tolist() == [[0.6, 0.4], [0.0, 1.0], [1.0, 0.0]]


def test_attention_goes_into_the_same_report() -> None:
    found = mean_attention(window_attention(ATTENTION, LENGTHS), LENGTHS, np.array([1]))
    centres = [one.centre.mean for one in layer_report(found[None], lowest=1).sets]
    assert centres == pytest.approx([1.4, 2.0, 1.0], rel=FLOAT64)


def test_attention_of_other_windows_is_refused() -> None:
    with pytest.raises(BertVisionError, match=r"shape \(3, 3, 2\) for 2 windows of 4 tokens"):
        window_attention(ATTENTION, np.array([2, 2]))
    with pytest.raises(BertVisionError, match="a token in every window"):
        window_attention(ATTENTION, np.array([3, 0]))
    windows = window_attention(ATTENTION, LENGTHS)
    with pytest.raises(BertVisionError, match="there are 3 lengths"):
        mean_attention(windows, np.array([2, 1, 1]))
    with pytest.raises(BertVisionError, match="no window was chosen"):
        mean_attention(windows, LENGTHS, np.array([], dtype=np.int64))
