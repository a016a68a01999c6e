"""Latency on a CPU of one window at a time, by the plain transformers model and by a pack in every runtime.

python bench/bench_answer.py             # the shipped pack, and SQuAD's questions where BERTVISION_DATA has them
python bench/bench_answer.py --pack DIR --data dev.json.gz --questions 500 --threads 2
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, final, get_args

import numpy as np
import torch
from typing_extensions import override

from bertvision.bench.measure import compare, side_by_side
from bertvision.bench.record import Claim
from bertvision.encoder.batch import padded_batch
from bertvision.errors import BertVisionError
from bertvision.evaluation.outputs import Outputs, SpanScores, split_scores
from bertvision.packs.agreement import compare_examples, read_examples
from bertvision.packs.export import compared_rows, export_pack
from bertvision.packs.exported import ENOUGH, ExportCard, ExportedPack, Numbers
from bertvision.packs.graph_reader import GraphReader
from bertvision.packs.models import PackModels
from bertvision.packs.pack import Pack
from bertvision.packs.predict import pack_query
from bertvision.packs.reader import PackQuery, Reader
from bertvision.packs.runtimes import ROUNDING, GraphRuntime, choose_runtime, usable_runtimes
from bertvision.packs.stream import Row
from bertvision.tasks.windows import Windows
from data import data_folder, save, save_times

TOKENS = 175
"""Length in tokens of one set of timed windows; the other is spread over all lengths."""

PLAIN, PADDED = "plain transformers, eager float32", "plain transformers, eager float32, padded to 384 tokens"
TORCH = "ours, PyTorch"
BF16: GraphRuntime = "openvino-bf16"
LONG = 384
TIMED = 8
"""Windows of each set in a round, one after the other."""

STARTS = 5
MOST_SECONDS = 3.0
"""Target for the wall-clock time of the command `bertvision answer`."""


@final
class PlainReader(Reader):
    """The weights of a pack in the transformers model alone: all layers, eager attention, float32, batches of one."""

    def __init__(self, pack: Pack, length: int = 0) -> None:
        """Load the model.

        Args:
            pack: the pack with its weights.
            length: pad windows to at least so many tokens; 0 for no padding.
        """
        self._models = PackModels([pack], device="cpu")
        super().__init__(self._models.cards, self._models.tokenizer)
        model: Any = self._models.encoder.model
        model.set_attn_implementation("eager")
        self._model = model
        self._length = length

    @override
    def read_heads(self, queries: Sequence[PackQuery]) -> list[list[Outputs]]:
        return [[self._read(query.windows[0])] for query in queries]

    def _read(self, windows: Windows) -> SpanScores:
        (head,) = self._models.heads[0]
        rows = []
        for window in range(len(windows)):
            batch = padded_batch(windows, np.array([window]), pad=self._models.passes.pad)
            more = (0, max(0, self._length - batch.ids.shape[1]))
            ids, types, mask = (torch.nn.functional.pad(one, more) for one in (batch.ids, batch.types, batch.mask))
            inputs = {"input_ids": ids, "token_type_ids": types, "attention_mask": mask.long()}
            with torch.inference_mode():
                states = torch.stack(self._model(**inputs, output_hidden_states=True).hidden_states, dim=1)
                outputs = head(states[:, head.reads[0] : head.reads[-1] + 1], mask)
            rows.append(outputs[mask].numpy())
        return split_scores(np.concatenate(rows))


def load_graph_reader(pack: ExportedPack, runtime: GraphRuntime, threads: int) -> Reader:
    """A reader of an exported pack in one of the runtimes."""
    made = pack.export
    return GraphReader(pack.folder, pack.card, pad=made.pad, limit=made.limit, runtime=runtime, threads=threads)


def unrounded_runtime(export: ExportCard) -> GraphRuntime:
    """The runtime that a graph runs in by itself where none may round: 8 bits in ONNX Runtime, as always."""
    if export.numbers == "int8":
        return "onnx"
    milliseconds = {name: time for name, time in export.milliseconds.items() if name not in ROUNDING}
    return choose_runtime(milliseconds, export.agreement, ENOUGH[export.numbers])


def time_starts(pack: ExportedPack, *, keep: bool) -> None:
    """Time the command `bertvision answer` in new processes, and write the record if `keep` is set."""
    text = "Ada wrote it in 1843."
    words = ["answer", "Who wrote it?", "--context", "-", "--pack", str(pack.folder)]
    command = [sys.executable, "-m", "bertvision", *words]
    seconds, busy = [], []
    for _ in range(STARTS):
        before, begin = os.times(), time.perf_counter()
        subprocess.run(command, input=text, text=True, capture_output=True, check=True)  # noqa: S603 - our own command
        seconds.append(round(time.perf_counter() - begin, 2))
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        busy.append(round(used, 2))
    print(f"`answer` from its start, {pack.export.numbers}, {pack.runtime}: {seconds} s, of the processor {busy} s")
    if keep:
        what = f"`bertvision answer` from its start, an exported pack, {pack.export.numbers}, {pack.runtime}"
        save_times(f"time-answer-{pack.export.numbers}", what, seconds, limit=MOST_SECONDS, processor_seconds=busy)


def agreements(readers: Mapping[str, Reader], rows: Sequence[Row]) -> dict[str, float]:
    """The share of predictions equal to the plain model's, by reader, as in an export; one question at a time."""
    outputs = {name: [read_examples(reader, [row]) for row in rows] for name, reader in readers.items()}
    return {
        name: float(
            np.mean([compare_examples(*both).agreement for both in zip(outputs[PLAIN], of_reader, strict=True)])
        )
        for name, of_reader in outputs.items()
    }


