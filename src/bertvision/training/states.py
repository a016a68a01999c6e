"""StateBatch: the hidden states of a batch of windows, padded or packed, and the outputs of heads for them."""

from functools import cached_property
from typing import final

import torch
from torch import Tensor

from bertvision.encoder.batch import TokenBatch, unpack
from bertvision.encoder.states import HiddenStates
from bertvision.heads import Head, LayerwiseHead
from bertvision.heads.head import PackedHead, WindowBounds
from bertvision.objectives import Pool, pool_rows


@final
class StateBatch:
    """The states of a batch of windows at consecutive layers; many heads may read them.

    Attributes:
        hidden: padded, (windows, layers, tokens, width), or packed, (1, layers, all tokens, width).
        lowest: the encoder's number of the first layer.
        packed: the batch of packed windows; None if they are padded.
    """

    def __init__(self, hidden: HiddenStates, *, lowest: int = 0, packed: TokenBatch | None = None) -> None:
        self.hidden = hidden
        self.lowest = lowest
        self.packed = packed

    @cached_property
    def padded(self) -> HiddenStates:
        """The padded states; computed once, for all heads that need them."""
        if self.packed is None:
            return self.hidden
        states, mask = unpack(self.hidden.states[0].transpose(0, 1), self.packed)  # (windows, tokens, layers, width)
        context = None if self.hidden.context is None else unpack(self.hidden.context[0], self.packed)[0]
        return HiddenStates(states.transpose(1, 2), mask, context=context)

    @property
    def padded_bytes(self) -> int:
        """The size of the padded states in bytes, without computing them."""
        rows, layers, tokens, width = self.hidden.states.shape
        if self.packed is not None:
            rows, tokens = self.packed.windows, self.packed.longest
        return rows * layers * tokens * width * self.hidden.states.element_size()

    def only(self, windows: Tensor) -> "StateBatch":
        """The batch of these windows, by number."""
        whole = self.padded
        context = None if whole.context is None else whole.context[windows]
        return StateBatch(HiddenStates(whole.states[windows], whole.mask[windows], context=context), lowest=self.lowest)

    def side_by_side(self, pool: Pool) -> "StateBatch":
        """Pool, and concatenate each window of the first half with one of the second, (windows / 2, …, 2 · width)."""
        hidden = self.padded
        first, second = pool_rows(hidden.states, hidden.mask, pool).chunk(2)  # (pairs, layers, width) each
        rows = torch.cat([first, second], dim=-1).unsqueeze(2)  # (pairs, layers, 1, 2 · width)
        return StateBatch(HiddenStates(rows, hidden.mask.new_ones(len(rows), 1)), lowest=self.lowest)

    def read(self, head: Head, pool: Pool | None = None) -> tuple[Tensor, Tensor]:
        """A head's outputs, (windows, tokens, outputs), and their mask.

        Args:
            head: its layers must be in the batch.
            pool: how states are pooled over the tokens before the head, unless it has a `token_pool`; None does not
                pool. For a head that is not `token_wise` they are never pooled.
        """
        if self.packed is not None and pool is None and (head.token_wise or isinstance(head, LayerwiseHead)):
            states = self.hidden.states[:, head.among(self.lowest)]
            return read_parts(head, head.parts(states) if isinstance(head, LayerwiseHead) else (states,), self.packed)
        if pool is None or not head.token_wise:
            hidden = self.padded
            return head(hidden.states[:, head.among(self.lowest)], hidden.mask, hidden.context), hidden.mask
        rows, mask = self._rows(head, pool)
        return head(rows, mask), mask

    def attention(self, head: Head, pool: Pool | None = None) -> tuple[Tensor, Tensor] | None:
        """A head's attention over layers, (windows, layers, tokens, outputs), and the mask; None if it has none.

        Args:
            head: see `Head.layer_attention`.
            pool: as for `read`.
        """
        if pool is None:
            states, mask = self.padded.states[:, head.among(self.lowest)], self.padded.mask
        else:
            states, mask = self._rows(head, pool)
        found = head.layer_attention(states)
        return None if found is None else (found, mask)

    def _rows(self, head: Head, pool: Pool) -> tuple[Tensor, Tensor]:
        """The states that a head reads, pooled to windows of one token, and their mask."""
        hidden = self.padded
        states = hidden.states[:, head.among(self.lowest)]
        own = head.token_pool
        rows = pool_rows(states, hidden.mask, pool) if own is None else own(states, hidden.mask)
        rows = rows.unsqueeze(2)  # (windows, layers, 1, width)
        return rows, hidden.mask.new_ones(rows.shape[0], 1)


def read_parts(head: Head, parts: tuple[Tensor, ...], tokens: TokenBatch) -> tuple[Tensor, Tensor]:
    """A head's outputs, (windows, tokens, outputs), and their mask, from the parts of all its layers.

    Args:
        head: a `LayerwiseHead`; or one that is `token_wise`, whose only part is the states themselves.
        parts: see `LayerwiseHead.parts`, of padded or packed windows.
        tokens: the windows.
    """
    mask = tokens.mask
    if tokens.bounds is not None and isinstance(head, PackedHead) and head.takes_packed(parts):
        windows = WindowBounds(tokens.bounds, tokens.longest, None if tokens.full else mask)
        return unpack(head.combine_packed(parts, windows)[0], tokens)
    if tokens.packed and not head.token_wise:
        # padding the parts is cheap: they are much smaller than the states
        unpacked = [unpack(part[0].transpose(0, 1), tokens) for part in parts]
        parts, mask = tuple(part.transpose(1, 2) for part, _ in unpacked), unpacked[0][1]
    outputs = head.combine(parts, mask) if isinstance(head, LayerwiseHead) else head(parts[0], mask)
    return unpack(outputs[0], tokens) if tokens.packed and head.token_wise else (outputs, mask)
