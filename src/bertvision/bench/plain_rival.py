"""The rival: the loop over transformers and PEFT that people write. It shares nothing with ours but token windows."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertvision.encoder.load import silence
from bertvision.tasks.examples import IntArray
from bertvision.tasks.task import Task, TaskKind
from bertvision.tasks.windows import Windows

GROUPED = 50
"""Batches whose windows are sorted by length together, as transformers' own trainer does it."""

NEW: dict[TaskKind, str] = {"spans": "qa_outputs", "labels": "classifier", "scores": "classifier"}
"""By kind of task, the part of a model that no encoder brings along; no suite has tasks with tags."""

SCHEDULES = {"constant": "constant_with_warmup", "restarts": "cosine_with_restarts"}
"""What transformers calls our schedules, where it has other names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainOptions:
    """How the loop learns.

    Attributes:
        lr: learning rate.
        head_lr: learning rate of the output.
        batch: windows per step.
        schedule, warmup: how the rates move.
        seed: seed of everything.
    """

    lr: float
    head_lr: float
    batch: int
    schedule: str
    warmup: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSteps:
    """What the steps took, up to a fraction of an epoch.

    Attributes:
        epochs: so many.
        seconds: from the first step to the last, without validation.
        first: seconds of the first step.
        peak: most bytes of the GPU; None without one.
    """

    epochs: float
    seconds: float
    first: float
    peak: int | None


def plain_model(encoder: str, task: Task, learn: str, seed: int) -> Any:  # noqa: ANN401 - transformers' models have no type
    """A model for questions, classes or scores, with what learns set free."""
    from transformers import (  # noqa: PLC0415 - takes seconds to import
        AutoModelForQuestionAnswering,
        AutoModelForSequenceClassification,
    )

    new = NEW[task.kind]
    torch.manual_seed(seed)
    with silence():
        # transformers keeps weights as they are stored: those of 16 bits would learn in 16 bits, and badly
        if task.kind == "spans":
            model = AutoModelForQuestionAnswering.from_pretrained(encoder, dtype=torch.float32)
        else:
            model = AutoModelForSequenceClassification.from_pretrained(
                encoder, dtype=torch.float32, num_labels=task.outputs
            )
    if learn.startswith("lora:"):
        from peft import LoraConfig, get_peft_model  # noqa: PLC0415

        rank = int(learn.removeprefix("lora:"))
        config = LoraConfig(
            r=rank,
            lora_alpha=2 * rank,
            target_modules="all-linear",
            exclude_modules=rf"{new}(\..*)?",
            modules_to_save=[new],
        )
        return get_peft_model(model, config)
    for name, value in model.named_parameters():
        free = learn == "full" or (learn == "bitfit" and name.endswith("bias"))
        value.requires_grad_(free or name.startswith(new))
    return model


def plain_inputs(model: Any, windows: Windows, rows: IntArray, device: torch.device) -> dict[str, Tensor]:  # noqa: ANN401
    """A batch, padded to its longest window."""
    ids, types, real = windows.padded(rows, model.config.pad_token_id or 0)
    names = {"input_ids": ids, "attention_mask": real.astype(np.int64)}
    if getattr(model.config, "type_vocab_size", 0) > 1:
        names["token_type_ids"] = types
    return {name: torch.from_numpy(values).to(device) for name, values in names.items()}


def plain_loss(
    model: Any,  # noqa: ANN401
    task: Task,
    windows: Windows,
    rows: IntArray,
    device: torch.device,
) -> Tensor:
    """The model's own loss of a batch, in bfloat16 on a GPU."""
    targets = torch.from_numpy(np.asarray(windows.targets)[rows]).to(device)
    match task.kind:
        case "spans":
            right = {"start_positions": targets[:, 0], "end_positions": targets[:, 1]}
        case "scores":
            right = {"labels": targets.float()}
        case _:
            right = {"labels": targets}
    inputs = plain_inputs(model, windows, rows, device)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        loss: Tensor = model(**inputs, **right).loss
    return loss


