"""A store of states against the layout of the original project, plain memory and recomputing: MiniLM on a CPU.

python bench/bench_store.py
"""

import argparse
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import torch
from torch import Tensor

from bertvision.bench.measure import side_by_side
from bertvision.bench.record import Claim
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import load_encoder
from bertvision.heads import HeadShape, blank_head, layers_read
from bertvision.inference.computed_states import StreamStates
from bertvision.inference.outputs import PassOptions
from bertvision.inference.stored_states import StoreStates, rows_in_memory
from bertvision.objectives import Pool, pool_rows
from bertvision.runs.fitting.extract import ExtractRequest, store_content
from bertvision.store.buffers import Buffers
from bertvision.store.codec import Keep
from bertvision.store.reader import StoreReader
from bertvision.store.writer import StatesOf, StoreWriter
from bertvision.tasks.batches import length_batches
from bertvision.tasks.examples import IntArray
from bertvision.tasks.load import TASKS
from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import Windows, build_windows
from bertvision.training.fit import FitData, States, fit_trainees
from bertvision.training.options import TuneOptions
from bertvision.training.plan import Plan
from bertvision.training.trainee import HeadSpec, Trainee
from data import SilentWatcher, save, save_sizes, spread, texts

PADDED, BATCH = 386, 16
CPU = torch.device("cpu")
PASS = PassOptions(packed=False, pad=0, bf16=False)
LAYOUT = f"float32, padded to {PADDED}, HDF5"
ONE_BY_ONE, REUSED = f"{LAYOUT}, one by one", f"{LAYOUT}, in order into one reused array"
MEMORY = "the same numbers in plain memory"
RECOMPUTING = "recomputing"

Batches = list[IntArray]


@dataclass(frozen=True)
class Work:
    """The task, windows and encoder of some states."""

    task: Task
    windows: Windows
    encoder: Encoder

    @property
    def spans(self) -> bool:
        """Whether the states of all tokens are stored, or one mean per window."""
        return self.task.kind == "spans"

    @property
    def size(self) -> str:
        """The amount of work, in words."""
        mean, threads = self.windows.lengths.mean(), torch.get_num_threads()
        return f"{len(self.windows):,} windows, mean {mean:.0f} tokens, MiniLM, threads: {threads}"

    @property
    def shape(self) -> HeadShape:
        """The shape of its heads."""
        return HeadShape(layers=self.encoder.depth + 1, width=self.encoder.width, outputs=self.task.outputs)

    def stream(self) -> StreamStates:
        """The states of all layers, recomputed for every batch."""
        return StreamStates(self.encoder, self.windows, PASS, range(self.encoder.depth + 1))

    @torch.no_grad()
    def states_of(self, rows: IntArray) -> Tensor:
        """States to store for some windows: (all tokens, layers, width), or one mean per window."""
        parts = []
        for begin in range(0, len(rows), BATCH):
            hidden = self.stream().batch(rows[begin : begin + BATCH]).padded
            tokens = hidden.states.transpose(1, 2)[hidden.mask]  # (tokens, layers, width)
            parts.append(tokens if self.spans else pool_rows(hidden.states, hidden.mask, "mean"))
        return torch.cat(parts)

    def store(self, folder: Path, keep: Keep = "fp16", states_of: StatesOf | None = None) -> StoreReader:
        """Write a store and open it; the states are computed by `states_of`, by default the method."""
        request = ExtractRequest(task=self.task.name, keep=keep)
        pool: Pool | None = None if self.spans else "mean"
        content = store_content(request, self.encoder, self.windows, split="train", pool=pool)
        lengths = self.windows.lengths if self.spans else np.ones(len(self.windows), dtype=np.int64)
        StoreWriter(folder, content, lengths).write_all(states_of or self.states_of)
        return StoreReader(folder)


def write_original(path: Path, reader: StoreReader, lengths: IntArray) -> None:
    """Write the states of a store in the layout of the original project: one chunk per window, padded."""
    content = reader.manifest.content
    shape = (content.windows, content.layers, PADDED, content.width)
    with h5py.File(path, "w") as file:
        states = file.create_dataset("embeds", shape, dtype="float32", chunks=(1, *shape[1:]))
        for row, length in enumerate(lengths):
            padded = np.zeros(shape[1:], dtype=np.float32)
            padded[:, :length] = reader.batch(np.array([row])).states[0].numpy()
            states[row] = padded


def for_each(batches: Batches, read: Callable[[IntArray], object]) -> Callable[[], None]:
    """A function that reads all batches, one after the other."""

    def run() -> None:
        for rows in batches:
            read(rows)

    return run


