"""FrozenTask: a task's examples as token windows, a frozen encoder for them, and the states that heads read."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import load_encoder, mean_pooled
from bertvision.encoder.snapshot import base_encoder
from bertvision.errors import BertVisionError
from bertvision.heads import HeadShape
from bertvision.objectives import Pool
from bertvision.runs.extract import ExtractRequest, store_content
from bertvision.runs.extract_command import extract_command
from bertvision.runs.fit_request import FitRequest
from bertvision.runs.outputs import PassOptions
from bertvision.runs.parts import choose_device, split_train
from bertvision.runs.states import RowStates, StreamStates, compare_rows, encode_rows
from bertvision.runs.store_states import StoredSplit, StoreStates, rows_in_memory
from bertvision.runs.validate import Part
from bertvision.store.reader import StoreReader
from bertvision.tasks.examples import Examples, Texts
from bertvision.tasks.load import load_task
from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, build_windows
from bertvision.training.fit import States


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenTask:
    """All that heads need but their states.

    Attributes:
        task: what is asked.
        encoder: frozen.
        passes: how it is run.
        pool: which row counts for labels and scores.
        apart: whether the texts of a pair are encoded apart.
        tokenizer: the encoder's.
        options: of token windows.
        train: what heads learn from.
        held_out: training examples that judge them.
        dev: what is reported, where there is one.
        stores: every split as the store has it, if states come from one.
        request: what was asked for.
        notices: what the user should know.
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
    stores: Mapping[str, StoredSplit]
    request: FitRequest
    notices: tuple[str, ...]

    @property
    def shape(self) -> HeadShape:
        """What heads are built for."""
        width = self.encoder.width * (2 if self.apart else 1)
        return HeadShape(layers=self.encoder.depth + 1, width=width, outputs=self.task.outputs)

    def states(self, part: Part, layers: range) -> States:
        """The states of a part: from a store or batch by batch for spans, kept in memory for labels and scores.

        Raises:
            BertVisionError: the store holds something else.
        """
        if self.request.store is not None:
            return self._stored(self.request.store, part, layers)
        if self.task.kind == "spans":
            return StreamStates(self.encoder, part.windows, self.passes, layers)
        rows = encode_rows(self.encoder, part.windows, self.passes, self.pool)
        if self.apart:
            second = _second(part.examples)
            windows = build_windows(self.task, second, self.tokenizer, self.options)
            rows = compare_rows(rows, encode_rows(self.encoder, windows, self.passes, self.pool))
        return RowStates(rows, self.encoder.device)

    def _stored(self, store: Path, part: Part, layers: range) -> States:
        split = "dev" if part is self.dev else "train"
        stored = self.stores[split]
        pool = None if self.task.kind == "spans" else self.pool
        wanted = ExtractRequest(
            task=self.request.task,
            data=self.request.data,
            columns=self.request.columns,
            skip_bad=self.request.skip_bad,
            windows=self.options,
            encoder=self.request.encoder,
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


def freeze_task(request: FitRequest) -> FrozenTask:
    """Load data and encoder, and cut the windows.

    Raises:
        BertVisionError: data or encoder cannot be had, or do not fit.
    """
    loaded = load_task(request.task, data=request.data, columns=request.columns, skip_bad=request.skip_bad)
    if "train" not in loaded.splits:
        raise BertVisionError(f"{loaded.task.name} has no train split here, so there is nothing to learn from.")
    device = choose_device(request.device)
    bf16 = request.dtype == "bfloat16" or (request.dtype == "auto" and device.type == "cuda")
    packed = device.type == "cuda" and bf16
    encoder = load_encoder(request.encoder, device=device, packed=packed, precision="bfloat16" if packed else "float32")
    sentences = mean_pooled(request.encoder)
    train = loaded.splits["train"]
    paired = isinstance(train, Texts) and train.pairs is not None
    pairs = request.pairs or ("apart" if sentences else "together")
    if request.store is not None and paired and pairs == "apart":
        raise BertVisionError("a store keeps pairs together. Use --pairs together, or --from stream.")
    learnt, held_out = split_train(train, fraction=request.largest, held_out=request.held_out, seed=request.seed)
    if held_out is None:
        raise BertVisionError("--held-out is 0, but heads are judged on held-out training examples.")
    tokenizer = TextTokenizer.load(base_encoder(request.encoder))
    apart = paired and pairs == "apart"

    def part(examples: Examples) -> Part:
        first = _first(examples) if apart else examples
        return Part(examples=examples, windows=build_windows(loaded.task, first, tokenizer, request.windows))

    dev = part(loaded.splits["dev"]) if "dev" in loaded.splits else None
    stores = {}
    if request.store is not None:
        whole = {"train": part(train)} | ({} if dev is None else {"dev": dev})
        stores = {
            split: StoredSplit(StoreReader(request.store / split), of.examples, of.windows)
            for split, of in whole.items()
        }
    return FrozenTask(
        task=loaded.task,
        encoder=encoder,
        passes=PassOptions(packed=packed and encoder.can_pack, pad=int(encoder.config.pad_token_id or 0), bf16=bf16),
        pool=request.pool or ("mean" if sentences else "cls"),
        apart=apart,
        tokenizer=tokenizer,
        options=request.windows,
        train=part(learnt),
        held_out=part(held_out),
        dev=dev,
        stores=stores,
        request=request,
        notices=loaded.notices,
    )


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
