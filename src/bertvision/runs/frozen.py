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
from bertvision.runs.fit_request import FitRequest
from bertvision.runs.outputs import PassOptions
from bertvision.runs.parts import choose_device, split_train
from bertvision.runs.states import RowStates, StreamStates, compare_rows, encode_rows
from bertvision.runs.store_states import StoreStates, rows_in_memory, stored_rows
from bertvision.runs.validate import Part
from bertvision.store.reader import StoreReader
from bertvision.tasks.examples import Examples, Texts
from bertvision.tasks.load import load_task
from bertvision.tasks.task import Task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows, build_windows
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
        whole: every split as it was loaded.
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
    whole: Mapping[str, Examples]
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
        rows = [encode_rows(self.encoder, windows, self.passes, self.pool) for windows in self.encoded(part)]
        return RowStates(compare_rows(*rows) if self.apart else rows[0], self.encoder.device)

    def encoded(self, part: Part) -> list[Windows]:
        """What the encoder sees of a part: its windows, and those of the second texts where pairs are apart."""
        if not self.apart:
            return [part.windows]
        return [part.windows, build_windows(self.task, _second(part.examples), self.tokenizer, self.options)]

    def _stored(self, store: Path, part: Part, layers: range) -> States:
        split = "dev" if part is self.dev else "train"
        whole = self.whole[split]
        windows = build_windows(self.task, whole, self.tokenizer, self.options)
        reader = StoreReader(store / split)
        wanted = ExtractRequest(
            task=self.request.task,
            windows=self.options,
            encoder=self.request.encoder,
            layers=f"{layers[0]}..{layers[-1]}",
        )
        pool = None if self.task.kind == "spans" else self.pool
        command = f"bertvision extract {self.request.task} --encoder {self.request.encoder} --store ANOTHER_DIR"
        reader.check(store_content(wanted, self.encoder, windows, split=split, pool=pool), command)
        rows = stored_rows(whole, part.examples, windows)
        if pool is None:
            return StoreStates(reader, rows, part.windows, self.encoder.device)
        return rows_in_memory(reader, rows, self.encoder.device)


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
        dev=part(loaded.splits["dev"]) if "dev" in loaded.splits else None,
        whole=loaded.splits,
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
