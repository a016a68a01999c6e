"""Encoder: token windows → the hidden states of every layer, or of the first few, and no further."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from types import MethodType
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from typing_extensions import override

from bertvision.encoder.architecture import architecture_of, blocks_of, calls_of, drop_attention_dropout
from bertvision.encoder.batch import TokenBatch, window_places
from bertvision.encoder.packed import PACKED, padded_bounds
from bertvision.encoder.states import HiddenStates
from bertvision.errors import BertVisionError
from bertvision.tasks.token_rows import SECOND

KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""Attention kernels on a GPU: all but cuDNN's, which plans anew for every length of windows, and whose gradients may be
NaN where windows of 64, 192 or 320 tokens are masked (torch 2.11)."""

Visitor = Callable[[int, Tensor], None]
"""Takes a layer's number and its states, (batch, tokens, width)."""


class _DeepEnoughError(Exception):
    """Leaves a pass at the last layer that is needed; never seen outside."""


@final
class Encoder(nn.Module):
    """A transformers encoder that hands out its layers one at a time.

    Attributes:
        model: the transformers model.
        name: what the user called it.
        architecture: where the model keeps its layers.
    """

    def __init__(self, model: nn.Module, *, name: str) -> None:
        super().__init__()
        self.model = model
        self.name = name
        config: Any = model.config
        self.config = config
        self.architecture = architecture_of(config.model_type)
        self._calls = calls_of(model, self.architecture, config.num_hidden_layers)
        self._attention_when_padded: str = config._attn_implementation  # noqa: SLF001 - there is no public name for it
        # the kernel for packed windows has none, and elsewhere it would keep the fast kernels away: decisions/0007
        drop_attention_dropout(model, self.architecture)
        if config.model_type == "mpnet":
            from bertvision.encoder.relative import speed_up_attention  # noqa: PLC0415 - imports all of MPNet

            speed_up_attention(model)

    @property
    def depth(self) -> int:
        """Layers above the embedding output."""
        return len(self._calls)

    @property
    def width(self) -> int:
        """Numbers per token in every layer."""
        return int(self.config.hidden_size)

    @property
    def blocks(self) -> list[nn.Module]:
        """Every layer that has its own weights, lowest first."""
        return blocks_of(self.model, self.architecture)

    def top_blocks(self, layers: int) -> list[nn.Module]:
        """The layers that run in the last so many steps; in ALBERT they may serve below, too."""
        return list(dict.fromkeys(self._calls[self.depth - layers :]))

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.model.parameters()).device

    @property
    def can_pack(self) -> bool:
        """Whether windows can be packed end to end; models with their own kind of attention are padded instead."""
        return bool(getattr(self.model, "_supports_attention_backend", False))

    @property
    def can_pool(self) -> bool:
        """Whether there is a pooled vector to be had."""
        return getattr(self.model, "pooler", None) is not None

    def has_room(self, longest: int, multiple: int) -> bool:
        """Whether it takes windows as long as the longest one rounded up; two positions may be set aside."""
        most = getattr(self.config, "max_position_embeddings", None)
        rounded = -(-longest // multiple) * multiple
        return rounded == longest or most is None or rounded + 2 <= most

    def set_dropout(self, share: float) -> None:
        """Set every dropout inside the encoder but that of attention weights, which is always left out."""
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = share
        drop_attention_dropout(self.model, self.architecture)

    @contextmanager
    def plain_attention(self) -> Iterator[None]:
        """Compute attention in single steps: traced, they are fewer and faster than what a fused kernel becomes."""
        before = self.config._attn_implementation  # noqa: SLF001 - transformers has no public name for it
        self.config._attn_implementation = "eager"  # noqa: SLF001
        try:
            yield
        finally:
            self.config._attn_implementation = before  # noqa: SLF001

    def compile_layers(self) -> None:
        """Compile what a layer computes, for any number of tokens; hooks and the rest of the model stay as they are."""
        if next(self.model.parameters()).dtype is torch.bfloat16:  # where a shorter formula gives the same numbers
            from bertvision.encoder.gelu import shorten_gelu  # noqa: PLC0415 - imports transformers

            shorten_gelu(self.model)
        # one program for all layers of a kind: each by itself would be compiled anew
        programs = {kind: torch.compile(kind.forward, dynamic=True) for kind in {type(block) for block in self.blocks}}
        for block in self.blocks:
            block.forward = MethodType(programs[type(block)], block)

    @override
    def forward(self, batch: TokenBatch, *, layers: Sequence[int] | None = None, pooled: bool = False) -> HiddenStates:
        """The hidden states of a batch; the encoder stops at the last layer that is asked for.

        Args:
            batch: padded or packed windows.
            layers: which layers, in ascending order; None gives all of them, the embedding output first.
            pooled: whether to add the encoder's own pooled vector, which needs the whole depth.
        """
        wanted = range(self.depth + 1) if layers is None else layers
        collected: dict[int, Tensor] = {}

        def keep(layer: int, states: Tensor) -> None:
            if layer in wanted:
                collected[layer] = states

        vector = self.visit(batch, keep, depth=self.depth if pooled else max(wanted), pooled=pooled)
        states = torch.stack([collected[layer] for layer in wanted], dim=1)
        return HiddenStates(states, batch.mask, vector, batch.types > 0)

    def visit(
        self, batch: TokenBatch, visitor: Visitor, *, depth: int | None = None, pooled: bool = False
    ) -> Tensor | None:
        """Show the layers to a visitor one after the other, up to `depth`; later layers are not computed.

        Nothing is kept here, so memory does not grow with the number of layers unless the visitor keeps them.

        Returns:
            The encoder's own pooled vector, (batch, width), if it was asked for.

        Raises:
            BertVisionError: `depth` is none of the encoder's, or it has no pooled vector.
        """
        last = self.depth if depth is None else depth
        if not 0 <= last <= self.depth:
            raise BertVisionError(f"depth {last} was asked for; {self.name} has the layers 0 to {self.depth}.")
        if pooled and not self.can_pool:
            raise BertVisionError(f"{self.name} has no pooled vector ({self.config.model_type} has none).")
        if pooled and batch.packed:  # transformers would pool the first window alone
            raise BertVisionError(f"{self.name} gives no pooled vector of packed windows; pad them.")
        calls = 0

        def look(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            # a hook that returned something would replace the layer's input
            nonlocal calls
            visitor(calls, args[0] if args else kwargs["hidden_states"])
            if calls == last:
                raise _DeepEnoughError
            calls += 1

        # ALBERT runs one module many times: one hook each, and the calls are counted
        hooks = [block.register_forward_pre_hook(look, with_kwargs=True) for block in dict.fromkeys(self._calls)]
        try:
            with sdpa_kernel(KERNELS) if batch.ids.is_cuda else nullcontext():
                output = self.model(**self._inputs(batch), **({} if batch.packed else {"return_dict": True}))
        except _DeepEnoughError:
            return None
        finally:
            for hook in hooks:
                hook.remove()
        if calls != self.depth:
            raise RuntimeError(f"{self.name} called {calls} layers, {self.depth} were expected")
        visitor(self.depth, output.last_hidden_state)
        return output.pooler_output if pooled else None

    def _inputs(self, batch: TokenBatch) -> dict[str, Any]:
        inputs: dict[str, Any] = {"input_ids": batch.ids}
        if getattr(self.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = batch.types.masked_fill(batch.types == SECOND, 0)
        bounded = self._bounded(batch)
        self._attend(bounded=batch.packed or bounded)
        if batch.bounds is not None:
            inputs["position_ids"] = self._positions(batch.bounds, batch.ids.shape[1])
            inputs["window_bounds"], inputs["window_longest"] = batch.bounds, batch.longest
        elif bounded:
            inputs["window_bounds"], inputs["window_longest"] = padded_bounds(batch.mask), batch.longest
        else:
            inputs["attention_mask"] = self._mask(batch)
        return inputs

    def _bounded(self, batch: TokenBatch) -> bool:
        """Whether padding is kept apart by bounds instead of a mask: the faster kernel, which knows 16 bits alone.

        Also where there is none: compiled layers then have one way for all windows, and nothing left to compile when
        their steps are recorded.
        """
        if batch.packed or not self.can_pack or not batch.ids.is_cuda:
            return False
        autocast = torch.is_autocast_enabled("cuda")
        dtype = torch.get_autocast_dtype("cuda") if autocast else next(self.model.parameters()).dtype
        return dtype in {torch.bfloat16, torch.float16}

    def _mask(self, batch: TokenBatch) -> Tensor | None:
        """Which tokens may be seen, as the model wants to be told."""
        if self.config.model_type == "mpnet":  # as our attention takes it; transformers would wait for the GPU
            return batch.mask[:, None, None, :]
        # without padding there is nothing to mask, and attention without a mask is faster
        return None if batch.full and self.can_pack else batch.mask.long()

    def _attend(self, *, bounded: bool) -> None:
        """Let the model attend as the windows ask for; transformers looks it up in the config at every layer."""
        if bounded and not self.can_pack:
            raise BertVisionError(f"{self.name} ({self.config.model_type}) cannot take packed windows; pad them.")
        now = self.config._attn_implementation  # noqa: SLF001 - set_attn_implementation checks a list we are not in
        if bounded and now != PACKED:
            self._attention_when_padded = now
        if bounded or now == PACKED:
            self.config._attn_implementation = PACKED if bounded else self._attention_when_padded  # noqa: SLF001

    def _positions(self, bounds: Tensor, tokens: int) -> Tensor:
        """Position numbers that start anew with every window, (1, tokens)."""
        first = self.architecture.first_position
        offset = self.config.pad_token_id + 1 if first is None else first
        return window_places(bounds, tokens)[1][None] + offset
