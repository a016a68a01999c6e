"""tune_triplets: train an encoder on triplets of several tasks, so that texts that belong together are near."""

import hashlib
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
from bertvision.runs.parts import examples_digest, load_tasks, training_split
from bertvision.runs.tuned_split import seen_notice
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
"""Largest number of anchors per set for which distances are measured: enough for two digits."""

PartTriplets = Mapping[str, tuple[Triplets, Windows]]
"""Triplets with the windows of their texts, by part (`held_out`, `dev`)."""

PartDistances = dict[str, dict[str, Distances]]
"""Distances by part (`held_out`, `dev`) and set."""


def tune_triplets(
    request: TripletRequest, out: str | Path, *, resume: bool = False, show: Show | None = None
) -> TuneResult:
    """Train an encoder on triplets of several tasks.

    The run can be the encoder of other runs. Its `distances.json` has the distances of anchors to their positives and
    negatives before and after training.

    Args:
        request: the settings of the run.
        out: folder of the run.
        resume: continue a run that is in the folder; a finished one returns its result again.
        show: shows progress.

    Raises:
        BertVisionError: the request cannot work, or the run cannot continue; snapshots are kept.
    """
    started = begin_run(request, out, resume=resume)
    if started.finished is not None:
        return started.finished
    loaded = load_tasks(request.tasks, request)
    miner = _Miner(loaded, TextTokenizer.load(base_encoder(request.encoder)), request.windows)
    splits = {name: request.split(training_split(data)) for name, data in loaded.items()}
    seed = request.options.seed
    triplets, windows = miner.mine({name: examples for name, (examples, _) in splits.items()}, seed, request.caps)
    parts = {
        "held_out": {name: examples for name, (_, examples) in splits.items() if examples is not None},
        "dev": {name: data.splits["dev"] for name, data in loaded.items() if "dev" in data.splits},
    }
    part_triplets, notices = miner.mine_parts(parts, seed)

    prepared = prepare_encoder(request, started.accelerator)
    pool = request.pool or usual_pool(request.encoder)
    model = SentenceModel(prepared.encoder, pool).to(started.accelerator.device)
    passes = prepared.passes
    triplet_data = TripletData(
        triplets=triplets,
        windows=windows,
        loss=request.loss,
        margin=request.margin,
        packed=passes.packed,
        pad=passes.pad,
        bf16=passes.bf16,
    )
    card = Card(
        run=started.folder.path,
        request=request,
        fingerprint=prepared.fingerprint,
        pool=pool,
        examples=_digest(triplets, windows),
    )
    keeper = _TripletKeeper(card, model, part_triplets, passes, triplets)
    # the encoder before training, also in a resumed run, whose checkpoint is loaded later
    on_main(started.accelerator, lambda: keeper.before.update(keeper.measure()))
    notices = [notice for data in loaded.values() for notice in data.notices] + notices + [*seen_notice(request)]
    notices += [
        f"{name}: {count:,} left out ({reason})."
        for name, reasons in triplets.left_out.items()
        for reason, count in reasons.items()
        if count
    ]
    return run_tuning(started, model, triplet_data, keeper, notices=tuple(notices), show=show)


def _digest(triplets: Triplets, windows: Windows) -> str:
    """A hash of training triplets and their texts: a resumed run refuses data that have changed."""
    digest = hashlib.sha256(examples_digest([windows]).encode())
    for numbers in (triplets.anchor, triplets.positive, triplets.negatives):
        digest.update(np.ascontiguousarray(numbers).tobytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class _Miner:
    """Mines triplets, and tokenizes their texts."""

    loaded: Mapping[str, TaskData]
    tokenizer: TextTokenizer
    options: WindowOptions

    def mine(self, sets: Mapping[str, Examples], seed: int, caps: Mapping[str, int]) -> tuple[Triplets, Windows]:
        """Triplets, and the windows of their texts, in the order of `Triplets.texts`.

        Args:
            sets: examples by the name of their task.
            seed: seed of the negatives, and of the choice where there is a cap.
            caps: largest number of triplets of a set; all where none is given.
        """
        mined = mine_triplets({name: (self.loaded[name].task, examples) for name, examples in sets.items()}, seed=seed)
        order = np.random.default_rng(seed).permutation(len(mined))
        rows = [order[mined.set_of[order] == n][: caps.get(name)] for n, name in enumerate(mined.names)]
        mined = mined.select(np.sort(np.concatenate(rows))).compact()
        count = len(mined.texts)
        texts = Texts(ids=[""] * count, texts=mined.texts, pairs=None, targets=np.zeros(count))
        task = next(iter(self.loaded.values())).task
        return mined, build_windows(task, texts, self.tokenizer, self.options)

    def mine_parts(self, parts: Mapping[str, Mapping[str, Examples]], seed: int) -> tuple[PartTriplets, list[str]]:
        """Triplets for measuring distances, of each part with enough texts, and a notice for each without."""
        mined, notices = {}, []
        for part, sets in parts.items():
            if sets:
                try:
                    mined[part] = self.mine(sets, seed, dict.fromkeys(sets, MEASURED))
                except BertVisionError as error:  # training works without them
                    notices.append(f"no distances on {part}: {error}")
        return mined, notices


@dataclass(frozen=True, slots=True)
class _TripletKeeper:
    """Saves an encoder without a head, and scores it by distances.

    Attributes:
        card: what all snapshots have in common.
        model: the model in training.
        parts: triplets whose distances are measured.
        passes: options of the forward passes.
        trained_on: the training triplets.
        before: distances before training.
    """

    card: Card
    model: SentenceModel
    parts: PartTriplets
    passes: PassOptions
    trained_on: Triplets
    before: PartDistances = field(default_factory=dict)

    def save(self, snapshot: Snapshot) -> None:
        save_snapshot(snapshot, changed_weights(self.model.encoder), lambda _folder: None)

    def measure(self) -> PartDistances:
        """The distances now, of every part and set."""
        return {
            part: measure_distances(triplets, _vectors(self.model, windows, self.passes))
            for part, (triplets, windows) in self.parts.items()
        }

    def score(self) -> tuple[dict[str, float], float | None]:
        after = self.measure()
        counts = np.bincount(self.trained_on.set_of, minlength=len(self.trained_on.names)).tolist()
        content = {
            "format": FORMAT,
            "triplets": dict(zip(self.trained_on.names, counts, strict=True)),
            "left_out": self.trained_on.left_out,
            "before": _as_json(self.before),
            "after": _as_json(after),
        }
        write_json(self.card.run / DISTANCES, content)
        values = {
            f"{name}.{HELD_OUT_PREFIX if part == 'held_out' else ''}{metric}": value
            for part, sets in after.items()
            for name, distances in sets.items()
            for metric, value in distances.values().items()
        }
        held_out = [distances.in_order for distances in after.get("held_out", {}).values()]
        return values, float(np.mean(held_out)) if held_out else None

    def main_values(self, values: Mapping[str, float]) -> dict[str, float]:
        on_dev = {name: value for name, value in values.items() if name.endswith(".in_order")}
        return on_dev or {name: value for name, value in values.items() if name.endswith("in_order")}


def _as_json(measured: PartDistances) -> dict[str, dict[str, dict[str, object]]]:
    return {part: {name: asdict(distances) for name, distances in sets.items()} for part, sets in measured.items()}


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
