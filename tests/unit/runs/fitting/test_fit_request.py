import pytest

from bertvision.errors import BertVisionError
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.training.trainee import HeadSpec

HEAD = HeadSpec(head="last_layer")


def test_a_usual_request_is_fine() -> None:
    FitRequest(task="sst2", heads=(HEAD,)).check()


def test_every_problem_is_named_at_once_and_no_problem_twice() -> None:
    bad = HeadSpec(head="last_layer", lr=-1.0, fraction=0.0)
    request = FitRequest(task="sst2", heads=(bad, HEAD, bad), epochs=0, batch=0, held_out=1.0, seed=-1)
    with pytest.raises(BertVisionError) as caught:
        request.check()
    assert str(caught.value).removesuffix(".").split("; ") == [
        "--epochs is 0, more than 0 is expected",
        "--batch is 0, at least 1 is expected",
        "--seed is -1, at least 0 is expected",
        "--held-out is 1, more than 0 and less than 1 is expected",
        "--fraction is 0, more than 0 and at most 1 is expected",
        "--lr is -1, more than 0 and less than 1e+37 is expected",
    ]


def test_a_request_for_no_head_is_refused() -> None:
    with pytest.raises(BertVisionError, match=r"^no head was asked for\.$"):
        FitRequest(task="sst2").check()


@pytest.mark.parametrize("share", [0.0, -0.1, float("nan")])
def test_heads_need_examples_that_judge_them(share: float) -> None:
    with pytest.raises(BertVisionError, match=r"--held-out is .*, more than 0 and less than 1 is expected"):
        FitRequest(task="sst2", heads=(HEAD,), held_out=share).check()


def test_the_order_of_the_steps_depends_on_epochs_batch_and_seed() -> None:
    options = FitRequest(task="sst2", heads=(HEAD,), epochs=2.5, batch=3, seed=4).plan()
    assert (options.epochs, options.batch, options.seed) == (2.5, 3, 4)
