"""triplets: several tasks and an encoder → a run whose encoder has learned which texts are near each other."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from bertvision.atomic import write_json
from bertvision.encoder.batch import token_batch
from bertvision.encoder.delta import changed_weights
from bertvision.encoder.load import usual_pool
from bertvision.encoder.snapshot import Snapshot, save_snapshot
from bertvision.encoder.tuned import base_encoder
from bertvision.errors import BertVisionError
from bertvision.evaluation.held_out import HELD_OUT_PREFIX
from bertvision.inference.outputs import PassOptions, frozen_batches
from bertvision.runs.parts import load_tasks, training_split
from bertvision.runs.tuning.distances import Distances, measure_distances
from bertvision.runs.tuning.triplet_request import TripletRequest
from bertvision.runs.tuning.tuning import TuneResult, begin_run, prepare_encoder, run_tuning
from bertvision.runs.watch import Card, Show
from bertvision.tasks.examples import Examples, Texts
from bertvision.tasks.load import TaskData
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.triplets import Triplets, mine_triplets
from bertvision.tasks.windows import WindowOptions, Windows, build_windows
from bertvision.training.processes import on_main
from bertvision.training.triplets import SentenceModel, TripletData

DISTANCES = "distances.json"
FORMAT = 1

MEASURED = 1000
"""Most anchors of a set that distances are measured for: enough for two digits."""

Judged = Mapping[str, tuple[Triplets, Windows]]
"""Triplets with the windows of their texts, by part."""

Measured = dict[str, dict[str, Distances]]
"""Distances by part (`held_out`, `dev`) and set."""


def tune_triplets(
    request: TripletRequest, out: str | Path, *, resume: bool = False, show: Show | None = None
) -> TuneResult:
    """Teach an encoder triplets of several tasks; a killed run goes on with `resume`.

    The run is an encoder for other runs. `distances.json` has what anchors are away from their positives and negatives
    before and after.

    Raises:
        BertVisionError: something in the request does not fit, or the run cannot go on; snapshots are kept.
    """
    started = begin_run(request, out, resume=resume)
    if started.finished is not None:
        return started.finished
    loaded = load_tasks(request.tasks, request)
    cut = _Cut(loaded, TextTokenizer.load(base_encoder(request.encoder)), request.windows)
    splits = {name: request.split(training_split(data)) for name, data in loaded.items()}
    seed = request.options.seed
    learnt = cut.mine({name: examples for name, (examples, _) in splits.items()}, seed, request.caps)
    parts = {
        "held_out": {name: examples for name, (_, examples) in splits.items() if examples is not None},
        "dev": {name: data.splits["dev"] for name, data in loaded.items() if "dev" in data.splits},
    }
    judged, notices = cut.judged(parts, seed)

    prepared = prepare_encoder(request, started.accelerator)
    pool = request.pool or usual_pool(request.encoder)
    model = SentenceModel(prepared.encoder, pool).to(started.accelerator.device)
    passes = prepared.passes
    triplet_data = TripletData(
        triplets=learnt[0],
        windows=learnt[1],
        loss=request.loss,
        margin=request.margin,
        packed=passes.packed,
        pad=passes.pad,
        bf16=passes.bf16,
    )
    card = Card(run=started.folder.path, request=request, fingerprint=prepared.fingerprint, pool=pool)
    keeper = _TripletKeeper(card, model, judged, passes, learnt[0])
    on_main(started.accelerator, lambda: keeper.before.update(keeper.measure()))  # a resumed run is not yet loaded here
    notices = [notice for data in loaded.values() for notice in data.notices] + notices
    notices += [
        f"{name}: {count:,} left out ({reason})."
        for name, reasons in learnt[0].left_out.items()
        for reason, count in reasons.items()
        if count
    ]
    return run_tuning(started, model, triplet_data, keeper, notices=tuple(notices), show=show)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Mines triplets, and cuts their texts into windows."""

    loaded: Mapping[str, TaskData]
    tokenizer: TextTokenizer
    options: WindowOptions

    def mine(self, sets: Mapping[str, Examples], seed: int, caps: Mapping[str, int]) -> tuple[Triplets, Windows]:
        """Triplets, at most so many of each set, and the windows of all texts."""
        mined = mine_triplets({name: (self.loaded[name].task, one) for name, one in sets.items()}, seed=seed)
        order = np.random.default_rng(seed).permutation(len(mined))
        rows = [order[mined.set_of[order] == n][: caps.get(name)] for n, name in enumerate(mined.names)]
        mined = mined.select(np.sort(np.concatenate(rows))).compact()
        count = len(mined.texts)
        texts = Texts(ids=[""] * count, texts=mined.texts, pairs=None, targets=np.zeros(count))
        task = next(iter(self.loaded.values())).task
        return mined, build_windows(task, texts, self.tokenizer, self.options)

    def judged(self, parts: Mapping[str, Mapping[str, Examples]], seed: int) -> tuple[Judged, list[str]]:
        """Triplets to measure, of each part that has enough texts, and notices about those that do not."""
        judged, notices = {}, []
        for part, sets in parts.items():
            if sets:
                try:
                    judged[part] = self.mine(sets, seed, dict.fromkeys(sets, MEASURED))
                except BertVisionError as error:  # learning does not depend on it
                    notices.append(f"no distances on {part}: {error}")
        return judged, notices


