"""Small cases that the cost model is checked against: three BERT shapes on one thread of a CPU, in processor time.

python bench/bench_cost.py

The rates are fitted on one shape and length; docs/scale.md has the predictions for the others.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from bertvision.atomic import write_json
from bertvision.bench.checks import COST_CHECK, FITTED, TOUCHES
from bertvision.encoder.batch import TokenBatch
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.learn import apply_learn, parse_learn
from bertvision.encoder.load import drop_pooler
from bertvision.heads import HeadShape, build_head
from bertvision.provenance import provenance
from bertvision.training.model import TunedModel
from bertvision.training.options import TuneOptions
from bertvision.training.tune import build_optimizer
from data import RESULTS

TOKENS = 1536
"""Tokens of a batch: enough for large matrix products."""

HEAD_TOKENS = 2048
VOCABULARY = 8000
SHAPES = {"384 × 6": (384, 6, 12), "512 × 4": (512, 4, 8), "768 × 3": (768, 3, 12)}
"""Width, layers, attention heads; the feed-forward part is four times as wide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A measured case.

    Attributes:
        what: `frozen`, `tuning`, `update`, `draw`, `touch` or `head`.
        width: hidden size of the encoder, or of the states.
        depth: layers above the embedding output.
        length: tokens of every window.
        windows: windows of the batch.
        name: value of `--learn`, or name of the head.
        parameters: number of trained parameters.
    """

    what: str
    width: int
    depth: int
    length: int
    windows: int
    name: str = ""
    parameters: int = 0


Measured = tuple[Case, Callable[[], None]]


def encoder_of(shape: str) -> Encoder:
    """A BERT encoder of one of `SHAPES` with random weights."""
    width, depth, heads = SHAPES[shape]
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        intermediate_size=4 * width,
    )
    model = BertModel(config)
    drop_pooler(model)
    return Encoder(model, name=shape)


def batch_of(length: int) -> TokenBatch:
    """A batch of windows of one length, without padding."""
    ids = torch.randint(1000, VOCABULARY, (TOKENS // length, length))
    return TokenBatch(ids, torch.zeros_like(ids), torch.ones_like(ids, dtype=torch.bool), None, length, full=True)


def frozen(shape: str, length: int) -> Measured:
    """A frozen pass over all layers."""
    encoder, batch = encoder_of(shape).eval(), batch_of(length)

    def run() -> None:
        with torch.inference_mode():
            encoder.visit(batch, lambda _layer, _states: None)

    return _case("frozen", encoder, batch), run


def tuning(shape: str, length: int, learn: str) -> Measured:
    """A training step: forward, backward, gradient clipping, AdamW."""
    encoder, batch = encoder_of(shape), batch_of(length)
    apply_learn(encoder, parse_learn(learn))
    head = build_head("last_layer", HeadShape(layers=encoder.depth + 1, width=encoder.width, outputs=2))
    model = TunedModel(encoder, head).train()
    optimizer = build_optimizer(model, TuneOptions(), 1e-5)
    learning = [value for group in optimizer.param_groups for value in group["params"]]

    def run() -> None:
        outputs, _ = model(batch)
        outputs.square().mean().backward()
        nn.utils.clip_grad_norm_(learning, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return _case("tuning", encoder, batch, learn, sum(value.numel() for value in learning)), run


def update(shape: str) -> Measured:
    """Gradient clipping and AdamW only."""
    encoder = encoder_of(shape)
    values = list(encoder.parameters())
    optimizer = torch.optim.AdamW(values, lr=1e-5)
    for value in values:
        value.grad = torch.randn_like(value)

    def run() -> None:
        nn.utils.clip_grad_norm_(values, 1.0)
        optimizer.step()

    return _case("update", encoder, batch_of(TOKENS), "", sum(value.numel() for value in values)), run


def draw(shape: str) -> Measured:
    """Dropout of one layer's states, forward and backward."""
    encoder = encoder_of(shape)
    states = torch.randn(1, TOKENS, encoder.width, requires_grad=True)
    ones = torch.ones_like(states)

    def run() -> None:
        nn.functional.dropout(states, 0.1).backward(ones)  # type: ignore[no-untyped-call]  # torch has no type for it

    return _case("draw", encoder, batch_of(TOKENS)), run


def touch(shape: str) -> Measured:
    """Reading a feed-forward part's states and writing them to new memory, as adapters and LoRA do there."""
    encoder = encoder_of(shape)
    states = torch.randn(1, TOKENS, 4 * encoder.width)

    def run() -> None:
        for _ in range(TOUCHES):
            torch.mul(states, 0.5)

    return _case("touch", encoder, batch_of(TOKENS)), run


@cache
def states_of(layers: int, width: int) -> Tensor:
    """Random states that all heads read, (1, layers, tokens, width)."""
    return torch.randn(1, layers, HEAD_TOKENS, width)


def head_step(name: str, layers: int, width: int) -> Measured:
    """A step of a head, forward and backward; the states have no gradient."""
    head = build_head(name, HeadShape(layers=layers, width=width, outputs=2)).train()
    states = states_of(layers, width)
    mask = torch.ones(1, HEAD_TOKENS, dtype=torch.bool)

    def run() -> None:
        head.zero_grad(set_to_none=True)
        head(states, mask).square().mean().backward()

    case = Case(what="head", width=width, depth=layers - 1, length=HEAD_TOKENS, windows=1, name=name)
    return case, run


def _case(what: str, encoder: Encoder, batch: TokenBatch, name: str = "", parameters: int = 0) -> Case:
    windows, length = batch.ids.shape
    return Case(
        what=what,
        width=encoder.width,
        depth=encoder.depth,
        length=length,
        windows=windows,
        name=name,
        parameters=parameters,
    )


def measure(cases: list[Measured], rounds: int) -> list[dict[str, object]]:
    """CPU seconds of every case, each once per round, in turn, after a warm-up round.

    The minimum over rounds is recorded, since other load on the machine can only add time.
    """
    seconds: list[list[float]] = [[] for _ in cases]
    for round_ in range(rounds + 1):
        for (_, run), of_case in zip(cases, seconds, strict=True):
            begin = time.process_time()
            run()
            if round_:
                of_case.append(time.process_time() - begin)
    return [
        {**asdict(case), "seconds": round(min(of_case), 5), "range": [round(min(of_case), 5), round(max(of_case), 5)]}
        for (case, _), of_case in zip(cases, seconds, strict=True)
    ]


def main() -> None:
    """Measure, and write the record."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    cases = [
        *(frozen(shape, length) for shape in SHAPES for length in (64, 384)),
        update(FITTED),
        draw(FITTED),
        touch(FITTED),
        *(tuning(shape, 192, "full") for shape in SHAPES),
        *(tuning("384 × 6", 192, learn) for learn in ("top:2", "top:2:strict", "lora:16", "houlsby:64")),
        *(
            head_step(name, layers, width)
            for name in ("layer_mix", "dot_attention", "adapter_pool_64", "adapter_pool")
            for layers, width in ((13, 768), (25, 1024))
        ),
    ]
    record = {
        "format": 1,
        "kind": "cost-check",
        "name": COST_CHECK,
        "what": "small cases that the cost model is checked against: one thread, processor time, float32",
        "command": "python bench/bench_cost.py",
        "cases": measure(cases, options.rounds),
        "provenance": provenance(),
    }
    write_json(RESULTS / f"{COST_CHECK}.json", record)
    for row in record["cases"]:  # type: ignore[attr-defined]
        print(row)


if __name__ == "__main__":
    main()
