from typing import final

import numpy as np
import pytest
import torch
from torch import Tensor
from typing_extensions import override

from bertvision.encoder.batch import packed_batch, padded_batch
from bertvision.encoder.packed import PACKED
from bertvision.heads import Head, HeadShape, LastLayer
from bertvision.tasks.windows import Windows
from bertvision.training.model import TunedModel
from close import FLOAT32
from tiny_run import WIDTH, tiny_model


def some_windows(*lengths: int) -> Windows:
    """Windows of random tokens."""
    tokens = sum(lengths)
    count = len(lengths)
    return Windows(
        ids=np.random.default_rng(0).integers(5, 20, size=tokens).astype(np.int32),
        types=np.zeros(tokens, dtype=np.uint8),
        bounds=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        example=np.arange(count),
        targets=np.zeros((count, 2), dtype=np.int64),
        context=np.stack([np.zeros(count), np.array(lengths)], axis=1).astype(np.int64),
        context_token=np.zeros(count, dtype=np.int64),
        offsets=np.zeros((0, 2), dtype=np.int32),
        truncated=0,
    )


@final
class SumOfAll(Head):
    """Adds a window's mean over tokens and layers to the sum of each token's layers: not token by token."""

    token_wise = False

    @override
    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        weights = mask[:, None, :, None].float()
        mean = (states * weights).sum(dim=(1, 2)) / weights.sum(dim=(1, 2))  # (batch, width)
        return states.sum(dim=1) + mean[:, None]


ROWS = np.array([0, 1, 2])


@torch.no_grad()
def test_outputs_are_the_head_of_the_last_layer() -> None:
    model = tiny_model().eval()
    batch = padded_batch(some_windows(7, 3, 5), ROWS)
    outputs, mask = model(batch)
    last = model.encoder.model(input_ids=batch.ids, attention_mask=batch.mask.long()).last_hidden_state
    assert isinstance(model.head, LastLayer)
    expected = last @ model.head.project.weight.T + model.head.project.bias
    assert outputs.shape == (3, 7, 2)
    torch.testing.assert_close(outputs[mask], expected[mask], atol=FLOAT32, rtol=0)
    assert mask.sum(dim=1).tolist() == [7, 3, 5]


@pytest.mark.parametrize("head", [LastLayer(HeadShape(layers=3, width=WIDTH, outputs=2)), SumOfAll()])
@torch.no_grad()
def test_packed_windows_come_out_as_padded_ones_do(head: Head) -> None:
    model = TunedModel(tiny_model().encoder, head).eval()
    windows = some_windows(7, 3, 5)
    expected, mask = model(padded_batch(windows, ROWS))
    model.encoder.config._attn_implementation = PACKED  # noqa: SLF001 - as load_encoder sets it
    outputs, packed_mask = model(packed_batch(windows, ROWS))
    assert torch.equal(mask, packed_mask)
    torch.testing.assert_close(outputs[mask], expected[mask], atol=FLOAT32, rtol=0)
