"""TokenBatch: windows as tensors for an encoder, padded to the longest, or packed end to end without padding."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from bertvision.tasks.examples import IntArray
from bertvision.tasks.token_rows import TokenRows
from bertvision.tasks.windows import Windows

MULTIPLE = 16
"""On a GPU, lengths are rounded up to a multiple of this; packed windows get at most this many tokens of padding each.
That leaves a couple of dozen shapes, each with its own CUDA graph and convolution plans, for little more padding."""


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Token windows as tensors.

    Attributes:
        ids: (batch, tokens) vocabulary numbers; packed: (1, all tokens).
        types: (batch, tokens) segment numbers; more than 0 is the second text, see `SECOND`.
        mask: (batch, tokens) True where a token is real.
        bounds: packed only: (windows + fillers + 1,) int32, where each window begins among all tokens.
        longest: upper bound of the windows' lengths.
        full: whether no token is padding; stored, because computing it would synchronise with the GPU.
        fillers: packed only: number of windows of padding behind all others; some may be empty.
    """

    ids: Tensor
    types: Tensor
    mask: Tensor
    bounds: Tensor | None
    longest: int
    full: bool = False
    fillers: int = 0

    @property
    def packed(self) -> bool:
        """Whether windows stand end to end in one row."""
        return self.bounds is not None

    @property
    def windows(self) -> int:
        """How many windows there are, without fillers."""
        return len(self.ids) if self.bounds is None else len(self.bounds) - 1 - self.fillers

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that differ between batches of one shape."""
        return (self.ids, self.types, self.mask, *(() if self.bounds is None else (self.bounds,)))

    def with_tensors(self, tensors: Sequence[Tensor]) -> "TokenBatch":
        """This batch with other tensors, given in the order of `tensors`."""
        ids, types, mask, *bounds = tensors
        return replace(self, ids=ids, types=types, mask=mask, bounds=bounds[0] if bounds else None)

    def to(self, device: torch.device) -> "TokenBatch":
        """This batch on another device."""
        return self.with_tensors([move(tensor, device) for tensor in self.tensors])


def move(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device, asynchronously from the CPU to a GPU."""
    # only copies from pinned memory are asynchronous
    pinned = device.type == "cuda" and not tensor.is_cuda
    return (tensor.pin_memory() if pinned else tensor).to(device, non_blocking=True)


def token_batch(windows: Windows, rows: IntArray, *, packed: bool, pad: int, even: bool = False) -> TokenBatch:
    """The batch of some windows; of pairs encoded apart, all first texts and then all second texts.

    Args:
        windows: the windows of a split.
        rows: their numbers.
        packed: whether to pack them end to end.
        pad: number of the padding token.
        even: whether to round sizes up (see `MULTIPLE`), so that few shapes occur.
    """
    tokens: TokenRows = windows
    if windows.second is not None:
        tokens, rows = windows.texts(rows), np.arange(2 * len(rows))
    if not packed:
        return padded_batch(tokens, rows, pad=pad, multiple=MULTIPLE if even else 1)
    if not even:
        return packed_batch(tokens, rows)
    fill = filling(int(tokens.lengths[rows].max()))
    return packed_batch(tokens, rows, pad=pad, multiple=4 * fill, fill=fill)


def filling(longest: int) -> int:
    """The `fill` of `packed_batch` for windows up to this length: 4 up to 64 tokens, 8 up to 128, 16 beyond."""
    return next((size for size in (4, 8) if longest <= 16 * size), MULTIPLE)


def padded_batch(windows: TokenRows, rows: IntArray, *, pad: int = 0, multiple: int = 1) -> TokenBatch:
    """Windows padded to the longest of them.

    Args:
        windows: the windows of a split.
        rows: which of them.
        pad: number of the padding token.
        multiple: round the length up to a multiple of this.
    """
    ids, types, real = windows.padded(rows, pad, multiple=multiple)
    return TokenBatch(
        torch.from_numpy(ids), torch.from_numpy(types), torch.from_numpy(real), None, real.shape[1], bool(real.all())
    )


def packed_batch(
    windows: TokenRows, rows: IntArray, *, pad: int = 0, multiple: int = 1, fill: int | None = None
) -> TokenBatch:
    """Windows end to end in one row, without padding.

    Args:
        windows: the windows of a split.
        rows: which of them.
        pad: number of the padding token, for fillers.
        multiple: round `longest` up to a multiple of this.
        fill: round the total number of tokens up to a multiple of `fill` times the number of windows. The padding is
            divided into as many filler windows as there are windows, of at most `fill` tokens each, so that the shape
            of `bounds` depends on the number of windows alone. None adds no fillers.
    """
    lengths = windows.lengths[rows]
    source = windows.places(rows)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    more = 0
    if fill is not None:
        more = -len(source) % (fill * len(rows))
        ends = np.minimum(fill * np.arange(1, len(rows) + 1), more)
        bounds = np.concatenate([bounds, len(source) + ends])
    longest = -(-int(lengths.max()) // multiple) * multiple
    ids, types = (torch.from_numpy(tokens[source].astype(np.int64))[None] for tokens in (windows.ids, windows.types))
    if more:
        ids, types = nn.functional.pad(ids, (0, more), value=pad), nn.functional.pad(types, (0, more))
    return TokenBatch(
        ids=ids,
        types=types,
        mask=(torch.arange(len(source) + more) < len(source))[None],
        bounds=torch.from_numpy(bounds.astype(np.int32)),
        longest=longest if fill is None else max(longest, fill),
        full=fill is None,
        fillers=0 if fill is None else len(rows),
    )


def unpack(rows: Tensor, batch: TokenBatch) -> tuple[Tensor, Tensor]:
    """Pad the windows of a packed batch: (all tokens, …) → (windows, tokens, …), 0 in padding, and their mask."""
    if batch.bounds is None:
        raise ValueError("the batch is not packed")
    window, place = window_places(batch.bounds, len(rows))
    lengths = batch.bounds.diff()[: batch.windows]
    mask = torch.arange(batch.longest, device=rows.device) < lengths[:, None]  # (windows, tokens)
    # index by numbers, not by the mask: counting its True values would synchronise with the GPU
    if batch.fillers:  # all of them go into one more window
        window = window.clamp(max=batch.windows)
    padded = rows.new_zeros((len(mask) + bool(batch.fillers), *mask.shape[1:], *rows.shape[1:]))
    return padded.index_put((window, place), rows)[: len(mask)], mask


def window_places(bounds: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
    """The window of every token of a packed batch, and its place in that window, each (tokens,)."""
    number = torch.arange(tokens, device=bounds.device)
    window = torch.bucketize(number, bounds[1:].long(), right=True)
    return window, number - bounds.long()[window]
