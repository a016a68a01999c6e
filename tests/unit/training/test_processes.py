"""Several processes as one: here they are played one after the other, in tests/end_to_end they are real."""

from types import SimpleNamespace

import pytest
import torch

from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.training.processes import gather, is_main, join_processes, leave_processes, on_main

ALONE = SimpleNamespace(num_processes=1)


def raises() -> int:
    raise BertVisionError("the disk is full.")


def test_alone_one_acts_for_oneself() -> None:
    assert on_main(ALONE, lambda: 7) == 7
    assert gather(ALONE, "x") == ["x"]
    with pytest.raises(BertVisionError, match="the disk is full"):
        on_main(ALONE, raises)


def test_others_take_the_main_processs_word_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []

    def broadcast(outcome: list[object]) -> None:
        if told:
            outcome[:] = told
        else:
            told[:] = outcome

    monkeypatch.setattr("accelerate.utils.broadcast_object_list", broadcast)
    main, other = (SimpleNamespace(num_processes=2, is_main_process=is_main) for is_main in (True, False))
    assert on_main(main, lambda: 7) == 7
    assert on_main(other, raises) == 7  # it does not act itself
    told.clear()
    for process in (main, other):
        with pytest.raises(BertVisionError, match="the disk is full"):
            on_main(process, raises)


def test_values_are_gathered_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelerate.utils.gather_object", lambda mine: ["theirs", *mine])
    assert gather(SimpleNamespace(num_processes=2), "mine") == ["theirs", "mine"]


def test_a_process_that_was_not_launched_with_others_is_alone_on_its_device() -> None:
    accelerator = join_processes(cpu=True)
    assert (accelerator.num_processes, accelerator.is_main_process) == (1, True)
    assert accelerator.device == torch.device("cpu")
    assert is_main()
    leave_processes()
    assert join_processes(cpu=True).device == torch.device("cpu")


def test_a_process_cannot_move_to_the_gpu_later(monkeypatch: pytest.MonkeyPatch) -> None:
    join_processes(cpu=True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(BertVisionError, match=r"computes on the CPU already\. Start another one for the GPU"):
        join_processes(cpu=False)


def test_an_unknown_tracker_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown tracker 'tensorbord'\. Did you mean 'tensorboard'\?"):
        join_processes(cpu=True, tracker="tensorbord")


def test_a_tracker_that_is_not_installed_is_not_left_out_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelerate.tracking.get_available_trackers", list)
    expected = r"--tracker wandb needs a package that is not here\. Install it: pip install wandb"
    with pytest.raises(BertVisionError, match=expected):
        join_processes(cpu=True, tracker="wandb")
