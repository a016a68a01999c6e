"""FrozenTask: a task's examples as token windows, a frozen encoder for them, and the states that heads read."""

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
from bertvision.runs.fitting.folds import Folds, check_folds, load_folds
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
    """All that heads need but their states.

    Attributes:
        parts: the task's examples, and how they are cut.
        encoder: frozen.
        passes: how it is run.
        train: examples that heads learn from.
        held_out: training examples that judge them.
        dev: what is reported, where there is one.
        request: what was asked for.
        folds: encoders for the training part, of which each was tuned without the fold that it encodes.
        shared: rows that several tasks were encoded for together; None encodes those of this task alone.
        stores: every split as a store has it, if states come from one.
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
        """What is asked."""
        return self.parts.task

    @property
    def pool(self) -> Pool:
        """Which row counts for labels and scores, where heads do not pool tokens themselves."""
        return self.parts.pool

    @property
    def shape(self) -> HeadShape:
        """What heads are built for."""
        return head_shape(self.encoder, self.parts)

    @property
    def in_memory(self) -> bool:
        """Whether heads read one row per text, so that all states stay in memory."""
        return self.request.reads_rows(self.task)

    @property
    def texts(self) -> list[tuple[list[TokenRows], Pairs]]:
        """The windows that are encoded for each part, and how those of two texts become one row."""
        parts = [part for part in (self.train, self.held_out, self.dev) if part is not None]
        return [(self.parts.texts(part), self.parts.pairs) for part in parts]

    def states(self, part: Part, layers: range) -> States:
        """The states of a part: from a store, in memory, or batch by batch where heads read every token.

        Raises:
            BertVisionError: the store holds something else.
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
        """The same with its states from a store.

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
        """How much an example of each class counts; None for all the same.

        Raises:
            BertVisionError: they were asked for, and the task has no classes.
        """
        return class_weights(self.task, self.train.windows.targets) if self.request.class_weights else None

    def plan(self) -> Plan:
        """Which windows heads learn from at which step: where an encoder runs for every batch, of one fold each."""
        groups = self.folds.numbers if self.folds is not None and not self.in_memory else None
        return Plan(self.train.windows.lengths, self.request.plan(), groups=groups)

    def fit_data(self, states: States) -> FitData:
        """What heads learn from, given the states of the training part."""
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
        """Digest of what heads learn from, and of what judges them."""
        return examples_digest([self.train.windows, self.held_out.windows])

    @property
    def held_out_digest(self) -> str:
        """Digest of what judges heads."""
        return examples_digest([self.held_out.windows])

    @property
    def fingerprint(self) -> str:
        """Fingerprints of all encoders."""
        others = () if self.folds is None else self.folds.encoders
        return "+".join(fingerprint(encoder) for encoder in (self.encoder, *others))

    def _rows(self, part: Part, layers: range) -> Tensor:
        texts, pool, pairs = self.parts.texts(part), self.pool, self.parts.pairs
        if self.folds is not None and part is self.train:
            return self.folds.rows(texts, self.passes, pool=pool, pairs=pairs, layers=layers)
        if self.shared is not None:  # heads of other tasks may read others
            return self.shared.rows(texts, pairs)[:, layers.start : layers.stop]
        return encode_texts(self.encoder, texts, self.passes, pool=pool, pairs=pairs, layers=layers)

    def check_stores(self, layers: range) -> None:
        """See that the stores that states come from, if any, hold these layers of these windows; reads no states.

        Raises:
            BertVisionError: one holds something else.
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
        """Which row a store keeps of every window; None for all."""
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
    """Load data and encoder, and cut the windows.

    Args:
        request: what is asked for.
        encoder: the one that was loaded for a like request; None loads it.

    Raises:
        BertVisionError: data or encoder cannot be had, or do not fit.
    """
    loaded = request.load()
    fold_of = None
    if request.cross_fit is not None and "train" in loaded.splits:
        fold_of = check_folds(request, loaded.splits["train"])
    parts = split_parts(request, loaded)
    if parts.held_out is None:
        raise BertVisionError("--held-out is 0, but heads are judged on held-out training examples.")

    def load(name: str) -> Encoder:
        fresh = load_frozen(name, device=request.device, dtype=request.dtype)
        if request.compile:
            fresh.compile_layers()
        return fresh

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
    """What heads on a frozen encoder are built for."""
    width = encoder.width * PARTS[parts.pairs]
    return HeadShape(layers=encoder.depth + 1, width=width, outputs=parts.task.outputs)