@dataclass(frozen=True, slots=True)
class _TripletKeeper:
    """Keeps an encoder without any head, and measures distances."""

    card: Card
    model: SentenceModel
    judged: Judged
    passes: PassOptions
    learnt: Triplets
    before: Measured = field(default_factory=dict)

    def save(self, snapshot: Snapshot) -> None:
        save_snapshot(snapshot, changed_weights(self.model.encoder), lambda _folder: None)

    def measure(self) -> Measured:
        """Distances of every part and set."""
        return {
            part: measure_distances(triplets, _vectors(self.model, windows, self.passes))
            for part, (triplets, windows) in self.judged.items()
        }

    def score(self) -> tuple[dict[str, float], float | None]:
        after = self.measure()
        counts = np.bincount(self.learnt.set_of, minlength=len(self.learnt.names)).tolist()
        content = {
            "format": FORMAT,
            "triplets": dict(zip(self.learnt.names, counts, strict=True)),
            "left_out": self.learnt.left_out,
            "before": _as_json(self.before),
            "after": _as_json(after),
        }
        write_json(self.card.run / DISTANCES, content)
        values = {
            f"{name}.{HELD_OUT_PREFIX if part == 'held_out' else ''}{what}": value
            for part, sets in after.items()
            for name, measured in sets.items()
            for what, value in measured.values().items()
        }
        held_out = [measured.in_order for measured in after.get("held_out", {}).values()]
        return values, float(np.mean(held_out)) if held_out else None

    def main_values(self, values: Mapping[str, float]) -> dict[str, float]:
        on_dev = {name: value for name, value in values.items() if name.endswith(".in_order")}
        return on_dev or {name: value for name, value in values.items() if name.endswith("in_order")}


def _as_json(measured: Measured) -> dict[str, dict[str, dict[str, object]]]:
    return {part: {name: asdict(one) for name, one in sets.items()} for part, sets in measured.items()}


@torch.inference_mode()
def _vectors(model: SentenceModel, windows: Windows, passes: PassOptions) -> NDArray[np.float32]:
    """The vectors of all windows, (windows, width)."""
    device = model.encoder.device
    was_training = model.training
    model.eval()
    vectors = np.empty((len(windows), model.encoder.width), dtype=np.float32)
    for rows in frozen_batches(windows.sizes, device):
        batch = token_batch(windows, rows, packed=passes.packed, pad=passes.pad).to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=passes.bf16):
            vectors[rows] = model(batch).float().cpu().numpy()
    model.train(was_training)
    return vectors
