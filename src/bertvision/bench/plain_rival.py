"""The baseline: the usual training loop over transformers and PEFT. It shares only the token windows with ours."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bertvision.encoder.load import silence
from bertvision.errors import BertVisionError
from bertvision.tasks.examples import IntArray
from bertvision.tasks.task import Task, TaskKind
from bertvision.tasks.windows import Windows

GROUPED = 50
"""Batches per pool within which windows are sorted by length, as in transformers' trainer."""

NEW: dict[TaskKind, str] = {"spans": "qa_outputs", "labels": "classifier", "scores": "classifier"}
"""Name of the model's new output layer, by kind of task; no suite has tasks with tags."""

SCHEDULES = {"constant": "constant_with_warmup", "restarts": "cosine_with_restarts"}
"""Transformers' names of our schedules, where they differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainOptions:
    """Hyperparameters of the loop.

    Attributes:
        lr: learning rate of the encoder.
        head_lr: learning rate of the output layer.
        batch: windows per step.
        schedule, warmup: learning-rate schedule, and the share of steps over which the rate rises.
        seed: seed of the initial weights, the order of the data and dropout.
    """

    lr: float
    head_lr: float
    batch: int
    schedule: str
    warmup: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSteps:
    """Time and memory of training up to a fraction of an epoch.

    Attributes:
        epochs: epochs so far.
        seconds: seconds of all steps, without validation.
        first: seconds of the first step.
        peak: peak bytes allocated on the GPU; None on a CPU.
    """

    epochs: float
    seconds: float
    first: float
    peak: int | None


def plain_model(encoder: str, task: Task, learn: str, seed: int) -> Any:  # noqa: ANN401 - transformers' models have no type
    """A transformers model for questions, labels or scores; only what `learn` names has `requires_grad`."""
    from transformers import (  # noqa: PLC0415 - takes seconds to import
        AutoModelForQuestionAnswering,
        AutoModelForSequenceClassification,
    )

    new = NEW[task.kind]
    torch.manual_seed(seed)
    with silence():
        # by default transformers keeps the stored precision, and training weights in 16 bits loses accuracy
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
        trained = learn == "full" or (learn == "bitfit" and name.endswith("bias"))
        value.requires_grad_(trained or name.startswith(new))
    return model


def plain_inputs(model: Any, windows: Windows, rows: IntArray, device: torch.device) -> dict[str, Tensor]:  # noqa: ANN401
    """The model's inputs for a batch, padded to its longest window."""
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
            labels = {"start_positions": targets[:, 0], "end_positions": targets[:, 1]}
        case "scores":
            labels = {"labels": targets.float()}
        case _:
            labels = {"labels": targets}
    inputs = plain_inputs(model, windows, rows, device)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        loss: Tensor = model(**inputs, **labels).loss
    return loss


def plain_batches(windows: Windows, size: int) -> list[IntArray]:
    """The batches of an epoch in random order: windows are shuffled, then sorted by length in pools of 50 batches."""
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
    """Train until the last of the fractions of an epoch; `measure` is called after each, and is not timed.

    Raises:
        BertVisionError: two fractions fall on one step.
    """
    from transformers import get_scheduler  # noqa: PLC0415 - takes seconds to import

    torch.manual_seed(options.seed)
    model.to(device).train()
    trained = [(name, value) for name, value in model.named_parameters() if value.requires_grad]
    output = [value for name, value in trained if NEW[task.kind] in name]
    others = [value for name, value in trained if NEW[task.kind] not in name]
    groups = [{"params": output, "lr": options.head_lr}, *([{"params": others, "lr": options.lr}] if others else [])]
    optimizer = torch.optim.AdamW(groups, fused=True)  # the default of transformers' trainer
    per_epoch = -(-len(windows) // options.batch)
    stops = {max(1, round(fraction * per_epoch)): fraction for fraction in fractions}
    if len(stops) < len(fractions):
        listed = ", ".join(f"{fraction:g}" for fraction in fractions)
        raise BertVisionError(
            f"of the snapshots {listed} two fall on the same step of {per_epoch} per epoch. Leave one out, or use a "
            "smaller batch."
        )
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
    """A stopwatch for training steps that synchronises with the GPU, and records its peak memory."""

    def __init__(self, device: torch.device) -> None:
        self.cuda = device.type == "cuda"
        self.first, self.seconds = 0.0, 0.0
        self.peak: int | None = None
        self.go_on()

    def stop(self) -> float:
        """Stop the clock; returns the seconds so far."""
        if self.cuda:
            torch.cuda.synchronize()
            self.peak = max(self.peak or 0, torch.cuda.max_memory_allocated())
        self.seconds += time.perf_counter() - self.begin
        return self.seconds

    def go_on(self) -> None:
        """Start the clock again."""
        if self.cuda:
            torch.cuda.reset_peak_memory_stats()
        self.begin = time.perf_counter()


def merged(model: Any) -> Any:  # noqa: ANN401 - transformers' models have no type
    """The model with LoRA weights merged, as one would serve it."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model


@torch.inference_mode()
def plain_scores(
    model: Any,  # noqa: ANN401
    task: Task,
    windows: Windows,
    size: int,
    device: torch.device,
) -> NDArray[np.float32]:
    """Start and end logits of all tokens, (all tokens, 2), or outputs of all windows, (windows, outputs).

    Batches are of windows of similar lengths, the longest first.
    """
    model.eval()
    scores = np.empty((len(windows.ids if task.kind == "spans" else windows), task.outputs), dtype=np.float32)
    order = np.argsort(-windows.lengths, kind="stable")
    for begin in range(0, len(order), size):
        rows = order[begin : begin + size]
        inputs = plain_inputs(model, windows, rows, device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            outputs = model(**inputs)
        if task.kind == "spans":
            logits = torch.stack([outputs.start_logits, outputs.end_logits], dim=-1).float()  # (batch, tokens, 2)
            scores[windows.places(rows)] = logits[inputs["attention_mask"].bool()].cpu().numpy()
        else:
            scores[rows] = outputs.logits.float().cpu().numpy()
    return scores
