"""Encoder: token windows → hidden states of all layers; if only lower ones are needed, the upper ones do not run."""

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
"""Attention kernels on a GPU: all except cuDNN's, which plans anew for every length of windows, and whose gradients may
be NaN where windows of 64, 192 or 320 tokens are masked (torch 2.11)."""

Visitor = Callable[[int, Tensor], None]
"""Called with a layer's number and its states, (batch, tokens, width)."""


class _DeepEnoughError(Exception):
    """Ends a forward pass at the last layer that is needed; `visit` catches it."""


@final
class Encoder(nn.Module):
    """A transformers encoder that gives the hidden states of its layers, all together or one layer at a time.

    Attributes:
        model: the transformers model.
        name: under which the user asked for it.
        config: the transformers config.
        architecture: module names inside the model.
    """

    def __init__(self, model: nn.Module, *, name: str) -> None:
        super().__init__()
        self.model = model
        self.name = name
        config: Any = model.config
        self.config = config
        self.architecture = architecture_of(config.model_type)
        if getattr(config, "is_decoder", False):
            raise BertVisionError(
                f"'{name}' is a decoder (is_decoder in its config.json): tokens do not see those after them. Take an "
                "encoder."
            )
        self._calls = calls_of(model, self.architecture, config.num_hidden_layers)
        self._attention_when_padded: str = config._attn_implementation  # noqa: SLF001 - there is no public name for it
        # the kernel for packed windows has no dropout, and elsewhere dropout rules out the fast kernels: decisions/0007
        drop_attention_dropout(model, self.architecture)
        if config.model_type == "mpnet":
            from bertvision.encoder.relative import speed_up_attention  # noqa: PLC0415 - imports all of MPNet

            speed_up_attention(model)

    @property
    def depth(self) -> int:
        """Number of layers, without the embedding output."""
        return len(self._calls)

    @property
    def width(self) -> int:
        """Hidden size: numbers per token in every layer."""
        return int(self.config.hidden_size)

    @property
    def blocks(self) -> list[nn.Module]:
        """Every layer with weights of its own, lowest first."""
        return blocks_of(self.model, self.architecture)

    def top_blocks(self, layers: int) -> list[nn.Module]:
        """The modules of the last `layers` layers; ALBERT may run the same modules for lower layers, too."""
        return list(dict.fromkeys(self._calls[self.depth - layers :]))

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return next(self.model.parameters()).device

    @property
    def can_pack(self) -> bool:
        """Whether it takes packed windows: not if the model has attention of its own that cannot be replaced."""
        return bool(getattr(self.model, "_supports_attention_backend", False))

    @property
    def can_pool(self) -> bool:
        """Whether the model has a pooler, and so a pooled vector."""
        return getattr(self.model, "pooler", None) is not None

    def has_room(self, longest: int, multiple: int) -> bool:
        """Whether it has position embeddings for `longest` rounded up, and two more, which RoBERTa reserves."""
        limit = getattr(self.config, "max_position_embeddings", None)
        rounded = -(-longest // multiple) * multiple
        return rounded == longest or limit is None or rounded + 2 <= limit

    def set_dropout(self, share: float) -> None:
        """Set the probability of every dropout in the encoder except that of attention weights, which is always 0."""
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = share
        drop_attention_dropout(self.model, self.architecture)

    @contextmanager
    def plain_attention(self) -> Iterator[None]:
        """Within this context, compute attention without a fused kernel, whose trace would be longer and slower."""
        before = self.config._attn_implementation  # noqa: SLF001 - transformers has no public name for it
        self.config._attn_implementation = "eager"  # noqa: SLF001
        try:
            yield
        finally:
            self.config._attn_implementation = before  # noqa: SLF001

    def compile_layers(self) -> None:
        """Compile the forward pass of the layers in place, for any number of tokens, but not their hooks."""
        if next(self.model.parameters()).dtype is torch.bfloat16:  # too coarse to show the difference
            from bertvision.encoder.gelu import shorten_gelu  # noqa: PLC0415 - imports transformers

            shorten_gelu(self.model)
        # layers of one class share what is compiled: each by itself would be compiled anew
        compiled = {cls: torch.compile(cls.forward, dynamic=True) for cls in {type(block) for block in self.blocks}}
        for block in self.blocks:
            block.forward = MethodType(compiled[type(block)], block)

    @override
    def forward(self, batch: TokenBatch, *, layers: Sequence[int] | None = None, pooled: bool = False) -> HiddenStates:
        """The hidden states of a batch; layers above the last one in `layers` are not computed.

        Args:
            batch: padded or packed windows.
            layers: numbers of the layers, in ascending order; None gives all, from 0, the embedding output.
            pooled: whether to add the encoder's own pooled vector, for which all layers must run.

        Raises:
            BertVisionError: there is no such layer, or `layers` is empty; or as `visit`.
        """
        known = range(self.depth + 1)
        wanted = known if layers is None else layers
        if not wanted or not all(layer in known for layer in wanted):
            raise BertVisionError(
                f"layers {list(wanted)} were asked for; {self.name} has the layers 0 to {self.depth}."
            )
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
        """Call `visitor` with the states of each layer from 0 to `depth`; layers above are not computed.

        Without gradients, memory does not grow with the number of layers unless the visitor keeps their states.

        Args:
            batch: padded or packed windows.
            visitor: called once per layer.
            depth: the last layer; None visits all.
            pooled: whether to return the pooled vector, which needs all layers.

        Returns:
            The encoder's own pooled vector, (batch, width), if `pooled`, else None.

        Raises:
            BertVisionError: there is no layer `depth` or no pooled vector; or the batch is packed, and the encoder
                does not take it or `pooled` is set.
        """
        last = self.depth if depth is None else depth
        if not 0 <= last <= self.depth:
            raise BertVisionError(f"depth {last} was asked for; {self.name} has the layers 0 to {self.depth}.")
        if pooled and not self.can_pool:
            raise BertVisionError(f"{self.name} has no pooled vector ({self.config.model_type} has none).")
        if pooled and batch.packed:  # transformers would pool the first window alone
            raise BertVisionError(f"{self.name} gives no pooled vector of packed windows; pad them.")
        calls = 0

        def at_layer(_module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            # returns nothing, which leaves the layer's input as it is
            nonlocal calls
            visitor(calls, args[0] if args else kwargs["hidden_states"])
            if calls == last:
                raise _DeepEnoughError
            calls += 1

        # ALBERT runs one module many times: so every module has one hook, and calls are counted
        hooks = [block.register_forward_pre_hook(at_layer, with_kwargs=True) for block in dict.fromkeys(self._calls)]
        try:
            with sdpa_kernel(KERNELS) if batch.ids.is_cuda else nullcontext():
                output = self.model(**self._inputs(batch), return_dict=True)  # some configs ask for tuples
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
        self._select_attention(bounded=batch.packed or bounded)
        if batch.bounds is not None:
            inputs["position_ids"] = self._positions(batch.bounds, batch.ids.shape[1])
            inputs["window_bounds"], inputs["window_longest"] = batch.bounds, batch.longest
        elif bounded:
            inputs["window_bounds"], inputs["window_longest"] = padded_bounds(batch.mask), batch.longest
        else:
            inputs["attention_mask"] = self._mask(batch)
        return inputs

    def _bounded(self, batch: TokenBatch) -> bool:
        """Whether padded windows are given by bounds instead of a mask, to a kernel that is faster but 16-bit only.

        Batches without padding are, too: then compiled layers run the same code for all batches, and nothing is left to
        compile while CUDA graphs are captured.
        """
        if batch.packed or not self.can_pack or not batch.ids.is_cuda:
            return False
        autocast = torch.is_autocast_enabled("cuda")
        dtype = torch.get_autocast_dtype("cuda") if autocast else next(self.model.parameters()).dtype
        return dtype in {torch.bfloat16, torch.float16}

    def _mask(self, batch: TokenBatch) -> Tensor | None:
        """The attention mask in the form the model takes; None if attention needs none."""
        if self.config.model_type == "mpnet":  # the form of our attention; transformers would synchronise with the GPU
            return batch.mask[:, None, None, :]
        # without padding there is nothing to mask, and attention without a mask is faster
        return None if batch.full and self.can_pack else batch.mask.long()

    def _select_attention(self, *, bounded: bool) -> None:
        """Select attention by window bounds or by mask in the config, where transformers looks it up at every layer."""
        if bounded and not self.can_pack:
            raise BertVisionError(f"{self.name} ({self.config.model_type}) cannot take packed windows; pad them.")
        now = self.config._attn_implementation  # noqa: SLF001 - set_attn_implementation checks a list we are not in
        if bounded and now != PACKED:
            self._attention_when_padded = now
        if bounded or now == PACKED:
            self.config._attn_implementation = PACKED if bounded else self._attention_when_padded  # noqa: SLF001

    def _positions(self, bounds: Tensor, tokens: int) -> Tensor:
        """Position ids, (1, tokens), which start anew with every window."""
        first = self.architecture.first_position
        offset = self.config.pad_token_id + 1 if first is None else first
        return window_places(bounds, tokens)[1][None] + offset
