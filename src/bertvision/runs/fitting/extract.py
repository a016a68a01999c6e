"""extract_states: compute the states of all windows of a task with a frozen encoder, and write them to a store."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from bertvision.device import Dtype, choose_device
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.load import fingerprint, usual_pool
from bertvision.encoder.tuned import base_encoder
from bertvision.errors import BertVisionError
from bertvision.heads.options import parse_layers
from bertvision.inference.computed_states import StreamStates
from bertvision.inference.frozen_encoder import frozen_passes, load_frozen
from bertvision.inference.outputs import PassOptions, frozen_batches
from bertvision.lock import lock_folder
from bertvision.objectives import Pool, pool_rows
from bertvision.runs.data_request import DataRequest
from bertvision.runs.watch import Show
from bertvision.store.codec import Keep
from bertvision.store.manifest import Content, Manifest, Shard, windows_digest
from bertvision.store.room import check_disk, check_room
from bertvision.store.writer import StatesOf, StoreWriter
from bertvision.tasks.examples import IntArray
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import Windows, build_windows
from bertvision.training.processes import Processes, gather, join_processes, on_main
from bertvision.training.states import StateBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractRequest(DataRequest):
    """The settings of an extraction.

    Attributes:
        keep: number format of the stored states.
        layers: layers to store, such as `0..6`; None stores all.
        pool: how tokens are pooled into the one row per window that is stored for labels, tags and scores; None pools
            as the encoder was trained. For spans every token is stored.
        max_disk: most bytes that the store may take; None sets no limit but the disk's.
        device: `auto`, `cpu` or `cuda`.
        dtype: `auto` computes in bfloat16 on a GPU, and in float32 on a CPU.
        compile: compile the encoder's layers with `torch.compile`.
    """

    keep: Keep = "fp16"
    layers: str | None = None
    pool: Pool | None = None
    max_disk: int | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Dtype = "auto"
    compile: bool = False


def default_store(task: str) -> Path:
    """The default folder of a task's store."""
    return Path("stores") / task


def extract_states(request: ExtractRequest, store: Path, *, show: Show | None = None) -> dict[str, Manifest]:
    """Write the states of every split to its own folder in the store; an interrupted extraction is resumed.

    In a distributed run every process calls it, writes its share of the shards, and gets the same result.

    Returns:
        The manifest of every split, by its name.

    Raises:
        BertVisionError: the data, the encoder or the folder does not fit, there is too little room, or another process
            is writing there; complete shards are kept.
    """
    accelerator = join_processes(cpu=choose_device(request.device).type == "cpu")
    loaded = request.load()
    encoder = load_frozen(request.encoder, device=accelerator.device, dtype=request.dtype)
    if request.compile:
        encoder.compile_layers()
    passes = frozen_passes(encoder, dtype=request.dtype)
    tokenizer = TextTokenizer.load(base_encoder(request.encoder))
    pool = None if loaded.task.kind == "spans" else request.pool or usual_pool(request.encoder)
    windows_of = {
        split: build_windows(loaded.task, examples, tokenizer, request.windows)
        for split, examples in loaded.splits.items()
    }
    writers = {}
    for split, windows in windows_of.items():
        content = store_content(request, encoder, windows, split=split, pool=pool)
        writers[split] = StoreWriter(store / split, content, _rows_per_window(windows, pool))
    manifests = {}
    with ExitStack() as lock:  # only the main process holds it
        on_main(accelerator, lambda: lock.enter_context(_locked(store, list(writers.values()), request.max_disk)))
        for split, writer in writers.items():
            extractor = _Extractor(encoder, windows_of[split], passes, writer.content, pool)
            manifests[split] = _write(writer, extractor.states_of, accelerator, show)
    return manifests


@contextmanager
def _locked(store: Path, writers: Sequence[StoreWriter], max_disk: int | None) -> Iterator[None]:
    """Check folders and free space before hours of work, then hold the lock of a store whose writers have begun."""
    contents = [writer.content for writer in writers]
    check_room(contents, max_disk)
    for writer in writers:
        writer.check()
    check_disk(contents, store, sum(writer.bytes_there for writer in writers))
    with lock_folder(store):
        for writer in writers:
            writer.begin()
        yield


def _write(writer: StoreWriter, states_of: StatesOf, accelerator: Processes, show: Show | None) -> Manifest:
    """Write a split: every process its share of the shards, then the main process the manifest."""
    on_main(accelerator, lambda: writer.measure(states_of))
    share = {"process": accelerator.process_index, "processes": accelerator.num_processes}
    shards: list[Shard] = []
    problem: str | None = None
    done = 0
    try:
        for shard in writer.write(states_of, **share):
            shards.append(shard)
            done += shard.windows
            if show is not None and accelerator.is_main_process:
                show(done, writer.windows(**share), {}, doing=f"windows of {writer.content.split}")
    except BertVisionError as error:
        problem = str(error)
    results = gather(accelerator, (shards, problem))  # a process that failed takes part, or the others would hang
    for _, problem in results:
        if problem is not None:
            raise BertVisionError(problem)
    return on_main(accelerator, lambda: writer.finish(shard for written, _ in results for shard in written))


def store_content(
    request: ExtractRequest, encoder: Encoder, windows: Windows, *, split: str, pool: Pool | None
) -> Content:
    """The description of a store of these windows, with which an existing store is compared, too."""
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


def _rows_per_window(windows: Windows, pool: Pool | None) -> IntArray:
    """Number of rows that are stored of every window, (windows,): one per token, or one if tokens are pooled."""
    return windows.lengths if pool is None else np.ones(len(windows), dtype=np.int64)


class _Extractor:
    """Computes states in the layout of a store: the rows of all windows end to end."""

    def __init__(
        self, encoder: Encoder, windows: Windows, passes: PassOptions, content: Content, pool: Pool | None
    ) -> None:
        self._stream = StreamStates(encoder, windows, passes, content.layer_numbers)
        self._windows = windows
        self._content = content
        self._pool = pool
        self._device = encoder.device
        # float32 for pooled rows: a mean is more precise than the 16-bit states it is taken of, and takes little room
        self._dtype = next(encoder.parameters()).dtype if pool is None else torch.float32

    @torch.inference_mode()
    def states_of(self, rows: IntArray) -> Tensor:
        """The states of the windows at `rows`, (stored rows, layers, width), on the encoder's device."""
        content = self._content
        lengths = self._windows.lengths[rows]
        ends = np.cumsum(_rows_per_window(self._windows, self._pool)[rows])
        states = torch.empty(ends[-1], content.layers, content.width, dtype=self._dtype, device=self._device)
        for chosen in frozen_batches(lengths, self._device):
            batch = self._stream.batch(rows[chosen])
            if self._pool is not None:
                hidden = batch.padded
                states[torch.from_numpy(chosen)] = pool_rows(hidden.states.float(), hidden.mask, self._pool)
                continue
            for end, window in zip(ends[chosen], _window_states(batch, lengths[chosen]), strict=True):
                states[end - window.shape[1] : end] = window.transpose(0, 1)
        return states


def _window_states(batch: StateBatch, lengths: IntArray) -> Sequence[Tensor]:
    """The states of every window of a batch, (layers, tokens, width) without padding, as views."""
    states = batch.hidden.states
    if batch.packed is not None:
        return torch.split(states[0], lengths.tolist(), dim=1)
    return [states[number, :, :length] for number, length in enumerate(lengths)]
