"""Several processes as one: here they are played one after the other, in tests/end_to_end they are real."""

import pickle
import re
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from bertvision.errors import BertVisionError, DivergedError, MisfitError, UnknownNameError, WriteError
from bertvision.training.processes import gather, is_main, join_processes, leave_processes, on_main

ALONE = SimpleNamespace(num_processes=1)


def raises() -> int:
    raise BertVisionError("the disk is full.")


def test_alone_one_acts_for_oneself() -> None:
    assert on_main(ALONE, lambda: 7) == 7
    assert gather(ALONE, "x") == ["x"]
    with pytest.raises(BertVisionError, match="the disk is full"):
        on_main(ALONE, raises)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> tuple[SimpleNamespace, SimpleNamespace]:
    """The main process and another one, who hears what the main one said before."""
    told: list[bytes] = []

    def broadcast(outcome: list[object]) -> None:
        if outcome == [None, None] and told:
            outcome[:] = pickle.loads(told.pop())  # noqa: S301 - as Accelerate sends it
        else:
            told.append(pickle.dumps(outcome))

    monkeypatch.setattr("accelerate.utils.broadcast_object_list", broadcast)
    main, other = (SimpleNamespace(num_processes=2, is_main_process=is_main) for is_main in (True, False))
    return main, other


def test_others_take_the_main_processs_word_for_it(two: tuple[SimpleNamespace, SimpleNamespace]) -> None:
    main, other = two
    assert on_main(main, lambda: 7) == 7
    assert on_main(other, raises) == 7  # it does not act itself
    for process in (main, other):
        with pytest.raises(BertVisionError, match=r"^the disk is full\.$"):
            on_main(process, raises)


@pytest.mark.parametrize(
    "error",
    [
        DivergedError("the loss is nan."),
        MisfitError("--batch is too large."),
        WriteError("head.json", "Disk quota exceeded", "Make room."),
        UnknownNameError("task", "sts5", ["sst5", "sts"]),
    ],
)
def test_an_error_is_of_the_same_class_in_every_process(
    error: BertVisionError, two: tuple[SimpleNamespace, SimpleNamespace]
) -> None:
    for process in two:
        with pytest.raises(type(error), match=f"^{re.escape(str(error))}$"):
            on_main(process, Mock(side_effect=error))


def test_an_error_of_another_kind_keeps_nobody_waiting(two: tuple[SimpleNamespace, SimpleNamespace]) -> None:
    main, other = two
    with pytest.raises(ZeroDivisionError):
        on_main(main, lambda: 1 // 0)
    with pytest.raises(RuntimeError, match=r"^the main process failed: ZeroDivisionError: "):
        on_main(other, lambda: 1)


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
