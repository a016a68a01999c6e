"""Recorder: CUDA graphs of the forward and backward pass, one recording for every shape of a batch.

A step is thousands of short kernels. Launching them one by one from Python takes several times as long as running them;
a CUDA graph launches all of them at once.
"""

from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor, nn

from bertvision.encoder.batch import move
from bertvision.training.data import Forward, TrainBatch

MAX_RECORDINGS = 128
"""Most recordings that are kept; batches of further shapes are computed without a graph."""


@dataclass(frozen=True, slots=True)
class _Recording:
    """A CUDA graph, its static inputs, the gradients that it adds to, and the loss that it writes."""

    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]
    gradients: dict[nn.Parameter, Tensor]
    loss: Tensor

    def play(self, train_batch: TrainBatch) -> Tensor:
        """Add the gradients of a batch to the present ones; returns its summed loss."""
        for own, tensor in zip(self.inputs, train_batch.tensors, strict=True):
            if not tensor.is_cuda:  # else it is a static input already
                own.copy_(tensor.pin_memory(), non_blocking=True)
        _use(self.gradients)
        self.graph.replay()
        return self.loss.clone()  # the next replay overwrites it


@final
class GraphMemory:
    """A memory pool that CUDA graphs share; they must be replayed one at a time.

    Attributes:
        device: a GPU.
        stream: the CUDA stream on which graphs are captured.
        pool: the handle of the pool.
        is_open: whether graphs can be captured and replayed; False after a failed capture.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's own
        self.pool = torch.cuda.graph_pool_handle()
        self.is_open = True

    def make_room(self) -> None:
        """Free torch's cached memory, which graphs cannot use, if less than half of the GPU's memory is free."""
        torch.cuda.synchronize(self.device)
        free, total = torch.cuda.mem_get_info(self.device)
        if free < total / 2:
            torch.cuda.empty_cache()

    def close(self) -> None:
        """Stop using graphs: after a failed capture, their random numbers would differ from those without a graph."""
        self.is_open = False
        with suppress(RuntimeError):  # torch 2.11 goes on allocating from the pool after a failed capture
            torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), self.pool)  # noqa: SLF001 - no public name
        torch.cuda.empty_cache()


@final
class StaticInputs:
    """Input tensors of CUDA graphs, which read from fixed addresses: one per argument and shape.

    The tensors of an argument are views of one buffer, so only the largest takes memory.
    """

    def __init__(self) -> None:
        self._room: dict[int, Tensor] = {}
        self._places: dict[Hashable, Tensor] = {}

    def put(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Copy tensors into the static inputs of their shapes, which are returned; earlier contents are lost."""
        return tuple(self._place(number, tensor).copy_(tensor) for number, tensor in enumerate(tensors))

    def _place(self, number: int, tensor: Tensor) -> Tensor:
        key = number, tensor.shape, tensor.dtype
        if key not in self._places:
            room = self._room.get(number)
            if room is None or room.dtype != tensor.dtype or len(room) < tensor.numel():  # others stay where they were
                room = self._room[number] = tensor.new_empty(tensor.numel())
            self._places[key] = room[: tensor.numel()].view(tensor.shape)
        return self._places[key]


@final
class Recorder:
    """Computes gradients by CUDA graphs, or without where a batch has no kind or capturing has failed."""

    def __init__(self, model: nn.Module, memory: GraphMemory) -> None:
        """Make a recorder without recordings.

        Args:
            model: its parameters must stay at their addresses.
            memory: shared by its recordings, and maybe those of other models.
        """
        self._model = model
        self._memory = memory
        self._learning = [value for value in model.parameters() if value.requires_grad]
        self._gradients: dict[nn.Parameter, Tensor] = {}
        self._warmed_up: dict[Hashable, list[nn.Parameter]] = {}  # parameters with a gradient, by shape
        self._recordings: dict[Hashable, _Recording] = {}

    @property
    def recordings(self) -> int:
        """How many shapes are recorded."""
        return len(self._recordings)

    def backward(self, train_batch: TrainBatch, share: float) -> Tensor:
        """Backpropagate the summed losses times `share`; returns the sum.

        The first batch of a shape is computed without a graph (warm-up), the second one is captured, and from then on
        the graph is replayed.
        """
        device = self._memory.device
        if not self._memory.is_open:
            self._recordings.clear()
        if train_batch.kind is None or not self._memory.is_open:
            return backward(self._model, device, train_batch, share)
        key = train_batch.kind, share, *(tensor.shape for tensor in train_batch.tensors)
        if key not in self._warmed_up:
            loss = backward(self._model, device, train_batch, share)
            self._warmed_up[key] = [value for value in self._learning if value.grad is not None]
            return loss
        if key not in self._recordings and len(self._recordings) < MAX_RECORDINGS:
            self._record(key, train_batch, share)
        recording = self._recordings.get(key)
        return backward(self._model, device, train_batch, share) if recording is None else recording.play(train_batch)

    def _record(self, key: Hashable, train_batch: TrainBatch, share: float) -> None:
        """Capture a graph, which computes nothing yet; if that fails, the memory is closed."""
        learning = self._warmed_up[key]
        inputs = tuple(move(tensor, self._memory.device) for tensor in train_batch.tensors)
        for value in learning:
            if value not in self._gradients:
                self._gradients[value] = torch.zeros_like(value)
        gradients = {value: self._gradients[value] for value in learning}
        _use(gradients)  # the graph will add to these tensors at every replay
        graph = torch.cuda.CUDAGraph()
        random = torch.cuda.default_generators[torch.cuda.current_device()]
        spare = random.clone_state()
        self._memory.make_room()
        with torch.cuda.stream(self._memory.stream):
            try:
                graph.capture_begin(pool=self._memory.pool, capture_error_mode="thread_local")
                try:
                    losses = train_batch.compute(self._model, inputs)
                    (losses.sum() * share).backward()  # type: ignore[no-untyped-call]  # torch's own
                    loss = losses.detach().sum()
                finally:
                    graph.capture_end()
            except RuntimeError:  # an operation of the encoder that synchronises, or out of memory
                self._memory.close()
                self._recordings.clear()
                random.graphsafe_set_state(spare)  # the generator's own state stays in capture mode
                return
        self._recordings[key] = _Recording(graph, inputs, gradients, loss)


def backward(model: Forward, device: torch.device, train_batch: TrainBatch, share: float) -> Tensor:
    """Backpropagate the summed losses times `share`, without a graph; returns the sum."""
    losses = train_batch.losses(model, device)
    (losses.sum() * share).backward()  # type: ignore[no-untyped-call]  # torch's own
    return losses.detach().sum()


def _use(gradients: dict[nn.Parameter, Tensor]) -> None:
    """Make these tensors the parameters' gradients; they keep the present gradients, or start at zero."""
    fresh = [place for value, place in gradients.items() if value.grad is None]
    if fresh:
        torch._foreach_zero_(fresh)
    for value, place in gradients.items():
        if value.grad is not None and value.grad is not place:
            place.copy_(value.grad)
        value.grad = place
