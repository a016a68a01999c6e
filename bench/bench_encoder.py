"""Frozen passes and tuning of the encoder against usual loops: MiniLM on a CPU, BERT-large's shape on a GPU.

python bench/bench_encoder.py                    # on the CPU
python bench/bench_encoder.py --gpu --tokenizer DIR   # on a GPU; any BERT tokenizer will do
"""

import argparse
import copy
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import torch
from torch import Tensor, nn
from transformers import AutoModel, BertConfig, BertModel

from bertvision.bench.measure import Timing, side_by_side
from bertvision.bench.record import Claim
from bertvision.encoder.batch import packed_batch, padded_batch
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.learn import apply_learn, parse_learn
from bertvision.encoder.load import Precision, drop_pooler, load_encoder
from bertvision.heads import HeadShape, build_head
from bertvision.inference.outputs import BATCH_TOKENS
from bertvision.pretrained import locate_encoder
from bertvision.tasks.batches import length_batches
from bertvision.tasks.load import TASKS
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import Windows, build_windows
from bertvision.training.data import TuneData
from bertvision.training.model import TunedModel
from bertvision.training.options import TuneOptions
from bertvision.training.recorded import GraphMemory, Recorder, backward
from bertvision.training.tune import build_optimizer
from data import save, spread
from plain_encoder import plain_frozen, plain_training

PADDED, CPU = "plain loop, padded to 384", "2 cores"
PADDED_8, PADDED_32 = f"{PADDED}, batch 8", f"{PADDED}, batch 32"
BUCKETED_32 = "plain loop, bucketed, batch 32"
FROZEN: dict[Precision, tuple[str, float]] = {
    "float32": ("speed-frozen-cpu", 2.4),
    "bfloat16": ("speed-frozen-cpu-bf16", 4.0),
}
"""By precision: name of the record of a frozen pass on a CPU, and its target speedup over the plain loop."""
LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}


class Sample:
    """A visitor of layers that keeps the first token of the last layer it saw."""

    states: Tensor

    def __call__(self, _layer: int, states: Tensor) -> None:
        """Copy one token's states, so that each layer has to be computed."""
        self.states = states[:, :1].clone()


def frozen(encoder: Encoder, windows: Windows, size: int, tokens: int) -> Iterator[Tensor]:
    """Our frozen pass over all batches, with a visitor that sees one layer at a time."""
    packed = encoder.device.type == "cuda"
    for rows in length_batches(windows.lengths, size, tokens=tokens):
        batch = packed_batch(windows, rows) if packed else padded_batch(windows, rows)
        sample = Sample()
        with torch.inference_mode():
            encoder.visit(batch.to(encoder.device), sample)
        yield sample.states


