"""Training many heads in one pass over a frozen encoder, against the pass alone and against one head after the other.

python bench/bench_fit.py                    # MiniLM on the CPU, a few windows: to see that it runs
python bench/bench_fit.py --gpu --tokenizer DIR   # BERT-large's shape on a GPU; any BERT tokenizer will do
python bench/bench_fit.py --gpu --tokenizer DIR --part convolutions --windows 512 --batch 64
"""

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from bench_encoder import bert_large, compiled_encoder, exhaust, frozen, report
from bertvision.bench.measure import side_by_side
from bertvision.bench.record import Claim
from bertvision.encoder.batch import MULTIPLE
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import load_encoder
from bertvision.heads import HEADS, HeadShape
from bertvision.heads.conv import Conv
from bertvision.inference.computed_states import StreamStates
from bertvision.inference.outputs import PassOptions
from bertvision.runs.fitting.head_specs import fits_kind
from bertvision.tasks.load import TASKS
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import Windows, build_windows
from bertvision.training.fit import FitData, fit_trainees
from bertvision.training.options import TuneOptions
from bertvision.training.plan import Plan
from bertvision.training.trainee import HeadSpec, Trainee
from data import SilentWatcher, save, spread

LIGHT = [
    *("last_layer", "layer_mix", "layer_mix_sparse", "layer_mean", "layer_weights", "layer_concat"),
    *(name for name in HEADS if name.startswith("adapter_pool")),
    *("pooled_adapter", "mean_adapter", "dot_attention", "weighted_attention", "encoder_attention", "ladder"),
]
"""Pooling, attention, adapter and ladder heads."""

ALONE, ONE_BY_ONE = "the frozen pass alone", "one head after the other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Encoder and data of the benchmark.

    Attributes:
        encoder: the frozen encoder.
        windows: training windows.
        batch: windows per step.
        passes: options of frozen passes.
        where: encoder and machine, in words.
    """

    encoder: Encoder
    windows: Windows
    batch: int
    passes: PassOptions
    where: str

    def fit(self, heads: Sequence[str]) -> Callable[[], None]:
        """A function that trains heads for an epoch in one pass; the heads are built once and keep their weights."""
        shape = HeadShape(layers=self.encoder.depth + 1, width=self.encoder.width, outputs=2)
        device = self.encoder.device
        trainees = [Trainee(HeadSpec(head=name, lr=1e-4), shape, device=device) for name in heads]
        if device.type == "cuda":
            for trainee in trainees:
                trainee.head.compile_steps()

        def run() -> None:
            layers = range(min(t.head.reads[0] for t in trainees), self.encoder.depth + 1)
            data = FitData(
                task=TASKS["squad2"],
                targets=self.windows.targets,
                states=StreamStates(self.encoder, self.windows, self.passes, layers),
                pool="cls",
                device=device,
                batch=self.batch,
                bf16=self.passes.bf16,
            )
            plan = Plan(self.windows.lengths, TuneOptions(epochs=1.0, batch=self.batch))
            with tempfile.TemporaryDirectory() as folder:
                fit_trainees(trainees, data, plan, run=Path(folder), fractions=(), watcher=SilentWatcher())
            if device.type == "cuda":
                torch.cuda.synchronize()

        return run

    def alone(self) -> None:
        """Run the frozen pass without heads, with its fastest batch size."""
        tokens = 32768 if self.encoder.device.type == "cuda" else 4096
        exhaust(lambda: frozen(self.encoder, self.windows, 512, tokens))()

    def claim(self, name: str, what: str, targets: Mapping[str, float]) -> Claim:
        """A claim of this benchmark; only a GPU has targets."""
        gpu = self.encoder.device.type == "cuda"
        return Claim(
            name=f"{name}-{'gpu' if gpu else 'cpu'}",
            what=what,
            command="python bench/bench_fit.py" + (" --gpu" if gpu else ""),
            size=f"{len(self.windows):,} windows, mean {self.windows.lengths.mean():.0f} tokens, batch {self.batch}, "
            f"{self.where}",
            targets=targets if gpu else {},
        )


def measure_light(bench: Bench, rounds: int) -> None:
    """Measure light heads, and write the records."""
    apart = [bench.fit([name]) for name in LIGHT]
    timings = side_by_side(
        {
            "ours": bench.fit(LIGHT),
            ALONE: bench.alone,
            "layer_mix": bench.fit(["layer_mix"]),
            ONE_BY_ONE: lambda: [run() for run in apart],
        },
        rounds=rounds,
    )
    report("fit", bench.windows, timings)
    what = f"{len(LIGHT)} pooling, attention, adapter and ladder heads in one pass"
    save(
        bench.claim("speed-fit", what, {ALONE: 0.45, ONE_BY_ONE: 8.0}),
        {name: timings[name] for name in ("ours", ALONE, ONE_BY_ONE)},
    )
    save(
        bench.claim("speed-fit-one", "layer_mix alone in a pass", {ALONE: 0.85}),
        {"ours": timings["layer_mix"], ALONE: timings[ALONE]},
    )


def measure_convolutions(bench: Bench) -> None:
    """Measure convolutional heads that are not deep, and write the record."""
    quick = [name for name, entry in HEADS.items() if entry.head is Conv and fits_kind(name, "spans")]
    # one round, since these heads are slow and their record has no target
    timings = side_by_side({"ours": bench.fit(quick), ALONE: bench.alone}, rounds=1)
    report("fit, convolutional", bench.windows, timings)
    save(bench.claim("speed-fit-conv", f"{len(quick)} convolutional heads in one pass", {}), timings)


def even_batch(windows: int, about: int) -> int:
    """The batch size near `about` that divides windows most evenly: a small last batch takes as long as a full one."""
    return -(-windows // max(1, round(windows / about)))


def main() -> None:
    """Build encoder and data, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--tokenizer", default="minilm")
    parser.add_argument("--windows", type=int, default=None)
    parser.add_argument("--batch", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", choices=("all", "light", "convolutions"), default="all")
    options = parser.parse_args()
    count = options.windows or (4096 if options.gpu else 64)
    windows = build_windows(TASKS["squad2"], spread(count), TextTokenizer.load(options.tokenizer))
    if options.gpu:
        encoder = compiled_encoder(bert_large(torch.device("cuda")).eval().to(torch.bfloat16))
    else:
        encoder = load_encoder("minilm")
    passes = PassOptions(packed=options.gpu, pad=0, bf16=options.gpu, multiple=MULTIPLE if options.gpu else 1)
    batch = options.batch or even_batch(len(windows), 1024 if options.gpu else 16)
    where = "BERT-large shape, one H200" if options.gpu else "MiniLM, 2 cores"
    bench = Bench(encoder=encoder, windows=windows, batch=batch, passes=passes, where=where)
    if options.part != "convolutions":
        measure_light(bench, options.rounds)
    if options.part != "light":
        measure_convolutions(bench)


if __name__ == "__main__":
    main()
