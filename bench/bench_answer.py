"""One window at a time on a CPU: the plain transformers model, and a pack in every runtime; and how quickly it starts.

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
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from bertvision.bench.measure import compare, side_by_side
from bertvision.bench.record import Claim
from bertvision.encoder.batch import padded_batch
from bertvision.errors import BertVisionError
from bertvision.evaluation.decode import decode_spans
from bertvision.evaluation.outputs import SpanScores, split_scores
from bertvision.packs.export import compared_rows, export_pack
from bertvision.packs.exported import ENOUGH, ExportedPack, Numbers
from bertvision.packs.graph_reader import GraphReader
from bertvision.packs.models import PackModels
from bertvision.packs.pack import Pack
from bertvision.packs.predict import ask_rows
from bertvision.packs.reader import Ask, Reader
from bertvision.packs.runtimes import GraphRuntime, usable_runtimes
from bertvision.tasks.examples import Questions
from bertvision.tasks.windows import Windows
from data import data_folder, save, save_times

TOKENS = 175
"""The windows nearest to this length are timed."""

PLAIN, PADDED = "plain transformers, eager float32", "plain transformers, eager float32, padded to 384 tokens"
TORCH = "ours, PyTorch"
LONG = 384
TIMED = 8
"""Windows in a round, one after the other."""

STARTS = 5
MOST_SECONDS = 3.0
"""That `bertvision answer` may take from its start."""

Scorer = Callable[[Windows], SpanScores]


def plain_scorer(models: PackModels, length: int = 0) -> Scorer:
    """The weights of a pack in the transformers model alone: all layers, eager attention, float32, one batch.

    Args:
        models: with these weights.
        length: tokens that shorter windows are padded to.
    """
    model: Any = models.encoder.model
    model.set_attn_implementation("eager")
    (head,) = models.heads[0]

    def score(windows: Windows) -> SpanScores:
        batch = padded_batch(windows, np.arange(len(windows)), pad=models.passes.pad)
        more = (0, max(0, length - batch.ids.shape[1]))
        ids, types, mask = (torch.nn.functional.pad(one, more) for one in (batch.ids, batch.types, batch.mask))
        inputs = {"input_ids": ids, "token_type_ids": types, "attention_mask": mask.long()}
        with torch.inference_mode():
            states = torch.stack(model(**inputs, output_hidden_states=True).hidden_states, dim=1)
            outputs = head(states[:, head.reads[0] : head.reads[-1] + 1], mask)
        return split_scores(outputs[mask].numpy())

    return score


def reader_scorer(reader: Reader) -> Scorer:
    """A pack, whatever computes it."""

    def score(windows: Windows) -> SpanScores:
        (scores,) = reader.read([Ask(0, (windows,))])
        if not isinstance(scores, SpanScores):
            raise TypeError("a question-answering pack is expected")
        return scores

    return score


def load_graph_reader(pack: ExportedPack, runtime: GraphRuntime, threads: int) -> Reader:
    """An exported pack in one of the runtimes."""
    made = pack.export
    return GraphReader(pack.folder, pack.card, pad=made.pad, limit=made.limit, runtime=runtime, threads=threads)


def time_starts(pack: ExportedPack, *, keep: bool) -> None:
    """Start `bertvision answer` afresh a few times, and keep the record."""
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


def said(score: Scorer, asked: list[tuple[Windows, Questions]]) -> list[str]:
    """The best answer to every question, whether the threshold lets it pass or not."""
    answers: list[str] = []
    for windows, questions in asked:
        scores = score(windows)
        answers += decode_spans(windows, scores.start, scores.end).texts(questions, None).values()
    return answers


def main() -> None:
    """Export the pack twice, ask all of them, and time them side by side."""
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
    models = PackModels([pack], device="cpu")
    scorers = {
        PLAIN: plain_scorer(PackModels([pack], device="cpu")),
        PADDED: plain_scorer(PackModels([pack], device="cpu"), LONG),
        TORCH: reader_scorer(models),
    }
    ours: dict[Numbers, str] = {}
    with tempfile.TemporaryDirectory() as place:
        for numbers in get_args(Numbers):
            made = export_pack(pack, Path(place) / numbers, numbers=numbers, examples=given.compared)
            for runtime in usable_runtimes():
                scorers[f"ours, {runtime} {numbers}"] = reader_scorer(load_graph_reader(made, runtime, given.threads))
            ours[numbers] = f"ours, {made.runtime} {numbers}"
            time_starts(made, keep=not given.trial)
            print(json.dumps({"by itself": ours[numbers], **made.export.as_json()}))
    asked = []
    for row in rows:
        ask, questions = ask_rows(models, [row])
        if questions is not None:
            asked.append((ask.windows[0], questions))
    answers = {name: said(score, asked) for name, score in scorers.items() if name != PADDED}
    agreement = {
        name: float(np.mean([a == b for a, b in zip(mine, answers[PLAIN], strict=True)]))
        for name, mine in answers.items()
    }
    print(json.dumps({"same answers as the plain model": agreement, "questions": len(asked)}))
    single = [windows for windows, _ in asked if len(windows) == 1]
    single.sort(key=lambda windows: abs(len(windows.ids) - TOKENS))
    timed = single[:TIMED]
    runs = {name: lambda score=score: [score(windows) for windows in timed] for name, score in scorers.items()}
    lengths = sorted(len(windows.ids) for windows in timed)
    size = f"{len(timed)} windows of {lengths[0]} to {lengths[-1]} tokens one by one, {given.threads} threads"
    timings = side_by_side(runs, rounds=given.rounds)
    for name, timing in timings.items():
        ratio = compare(timing, timings[PLAIN]).ratio
        print(f"{name}: {1e3 * timing.median / len(timed):.1f} ms, {ratio:.2f} times as fast as the plain model")
    if given.trial:
        return
    for numbers, mine in ours.items():
        share = f"the same answer to {agreement[mine]:.1%} of {len(asked)}"
        if agreement[mine] < ENOUGH[numbers]:
            print(f"{mine}: {share}, which is too little for a record")
            continue
        claim = Claim(
            name=f"speed-answer-{numbers}-cpu",
            what=f"answering, one window at a time, {numbers}, {mine.split()[1]}: {share}",
            command=" ".join(["python", "bench/bench_answer.py", *sys.argv[1:]]),
            size=size,
            targets={PLAIN: 2.2},
        )
        save(claim, {"ours": timings[mine], **{name: timings[name] for name in (PLAIN, PADDED, TORCH)}})


if __name__ == "__main__":
    main()
