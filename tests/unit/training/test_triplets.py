import numpy as np
import pytest
import torch

from bertvision.encoder.batch import packed_batch, padded_batch
from bertvision.objectives import Pool
from bertvision.training.triplets import SentenceModel
from close import FLOAT32
from tiny_models import tiny_windows
from tiny_run import WIDTH, tiny_encoder

WINDOWS = tiny_windows(3, 5, 2)
WINDOWS.ids[:] = np.arange(10) + 5
ROWS = np.arange(3)


@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_the_vector_of_a_text_is_that_of_its_last_layer_alone_padded_or_packed(pool: Pool) -> None:
    torch.manual_seed(0)
    encoder = tiny_encoder().eval()
    model = SentenceModel(encoder, pool)
    expected = []
    for row in range(3):
        last = encoder(padded_batch(WINDOWS, np.array([row]))).states[0, -1]  # without any padding
        expected.append(last[0] if pool == "cls" else last.mean(dim=0))
    padded = model(padded_batch(WINDOWS, ROWS))
    assert padded.shape == (3, WIDTH)
    assert torch.allclose(padded, torch.stack(expected), atol=FLOAT32)
    assert torch.allclose(model(packed_batch(WINDOWS, ROWS)), padded, atol=FLOAT32)
