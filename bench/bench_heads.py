"""Forward and backward passes of every head against the encoder's forward pass: seconds and memory.

python bench/bench_heads.py            # on the CPU
python bench/bench_heads.py --gpu      # on a GPU
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from transformers import BertConfig, BertModel

from bertvision.atomic import write_json
from bertvision.bench.measure import Timing
from bertvision.encoder.batch import TokenBatch
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import drop_pooler
from bertvision.heads import HEADS, Head, HeadShape, build_head, count_parameters
from bertvision.heads.conv import Conv
from bertvision.heads.inception import Inception
from bertvision.heads.table import ROWS
from bertvision.heads.xception import Xception
from bertvision.provenance import provenance
from data import RESULTS

EXAMPLES, LAYERS, TOKENS, WIDTH = 16, 13, 192, 768
LIMITS = {
    **dict.fromkeys(("layer_mix", "layer_mean", "layer_weights", "dot_attention", "weighted_attention"), 0.10),
    **dict.fromkeys(("adapter_pool_64", "adapter_pool_64_skip"), 0.10),
    **dict.fromkeys(("adapter_pool", "adapter_pool_skip"), 0.20),
}
"""Target on a GPU: the largest share of the encoder's forward pass that a step of a head may take."""


def build_encoder(device: torch.device) -> tuple[Encoder, TokenBatch]:
    """An encoder of BERT-base's shape with random weights, as in a frozen pass, and a batch for it."""
    model = BertModel(BertConfig()).eval().requires_grad_(requires_grad=False).to(device)
    drop_pooler(model)
    ids = torch.randint(1000, 30000, (EXAMPLES, TOKENS), device=device)
    mask = torch.ones_like(ids, dtype=torch.bool)
    batch = TokenBatch(ids, torch.zeros_like(ids), mask, None, TOKENS, full=True)
    if device.type == "cuda":
        model.to(torch.bfloat16)
        bounds = torch.arange(0, EXAMPLES * TOKENS + 1, TOKENS, device=device, dtype=torch.int32)
        batch = TokenBatch(
            ids.reshape(1, -1), batch.types.reshape(1, -1), mask.reshape(1, -1), bounds, TOKENS, full=True
        )
    return Encoder(model, name="bert-base shape"), batch


def step(head: Head, states: Tensor, mask: Tensor) -> None:
    """Forward and backward pass of a head; the states have no gradient."""
    with torch.autocast(states.device.type, torch.bfloat16, enabled=states.device.type == "cuda"):
        outputs = head(states, mask)
    head.zero_grad(set_to_none=True)
    outputs.square().mean().backward()


def measure(run: Callable[[], None], device: torch.device, *, repeats: int, inner: int) -> Timing:
    """Seconds per run: `repeats` measurements, each the mean of `inner` runs in a row, after a warm-up."""
    seconds = []
    for _ in range(repeats + 1):
        wait(device)
        begin = time.perf_counter()
        for _ in range(inner):
            run()
        wait(device)
        seconds.append((time.perf_counter() - begin) / inner)
    return Timing(tuple(seconds[1:]))


def captured(run: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The function as a CUDA graph, so that the time of launching its kernels does not count; unchanged on a CPU."""
    if device.type != "cuda":
        return run
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]  # torch has no type for it
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def wait(device: torch.device) -> None:
    """Synchronise with the GPU."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def kept_bytes(run: Callable[[], None]) -> int:
    """Bytes of the tensors that autograd saves for the backward pass; each storage counts once."""
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return sum(storages.values())


def measure_head(name: str, device: torch.device, *, repeats: int, inner: int) -> dict[str, object]:
    """The record's row of a head."""
    rows = HEADS[name].kinds == ROWS  # such heads are for one row per example
    tokens = 1 if rows else TOKENS
    head = build_head(name, HeadShape(layers=LAYERS, width=WIDTH, outputs=2)).to(device).train()
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    # on a GPU windows are packed for all heads that compute each token by itself
    examples, tokens = (1, EXAMPLES * tokens) if device.type == "cuda" and head.token_wise else (EXAMPLES, tokens)
    states = torch.randn(examples, len(head.reads), tokens, WIDTH, device=device, dtype=dtype)
    mask = torch.ones(examples, tokens, device=device, dtype=torch.bool)

    def run() -> None:
        step(head, states, mask)

    run()
    wait(device)
    before = 0
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    kept = kept_bytes(run) - states.nbytes
    peak = torch.cuda.max_memory_allocated() - before if device.type == "cuda" else None
    launched = measure(run, device, repeats=repeats, inner=inner)
    timing = launched if device.type == "cpu" else measure(captured(run, device), device, repeats=repeats, inner=inner)
    return {
        "head": name,
        "tokens": tokens * examples,
        "parameters": count_parameters(head),
        "seconds": timing.median,
        "range": [min(timing.seconds), max(timing.seconds)],
        "launched_seconds": launched.median,
        "kept_bytes": max(kept, 0),
        "peak_bytes": peak,
    }


def main() -> None:
    """Measure every head and the encoder, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true")
    # the slow ones last
    quick = sorted(HEADS, key=lambda name: HEADS[name].head in {Conv, Inception, Xception})
    parser.add_argument("--heads", default=",".join(quick))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--inner", type=int, default=None)
    options = parser.parse_args()
    device = torch.device("cuda" if options.gpu else "cpu")
    inner = options.inner or (20 if options.gpu else 1)
    torch.manual_seed(0)
    encoder, batch = build_encoder(device)

    def forward() -> None:
        with torch.inference_mode():
            encoder.visit(batch, lambda _layer, _states: None)

    rows = []
    encoder_seconds = []
    captured_forward = captured(forward, device)
    for name in options.heads.split(","):
        # the encoder is timed again for every head, so that other load on the machine slows both
        timing = measure(captured_forward, device, repeats=options.repeats, inner=inner)
        encoder_seconds.append(timing.median)
        row = measure_head(name, device, repeats=options.repeats, inner=inner)
        row["share"] = float(str(row["seconds"])) / timing.median
        rows.append(row)
        print(json.dumps(row), flush=True)
        save(rows, encoder_seconds, gpu=options.gpu)  # after every head, so that an interrupted run leaves a record


def save(rows: list[dict[str, object]], encoder_seconds: list[float], *, gpu: bool) -> None:
    """Write the record."""
    place = "one H200, bfloat16" if gpu else "2 cores, float32"
    record = {
        "format": 1,
        "kind": "heads",
        "name": f"heads-{'gpu' if gpu else 'cpu'}",
        "what": f"forward and backward of each head, {EXAMPLES} × {LAYERS} × {TOKENS} × {WIDTH} states, {place}, "
        "against the forward pass of BERT-base's shape",
        "command": "python bench/bench_heads.py" + (" --gpu" if gpu else ""),
        "encoder_seconds": statistics.median(encoder_seconds),
        "limits": LIMITS if gpu else {},
        "heads": rows,
        "provenance": provenance(),
    }
    write_json(RESULTS / f"{record['name']}.json", record)


if __name__ == "__main__":
    main()