def timed_queries(reader: Reader, rows: Sequence[Row]) -> dict[str, list[PackQuery]]:
    """Questions of one window to time, by suffix of the record: of about `TOKENS` tokens, and of all lengths."""
    queries = [query for query, _ in (pack_query(reader, [row]) for row in rows) if len(query.windows[0]) == 1]
    queries.sort(key=lambda query: len(query.windows[0].ids))
    near = sorted(queries, key=lambda query: abs(len(query.windows[0].ids) - TOKENS))
    middles = (np.arange(TIMED) + 0.5) * len(queries) / TIMED  # midpoints of equal parts of the sorted queries
    return {"": near[:TIMED], "-lengths": [queries[int(middle)] for middle in middles]}


def read_all(reader: Reader, queries: Sequence[PackQuery]) -> None:
    """Answer questions one after the other."""
    for query in queries:
        reader.read([query])


def main() -> None:
    """Export the pack in each precision, compare predictions, and time all readers side by side."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=Path, default=None)
    parser.add_argument("--data", default=None)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--compared", type=int, default=200, help="examples by which a runtime is chosen")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--trial", action="store_true", help="keep no record")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    try:
        pack = Pack.from_pretrained(given.pack)
    except BertVisionError as error:
        print(error)  # a checkout without the shipped pack runs the other benchmarks all the same
        return
    found = data_folder("squad2") / "dev.json.gz"
    rows = compared_rows(pack.card, given.data or (found if found.is_file() else None), given.questions)
    readers: dict[str, Reader] = {
        PLAIN: PlainReader(pack),
        PADDED: PlainReader(pack, LONG),
        TORCH: PackModels([pack], device="cpu"),
    }
    ours: dict[str, str] = {}  # by the number format that a record is about
    with tempfile.TemporaryDirectory() as place:
        for numbers in get_args(Numbers):
            made = export_pack(pack, Path(place) / numbers, numbers=numbers, examples=given.compared)
            for runtime in usable_runtimes():
                readers[f"ours, {runtime} {numbers}"] = load_graph_reader(made, runtime, given.threads)
            ours[numbers] = f"ours, {unrounded_runtime(made.export)} {numbers}"
            time_starts(made, keep=not given.trial)
            print(json.dumps({"by itself": made.runtime, **made.export.as_json()}))
    if BF16 in usable_runtimes():
        ours["bf16"] = f"ours, {BF16} float32"
    agreement = agreements({name: reader for name, reader in readers.items() if name != PADDED}, rows)
    print(json.dumps({"same predictions as the plain model": agreement, "questions": len(rows)}))
    for kind, queries in timed_queries(readers[TORCH], rows).items():
        runs = {name: partial(read_all, reader, queries) for name, reader in readers.items()}
        lengths = sorted(len(query.windows[0].ids) for query in queries)
        size = f"{len(queries)} windows of {lengths[0]} to {lengths[-1]} tokens one by one, {given.threads} threads"
        timings = side_by_side(runs, rounds=given.rounds)
        print(size)
        for name, timing in timings.items():
            times = compare(timing, timings[PLAIN])
            print(
                f"{name}: {1e3 * timing.median / len(queries):.1f} ms, "
                f"{times.ratio:.2f} times ({times.least:.2f} to {times.most:.2f}) as fast as the plain model"
            )
        if given.trial:
            continue
        for numbers, name in ours.items():
            share = f"{agreement[name]:.1%} of {len(rows)} answered alike"
            if agreement[name] < ENOUGH["int8" if numbers == "int8" else "float32"]:
                print(f"{name}: {share}, which is too little for a record")
                continue
            claim = Claim(
                name=f"speed-answer-{numbers}{kind}-cpu",
                what=f"answering, one window at a time, {numbers}, {name.split()[1]}: {share}",
                command=" ".join(["python", "bench/bench_answer.py", *sys.argv[1:]]),
                size=size,
                targets={PLAIN: 2.2} if numbers == "bf16" else {},
            )
            save(claim, {"ours": timings[name], **{baseline: timings[baseline] for baseline in (PLAIN, PADDED, TORCH)}})


if __name__ == "__main__":
    main()
