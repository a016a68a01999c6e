"""One window at a time on a CPU: the plain transformers model, and a pack with PyTorch and with ONNX Runtime.

python bench/bench_answer.py --pack DIR                                   # a question-answering pack
python bench/bench_answer.py --pack DIR --data dev.json.gz --questions 500 --threads 2
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bertvision.bench.measure import side_by_side
from bertvision.bench.record import Claim
from bertvision.encoder.batch import padded_batch
from bertvision.errors import BertVisionError
from bertvision.evaluation.decode import decode_spans
from bertvision.evaluation.outputs import SpanScores, split_scores
from bertvision.packs.export import compared_rows, export_pack
from bertvision.packs.exported import Numbers
from bertvision.packs.models import PackModels
from bertvision.packs.onnx_reader import OnnxReader
from bertvision.packs.pack import Pack
from bertvision.packs.predict import ask_rows
from bertvision.packs.reader import Ask, Reader
from bertvision.tasks.examples import Questions
from bertvision.tasks.windows import Windows
from data import save

TOKENS = 175
"""The windows nearest to this length are timed."""

PLAIN, TORCH, INT8 = "plain transformers, eager float32", "ours, PyTorch", "ours, ONNX Runtime int8"
TIMED = 8
"""Windows in a round, one after the other."""

Scorer = Callable[[Windows], SpanScores]


def plain_scorer(models: PackModels) -> Scorer:
    """The weights of a pack in the transformers model alone: all layers, eager attention, float32, one batch."""
    model: Any = models.encoder.model
    model.set_attn_implementation("eager")
    (head,) = models.heads[0]

    def score(windows: Windows) -> SpanScores:
        batch = padded_batch(windows, np.arange(len(windows)), pad=models.passes.pad)
        inputs = {"input_ids": batch.ids, "token_type_ids": batch.types, "attention_mask": batch.mask.long()}
        with torch.inference_mode():
            states = torch.stack(model(**inputs, output_hidden_states=True).hidden_states, dim=1)
            outputs = head(states[:, head.reads[0] : head.reads[-1] + 1], batch.mask)
        return split_scores(outputs[batch.mask].numpy())

    return score


def reader_scorer(reader: Reader) -> Scorer:
    """A pack, whatever computes it."""

    def score(windows: Windows) -> SpanScores:
        (scores,) = reader.read([Ask(0, (windows,))])
        if not isinstance(scores, SpanScores):
            raise TypeError("a question-answering pack is expected")
        return scores

    return score


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
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    try:
        pack = Pack.from_pretrained(given.pack)
    except BertVisionError as error:
        print(error)  # a checkout without the shipped pack runs the other benchmarks all the same
        return
    rows = compared_rows(pack.card, given.data, given.questions)
    models = PackModels([pack], device="cpu")
    scorers = {PLAIN: plain_scorer(PackModels([pack], device="cpu")), TORCH: reader_scorer(models)}
    kinds: dict[str, Numbers] = {"ours": "float32", INT8: "int8"}
    with tempfile.TemporaryDirectory() as place:
        for name, numbers in kinds.items():
            made = export_pack(pack, Path(place) / numbers, numbers=numbers, examples=20)
            export = made.export
            scorers[name] = reader_scorer(
                OnnxReader(made.folder, made.card, pad=export.pad, limit=export.limit, threads=given.threads)
            )
    asked = []
    for row in rows:
        ask, questions = ask_rows(models, [row])
        if questions is not None:
            asked.append((ask.windows[0], questions))
    answers = {name: said(score, asked) for name, score in scorers.items()}
    agreement = {
        name: round(float(np.mean([a == b for a, b in zip(mine, answers[PLAIN], strict=True)])), 4)
        for name, mine in answers.items()
    }
    print(json.dumps({"same answers as the plain model": agreement, "questions": len(asked)}))
    single = [windows for windows, _ in asked if len(windows) == 1]
    single.sort(key=lambda windows: abs(len(windows.ids) - TOKENS))
    timed = single[:TIMED]
    runs = {name: lambda score=score: [score(windows) for windows in timed] for name, score in scorers.items()}
    timings = side_by_side(runs, rounds=given.rounds)
    lengths = sorted(len(windows.ids) for windows in timed)
    size = f"{len(timed)} windows of {lengths[0]} to {lengths[-1]} tokens one by one, {given.threads} threads"
    milliseconds = {name: round(1e3 * timing.median / len(timed), 1) for name, timing in timings.items()}
    print(json.dumps({"milliseconds per window": milliseconds, "size": size}))
    what = "answering, one window at a time, ONNX Runtime float32"
    command = "python bench/bench_answer.py --pack DIR"
    save(Claim(name="speed-answer-cpu", what=what, command=command, size=size, targets={PLAIN: 2.2}), timings)


if __name__ == "__main__":
    main()