class Tuning:
    """The training steps of `bertvision tune`, one of AdamW per batch; on a GPU as a CUDA graph per shape."""

    def __init__(self, model: TunedModel, windows: Windows, size: int) -> None:
        device = model.encoder.device
        gpu = device.type == "cuda"
        self.size = size
        self.data = TuneData(
            task=TASKS["squad2"],
            windows=windows,
            pool="cls",
            packed=gpu,
            pad=0,
            bf16=gpu,
            even=gpu,
        )
        self.optimizer = build_optimizer(model, TuneOptions(), 1e-5)
        self.learning = [value for group in self.optimizer.param_groups for value in group["params"]]
        self.backward = Recorder(model, GraphMemory(device)).backward if gpu else partial(backward, model, device)

    def steps(self) -> Iterator[Tensor]:
        """Train for an epoch, and yield the loss of each batch."""
        for rows in length_batches(self.data.windows.lengths, self.size, seed=0):
            loss = self.backward(self.data.train_batch(rows), 1 / len(rows))
            nn.utils.clip_grad_norm_(self.learning, 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            yield loss


def exhaust(make: Callable[[], Iterator[Tensor]]) -> Callable[[], None]:
    """A function that runs an iterator to its end, and synchronises with the GPU."""

    def run() -> None:
        for _ in make():
            pass
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    return run


def tuned(encoder: Encoder, learn: str) -> TunedModel:
    """A model of the encoder and a span output, with `requires_grad` as `learn` says."""
    apply_learn(encoder, parse_learn(learn))
    head = build_head("last_layer", HeadShape(layers=encoder.depth + 1, width=encoder.width, outputs=2))
    return TunedModel(encoder, head).to(encoder.device).train()


def claim(name: str, what: str, windows: Windows, targets: Mapping[str, float], where: str) -> Claim:
    """A claim of this benchmark."""
    size = f"{len(windows):,} windows, mean {windows.lengths.mean():.0f} tokens, {where}"
    command = "python bench/bench_encoder.py" + (" --gpu" if "H200" in where else "")
    return Claim(name=name, what=what, command=command, size=size, targets=targets)


def frozen_on_cpu(count: int, rounds: int, precision: Precision) -> None:
    """MiniLM: a frozen pass over all layers; the plain loop always computes in float32, its default."""
    windows = build_windows(TASKS["squad2"], spread(count), TextTokenizer.load())
    encoder = load_encoder("minilm", precision=precision)
    plain = load_encoder("minilm").model
    timings = side_by_side(
        {
            "ours": exhaust(lambda: frozen(encoder, windows, BATCH_TOKENS["cpu"], BATCH_TOKENS["cpu"])),
            PADDED: exhaust(lambda: plain_frozen(plain, windows, 16)),
        },
        rounds=rounds,
    )
    name, promised = FROZEN[precision]
    save(claim(name, f"frozen pass, all layers, MiniLM, {precision}", windows, {PADDED: promised}, CPU), timings)


def bfloat16_on_cpu(count: int, rounds: int) -> None:
    """MiniLM: the same in bfloat16, if the CPU has instructions for it."""
    capabilities = torch.cpu.get_capabilities()
    if any(capabilities.get(name, False) for name in ("avx512_bf16", "amx_bf16", "bf16")):
        frozen_on_cpu(count, rounds, "bfloat16")
    else:
        print("note: this processor does not multiply bfloat16, so that pass is not measured", file=sys.stderr)


def tuning_on_cpu(count: int, rounds: int) -> None:
    """MiniLM: steps of full tuning."""
    windows = build_windows(TASKS["squad2"], spread(count), TextTokenizer.load())
    model = tuned(load_encoder("minilm"), "full")
    learning = AutoModel.from_pretrained(locate_encoder("minilm")).train()
    drop_pooler(learning)
    output = nn.Linear(384, 2)
    timings = side_by_side(
        {
            "ours": exhaust(Tuning(model, windows, 16).steps),
            PADDED: exhaust(lambda: plain_training(learning, output, windows, 16)),
        },
        rounds=rounds,
    )
    save(claim("speed-tuning-cpu", "tuning, full, MiniLM, float32", windows, {PADDED: 2.0}, CPU), timings)


def layers_on_cpu(rounds: int) -> None:
    """BERT-base's shape: a step that trains the top 3 of 12 layers, against one that trains all."""
    windows = build_windows(TASKS["squad2"], spread(32), TextTokenizer.load())
    models = {}
    for learn in ("full", "top:3", "top:3:strict"):
        model = BertModel(BertConfig())
        drop_pooler(model)
        models[learn] = tuned(Encoder(model, name="bert-base shape"), learn)
    timings = side_by_side(
        {learn: exhaust(Tuning(model, windows, 16).steps) for learn, model in models.items()},
        rounds=rounds,
    )
    for learn, share in (("top:3", 0.80), ("top:3:strict", 0.55)):
        name = f"speed-{learn.replace(':', '-')}"
        full = "a step of --learn full"
        what = f"a step of --learn {learn}, BERT-base shape"
        save(
            claim(name, what, windows, {full: round(1 / share, 2)}, CPU),
            {"ours": timings[learn], full: timings["full"]},
        )


def bert_large(device: torch.device) -> nn.Module:
    """BERT-large's shape with random weights."""
    model: nn.Module = BertModel(BertConfig(**LARGE)).to(device)
    drop_pooler(model)
    return model


def compiled_encoder(model: nn.Module) -> Encoder:
    """A model with its layers compiled."""
    encoder = Encoder(model, name="bert-large shape")
    encoder.compile_layers()
    return encoder


def frozen_on_gpu(count: int, rounds: int, tokenizer: str) -> None:
    """BERT-large's shape: a frozen pass."""
    windows = build_windows(TASKS["squad2"], spread(count), TextTokenizer.load(tokenizer))
    model = bert_large(torch.device("cuda")).eval()
    encoder = compiled_encoder(copy.deepcopy(model).to(torch.bfloat16))
    timings = side_by_side(
        {
            "ours": exhaust(lambda: frozen(encoder, windows, 1024, 57344)),
            PADDED_32: exhaust(lambda: plain_frozen(model, windows, 32)),
            BUCKETED_32: exhaust(lambda: plain_frozen(model, windows, 32, bucketed=True)),
        },
        rounds=rounds,
    )
    report("frozen", windows, timings)
    what = "frozen pass, all layers, BERT-large shape"
    save(claim("speed-frozen-gpu", what, windows, {PADDED_32: 3.4}, "one H200"), timings)


def tuning_on_gpu(count: int, rounds: int, tokenizer: str) -> None:
    """BERT-large's shape: steps of full tuning."""
    windows = build_windows(TASKS["squad2"], spread(count), TextTokenizer.load(tokenizer))
    device = torch.device("cuda")
    model = tuned(compiled_encoder(bert_large(device)), "full")
    learning = bert_large(device).train()
    output = nn.Linear(1024, 2).to(device)
    ours = exhaust(Tuning(model, windows, 256).steps)
    ours()  # every shape is computed without a graph once here, and captured in the warm-up round
    timings = side_by_side(
        {
            "ours": ours,
            PADDED_8: exhaust(lambda: plain_training(learning, output, windows, 8)),
            BUCKETED_32: exhaust(lambda: plain_training(learning, output, windows, 32, bucketed=True)),
        },
        rounds=rounds,
    )
    report("tuning", windows, timings)
    what = "tuning, full, BERT-large shape"
    save(claim("speed-tuning-gpu", what, windows, {PADDED_8: 6.0, BUCKETED_32: 2.4}, "one H200"), timings)


def report(what: str, windows: Windows, timings: Mapping[str, Timing]) -> None:
    """Print windows per second."""
    for name, timing in timings.items():
        print(json.dumps({"what": what, "how": name, "examples_per_second": round(len(windows) / timing.median)}))


def main() -> None:
    """Measure, and write the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--only", choices=["frozen", "bfloat16", "tuning", "layers"])
    parser.add_argument("--tokenizer", default="minilm")
    parser.add_argument("--windows", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    count, rounds = options.windows or (2048 if options.gpu else 256), options.rounds
    on_gpu: dict[str, Callable[[], None]] = {
        "frozen": lambda: frozen_on_gpu(2 * count, rounds, options.tokenizer),
        "tuning": lambda: tuning_on_gpu(count, rounds, options.tokenizer),
    }
    on_cpu: dict[str, Callable[[], None]] = {
        "frozen": lambda: frozen_on_cpu(count, rounds, "float32"),
        "bfloat16": lambda: bfloat16_on_cpu(count, rounds),
        "tuning": lambda: tuning_on_cpu(count // 2, rounds),
        "layers": lambda: layers_on_cpu(rounds),
    }
    for name, measure in (on_gpu if options.gpu else on_cpu).items():
        if options.only in (None, name):
            measure()


if __name__ == "__main__":
    main()
