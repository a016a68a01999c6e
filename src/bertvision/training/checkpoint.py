"""Checkpoints in safetensors and JSON: a run resumed from one ends with the same result as an uninterrupted run."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor, nn

from bertvision.atomic import whole_folder, write_json
from bertvision.cards import read_card
from bertvision.errors import BertVisionError
from bertvision.heads.random_stream import RandomStream
from bertvision.tensor_files import load_tensors, save_tensors
from bertvision.typed_json import from_json

FORMAT = 1
_PREFIX, _STATE, _TENSORS = "checkpoint-", "state.json", "tensors.safetensors"


Loss = tuple[float, int]
"""Sum of the losses since the last line of the log, and how many windows they are of."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, with what early stopping needs.

    Attributes:
        step: number of optimiser steps done.
        best: best held-out score so far; None before the first.
        stale: number of scored snapshots since the best one.
    """

    step: int = 0
    best: float | None = None
    stale: int = 0


@dataclass(frozen=True, slots=True)
class _State:
    """The JSON part of a checkpoint: `Progress`, and the loss of every process."""

    step: int
    best: float | None
    stale: int
    losses: tuple[Loss, ...]


@dataclass(frozen=True, slots=True)
class OwnState:
    """The state of one process, where processes differ.

    Attributes:
        loss: of its windows.
        random: states of its random generators, by device type.
    """

    loss: Loss
    random: dict[str, Tensor]


def save_checkpoint(  # noqa: PLR0913, PLR0917 - what a checkpoint holds
    run: Path,
    progress: Progress,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    owns: Sequence[OwnState],
    streams: Mapping[str, RandomStream] = MappingProxyType({}),
) -> None:
    """Write a checkpoint atomically, then remove the previous one.

    Args:
        run: the run's folder.
        progress: how far it is.
        model: its trained parameters, accumulated gradients and persistent buffers are saved.
        optimizer: its moments are saved.
        owns: the state of every process, in the order of the processes.
        streams: random streams of parts of the model, by name.

    Raises:
        WriteError: it cannot be written; the previous one stays.
    """
    folder = run / f"{_PREFIX}{progress.step}"
    tensors = {f"model.{name}": value.detach() for name, value in _changing(model).items()}
    for name, value in learning_parameters(model).items():
        for key, moment in optimizer.state.get(value, {}).items():
            tensors[f"optimizer.{key}.{name}"] = torch.as_tensor(moment)
        if value.grad is not None:
            tensors[f"gradient.{name}"] = value.grad
    for process, own in enumerate(owns):
        tensors |= {f"random.{process}.{device}": state for device, state in own.random.items()}
    for name, stream in streams.items():
        tensors |= {f"stream.{name}.{place}": state for place, state in enumerate(stream.state)}
    state = _State(**asdict(progress), losses=tuple(own.loss for own in owns))
    with whole_folder(folder, "the checkpoint", otherwise="Make room and --resume.") as part:
        save_tensors(part / _TENSORS, {name: value.cpu().contiguous() for name, value in tensors.items()})
        write_json(part / _STATE, {"format": FORMAT, **asdict(state)})
    remove_checkpoints(run, keep=folder)


def load_checkpoint(  # noqa: PLR0913 - as it was saved
    run: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    *,
    process: int = 0,
    processes: int = 1,
    streams: Mapping[str, RandomStream] = MappingProxyType({}),
) -> tuple[Progress, Loss] | None:
    """Load the newest checkpoint into model, optimiser and random generators.

    Returns:
        How far the run was, and the loss of this process; None if there is no checkpoint.

    Raises:
        BertVisionError: it is damaged, of another format, of another model, or of another number of processes.
    """
    folders = [path for path in run.glob(f"{_PREFIX}*") if (path / _STATE).is_file()]
    if not folders:
        return None
    folder = max(folders, key=lambda path: int(path.name.removeprefix(_PREFIX)))
    again = "Start anew with another --out."
    state = read_card(folder / _STATE, partial(from_json, _State), format=FORMAT, otherwise=again)
    tensors = load_tensors(folder / _TENSORS, otherwise=again)
    if len(state.losses) != processes:
        raise BertVisionError(
            f"the checkpoint {folder} is of {len(state.losses)} processes; {processes} are expected. {again}"
        )
    changing = _changing(model)
    saved = {key.removeprefix("model."): value for key, value in tensors.items() if key.startswith("model.")}
    if {name: value.shape for name, value in changing.items()} != {name: value.shape for name, value in saved.items()}:
        raise BertVisionError(f"the checkpoint {folder} is of another model. Start anew with another --out.")
    for name, value in changing.items():
        value.data.copy_(saved[name])
    _put_moments(learning_parameters(model), optimizer, tensors)
    for name, value in learning_parameters(model).items():
        gradient = tensors.get(f"gradient.{name}")
        value.grad = None if gradient is None else _strided_like(value, gradient)
    for name, stream in streams.items():
        states = [value for key, value in sorted(tensors.items()) if key.startswith(f"stream.{name}.")]
        if len(states) != len(stream.state):  # a stream for a GPU has one state more
            raise BertVisionError(
                f"the checkpoint {folder} was made on another kind of device. Go on with that --device."
            )
        stream.state = states
    prefix = f"random.{process}."
    _set_random_states({key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)})
    return Progress(state.step, state.best, state.stale), state.losses[process]


def _put_moments(
    learning: dict[str, nn.Parameter], optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]
) -> None:
    fused = {id(value): bool(group.get("fused")) for group in optimizer.param_groups for value in group["params"]}
    for key, moment in tensors.items():
        if key.startswith("optimizer."):
            _, kind, name = key.split(".", 2)
            value = learning[name]
            if kind != "step":
                optimizer.state[value][kind] = _strided_like(value, moment)
            else:  # a fused optimiser has its step counter on the parameter's device, any other on the CPU
                optimizer.state[value][kind] = moment.to(value.device if fused[id(value)] else moment.device)


def _strided_like(value: nn.Parameter, tensor: Tensor) -> Tensor:
    """A copy with the parameter's strides, on its device.

    A fused optimiser assumes equal strides without a check: with others (`channels_last` weights of convolutions) it
    would silently pair weights with the moments of other weights.
    """
    return torch.empty_like(value, dtype=tensor.dtype, requires_grad=False).copy_(tensor)


def remove_checkpoints(run: Path, *, keep: Path | None = None) -> None:
    """Remove all checkpoints except `keep`, and half-written ones."""
    for path in [*run.glob(f"{_PREFIX}*"), *run.glob(f".{_PREFIX}*.part")]:
        if path != keep:
            shutil.rmtree(path, ignore_errors=True)


def learning_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """The trained parameters (`requires_grad`), by name."""
    return {name: value for name, value in model.named_parameters() if value.requires_grad}


def _changing(model: nn.Module) -> dict[str, Tensor]:
    """The trained parameters, and persistent buffers such as running statistics."""
    kept = model.state_dict().keys()
    return {**learning_parameters(model), **{name: value for name, value in model.named_buffers() if name in kept}}


def random_states() -> dict[str, Tensor]:
    """The states of this process's random generators, by device type."""
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def _set_random_states(states: dict[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])
