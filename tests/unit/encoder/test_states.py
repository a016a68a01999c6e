import pytest
import torch

from bertvision.encoder.states import HiddenStates


def test_the_embedding_output_counts_as_a_layer() -> None:
    hidden = HiddenStates(torch.zeros(2, 4, 5, 3), torch.ones(2, 5, dtype=torch.bool), torch.zeros(2, 3))
    assert hidden.layers == 4


@pytest.mark.parametrize(
    ("states", "mask", "pooled", "message"),
    [
        ((2, 5, 3), (2, 5), None, r"states have shape \(2, 5, 3\), \(batch, layers, tokens, width\) is expected"),
        ((2, 4, 5, 3), (2, 4), None, r"the mask has shape \(2, 4\), \(2, 5\) is expected"),
        ((2, 4, 5, 3), (5,), None, r"the mask has shape \(5,\), \(2, 5\) is expected"),
        ((2, 4, 5, 3), (2, 5), (2, 4), r"the pooled vector has shape \(2, 4\), \(2, 3\) is expected"),
        ((2, 4, 5, 3), (2, 5), (1, 3), r"the pooled vector has shape \(1, 3\), \(2, 3\) is expected"),
    ],
)
def test_tensors_that_do_not_belong_together_are_refused(
    states: tuple[int, ...], mask: tuple[int, ...], pooled: tuple[int, ...] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        HiddenStates(
            torch.zeros(states), torch.ones(mask, dtype=torch.bool), None if pooled is None else torch.zeros(pooled)
        )


def test_a_mask_of_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match=r"the mask is torch\.int64, torch\.bool is expected"):
        HiddenStates(torch.zeros(2, 4, 5, 3), torch.ones(2, 5, dtype=torch.int64))
