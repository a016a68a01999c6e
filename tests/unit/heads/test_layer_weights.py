import pytest
import torch
from torch import Tensor

from bertvision.heads import HeadShape, build_head
from bertvision.heads.layer_weights import LayerWeights
from close import FLOAT32

SHAPE = HeadShape(layers=3, width=2, outputs=2)
# output vectors (1, 2) and (3, -1) make 5, 2, 0 and 1, -1, 14 of the first token's layers, 1, 6, 9 and 10, 4, -8 of the
# second's
STATES = torch.tensor([[[[1.0, 2.0], [3.0, -1.0]], [[0.0, 1.0], [2.0, 2.0]], [[4.0, -2.0], [-1.0, 5.0]]]])
MASK = torch.ones(1, 2, dtype=torch.bool)


def make_head(mix: Tensor, *, softmax: bool) -> LayerWeights:
    head = LayerWeights(SHAPE, softmax=softmax)
    head.load_state_dict(
        {
            "mix": mix,
            "scale": torch.tensor([2.0, -3.0]),
            "project.weight": torch.tensor([[1.0, 2.0], [3.0, -1.0]]),
            "project.bias": torch.tensor([0.5, -2.0]),
        }
    )
    return head


def check_close(got: Tensor, expected: list[list[list[float]]]) -> None:
    torch.testing.assert_close(got, torch.tensor(expected), rtol=FLOAT32, atol=FLOAT32)


def test_every_output_weighs_the_layers_for_itself() -> None:
    head = make_head(torch.tensor([[1.0, 2.0, -1.0], [0.5, -2.0, 3.0]]), softmax=False)
    # 2 · (5 + 4 - 0) + 0.5, -3 · (0.5 + 2 + 42) - 2; 2 · (1 + 12 - 9) + 0.5, -3 · (5 - 8 - 24) - 2
    check_close(head(STATES, MASK), [[[18.5, -135.5], [8.5, 79.0]]])


def test_with_softmax_the_weights_of_every_output_sum_to_1() -> None:
    head = make_head(torch.tensor([[1.0, 2.0, 3.0], [4.0, 1.0, 1.0]]).log(), softmax=True)
    # weights 1/6, 2/6, 3/6 and 4/6, 1/6, 1/6
    # 2 · (5 + 4 + 0) / 6 + 0.5, -3 · (4 - 1 + 14) / 6 - 2; 2 · (1 + 12 + 27) / 6 + 0.5, -3 · (40 + 4 - 8) / 6 - 2
    check_close(head(STATES, MASK), [[[3.5, -10.5], [13.8333333, -20.0]]])


def test_it_tells_the_weights_of_every_output_scaled() -> None:
    head = make_head(torch.tensor([[1.0, 2.0, 3.0], [4.0, 1.0, 1.0]]).log(), softmax=True)
    expected = torch.tensor([[2 / 6, 4 / 6, 6 / 6], [-12 / 6, -3 / 6, -3 / 6]])
    torch.testing.assert_close(head.layer_weights(), expected, rtol=FLOAT32, atol=FLOAT32)


def test_without_softmax_the_weights_start_random_and_every_scale_as_1() -> None:
    torch.manual_seed(0)
    head = LayerWeights(HeadShape(layers=100, width=1, outputs=100))
    assert head.mix.std().item() == pytest.approx(0.05, rel=0.03)
    assert head.mix.mean().item() == pytest.approx(0.0, abs=0.002)
    assert torch.equal(head.scale, torch.ones(100))


def test_with_softmax_it_starts_as_the_mean_of_the_layers() -> None:
    head = LayerWeights(SHAPE, softmax=True)
    assert not head.mix.any()
    assert torch.equal(head.scale, torch.ones(2))
    expected: Tensor = head.project(torch.tensor([[[5.0, 1.0], [4.0, 6.0]]]) / 3)
    torch.testing.assert_close(head(STATES, MASK), expected, rtol=FLOAT32, atol=FLOAT32)


@pytest.mark.parametrize(("options", "reads"), [({}, (1, 2, 3)), ({"layers": "0..3"}, (0, 1, 2, 3))])
def test_it_reads_the_embedding_output_only_if_asked_to(options: dict[str, str], reads: tuple[int, ...]) -> None:
    head = build_head("layer_weights", HeadShape(layers=4, width=2, outputs=2), options)
    assert head.reads == reads
    assert head.get_parameter("mix").shape == (2, len(reads))


def test_as_built_it_takes_no_softmax() -> None:
    assert build_head("layer_weights", SHAPE).options["softmax"] is False
