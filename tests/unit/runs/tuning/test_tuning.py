"""How windows that are learnt are batched: packed where the encoder allows it, even where steps are recorded."""

from dataclasses import replace

import numpy as np
import pytest

from bertvision.inference.outputs import PassOptions
from bertvision.runs.tuning.tuning import PreparedEncoder
from bertvision.tasks.load import TASKS
from tiny_models import tiny_windows
from tiny_run import tiny_config, tiny_encoder

LIMIT: int = tiny_config().max_position_embeddings


@pytest.mark.parametrize(
    ("recorded", "packed", "longest", "even"),
    [
        (False, False, 9, False),
        (False, True, 9, False),
        (True, True, 9, True),
        (True, True, LIMIT - 1, True),  # packed windows keep their lengths
        (True, False, 9, True),
        (True, False, LIMIT - 1, False),  # padded any further they would have no positions
    ],
)
def test_recorded_steps_have_even_batches_where_the_encoder_has_room(
    *, recorded: bool, packed: bool, longest: int, even: bool
) -> None:
    windows = replace(tiny_windows(longest, 3), targets=np.zeros((2, 2), dtype=np.int64))
    passes = PassOptions(packed=packed, pad=7, bf16=False)
    prepared = PreparedEncoder(tiny_encoder(), passes, fingerprint="", recorded=recorded)
    data = prepared.tune_data(TASKS["squad2"], windows, "cls")
    assert (data.packed, data.even, data.pad) == (packed, even, 7)
    assert (data.train_batch(np.array([0, 1])).kind is not None) == even
