"""extract_states: a task and an encoder → a store with the states of every window of every split."""

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
    """All that a store depends on.

    Attributes:
        keep: how states are kept.
        layers: which layers, such as `0..6`; None keeps all.
        pool: which row counts for labels, tags and scores, of which one row per window is kept; None takes what the
            encoder was trained with.
        max_disk: most bytes that the store may take; None sets no limit but the disk's.
        device: `auto`, `cpu` or `cuda`.
        dtype: `auto` computes in bfloat16 on a GPU.
        compile: compile the encoder's layers before anything else.
    """

    keep: Keep = "fp16"
    layers: str | None = None
    pool: Pool | None = None
    max_disk: int | None = None
    device: Literal["auto", "cpu", "cuda"] = "auto"
    dtype: Dtype = "auto"
    compile: bool = False


def default_store(task: str) -> Path:
    """Where a task's store is, unless somebody says otherwise."""
    return Path("stores") / task


def extract_states(request: ExtractRequest, store: Path, *, show: Show | None = None) -> dict[str, Manifest]:
    """Write the states of every split into a folder of its own; an interrupted extraction goes on where it was.

    Launched in several processes, each of them calls it, writes its share, and gets the same result.

    Raises:
        BertVisionError: something does not fit, there is no room, or another process writes there; whole shards are
            kept.
    """
    accelerator = join_processes(cpu=choose_device(request.device).type == "cpu")
    loaded = request.load()
    encoder = load_frozen(request.encoder, device=accelerator.device, dtype=request.dtype)
    if request.compile:
        encoder.compile_layers()
    passes = frozen_passes(encoder, dtype=request.dtype)
    tokenizer = TextTokenizer.load(base_encoder(request.encoder))
    pool = None if loaded.task.kind == "spans" else request.pool or usual_pool(request.encoder)
    cut = {
        split: build_windows(loaded.task, examples, tokenizer, request.windows)
        for split, examples in loaded.splits.items()
    }
    writers = {}
    for split, windows in cut.items():
        content = store_content(request, encoder, windows, split=split, pool=pool)
        writers[split] = StoreWriter(store / split, content, _rows_of(windows, pool))
    manifests = {}
    with ExitStack() as held:
        on_main(accelerator, lambda: held.enter_context(_opened(store, list(writers.values()), request.max_disk)))
        for split, writer in writers.items():
            extractor = _Extractor(encoder, cut[split], passes, writer.content, pool)
            manifests[split] = _write(writer, extractor.states_of, accelerator, show)
    return manifests


@contextmanager
def _opened(store: Path, writers: Sequence[StoreWriter], max_disk: int | None) -> Iterator[None]:
    """Keep a store for this process; all that can be refused is refused before hours of work."""
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
    """Let every process write its share of a split, and the main one the manifest when all are done."""
    on_main(accelerator, lambda: writer.measure(states_of))
    mine = {"process": accelerator.process_index, "processes": accelerator.num_processes}
    shards: list[Shard] = []
    problem: str | None = None
    done = 0
    try:
        for shard in writer.write(states_of, **mine):
            shards.append(shard)
            done += shard.windows
            if show is not None and accelerator.is_main_process:
                show(done, writer.windows(**mine), {}, doing=f"windows of {writer.content.split}")
    except BertVisionError as error:
        problem = str(error)
    shares = gather(accelerator, (shards, problem))  # a process that failed comes, too: none waits for it in vain
    for _, problem in shares:
        if problem is not None:
            raise BertVisionError(problem)
    return on_main(accelerator, lambda: writer.finish(shard for share, _ in shares for shard in share))


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


def _rows_of(windows: Windows, pool: Pool | None) -> IntArray:
    """Rows that a store keeps of every window: all of its tokens, or one."""
    return windows.lengths if pool is None else np.ones(len(windows), dtype=np.int64)


class _Extractor:
    """Computes the states of some windows, end to end, as a store keeps them."""

    def __init__(
        self, encoder: Encoder, windows: Windows, passes: PassOptions, content: Content, pool: Pool | None
    ) -> None:
        self._stream = StreamStates(encoder, windows, passes, content.layer_numbers)
        self._windows = windows
        self._content = content
        self._pool = pool
        self._device = encoder.device
        # a mean is more precise than what it is the mean of, and takes little room
        self._dtype = next(encoder.parameters()).dtype if pool is None else torch.float32

    @torch.inference_mode()
    def states_of(self, rows: IntArray) -> Tensor:
        """(tokens, layers, width), where and as precise as the encoder computes them."""
        content = self._content
        lengths = self._windows.lengths[rows]
        ends = np.cumsum(_rows_of(self._windows, self._pool)[rows])
        states = torch.empty(ends[-1], content.layers, content.width, dtype=self._dtype, device=self._device)
        for some in frozen_batches(lengths, self._device):
            batch = self._stream.batch(rows[some])
            if self._pool is not None:
                hidden = batch.padded
                states[torch.from_numpy(some)] = pool_rows(hidden.states.float(), hidden.mask, self._pool)
                continue
            for end, window in zip(ends[some], _each_window(batch, lengths[some]), strict=True):
                states[end - window.shape[1] : end] = window.transpose(0, 1)
        return states


def _each_window(batch: StateBatch, lengths: IntArray) -> Sequence[Tensor]:
    """The states of every window of a batch, (layers, tokens, width), not copied."""
    states = batch.hidden.states
    if batch.packed is not None:
        return torch.split(states[0], lengths.tolist(), dim=1)
    return [states[number, :, :length] for number, length in enumerate(lengths)]
