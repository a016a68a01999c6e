"""Profile the kernels of a training step of each head, on packed windows with random states.

python tools/profile_heads.py                                      # a small test on the CPU
python tools/profile_heads.py --gpu --tokenizer DIR                # BERT-large's shape, 1,048 windows, every light head
python tools/profile_heads.py --gpu --tokenizer DIR --heads ladder,adapter_pool --kernels 8

Prints a line of JSON per head, with milliseconds and number of its kernels and wall-clock milliseconds, then its
longest kernels.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.profiler import ProfilerActivity

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

from bench_fit import LIGHT
from bertvision.encoder.batch import MULTIPLE, packed_batch
from bertvision.encoder.states import HiddenStates
from bertvision.heads import HeadShape
from bertvision.objectives import example_losses
from bertvision.tasks.load import TASKS
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import Windows, build_windows
from bertvision.training.states import StateBatch
from bertvision.training.trainee import HeadSpec, Trainee
from data import spread

WARM, ROUNDS = 3, 5
"""Warm-up steps, since the first ones compile; and timed steps, of which the median is printed."""

SQUAD = TASKS["squad2"]


def make_step(name: str, windows: Windows, states: Tensor) -> Callable[[], None]:
    """A function that runs the forward and backward pass of a head over all windows, as in a fit."""
    device = states.device
    shape = HeadShape(layers=states.shape[1], width=states.shape[3], outputs=2)
    trainee = Trainee(HeadSpec(head=name), shape, device=device)
    if device.type == "cuda":
        trainee.head.compile_steps()
    tokens = packed_batch(windows, np.arange(len(windows)), multiple=MULTIPLE).to(device)
    batch = StateBatch(HiddenStates(states, tokens.mask), packed=tokens)
    targets = torch.from_numpy(windows.targets).to(device)

    def step() -> None:
        with trainee.stream:
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                outputs, mask = batch.read(trainee.head)
            losses = example_losses(SQUAD, outputs, mask, targets, pool="cls")
            losses.mean().backward()  # type: ignore[no-untyped-call]  # torch's own
        trainee.head.zero_grad(set_to_none=True)

    return step


def clock(step: Callable[[], None], device: torch.device) -> float:
    """Median wall-clock milliseconds of a step, synchronised with the GPU."""
    spent = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        spent.append(1000 * (time.perf_counter() - begin))
    return statistics.median(spent)


def kernels(step: Callable[[], None], device: torch.device) -> dict[str, tuple[int, float]]:
    """By kernel: how often it runs in a step, and milliseconds in all; the longest first."""
    cuda = device.type == "cuda"
    found: dict[str, tuple[int, float]] = {}
    with torch.profiler.profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as profile:
        step()
        if cuda:
            torch.cuda.synchronize()
    for event in profile.events():
        if event.device_type.name == ("CUDA" if cuda else "CPU"):
            count, spent = found.get(event.name, (0, 0.0))
            found[event.name] = count + 1, spent + (event.device_time if cuda else event.self_cpu_time_total) / 1000
    return dict(sorted(found.items(), key=lambda one: -one[1][1]))


def main() -> None:
    """Profile one head after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--tokenizer", default="minilm", help="any BERT tokenizer will do")
    parser.add_argument("--windows", type=int, default=None)
    parser.add_argument("--heads", default=",".join(LIGHT), help="names between commas")
    parser.add_argument("--kernels", type=int, default=0, help="tell so many of each head's longest kernels")
    options = parser.parse_args()
    device = torch.device("cuda" if options.gpu else "cpu")
    layers, width = (25, 1024) if options.gpu else (4, 64)
    count = options.windows if options.windows is not None else 1048 if options.gpu else 4
    windows = build_windows(SQUAD, spread(count), TextTokenizer.load(options.tokenizer))
    tokens = int(windows.lengths.sum())
    dtype = torch.bfloat16 if options.gpu else torch.float32
    states = torch.randn(1, layers, tokens, width, device=device, dtype=dtype)
    print(json.dumps({"windows": len(windows), "tokens": tokens, "layers": layers, "width": width}))
    for name in options.heads.split(","):
        step = make_step(name, windows, states)
        for _ in range(WARM):
            step()
        spent, found = clock(step, device), kernels(step, device)
        own, times = sum(one for _, one in found.values()), sum(many for many, _ in found.values())
        print(json.dumps({"head": name, "kernels_ms": round(own, 2), "kernels": times, "clock_ms": round(spent, 2)}))
        for kernel, (many, one) in list(found.items())[: options.kernels]:
            print(f"    {one:8.2f} ms {many:5d} × {kernel[:120]}", flush=True)


if __name__ == "__main__":
    main()
