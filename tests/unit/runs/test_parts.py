from dataclasses import replace

import numpy as np
import pytest
import torch

from bertvision.device import choose_device
from bertvision.errors import BertVisionError
from bertvision.runs.parts import split_train
from bertvision.tasks.examples import Texts


def texts(count: int) -> Texts:
    names = [str(row) for row in range(count)]
    return Texts(ids=names, texts=names, pairs=None, targets=np.zeros(count, dtype=np.int64))


def test_a_gpu_is_used_where_there_is_one_and_it_is_not_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    for has_gpu, asked, expected in [
        (True, "auto", "cuda"),
        (True, "cuda", "cuda"),
        (True, "cpu", "cpu"),
        (False, "auto", "cpu"),
        (False, "cpu", "cpu"),
    ]:
        monkeypatch.setattr(torch.cuda, "is_available", lambda has_gpu=has_gpu: has_gpu)
        assert choose_device(asked).type == expected  # type: ignore[arg-type]  # one of its words
    with pytest.raises(
        BertVisionError, match=r"--device cuda was asked for, but there is no GPU here\. Use --device cpu"
    ):
        choose_device("cuda")


def test_training_examples_are_learnt_from_or_held_out_and_none_is_both() -> None:
    learnt, held_out = split_train(texts(50), fraction=1.0, held_out=0.2, seed=0)
    assert held_out is not None
    assert (len(learnt), len(held_out)) == (40, 10)
    assert sorted([*learnt.ids, *held_out.ids], key=int) == texts(50).ids
    again, others = split_train(texts(50), fraction=1.0, held_out=0.2, seed=1)
    assert others is not None
    assert set(others.ids) != set(held_out.ids)
    assert len(again) == 40


def test_a_share_of_the_examples_may_be_used_and_none_held_out() -> None:
    learnt, held_out = split_train(texts(50), fraction=0.2, held_out=0.0, seed=0)
    assert (len(learnt), held_out) == (10, None)


@pytest.mark.parametrize(("count", "share"), [(1, 0.9), (2, 0.1)])
def test_too_few_examples_to_hold_some_out_are_refused(count: int, share: float) -> None:
    with pytest.raises(
        BertVisionError, match=rf"^{count} training examples are too few .* Use more of them, or another --"
    ):
        split_train(texts(count), fraction=1.0, held_out=share, seed=0)


def test_copies_of_a_single_text_are_refused_for_what_they_are() -> None:
    copies = replace(texts(40), texts=["the same"] * 40)
    with pytest.raises(BertVisionError, match=r"^all 40 training examples have the same text, and copies are held"):
        split_train(copies, fraction=1.0, held_out=0.1, seed=0)
