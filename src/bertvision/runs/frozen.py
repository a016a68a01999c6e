"""FrozenTask: a task's examples as token windows, a frozen encoder for them, and the states that heads read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import fingerprint, load_encoder, mean_pooled
from bertvision.encoder.snapshot import base_encoder
from bertvision.errors import BertVisionError
from bertvision.heads import HeadShape
from bertvision.heads.options import ATTENTION
from bertvision.objectives import Pool
from bertvision.runs.extract import ExtractRequest, store_content
from bertvision.runs.extract_command import extract_command
from bertvision.runs.fit_request import STORE, FitRequest
from bertvision.runs.folds import Folds, check_folds, load_folds
from bertvision.runs.outputs import PassOptions
from bertvision.runs.parts import choose_device, split_train
from bertvision.runs.shared_rows import SharedRows
from bertvision.runs.states import RowStates, StreamStates, compare_rows, encode_rows
from bertvision.runs.store_states import StoredSplit, StoreStates, rows_in_memory
from bertvision.runs.validate import Part
from bertvision.store.reader import StoreReader
from bertvision.tasks.examples import Examples, Texts
from bertvision.tasks.load import load_task
from bertvision.tasks.task import Task
from bertvision.tasks.token_rows import TokenRows
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, build_windows
from bertvision.training.fit import States
from bertvision.training.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenTask:
    """All that heads need but their states.

    Attributes:
        task: what is asked.
        encoder: frozen.
        passes: how it is run.
        pool: which row counts for labels, tags and scores, where heads do not pool tokens themselves.
        apart: whether the texts of a pair are encoded apart.
        tokenizer: the encoder's.
        options: of token windows.
        train: what heads learn from.
        held_out: training examples that judge them.
        dev: what is reported, where there is one.
        whole: every split as it was loaded.
        request: what was asked for.
        notices: what the user should know.
        folds: encoders for the training part, of which each was tuned without the fold that it encodes.
        shared: rows that several tasks were encoded for together; None encodes those of this task alone.
        stores: every split as a store has it, if states come from one.
    """

    task: Task
    encoder: Encoder
    passes: PassOptions
    pool: Pool
    apart: bool
    tokenizer: TextTokenizer
    options: WindowOptions
    train: Part
    held_out: Part
    dev: Part | None
    whole: Mapping[str, Examples]
    request: FitRequest
    notices: tuple[str, ...]
    folds: Folds | None = None
    shared: SharedRows | None = None
    stores: Mapping[str, StoredSplit] = field(default_factory=dict)

    @property
    def shape(self) -> HeadShape:
        """What heads are built for."""
        width = self.encoder.width * (2 if self.apart else 1)
        return HeadShape(layers=self.encoder.depth + 1, width=width, outputs=self.task.outputs)

    @property
    def in_memory(self) -> bool:
        """Whether heads read one row per text, so that all states stay in memory."""
        return self.task.kind != "spans" and self.request.pool != ATTENTION

    def states(self, part: Part, layers: range) -> States:
        """The states of a part: from a store, in memory, or batch by batch where heads read every token.

        Raises:
            BertVisionError: the store holds something else.
        """
        if self.request.store is not None:
            return self._stored(self.request.store, part, layers)
        if not self.in_memory and self.folds is not None and part is self.train:
            return self.folds.stream(part.windows, self.passes, layers)
        if not self.in_memory:
            return StreamStates(self.encoder, part.windows, self.passes, layers)
        rows = [self._rows(windows, part) for windows in self.texts(part)]
        return RowStates(compare_rows(*rows) if self.apart else rows[0], self.encoder.device)

    def reading(self, store: Path) -> "FrozenTask":
        """The same with its states from a store.

        Raises:
            BertVisionError: the store is not finished.
        """
        train = self.whole["train"]
        parts = {"train": Part(examples=train, windows=build_windows(self.task, train, self.tokenizer, self.options))}
        if self.dev is not None:
            parts["dev"] = self.dev
        stores = {
            split: StoredSplit(StoreReader(store / split), part.examples, part.windows) for split, part in parts.items()
        }
        return replace(self, request=replace(self.request, source=f"{STORE}{store}"), stores=stores)

    def texts(self, part: Part) -> list[TokenRows]:
        """The windows that are encoded for a part: of pairs apart, those of the first texts and of the second."""
        if not self.apart:
            return [part.windows]
        second = _second(part.examples)
        return [part.windows, build_windows(self.task, second, self.tokenizer, self.options)]

    def plan(self) -> Plan:
        """Which windows heads learn from at which step: where an encoder runs for every batch, of one fold each."""
        groups = self.folds.numbers if self.folds is not None and not self.in_memory else None
        return Plan(self.train.windows.lengths, self.request.plan(), groups=groups)

    @property
    def fingerprint(self) -> str:
        """Of all encoders."""
        others = () if self.folds is None else self.folds.encoders
        return "+".join(fingerprint(encoder) for encoder in (self.encoder, *others))

    def _rows(self, windows: TokenRows, part: Part) -> Tensor:
        if self.folds is not None and part is self.train:
            return self.folds.rows(windows, self.passes, self.pool)
        if self.shared is not None:
            return self.shared.rows(windows)
        return encode_rows(self.encoder, windows, self.passes, self.pool)

    def _stored(self, store: Path, part: Part, layers: range) -> States:
        split = "dev" if part is self.dev else "train"
        stored = self.stores[split]
        pool = None if self.task.kind == "spans" else self.pool
        wanted = ExtractRequest(
            **self.request.data_fields(),
            keep=stored.reader.manifest.content.keep,
            layers=f"{layers[0]}..{layers[-1]}",
            pool=pool,
        )
        content = store_content(wanted, self.encoder, stored.windows, split=split, pool=pool)
        stored.reader.check(content, extract_command(wanted, store))
        rows = stored.rows(part.examples)
        device = self.encoder.device
        if pool is not None:
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
    loaded = load_task(request.task, data=request.data, columns=request.columns, skip_bad=request.skip_bad)
    if "train" not in loaded.splits:
        raise BertVisionError(f"{loaded.task.name} has no train split here, so there is nothing to learn from.")
    device = choose_device(request.device)
    bf16 = request.dtype == "bfloat16" or (request.dtype == "auto" and device.type == "cuda")
    packed = device.type == "cuda" and bf16
    train = loaded.splits["train"]
    fold_of = None if request.cross_fit is None else check_folds(request, train)

    def load(name: str) -> Encoder:
        fresh = load_encoder(name, device=device, packed=packed, precision="bfloat16" if packed else "float32")
        if request.compile:
            fresh.compile_layers()
        return fresh

    encoder = encoder or load(request.main_encoder)
    sentences = mean_pooled(request.main_encoder)
    paired = isinstance(train, Texts) and train.pairs is not None
    attention = request.pool == ATTENTION
    pairs = request.pairs or ("apart" if sentences and not attention else "together")
    if attention:
        _check_attention(request, loaded.task, apart=paired and pairs == "apart")
    if request.store is not None and paired and pairs == "apart":
        raise BertVisionError("a store keeps pairs together. Use --pairs together, or --from stream.")
    learnt, held_out = split_train(train, fraction=request.largest, held_out=request.held_out, seed=request.seed)
    if held_out is None:
        raise BertVisionError("--held-out is 0, but heads are judged on held-out training examples.")
    tokenizer = TextTokenizer.load(base_encoder(request.main_encoder))
    apart = paired and pairs == "apart"

    def part(examples: Examples) -> Part:
        first = _first(examples) if apart else examples
        return Part(examples=examples, windows=build_windows(loaded.task, first, tokenizer, request.windows))

    learning = part(learnt)
    dev = part(loaded.splits["dev"]) if "dev" in loaded.splits else None
    frozen = FrozenTask(
        task=loaded.task,
        encoder=encoder,
        passes=PassOptions(packed=packed and encoder.can_pack, pad=int(encoder.config.pad_token_id or 0), bf16=bf16),
        pool=request.pool if request.pool in ("cls", "mean") else "mean" if sentences else "cls",
        apart=apart,
        tokenizer=tokenizer,
        options=request.windows,
        train=learning,
        held_out=part(held_out),
        dev=dev,
        whole=loaded.splits,
        request=request,
        notices=loaded.notices,
        folds=None if fold_of is None else load_folds(request, fold_of, learning, load),
    )
    return frozen if request.store is None else frozen.reading(request.store)


def _check_attention(request: FitRequest, task: Task, *, apart: bool) -> None:
    """Refuse what `--pool attention` cannot do."""
    if task.kind == "spans":
        raise BertVisionError(f"--pool attention is for labels, tags and scores; {task.name} needs every token's row.")
    if apart:
        raise BertVisionError("--pool attention reads the two texts of a pair together. Use --pairs together.")
    if request.store is not None:
        raise BertVisionError("--pool attention needs every token, and a store of texts keeps one. Use --from stream.")


def _first(examples: Examples) -> Texts:
    return replace(_texts(examples), pairs=None)


def _second(examples: Examples) -> Texts:
    texts = _texts(examples)
    if texts.pairs is None:
        raise TypeError("there are no second texts")
    return replace(texts, texts=texts.pairs, pairs=None)


def _texts(examples: Examples) -> Texts:
    if not isinstance(examples, Texts):
        raise TypeError("only texts come in pairs")
    return examples
