"""Recordings of a GPU's work give what its single steps give; which batches are alike is known anywhere."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.learn import apply_learn, parse_learn
from bertvision.heads import HEADS, HeadShape, build_head
from bertvision.runs.fitting.head_specs import fits_kind
from bertvision.tasks.load import TASKS
from bertvision.training.data import TuneData
from bertvision.training.mix import TaskMix, Turns
from bertvision.training.model import TaskModels, TunedModel
from bertvision.training.recorded import GraphMemory, Recorder, StaticInputs, backward
from close import FLOAT32
from tiny_models import KINDS, PACKABLE, tiny_model, tiny_windows

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
needs_cpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason="a GPU convolves in fewer bits, and packs 16 bits alone"
)

CPU, GPU = torch.device("cpu"), torch.device("cuda")
LENGTHS = (9, 7, 12, 10, 3, 9, 8, 5, 11, 4)
"""Windows that become one shape of 16 tokens each, whichever are taken."""


def tune_data(*, even: bool = True, packed: bool = False, task: str = "squad2", bf16: bool = False) -> TuneData:
    windows = tiny_windows(*LENGTHS)
    spans = np.stack([np.zeros(len(LENGTHS), dtype=np.int64), np.array(LENGTHS) - 2], axis=1)
    windows = replace(windows, targets=spans if task == "squad2" else np.arange(len(LENGTHS)) % 2)
    return TuneData(task=TASKS[task], windows=windows, pool="cls", packed=packed, pad=1, even=even, bf16=bf16)


def span_model(kind: str = "bert", learn: str = "full", head: str = "last_layer") -> TunedModel:
    encoder = Encoder(tiny_model(kind), name=kind)
    torch.manual_seed(0)
    apply_learn(encoder, parse_learn(learn))
    encoder.set_dropout(0.0)
    model = TunedModel(encoder, build_head(head, HeadShape(layers=encoder.depth + 1, width=16, outputs=2)))
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model.to(GPU if torch.cuda.is_available() else CPU).train()


def take_gradients(model: nn.Module) -> dict[str, Tensor]:
    found = {name: value.grad.clone() for name, value in model.named_parameters() if value.grad is not None}
    model.zero_grad(set_to_none=True)
    return found


def check_same(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float = 10 * FLOAT32) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-3, atol=tolerance, msg=name)


def wait() -> None:
    """What no recording can do."""
    torch.cuda.synchronize()


def check_recordings(model: TunedModel, data: TuneData, tolerance: float = 10 * FLOAT32) -> None:
    """Met first, recorded, and played twice: all as single steps have it."""
    recorder = Recorder(model, GraphMemory(GPU))
    for rows in ([0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 2, 4]):
        train_batch = data.train_batch(np.array(rows))
        expected_loss = backward(model, GPU, train_batch, 0.5)
        expected = take_gradients(model)
        loss = recorder.backward(train_batch, 0.5)
        torch.testing.assert_close(loss, expected_loss)
        check_same(take_gradients(model), expected, tolerance)
    # DeBERTa asks for the length of its windows on the GPU
    possible = not model.encoder.name.startswith("deberta")
    assert recorder.recordings == int(possible)


@needs_gpu
@pytest.mark.parametrize("learn", ["full", "lora:2", "houlsby:4", "top:1", "bitfit"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_encoder_learns_the_same_from_recordings(kind: str, learn: str) -> None:
    if kind == "modernbert" and learn == "bitfit":
        pytest.skip("it has no biases")
    check_recordings(span_model(kind, learn), tune_data())


@needs_gpu
@pytest.mark.parametrize(("kind", "packed"), [*((kind, False) for kind in KINDS), *((kind, True) for kind in PACKABLE)])
def test_windows_of_16_bits_are_recorded_and_learnt_from_as_in_single_steps(kind: str, *, packed: bool) -> None:
    model, exact = span_model(kind), span_model(kind)
    data = tune_data(bf16=True, packed=packed)
    check_recordings(model, data, 1e-3)  # sums in 16 bits come out in another order from time to time
    train_batch = data.train_batch(np.arange(10))
    loss, expected = (
        backward(model, GPU, train_batch, 0.1),
        backward(exact, GPU, tune_data().train_batch(np.arange(10)), 0.1),
    )
    torch.testing.assert_close(loss, expected, rtol=0.02, atol=0.0)  # padding is kept apart in another way
    check_same(take_gradients(model), take_gradients(exact), 0.02)
    if kind in PACKABLE and "roberta" not in kind:  # which counts positions by what is padding
        other = backward(model, GPU, replace(data, pad=5).train_batch(np.arange(10)), 0.1)
        torch.testing.assert_close(other, loss, rtol=0.0, atol=0.0)  # nobody looks at it


@needs_gpu
@pytest.mark.parametrize("head", [name for name in HEADS if fits_kind(name, "spans")])
def test_every_head_learns_the_same_from_recordings(head: str) -> None:
    check_recordings(span_model(head=head), tune_data())


@needs_gpu
def test_a_head_that_keeps_windows_apart_by_bounds_learns_the_same_from_recordings() -> None:
    check_recordings(span_model(head="ladder"), tune_data(bf16=True, packed=True), 4e-3)


@needs_gpu
def test_parts_of_a_batch_add_up() -> None:
    model, data = span_model(), tune_data()
    recorder = Recorder(model, GraphMemory(GPU))
    parts = [data.train_batch(np.array(rows)) for rows in ([0, 1], [2, 3], [4, 5])]
    for _ in range(3):  # met, recorded and played, in one batch and across batches
        for part in parts:
            recorder.backward(part, 1.0)
        found = take_gradients(model)
        for part in parts:
            backward(model, GPU, part, 1.0)
        check_same(found, take_gradients(model))


@needs_gpu
def test_heads_of_other_tasks_are_left_alone() -> None:
    one, two = span_model(), span_model()
    two.encoder = one.encoder
    model, data = TaskModels({"one": one, "two": two}), tune_data()
    mix = TaskMix({"one": data, "two": data}, Turns())
    recorder = Recorder(model, GraphMemory(GPU))
    for first in (0, 10, 0, 10, 0, 10):
        recorder.backward(mix.train_batch(np.array([first, first + 1])), 1.0)
        other = "tasks.two.head." if first == 0 else "tasks.one.head."
        assert not any(name.startswith(other) for name in take_gradients(model))


@needs_gpu
def test_what_cannot_be_recorded_is_computed_step_by_step() -> None:
    model, data = span_model(), tune_data()
    model.head.register_forward_pre_hook(lambda *_: wait())
    recorder = Recorder(model, GraphMemory(GPU))
    for rows in ([0, 1], [2, 3], [4, 5]):
        train_batch = data.train_batch(np.array(rows))
        recorder.backward(train_batch, 1.0)
        found = take_gradients(model)
        backward(model, GPU, train_batch, 1.0)
        check_same(found, take_gradients(model))
    assert recorder.recordings == 0
    model.encoder.set_dropout(0.5)  # random numbers are to be had as before
    assert len({float(recorder.backward(train_batch, 1.0)) for _ in range(4)}) == 4


@needs_gpu
def test_dropout_differs_from_time_to_time() -> None:
    model, data = span_model(), tune_data()
    model.encoder.set_dropout(0.5)
    recorder = Recorder(model, GraphMemory(GPU))
    train_batch = data.train_batch(np.array([0, 1]))
    losses = {float(recorder.backward(train_batch, 1.0)) for _ in range(6)}
    assert len(losses) == 6


@needs_gpu
def test_a_studio_that_one_head_closes_is_closed_for_all() -> None:
    model, other, data, memory = span_model(), span_model(), tune_data(), GraphMemory(GPU)
    recorder, waiting = Recorder(model, memory), Recorder(other, memory)
    train_batch = data.train_batch(np.array([0, 1]))
    for _ in range(2):
        recorder.backward(train_batch, 1.0)
    assert recorder.recordings == 1
    other.head.register_forward_pre_hook(lambda *_: wait())
    for _ in range(2):
        waiting.backward(train_batch, 1.0)
    take_gradients(model)
    recorder.backward(train_batch, 1.0)
    found = take_gradients(model)
    backward(model, GPU, train_batch, 1.0)
    check_same(found, take_gradients(model))
    assert recorder.recordings == waiting.recordings == 0


def test_tensors_of_a_shape_are_put_at_the_same_place_and_smaller_ones_within_it() -> None:
    static = StaticInputs()
    large, targets = static.put([torch.ones(2, 4), torch.tensor([1, 2])])
    small, others = static.put([torch.full((2, 3), 5.0), torch.tensor([3, 4])])
    assert small.data_ptr() == large.data_ptr()
    assert others.data_ptr() == targets.data_ptr()
    assert small.tolist() == [[5.0] * 3] * 2
    assert others.tolist() == [3, 4]
    [again, _] = static.put([torch.zeros(2, 4), torch.tensor([1, 2])])
    assert again is large
    assert large.tolist() == [[0.0] * 4] * 2
    [larger] = static.put([torch.ones(3, 4)])
    assert larger.data_ptr() != large.data_ptr()  # which recordings still read
    assert static.put([torch.ones(2, 4)])[0] is large


@pytest.mark.parametrize(("packed", "tokens"), [(False, (2, 16)), (True, (1, 16))])
def test_lessons_of_one_shape_are_alike(*, packed: bool, tokens: tuple[int, int]) -> None:
    data = tune_data(packed=packed)
    some, others = (data.train_batch(np.array(rows)) for rows in ([0, 1], [2, 4]))  # 16 and 15 tokens
    shapes = [[tuple(tensor.shape) for tensor in train_batch.tensors] for train_batch in (some, others)]
    bounds = [(2 + 2 + 1,)] if packed else []  # each window and its filler
    assert shapes == [[tokens, tokens, tokens, *bounds, (2, 2)]] * 2
    assert some.kind == others.kind is not None


def test_packed_lessons_are_alike_only_if_their_longest_windows_are() -> None:
    windows = tiny_windows(90, 90, 80, 100)  # 180 tokens each; unpacked 96 and 128
    windows = replace(windows, targets=np.zeros((4, 2), dtype=np.int64))
    data = replace(tune_data(packed=True), windows=windows)
    some, others = (data.train_batch(np.array(rows)) for rows in ([0, 1], [2, 3]))
    assert [tensor.shape for tensor in some.tensors] == [tensor.shape for tensor in others.tensors]
    assert some.kind != others.kind


@pytest.mark.parametrize("packed", [False, True])
def test_lessons_of_any_shape_are_like_no_other(*, packed: bool) -> None:
    assert tune_data(even=False, packed=packed).train_batch(np.array([0, 1])).kind is None


def test_lessons_of_two_tasks_are_not_alike() -> None:
    mix = TaskMix({"one": tune_data(), "two": tune_data()}, Turns())
    assert mix.train_batch(np.array([0, 1])).kind != mix.train_batch(np.array([10, 11])).kind


@needs_cpu
@pytest.mark.parametrize("head", ["last_layer", "ladder", "conv"])
@pytest.mark.parametrize("packed", [False, True])
def test_more_padding_changes_no_loss_and_no_gradient(head: str, *, packed: bool) -> None:
    model = span_model(head=head)
    rows = np.array([0, 4, 2])
    loss = backward(model, CPU, tune_data(packed=packed).train_batch(rows), 0.5)
    found = take_gradients(model)
    torch.testing.assert_close(backward(model, CPU, tune_data(even=False).train_batch(rows), 0.5), loss)
    check_same(take_gradients(model), found)
