import math

import pytest

from bertvision.errors import BertVisionError
from bertvision.runs.request import TuneRequest
from bertvision.training.options import TuneOptions


def test_the_defaults_are_fine() -> None:
    TuneRequest(task="squad2").check()


def test_all_problems_are_reported_at_once_those_of_tuning_too() -> None:
    request = TuneRequest(
        task="squad2", fraction=0.0, held_out=1.0, save_every=0, options=TuneOptions(batch=0, warmup=2.0)
    )
    with pytest.raises(BertVisionError) as caught:
        request.check()
    assert str(caught.value) == (
        "--batch is 0, at least 1 is expected; --warmup is 2, at least 0 and less than 1 is expected; "
        "--fraction is 0, more than 0 and at most 1 is expected; "
        "--held-out is 1, at least 0 and less than 1 is expected; --save-every is 0, at least 1 is expected."
    )


def test_early_stopping_needs_held_out_examples() -> None:
    options = TuneOptions(patience=2)
    TuneRequest(task="squad2", options=options).check()
    TuneRequest(task="squad2", held_out=0.0).check()
    with pytest.raises(BertVisionError, match=r"--patience is 2, but --held-out is 0, which leaves no examples"):
        TuneRequest(task="squad2", held_out=0.0, options=options).check()


@pytest.mark.parametrize("value", [1.5, -0.1, math.nan])
def test_shares_that_are_none_are_refused(value: float) -> None:
    with pytest.raises(BertVisionError, match=f"--fraction is {value:g}"):
        TuneRequest(task="squad2", fraction=value).check()
    with pytest.raises(BertVisionError, match=f"--held-out is {value:g}"):
        TuneRequest(task="squad2", held_out=value).check()
