"""Memory for batches that is used again."""

import torch

from bertvision.store.buffers import Buffers


def test_memory_that_nobody_holds_is_used_again() -> None:
    buffers = Buffers()
    first = buffers.take((2, 3, 4))
    assert (first.shape, first.dtype) == ((2, 3, 4), torch.float32)
    place = first.data_ptr()
    del first
    assert buffers.take((4, 2)).data_ptr() == place


def test_memory_that_somebody_holds_is_left_alone() -> None:
    buffers = Buffers()
    first = buffers.take((8,))
    view = first[3:5].reshape(2, 1)
    place = first.data_ptr()
    del first
    second = buffers.take((8,))
    assert second.data_ptr() != place
    del view
    assert buffers.take((8,)).data_ptr() == place


def test_memory_that_a_gradient_needs_is_left_alone() -> None:
    buffers = Buffers()
    states = buffers.take((2, 3)).fill_(2.0)
    weight = torch.ones(3, requires_grad=True)
    loss = (states * weight).sum()
    del states
    buffers.take((2, 3)).fill_(7.0)
    torch.autograd.backward(loss)
    assert weight.grad is not None
    assert weight.grad.tolist() == [4.0, 4.0, 4.0]


def test_memory_that_is_too_small_is_given_up_for_larger() -> None:
    buffers = Buffers()
    buffers.take((4,))
    large = buffers.take((5, 100))
    assert large.shape == (5, 100)
    place = large.data_ptr()
    del large
    assert buffers.take((4,)).data_ptr() == place
