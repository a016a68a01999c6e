"""Usual loops over a transformers model: the baselines of bench_encoder.py."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor, nn

from bertvision.encoder.batch import padded_batch
from bertvision.tasks.batches import length_batches
from bertvision.tasks.examples import IntArray
from bertvision.tasks.windows import Windows

PADDED = 384


def plain_batches(windows: Windows, size: int, *, bucketed: bool) -> list[IntArray]:
    """Batches in the order of the data, or bucketed: of similar lengths, in random order."""
    if bucketed:
        return length_batches(windows.lengths, size, seed=0)
    return [np.arange(begin, min(begin + size, len(windows))) for begin in range(0, len(windows), size)]


def plain_inputs(windows: Windows, rows: IntArray, device: torch.device, *, bucketed: bool) -> dict[str, Tensor]:
    """The model's inputs for a batch, padded to 384 tokens, or bucketed: to its longest window."""
    batch = padded_batch(windows, rows).to(device)
    more = 0 if bucketed else PADDED - batch.ids.shape[1]
    names = {"input_ids": batch.ids, "token_type_ids": batch.types, "attention_mask": batch.mask.long()}
    return {name: nn.functional.pad(tensor, (0, more)) for name, tensor in names.items()}


def plain_frozen(model: nn.Module, windows: Windows, size: int, *, bucketed: bool = False) -> Iterator[Tensor]:
    """Yield the states of all layers for every batch, by `output_hidden_states=True`."""
    device = next(model.parameters()).device
    for rows in plain_batches(windows, size, bucketed=bucketed):
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            inputs = plain_inputs(windows, rows, device, bucketed=bucketed)
            yield torch.stack(model(**inputs, output_hidden_states=True).hidden_states, dim=1)


def plain_training(
    model: nn.Module, output: nn.Linear, windows: Windows, size: int, *, bucketed: bool = False
) -> Iterator[Tensor]:
    """Train for an epoch with AdamW, and yield the loss of each batch."""
    device = next(model.parameters()).device
    parameters = [p for p in [*model.parameters(), *output.parameters()] if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-5)
    for rows in plain_batches(windows, size, bucketed=bucketed):
        inputs = plain_inputs(windows, rows, device, bucketed=bucketed)
        targets = torch.from_numpy(windows.targets[rows]).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            scores = output(model(**inputs).last_hidden_state)
        hidden = scores.float().masked_fill(inputs["attention_mask"][:, :, None] == 0, float("-inf"))
        loss = sum(
            (nn.functional.cross_entropy(hidden[:, :, end], targets[:, end]) for end in (0, 1)),
            torch.zeros(()).to(device),
        )
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no type for it
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        yield loss.detach()