def reading(reader: StoreReader, original: Path, batches: Batches, size: str) -> None:
    """Time reading shuffled batches from both layouts: as copied to a GPU, and as heads read them on a CPU."""
    with h5py.File(original) as file:
        states = file["embeds"]
        reused = np.zeros((BATCH, *states.shape[1:]), dtype=np.float32)

        def one_by_one(rows: IntArray) -> Tensor:
            return torch.stack([torch.from_numpy(states[row]) for row in rows])

        # the fastest way for that layout: indexing with all sorted rows at once took 50 times as long
        def into_reused(rows: IntArray) -> Tensor:
            for place, row in enumerate(np.sort(rows)):
                states.read_direct(reused, np.s_[row], np.s_[place])
            return torch.from_numpy(reused[: len(rows)])

        others = {ONE_BY_ONE: one_by_one, REUSED: into_reused}
        candidates = {name: for_each(batches, read) for name, read in others.items()}
        candidates |= {"ours": for_each(batches, reader.kept), "float32": for_each(batches, reader.batch)}
        timings = side_by_side(candidates, rounds=5)
    padded = {"ours": timings.pop("float32"), **{name: timings[name] for name in others}}
    what = "shuffled batches of 16 windows from a float16 store"
    targets = {ONE_BY_ONE: 20.0, REUSED: 5.0}
    save(claim("speed-store-read", f"{what}, as they are kept: what a GPU gets", size, targets), timings)
    save(claim("speed-store-read-float32", f"{what}, padded to the longest, float32", size, {}), padded)


def warm(reader: StoreReader, batches: Batches, size: str) -> None:
    """Time the conversion to padded float32 batches, from the memory-mapped store and from plain memory."""
    memory = [reader.kept(np.array([row]))["states"] for row in range(reader.manifest.content.windows)]
    buffers = Buffers()

    def from_memory(rows: IntArray) -> Tensor:
        windows = [memory[row] for row in rows]
        _, layers, width = windows[0].shape
        states = buffers.take((len(windows), layers, max(map(len, windows)), width))
        for place, window in zip(states.transpose(1, 2), windows, strict=True):
            place[: len(window)] = window
            place[len(window) :] = 0.0
        return states

    if not all(torch.equal(from_memory(rows), reader.batch(rows).states) for rows in batches[:2]):
        raise AssertionError("the batches are not the same")
    timings = side_by_side({"ours": for_each(batches, reader.batch), MEMORY: for_each(batches, from_memory)}, rounds=7)
    what = "a warm float16 store into padded float32 batches"
    save(claim("speed-store-warm", what, size, {MEMORY: 0.7}), timings)


def epoch(work: Work, states: Callable[[], States], head: str) -> None:
    """Train a head for one epoch."""
    source = states()
    data = FitData(
        task=work.task,
        targets=work.windows.targets,
        states=source,
        pool="mean",
        device=CPU,
        batch=32,
        ahead=isinstance(source, StoreStates),
    )
    trainee = Trainee(HeadSpec(head=head), work.shape, device=CPU)
    plan = Plan(work.windows.lengths, TuneOptions(batch=data.batch))
    with tempfile.TemporaryDirectory() as run:
        fit_trainees([trainee], data, plan, run=Path(run), fractions=(), watcher=SilentWatcher())


def epochs(work: Work, reader: StoreReader, head: str, *, name: str, target: float) -> None:
    """Time an epoch of a head from a store, loading rows included, against one that runs the encoder."""
    rows = np.arange(len(work.windows))
    layers = layers_read([blank_head(head, work.shape, {})])  # a fit reads no others

    def stored() -> States:
        if work.spans:
            return StoreStates(reader, rows, work.windows, layers=layers, options=PASS, device=CPU)
        return rows_in_memory(reader, rows, layers, CPU)

    timings = side_by_side(
        {"ours": partial(epoch, work, stored, head), RECOMPUTING: partial(epoch, work, work.stream, head)}, rounds=3
    )
    what = f"an epoch of a {name} head ({head}, trained) from a float16 store"
    save(claim(f"speed-store-epoch-{name}", what, work.size, {RECOMPUTING: target}), timings)


def claim(name: str, what: str, size: str, targets: Mapping[str, float]) -> Claim:
    """A claim of this benchmark."""
    return Claim(name=name, what=what, command="python bench/bench_store.py", size=size, targets=targets)


def main() -> None:
    """Measure, and write the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=256)
    parser.add_argument("--texts", type=int, default=1024)
    options = parser.parse_args()
    encoder, tokenizer = load_encoder("minilm"), TextTokenizer.load()
    spans, labels = TASKS["squad2"], TASKS["sst2"]
    long = Work(spans, build_windows(spans, spread(options.questions), tokenizer), encoder)
    short = Work(labels, build_windows(labels, texts("sst2", options.texts), tokenizer), encoder)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        half = long.store(folder / "fp16")
        # the same states, without another pass of the encoder
        small = long.store(folder / "int8", "int8", lambda rows: half.packed(rows, device=CPU).transpose(0, 1))
        rows = short.store(folder / "rows")
        original = folder / "original.h5"
        write_original(original, half, long.windows.lengths)
        for name, reader, target in (("16-bit", half, 4.0), ("int8", small, 8.0)):
            sizes = {"ours": reader.manifest.bytes, LAYOUT: original.stat().st_size}
            save_sizes(claim(f"size-store-{name}", f"a store of {name} states", long.size, {LAYOUT: target}), sizes)
        batches = length_batches(long.windows.lengths, BATCH, seed=0)  # shuffled, as a fit reads them
        reading(half, original, batches, long.size)
        warm(half, batches, long.size)
        epochs(long, half, "layer_mix", name="span", target=15.0)
        epochs(short, rows, "last_layer", name="classification", target=50.0)


if __name__ == "__main__":
    main()
