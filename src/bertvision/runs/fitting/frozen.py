"""FrozenTask: a task's examples as token windows, a frozen encoder, and sources of the states that heads read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor

from bertvision.amounts import in_layers
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import fingerprint
from bertvision.errors import BertVisionError
from bertvision.heads import HeadShape
from bertvision.inference.computed_states import RowStates, StreamStates, encode_texts
from bertvision.inference.frozen_encoder import frozen_passes, load_frozen
from bertvision.inference.outputs import PassOptions
from bertvision.inference.pair_rows import PARTS
from bertvision.inference.shared_rows import SharedRows
from bertvision.inference.stored_states import StoredSplit, StoreStates, rows_in_memory
from bertvision.objectives import Pool
from bertvision.runs.fitting.extract import ExtractRequest, store_content
from bertvision.runs.fitting.extract_command import extract_command
from bertvision.runs.fitting.fit_request import STORE, FitRequest
from bertvision.runs.fitting.folds import Folds, check_folds, load_folds, refuse_bare_folds
from bertvision.runs.parts import examples_digest
from bertvision.runs.task_parts import TaskParts, split_parts
from bertvision.store.reader import StoreReader
from bertvision.tasks.part import Part
from bertvision.tasks.task import Pairs, Task
from bertvision.tasks.token_rows import TokenRows
from bertvision.training.data import class_weights
from bertvision.training.fit import FitData, States
from bertvision.training.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenTask:
    """Data and encoder of a fit, from which the states of its examples are computed or read.

    Attributes:
        parts: the task's examples, and how they are cut into windows.
        encoder: the frozen encoder.
        passes: options of its forward passes.
        train: training examples.
        held_out: held-out examples, by which heads are validated.
        dev: the split on which results are reported; None if there is none, or it is left alone.
        request: the settings of the fit.
        folds: encoders of a cross-fit, for the training examples; None uses `encoder` for them, too.
        shared: rows that were computed for several tasks together; None computes the rows of this task alone.
        stores: the splits `train` and `dev` of a store, if states come from one; otherwise empty.
    """

    parts: TaskParts
    encoder: Encoder
    passes: PassOptions
    train: Part
    held_out: Part
    dev: Part | None
    request: FitRequest
    folds: Folds | None = None
    shared: SharedRows | None = None
    stores: Mapping[str, StoredSplit] = field(default_factory=dict)

    @property
    def task(self) -> Task:
        """The task."""
        return self.parts.task

    @property
    def pool(self) -> Pool:
        """How tokens are pooled, for labels, tags and scores, unless heads pool them by attention."""
        return self.parts.pool

    @property
    def shape(self) -> HeadShape:
        """Input and output sizes of the heads."""
        return head_shape(self.encoder, self.parts)

    @property
    def in_memory(self) -> bool:
        """Whether heads read one pooled row per text, so that all states fit into memory."""
        return self.request.reads_rows(self.task)

    @property
    def texts(self) -> list[tuple[list[TokenRows], Pairs]]:
        """The windows to encode for each part, and how the two texts of a pair become one row."""
        parts = [part for part in (self.train, self.held_out, self.dev) if part is not None]
        return [(self.parts.texts(part), self.parts.pairs) for part in parts]

    def states(self, part: Part, layers: range) -> States:
        """The source of the states of a part: a store, rows in memory, or a stream if heads read every token.

        Args:
            part: `train`, `held_out` or `dev`.
            layers: neighbouring layers to compute or read.

        Raises:
            BertVisionError: the store holds states of other windows, layers or another encoder.
        """
        if self.request.store is not None:
            return self._stored(part, layers)
        if not self.in_memory and self.folds is not None and part is self.train:
            return self.folds.stream(part.windows, self.passes, layers)
        if not self.in_memory:
            return StreamStates(self.encoder, part.windows, self.passes, layers)
        rows, device = self._rows(part, layers), self.encoder.device
        return RowStates(rows, device, lowest=layers[0], pairs=self.parts.pairs)

    def reading(self, store: Path) -> "FrozenTask":
        """The same task with its states from a store, which is not compared yet; see `check_stores`.

        Raises:
            BertVisionError: the store is not finished.
        """
        parts = {"train": self.parts.part(self.parts.whole["train"])}
        if self.dev is not None:
            parts["dev"] = self.dev
        stores = {
            split: StoredSplit(StoreReader(store / split), part.examples, part.windows) for split, part in parts.items()
        }
        return replace(self, request=replace(self.request, source=f"{STORE}{store}"), stores=stores)

    @property
    def class_weights(self) -> Tensor | None:
        """Balanced class weights, (classes,); None if the request has none.

        Raises:
            BertVisionError: the request has some, but the task has no classes.
        """
        return class_weights(self.task, self.train.windows.targets) if self.request.class_weights else None

    def plan(self) -> Plan:
        """The batches of training; if encoders of a cross-fit run for every batch, each batch is of one fold."""
        groups = self.folds.numbers if self.folds is not None and not self.in_memory else None
        return Plan(self.train.windows.lengths, self.request.plan(), groups=groups)

    def fit_data(self, states: States) -> FitData:
        """The training data of the heads, with these states of the training examples."""
        return FitData(
            task=self.task,
            targets=self.train.windows.targets,
            states=states,
            pool=self.pool,
            device=self.encoder.device,
            batch=self.request.batch,
            bf16=self.passes.bf16,
            class_weights=None if self.class_weights is None else self.class_weights.to(self.encoder.device),
            ahead=isinstance(states, StoreStates),
        )

    @property
    def examples_digest(self) -> str:
        """Digest of the training and held-out examples."""
        return examples_digest([self.train.windows, self.held_out.windows])

    @property
    def held_out_digest(self) -> str:
        """Digest of the held-out examples."""
        return examples_digest([self.held_out.windows])

    @property
    def fingerprint(self) -> str:
        """Fingerprints of all encoders, joined by "+"."""
        others = () if self.folds is None else self.folds.encoders
        return "+".join(fingerprint(encoder) for encoder in (self.encoder, *others))

    def _rows(self, part: Part, layers: range) -> Tensor:
        """One row per example and layer, (examples, layers, parts · width), in memory."""
        texts, pool, pairs = self.parts.texts(part), self.pool, self.parts.pairs
        if self.folds is not None and part is self.train:
            return self.folds.rows(texts, self.passes, pool=pool, pairs=pairs, layers=layers)
        if self.shared is not None:  # it has all layers, as heads of other tasks may read others
            return self.shared.rows(texts, pairs)[:, layers.start : layers.stop]
        return encode_texts(self.encoder, texts, self.passes, pool=pool, pairs=pairs, layers=layers)

    def check_stores(self, layers: range) -> None:
        """Check by their manifests that stores hold these layers of the windows; does nothing without stores.

        Raises:
            BertVisionError: one holds states of other windows, layers or another encoder.
        """
        for split in self.stores:
            self._check_store(split, layers)

    def _check_store(self, split: str, layers: range) -> None:
        stored, store = self.stores[split], self.request.store
        if store is None:
            raise ValueError("states come from no store")
        wanted = ExtractRequest(
            **self.request.data_fields(),
            keep=stored.reader.manifest.content.keep,
            layers=in_layers(layers),
            pool=self._stored_pool,
            dtype=self.request.dtype,
        )
        content = store_content(wanted, self.encoder, stored.windows, split=split, pool=self._stored_pool)
        stored.reader.check(content, extract_command(wanted, store))

    @property
    def _stored_pool(self) -> Pool | None:
        """How the one row per window in a store was pooled; None if it holds every token."""
        return None if self.task.kind == "spans" else self.pool

    def _stored(self, part: Part, layers: range) -> States:
        split = "dev" if part is self.dev else "train"
        self._check_store(split, layers)
        stored = self.stores[split]
        rows = stored.rows(part.examples)
        device = self.encoder.device
        if self._stored_pool is not None:
            return rows_in_memory(stored.reader, rows, layers, device)
        return StoreStates(stored.reader, rows, part.windows, layers=layers, options=self.passes, device=device)


def freeze_task(request: FitRequest, *, encoder: Encoder | None = None) -> FrozenTask:
    """Load data and encoder, split the training examples, and build the token windows.

    Args:
        request: the settings of the fit.
        encoder: the encoder, if it was loaded before for a request with the same settings; None loads it.

    Raises:
        BertVisionError: the data, the encoder or a store cannot be loaded, or do not fit the request.
    """
    refuse_bare_folds(request)
    loaded = request.load()
    fold_of = None
    if request.cross_fit is not None and "train" in loaded.splits:
        fold_of = check_folds(request, loaded.splits["train"])
    parts = split_parts(request, loaded)
    if parts.held_out is None:
        raise BertVisionError("--held-out is 0, but heads are judged on held-out training examples.")

    def load(name: str) -> Encoder:
        loaded = load_frozen(name, device=request.device, dtype=request.dtype)
        if request.compile:
            loaded.compile_layers()
        return loaded

    encoder = encoder or load(request.main_encoder)
    train = parts.part(parts.train)
    frozen = FrozenTask(
        parts=parts,
        encoder=encoder,
        passes=frozen_passes(encoder, dtype=request.dtype),
        train=train,
        held_out=parts.part(parts.held_out),
        dev=parts.part(parts.whole["dev"]) if "dev" in parts.whole else None,
        request=request,
        folds=None if fold_of is None else load_folds(request, fold_of, train, load),
    )
    return frozen if request.store is None else frozen.reading(request.store)


def head_shape(encoder: Encoder, parts: TaskParts) -> HeadShape:
    """Input and output sizes of heads on a frozen encoder; the input is as wide as all parts of a row."""
    width = encoder.width * PARTS[parts.pairs]
    return HeadShape(layers=encoder.depth + 1, width=width, outputs=parts.task.outputs)
