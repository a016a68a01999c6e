"""extract_states: a task and an encoder → a store with the states of every window of every split."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import fingerprint, load_encoder, mean_pooled
from bertvision.encoder.snapshot import base_encoder
from bertvision.errors import BertVisionError
from bertvision.heads.options import parse_layers
from bertvision.objectives import Pool, pool_rows
from bertvision.pretrained import BUILTIN_ENCODER
from bertvision.runs.outputs import BATCH_TOKENS, PassOptions
from bertvision.runs.parts import choose_device
from bertvision.runs.states import StreamStates
from bertvision.runs.watch import Show
from bertvision.store.codec import Keep
from bertvision.store.manifest import Content, Manifest, read_manifest, windows_digest
from bertvision.store.writer import SHARD_WINDOWS, StoreWriter
from bertvision.tasks.batches import length_batches
from bertvision.tasks.examples import IntArray
from bertvision.tasks.load import load_task
from bertvision.tasks.own import OwnColumns
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows, build_windows


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractRequest:
    """All that a store depends on.

    Attributes:
        task: a task's name.
        data: where its data are; see `load_task`.
        columns: for the task `own`.
        skip_bad: leave out rows that cannot be read.
        windows: length and stride of token windows.
        encoder: see `load_encoder`.
        keep: how states are kept.
        layers: which layers, such as `0..6`; None keeps all.
        pool: which row counts for labels and scores, of which one row per window is kept; None takes what the encoder
            was trained with.
        max_disk: most bytes that the store may take; None sets no limit but the disk's.
        device: `auto`, `cpu` or `cuda`.
    """

    task: str
    data: str | None = None
    columns: OwnColumns = field(default_factory=OwnColumns)
    skip_bad: bool = False
    windows: WindowOptions = field(default_factory=WindowOptions)
    encoder: str = BUILTIN_ENCODER
    keep: Keep = "fp16"
    layers: str | None = None
    pool: Pool | None = None
    max_disk: int | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"


def default_store(task: str) -> Path:
    """Where a task's store is, unless somebody says otherwise."""
    return Path("stores") / task


def extract_states(request: ExtractRequest, store: Path, *, show: Show | None = None) -> dict[str, Manifest]:
    """Write the states of every split into a folder of its own; an interrupted extraction goes on where it was.

    Raises:
        BertVisionError: something does not fit, or there is no room; whole shards are kept.
    """
    loaded = load_task(request.task, data=request.data, columns=request.columns, skip_bad=request.skip_bad)
    device = choose_device(request.device)
    half = device.type == "cuda"
    encoder = load_encoder(request.encoder, device=device, packed=half, precision="bfloat16" if half else "float32")
    passes = PassOptions(packed=half and encoder.can_pack, pad=int(encoder.config.pad_token_id or 0), bf16=half)
    tokenizer = TextTokenizer.load(base_encoder(request.encoder))
    pool = None if loaded.task.kind == "spans" else request.pool or ("mean" if mean_pooled(request.encoder) else "cls")
    cut = {
        split: build_windows(loaded.task, examples, tokenizer, request.windows)
        for split, examples in loaded.splits.items()
    }
    contents = {
        split: store_content(request, encoder, windows, split=split, pool=pool) for split, windows in cut.items()
    }
    check_room(list(contents.values()), request.max_disk)
    writers = {  # all of them first, so that a folder with something else in it is refused before hours of work
        split: StoreWriter(store / split, contents[split], _rows_of(windows, pool)) for split, windows in cut.items()
    }
    manifests = {}
    for split, windows in cut.items():
        extractor = _Extractor(encoder, windows, passes, contents[split], pool)
        for done in writers[split].write(extractor.states_of):
            if show is not None:
                show(done, len(windows), {}, doing=f"windows of {split}")
        manifests[split] = read_manifest(store / split)
    return manifests


def store_content(
    request: ExtractRequest, encoder: Encoder, windows: Windows, *, split: str, pool: Pool | None
) -> Content:
    """What a store of these windows holds."""
    layers = parse_layers(request.layers, encoder.depth + 1, 0)
    return Content(
        encoder=request.encoder,
        fingerprint=fingerprint(encoder),
        task=request.task,
        split=split,
        windows=len(windows),
        tokens=len(windows.ids) if pool is None else len(windows),
        digest=windows_digest(windows.ids, windows.bounds),
        settings=asdict(request.windows),
        pool=pool,
        keep=request.keep,
        first_layer=layers[0],
        layers=len(layers),
        width=encoder.width,
    )


def check_room(contents: Sequence[Content], max_disk: int | None) -> None:
    """Refuse a store that would be too large, before anything is written.

    Raises:
        BertVisionError: naming what it would take, and what takes less.
    """
    needed = sum(content.bytes for content in contents)
    if max_disk is not None and needed > max_disk:
        smallest = min(content.bytes // max(1, content.windows) for content in contents) * SHARD_WINDOWS
        raise BertVisionError(
            f"the store would take {needed / 1e9:.2f} GB (a shard about {smallest / 1e6:.1f} MB), --max-disk allows "
            f"{max_disk / 1e9:.2f} GB. Use --keep int8, fewer --layers, or no store: bertvision fit computes states "
            "anew."
        )


def _rows_of(windows: Windows, pool: Pool | None) -> IntArray:
    """Rows that a store keeps of every window: all of its tokens, or one."""
    return windows.lengths if pool is None else np.ones(len(windows), dtype=np.int64)


class _Extractor:
    """Computes the states of some windows, end to end, as a store keeps them."""

    def __init__(
        self, encoder: Encoder, windows: Windows, passes: PassOptions, content: Content, pool: Pool | None
    ) -> None:
        layers = range(content.first_layer, content.first_layer + content.layers)
        self._stream = StreamStates(encoder, windows, passes, layers)
        self._windows = windows
        self._content = content
        self._pool = pool
        self._device = encoder.device

    @torch.inference_mode()
    def states_of(self, rows: IntArray) -> Tensor:
        """(tokens, layers, width), float32."""
        content = self._content
        begins = np.concatenate([[0], np.cumsum(_rows_of(self._windows, self._pool)[rows])])
        states = torch.empty(int(begins[-1]), content.layers, content.width)
        most = BATCH_TOKENS["cpu" if self._device.type == "cpu" else "cuda"]
        for some in length_batches(self._windows.lengths[rows], size=most, tokens=most):
            hidden = self._stream.batch(rows[some]).padded
            if self._pool is not None:
                states[torch.from_numpy(some)] = pool_rows(hidden.states.float(), hidden.mask, self._pool).cpu()
                continue
            tokens = hidden.states.transpose(1, 2)[hidden.mask].float().cpu()  # (tokens, layers, width)
            places = np.concatenate([np.arange(begins[row], begins[row + 1]) for row in some])
            states[torch.from_numpy(places)] = tokens
        return states
