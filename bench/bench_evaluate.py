"""`bertvision evaluate` of twenty heads against one head: data, encoder, decoding, scores, intervals and files.

python bench/bench_evaluate.py               # MiniLM on the CPU, some questions
python bench/bench_evaluate.py --gpu --encoder DIR   # a whole dev set on a GPU
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from bench_fit import LIGHT
from bertvision.atomic import write_json
from bertvision.bench.measure import side_by_side
from bertvision.bench.record import Claim
from bertvision.device import Device
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import fingerprint, load_encoder
from bertvision.heads import HeadShape, build_head, count_parameters, save_head
from bertvision.runs.fitting.fit import LEADERBOARD
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.folder import RunFolder
from bertvision.runs.judging.evaluate import evaluate
from bertvision.tasks.examples import Questions
from bertvision.training.trainee import HeadSpec
from data import save, spread

SMALL = [
    *("last_layer", "layer_mix", "layer_mix_sparse", "layer_mean", "layer_weights", "layer_concat", "dot_attention"),
    *("adapter_pool_64", "adapter_pool_64_skip", "adapter_pool_64_own", "adapter_pool_64_own_skip"),
    *("pooled_adapter", "mean_adapter"),
]
"""Pooling, attention and adapter heads that are cheap compared with even a small encoder."""

HEADS = 20
ONE = "evaluating one head"
MOST = 1.5
"""Target for the time of twenty heads over that of one."""


def write_questions(examples: Questions, path: Path) -> None:
    """Write questions to a file in SQuAD's format, each with its context."""
    paragraphs = [
        {
            "context": examples.contexts[context],
            "qas": [
                {
                    "id": key,
                    "question": question,
                    "is_impossible": not answers,
                    "answers": [{"text": answer.text, "answer_start": answer.start} for answer in answers],
                }
            ],
        }
        for key, question, context, answers in zip(
            examples.ids, examples.questions, examples.context_index.tolist(), examples.answers, strict=True
        )
    ]
    articles = [{"title": str(number), "paragraphs": [one]} for number, one in enumerate(paragraphs)]
    path.write_text(json.dumps({"data": articles}), encoding="utf-8")


def make_run(request: FitRequest, encoder: Encoder, folder: Path) -> Path:
    """A finished fit of untrained heads, which take as long to evaluate as trained ones."""
    run = RunFolder(folder)
    run.begin(asdict(request), fingerprint(encoder))
    shape, rows = HeadShape(layers=encoder.depth + 1, width=encoder.width, outputs=2), []
    for number, spec in enumerate(request.heads):
        place = folder / "heads" / f"{number:03}-{spec.head}"
        place.mkdir(parents=True)
        head = build_head(spec.head, shape)
        save_head(head, place)
        rows.append(
            {
                "head": spec.head,
                "options": head.options,
                "seed": spec.seed,
                "parameters": count_parameters(head),
                "depth": head.depth,
                "folder": str(place.relative_to(folder)),
            }
        )
    write_json(folder / LEADERBOARD, rows)
    run.finish({"heads": len(rows)})
    return folder


def evaluation(run: Path, device: Device) -> Callable[[], object]:
    """A function that evaluates a run anew, without the outputs of an earlier evaluation."""

    def again() -> object:
        shutil.rmtree(run / "evaluation", ignore_errors=True)
        return evaluate(run, device=device)

    return again


def specs(names: Sequence[str]) -> tuple[HeadSpec, ...]:
    """Specs of heads with default options, from their names."""
    return tuple(HeadSpec(head=name) for name in names)


def main() -> None:
    """Measure, and write the records."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--questions", type=int, default=None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="leave out the run of large heads, which promises nothing")
    options = parser.parse_args()
    count = options.questions or (2353 if options.gpu else 128)
    device: Device = "cuda" if options.gpu else "cpu"
    with tempfile.TemporaryDirectory() as place:
        folder, examples = Path(place), spread(2 * count)
        rows = list(range(len(examples)))
        for split, part in (("train", rows[1::2]), ("dev", rows[::2])):
            write_questions(examples.select(np.array(part)), folder / f"{split}.json")
        request = FitRequest(task="squad2", data=place, encoder=options.encoder, heads=specs(["layer_mix"]))
        request = replace(request, held_out=0.5, device=device)
        encoder = load_encoder(options.encoder)
        small = replace(request, heads=specs([SMALL[number % len(SMALL)] for number in range(HEADS)]))
        requests = {"small": small, ONE: request}
        if not options.small:
            requests["large"] = replace(request, heads=specs(LIGHT[:HEADS]))
        runs = {
            name: evaluation(make_run(one, encoder, folder / str(number)), device)
            for number, (name, one) in enumerate(requests.items())
        }
        timings = side_by_side(runs, rounds=options.rounds)
    where = "gpu" if options.gpu else "cpu"
    claim = Claim(
        name=f"speed-evaluate-{where}",
        what=f"evaluating {HEADS} heads (pooling, dot attention, adapters of 64): one pass, answers, intervals, files",
        command=" ".join(["python", "bench/bench_evaluate.py", *sys.argv[1:]]),
        size=f"{count:,} questions and {count // 2:,} held out, {options.encoder}, {device}",
        targets={ONE: round(1 / MOST, 2)},
    )
    save(claim, {"ours": timings["small"], ONE: timings[ONE]})
    if options.small:
        return
    # these heads take more than half as long as a small encoder's pass, so their record has no target
    what = f"evaluating {HEADS} heads, adapters of 386, full attention over layers and more among them"
    claim = replace(claim, name=f"speed-evaluate-large-heads-{where}", what=what, targets={})
    save(claim, {"ours": timings["large"], ONE: timings[ONE]})


if __name__ == "__main__":
    main()
