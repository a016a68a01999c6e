"""Recorder: what a GPU does for a batch, recorded once for every shape, and played again.

A step is thousands of short operations. Started one by one from Python they take several times as long as they run; a
recording (a CUDA graph) starts all of them at once.
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
"""Most recordings that are kept; further shapes are computed step by step."""


@dataclass(frozen=True, slots=True)
class _Recording:
    """A graph, what it reads, what it adds to, and what it gives."""

    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]
    gradients: dict[nn.Parameter, Tensor]
    loss: Tensor

    def play(self, train_batch: TrainBatch) -> Tensor:
        """Add the gradients of a batch to those that are there; its summed loss."""
        for own, tensor in zip(self.inputs, train_batch.tensors, strict=True):
            if not tensor.is_cuda:  # else it is at its place already
                own.copy_(tensor.pin_memory(), non_blocking=True)
        _use(self.gradients)
        self.graph.replay()
        return self.loss.clone()  # the next one overwrites it


@final
class GraphMemory:
    """Memory that CUDA graphs share; those that share it are played one after the other.

    Attributes:
        device: a GPU.
        stream: of the GPU, on which they are made.
        pool: their memory.
        is_open: whether more can be made, and those that were made may be played.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]  # torch's own
        self.pool = torch.cuda.graph_pool_handle()
        self.is_open = True

    def make_room(self) -> None:
        """Give back memory that single steps took, where it is more than half: recordings have memory of their own."""
        torch.cuda.synchronize(self.device)
        free, total = torch.cuda.mem_get_info(self.device)
        if free < total / 2:
            torch.cuda.empty_cache()

    def close(self) -> None:
        """Record nothing any more: random numbers of what was recorded would no longer be those of single steps."""
        self.is_open = False
        with suppress(RuntimeError):  # torch 2.11 leaves memory that a failed recording asked for in its hands
            torch._C._cuda_endAllocateToPool(torch.cuda.current_device(), self.pool)  # noqa: SLF001 - no public name
        torch.cuda.empty_cache()


@final
class StaticInputs:
    """Tensors on a GPU that recordings read their inputs from: one for every shape, all of them views of one buffer."""

    def __init__(self) -> None:
        self._room: dict[int, Tensor] = {}
        self._places: dict[Hashable, Tensor] = {}

    def put(self, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Copy tensors into those of their shapes; what was there before is overwritten."""
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
    """Computes gradients of batches by recordings, where a batch has a kind and the GPU allows it."""

    def __init__(self, model: nn.Module, memory: GraphMemory) -> None:
        """Make a recorder without recordings.

        Args:
            model: what learns; its parameters stay where they are.
            memory: that its recordings share.
        """
        self._model = model
        self._memory = memory
        self._learning = [value for value in model.parameters() if value.requires_grad]
        self._gradients: dict[nn.Parameter, Tensor] = {}
        self._met: dict[Hashable, list[nn.Parameter]] = {}
        self._recordings: dict[Hashable, _Recording] = {}

    @property
    def recordings(self) -> int:
        """How many shapes are recorded."""
        return len(self._recordings)

    def backward(self, train_batch: TrainBatch, share: float) -> Tensor:
        """Add the gradients of a batch's losses, times a share; their sum.

        A shape is computed step by step when it is met first, recorded when it is met again, and played from then on.
        """
        device = self._memory.device
        if not self._memory.is_open:
            self._recordings.clear()
        if train_batch.kind is None or not self._memory.is_open:
            return backward(self._model, device, train_batch, share)
        key = train_batch.kind, share, *(tensor.shape for tensor in train_batch.tensors)
        if key not in self._met:
            loss = backward(self._model, device, train_batch, share)
            self._met[key] = [value for value in self._learning if value.grad is not None]
            return loss
        if key not in self._recordings and len(self._recordings) < MAX_RECORDINGS:
            self._record(key, train_batch, share)
        recording = self._recordings.get(key)
        return backward(self._model, device, train_batch, share) if recording is None else recording.play(train_batch)

    def _record(self, key: Hashable, train_batch: TrainBatch, share: float) -> None:
        """Make a recording, to be played later; if something in it cannot be recorded, the memory is closed."""
        learning = self._met[key]
        inputs = tuple(move(tensor, self._memory.device) for tensor in train_batch.tensors)
        for value in learning:
            if value not in self._gradients:
                self._gradients[value] = torch.zeros_like(value)
        gradients = {value: self._gradients[value] for value in learning}
        _use(gradients)  # a recording adds to what it finds at these places, whenever it is played
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
            except RuntimeError:  # an operation that waits for its result, in somebody's encoder; or no room
                self._memory.close()
                self._recordings.clear()
                random.graphsafe_set_state(spare)  # its own believes that it is still being recorded
                return
        self._recordings[key] = _Recording(graph, inputs, gradients, loss)


def backward(model: Forward, device: torch.device, train_batch: TrainBatch, share: float) -> Tensor:
    """Add the gradients of a batch's losses, times a share, step by step; their sum."""
    losses = train_batch.losses(model, device)
    (losses.sum() * share).backward()  # type: ignore[no-untyped-call]  # torch's own
    return losses.detach().sum()


def _use(gradients: dict[nn.Parameter, Tensor]) -> None:
    """Accumulate gradients at these places, which begin with zero or with the gradient that there is elsewhere."""
    fresh = [place for value, place in gradients.items() if value.grad is None]
    if fresh:
        torch._foreach_zero_(fresh)
    for value, place in gradients.items():
        if value.grad is not None and value.grad is not place:
            place.copy_(value.grad)
        value.grad = place