def plain_batches(windows: Windows, size: int) -> list[IntArray]:
    """An epoch of batches of like lengths in random order: shuffled, and sorted within every fifty batches."""
    order = torch.randperm(len(windows)).numpy()
    pools = [order[begin : begin + GROUPED * size] for begin in range(0, len(order), GROUPED * size)]
    order = np.concatenate([pool[np.argsort(windows.lengths[pool], kind="stable")] for pool in pools])
    batches = [order[begin : begin + size] for begin in range(0, len(order), size)]
    return [batches[number] for number in torch.randperm(len(batches)).tolist()]


def plain_training(  # noqa: PLR0913 - what a loop depends on
    model: Any,  # noqa: ANN401 - transformers' models have no type
    task: Task,
    windows: Windows,
    options: PlainOptions,
    device: torch.device,
    *,
    fractions: Sequence[float],
    measure: Callable[[PlainSteps], None],
) -> None:
    """Train until the last fraction of an epoch; `measure` is called at each, outside the clock."""
    from transformers import get_scheduler  # noqa: PLC0415 - takes seconds to import

    torch.manual_seed(options.seed)
    model.to(device).train()
    learnt = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
    output = [value for name, value in learnt if NEW[task.kind] in name]
    others = [value for name, value in learnt if NEW[task.kind] not in name]
    groups = [{"params": output, "lr": options.head_lr}, *([{"params": others, "lr": options.lr}] if others else [])]
    optimizer = torch.optim.AdamW(groups, fused=True)  # as transformers' own trainer does by default
    per_epoch = -(-len(windows) // options.batch)
    stops = {max(1, round(fraction * per_epoch)): fraction for fraction in fractions}
    total = max(stops)
    name = SCHEDULES.get(options.schedule, options.schedule)
    schedule = get_scheduler(name, optimizer, int(options.warmup * total), total)
    clock, batches = _Clock(device), list[IntArray]()
    for step in range(1, total + 1):
        batches = batches or plain_batches(windows, options.batch)
        plain_loss(model, task, windows, batches.pop(), device).backward()  # type: ignore[no-untyped-call]  # torch's own
        torch.nn.utils.clip_grad_norm_([*output, *others], 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step == 1:
            clock.first = clock.stop()
            clock.go_on()
        if step in stops:
            seconds = clock.stop()
            measure(PlainSteps(epochs=stops[step], seconds=seconds, first=clock.first, peak=clock.peak))
            model.train()
            clock.go_on()


class _Clock:
    """Seconds of steps, waited for, and the most memory that they took."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        self.first, self.seconds = 0.0, 0.0
        self.peak: int | None = None
        self.go_on()

    def stop(self) -> float:
        """Seconds so far."""
        if self.cuda:
            torch.cuda.synchronize()
            self.peak = max(self.peak or 0, torch.cuda.max_memory_allocated())
        self.seconds += time.perf_counter() - self.begin
        return self.seconds

    def go_on(self) -> None:
        """Let time go on."""
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        self.begin = time.perf_counter()


def merged(model: Any) -> Any:  # noqa: ANN401 - transformers' models have no type
    """The model with PEFT's changes put into its own maps, as one would serve it."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model


@torch.inference_mode()
def plain_scores(
    model: Any,  # noqa: ANN401
    task: Task,
    windows: Windows,
    size: int,
    device: torch.device,
) -> NDArray[np.float32]:
    """Start and end scores of every token, (tokens, 2), or outputs of every window; batch by batch of like lengths."""
    model.eval()
    found = np.empty((len(windows.ids if task.kind == "spans" else windows), task.outputs), dtype=np.float32)
    order = np.argsort(-windows.lengths, kind="stable")
    for begin in range(0, len(order), size):
        rows = order[begin : begin + size]
        inputs = plain_inputs(model, windows, rows, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            said = model(**inputs)
        if task.kind == "spans":
            scores = torch.stack([said.start_logits, said.end_logits], dim=-1).float()
            found[windows.places(rows)] = scores[inputs["attention_mask"].bool()].cpu().numpy()
        else:
            found[rows] = said.logits.float().cpu().numpy()
    return found
