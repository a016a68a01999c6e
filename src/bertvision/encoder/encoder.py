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
"""Attention kernels on a GPU: all but cuDNN's, which is planned again for every sequence length, and whose gradients
may be NaN for masked sequences of 64, 192 or 320 tokens (torch 2.11)."""

Visitor = Callable[[int, Tensor], None]
"""Takes a layer's number and its states, (batch, tokens, width)."""


class _DeepEnoughError(Exception):
    """Stops a forward pass at the last layer that is needed; always caught in `Encoder.visit`."""


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
        # packed attention has no dropout, and for padded windows it would rule out fast kernels: decisions/0007
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
        """The modules of the top layers; ALBERT shares its modules, so they may also be those of lower layers."""
        return list(dict.fromkeys(self._calls[self.depth - layers :]))

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.model.parameters()).device

    @property
    def can_pack(self) -> bool:
        """Whether it supports packed windows; models with an attention of their own do not."""
        return bool(getattr(self.model, "_supports_attention_backend", False))

    @property
    def can_pool(self) -> bool:
        """Whether it has a pooler."""
        return getattr(self.model, "pooler", None) is not None

    def has_room(self, longest: int, multiple: int) -> bool:
        """Whether `longest`, rounded up to a multiple, is within the maximum length; 2 positions may be reserved."""
        most = getattr(self.config, "max_position_embeddings", None)
        rounded = -(-longest // multiple) * multiple
        return rounded == longest or most is None or rounded + 2 <= most

    def set_dropout(self, share: float) -> None:
        """Set the rate of all dropouts inside the encoder; dropout of attention weights is always 0."""
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = share
        drop_attention_dropout(self.model, self.architecture)

    @contextmanager
    def plain_attention(self) -> Iterator[None]:
        """Use transformers' eager attention, for tracing: a fused kernel is traced as more and slower operations."""
        before = self.config._attn_implementation  # noqa: SLF001 - transformers has no public name for it
        self.config._attn_implementation = "eager"  # noqa: SLF001
        try:
            yield
        finally:
            self.config._attn_implementation = before  # noqa: SLF001

    def compile_layers(self) -> None:
        """Compile (`torch.compile`) the layers, for any number of tokens; hooks and all else stay eager."""
        if next(self.model.parameters()).dtype is torch.bfloat16:  # the approximation is exact to bfloat16's precision
            from bertvision.encoder.gelu import shorten_gelu  # noqa: PLC0415 - imports transformers

            shorten_gelu(self.model)
        # compile the class's function once: compiling every block would repeat the same work
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
        """Call a visitor with the states of each layer in turn, up to `depth`; later layers are not computed.

        No states are kept here, so memory does not grow with the number of layers unless the visitor keeps them.

        Returns:
            The encoder's own pooled vector, (batch, width), if it was asked for.

        Raises:
            BertVisionError: the encoder has no such depth, or no pooled vector.
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
        """Whether to pass padded windows as bounds instead of a mask, to a faster kernel that supports 16 bits only.

        Batches without padding take the same path: compiled layers then have a single graph, and nothing is compiled
        while CUDA graphs are captured.
        """
        if batch.packed or not self.can_pack or not batch.ids.is_cuda:
            return False
        autocast = torch.is_autocast_enabled("cuda")
        dtype = torch.get_autocast_dtype("cuda") if autocast else next(self.model.parameters()).dtype
        return dtype in {torch.bfloat16, torch.float16}

    def _mask(self, batch: TokenBatch) -> Tensor | None:
        """The attention mask in the model's format; None for no mask."""
        if self.config.model_type == "mpnet":  # the format of our attention; that of transformers synchronises
            return batch.mask[:, None, None, :]
        # without padding there is nothing to mask, and attention without a mask is faster
        return None if batch.full and self.can_pack else batch.mask.long()

    def _attend(self, *, bounded: bool) -> None:
        """Choose the attention implementation; transformers looks it up in the config at every layer."""
        if bounded and not self.can_pack:
            raise BertVisionError(f"{self.name} ({self.config.model_type}) cannot take packed windows; pad them.")
        now = self.config._attn_implementation  # noqa: SLF001 - set_attn_implementation checks a list we are not in
        if bounded and now != PACKED:
            self._attention_when_padded = now
        if bounded or now == PACKED:
            self.config._attn_implementation = PACKED if bounded else self._attention_when_padded  # noqa: SLF001

    def _positions(self, bounds: Tensor, tokens: int) -> Tensor:
        """Position numbers of packed windows, (1, tokens); each window starts at the first position again."""
        first = self.architecture.first_position
        offset = self.config.pad_token_id + 1 if first is None else first
        return window_places(bounds, tokens)[1][None] + offset
