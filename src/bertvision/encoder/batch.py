"""Windows → the input batch of an encoder: padded to the longest window, or packed: concatenated without padding."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, nn

from bertvision.tasks.examples import IntArray
from bertvision.tasks.token_rows import TokenRows
from bertvision.tasks.windows import Windows

MULTIPLE = 16
"""On a GPU, padded windows get a length that is a multiple of this, and packed batches a number of tokens that is a
multiple of at most this many per window. So only a few dozen shapes occur, for each of which CUDA graphs are captured
and convolutions planned once, at the price of little padding."""


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Token windows as tensors, padded or packed.

    Attributes:
        ids: (batch, tokens) token ids; packed: (1, all tokens).
        types: segment ids in the same shape; more than 0 in the second text, see `SECOND`.
        mask: in the same shape, True where a token is real.
        bounds: (windows + fillers + 1,) int32, where each window begins among all tokens, and the end; None if padded.
        longest: no window has more tokens; the length of padded windows.
        full: whether no token is padding; kept here, since to read it off the mask would synchronise with the GPU.
        fillers: packed only: number of windows of padding after all others; some of them may be empty.
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
        """Whether the windows are concatenated in one row."""
        return self.bounds is not None

    @property
    def windows(self) -> int:
        """Number of windows, without fillers."""
        return len(self.ids) if self.bounds is None else len(self.bounds) - 1 - self.fillers

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Its tensors; of batches of the same shape, all that differs."""
        return (self.ids, self.types, self.mask, *(() if self.bounds is None else (self.bounds,)))

    def with_tensors(self, tensors: Sequence[Tensor]) -> "TokenBatch":
        """A copy with other tensors, in the order of `tensors`."""
        ids, types, mask, *bounds = tensors
        return replace(self, ids=ids, types=types, mask=mask, bounds=bounds[0] if bounds else None)

    def to(self, device: torch.device) -> "TokenBatch":
        """A copy on another device."""
        return self.with_tensors([move(tensor, device) for tensor in self.tensors])


def move(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor on a device; copies from CPU to GPU are asynchronous."""
    # a copy from pageable memory would wait until the GPU has done all that is queued
    pinned = device.type == "cuda" and not tensor.is_cuda
    return (tensor.pin_memory() if pinned else tensor).to(device, non_blocking=True)


def token_batch(windows: Windows, rows: IntArray, *, packed: bool, pad: int, even: bool = False) -> TokenBatch:
    """A batch for the encoder; of pairs encoded apart, all first texts and then all second texts.

    Args:
        windows: the windows of a split.
        rows: numbers of the batch's windows.
        packed: whether to concatenate them instead of padding them.
        pad: id of the padding token.
        even: whether to add a little padding so that few shapes occur; see `MULTIPLE`.
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
    """4, 8 or 16: a packed batch has a multiple of so many tokens per window, fewer if its longest window is short."""
    return next((size for size in (4, 8) if longest <= 16 * size), MULTIPLE)


def padded_batch(windows: TokenRows, rows: IntArray, *, pad: int = 0, multiple: int = 1) -> TokenBatch:
    """Windows padded to the longest of them.

    Args:
        windows: the windows of a split.
        rows: numbers of the batch's windows.
        pad: id of the padding token.
        multiple: round the length up to a multiple of this.
    """
    ids, types, real = windows.padded(rows, pad, multiple=multiple)
    return TokenBatch(
        torch.from_numpy(ids), torch.from_numpy(types), torch.from_numpy(real), None, real.shape[1], bool(real.all())
    )


def packed_batch(
    windows: TokenRows, rows: IntArray, *, pad: int = 0, multiple: int = 1, fill: int | None = None
) -> TokenBatch:
    """Windows concatenated in one row, without padding between them.

    Args:
        windows: the windows of a split.
        rows: numbers of the batch's windows.
        pad: id of the padding token, for fillers.
        multiple: round `longest`, the length of the windows when they are unpacked, up to a multiple of this.
        fill: round the number of all tokens up to a multiple of this many per window, by as many fillers as there are
            windows, each of at most this many tokens; None adds no fillers.
    """
    lengths = windows.lengths[rows]
    source = windows.places(rows)
    bounds = np.concatenate([[0], np.cumsum(lengths)])
    padding = 0
    if fill is not None:
        padding = -len(source) % (fill * len(rows))
        ends = np.minimum(fill * np.arange(1, len(rows) + 1), padding)
        bounds = np.concatenate([bounds, len(source) + ends])
    longest = -(-int(lengths.max()) // multiple) * multiple
    ids, types = (torch.from_numpy(tokens[source].astype(np.int64))[None] for tokens in (windows.ids, windows.types))
    if padding:
        ids, types = nn.functional.pad(ids, (0, padding), value=pad), nn.functional.pad(types, (0, padding))
    return TokenBatch(
        ids=ids,
        types=types,
        mask=(torch.arange(len(source) + padding) < len(source))[None],
        bounds=torch.from_numpy(bounds.astype(np.int32)),
        longest=longest if fill is None else max(longest, fill),
        full=fill is None,
        fillers=0 if fill is None else len(rows),
    )


def unpack(rows: Tensor, batch: TokenBatch) -> tuple[Tensor, Tensor]:
    """Values of a packed batch, (all tokens, …), as (windows, tokens, …) padded with 0, and their mask."""
    if batch.bounds is None:
        raise ValueError("the batch is not packed")
    window, place = window_places(batch.bounds, len(rows))
    lengths = batch.bounds.diff()[: batch.windows]
    mask = torch.arange(batch.longest, device=rows.device) < lengths[:, None]  # (windows, tokens)
    # not by the boolean mask: to count its True values would synchronise with the GPU
    if batch.fillers:  # all of them go into one additional window, which is cut off below
        window = window.clamp(max=batch.windows)
    padded = rows.new_zeros((len(mask) + bool(batch.fillers), *mask.shape[1:], *rows.shape[1:]))
    return padded.index_put((window, place), rows)[: len(mask)], mask


def window_places(bounds: Tensor, tokens: int) -> tuple[Tensor, Tensor]:
    """For every token of a packed batch, the number of its window and its place there, each (tokens,)."""
    number = torch.arange(tokens, device=bounds.device)
    window = torch.bucketize(number, bounds[1:].long(), right=True)
    return window, number - bounds.long()[window]
