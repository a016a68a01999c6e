"""LayerReader: how much each layer of the encoder contributed to outputs of a head."""

from typing import final

import numpy as np
import torch
from numpy.typing import NDArray

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.states import HiddenStates
from bertvision.heads import Head, layers_read
from bertvision.inference.computed_states import RowStates, StreamStates, encode_texts
from bertvision.inference.outputs import PassOptions
from bertvision.objectives import pool_rows
from bertvision.packs.card import PackCard
from bertvision.packs.target import Target
from bertvision.tasks.windows import Windows
from bertvision.training.states import StateBatch


@final
class LayerReader:
    """Attributes outputs of a head to the layers of the encoder (gradient times input).

    A layer's contribution is the sum, over tokens and width, of its states times the gradient of the output with
    respect to them. For heads that are linear in the states, the contributions and the bias add up to the output; for
    others they are a first-order approximation.
    """

    def __init__(self, encoder: Encoder, passes: PassOptions) -> None:
        self._encoder = encoder
        self._passes = passes

    def read(self, card: PackCard, head: Head, windows: tuple[Windows, ...], target: Target) -> NDArray[np.float64]:
        """The contribution of every layer, (encoder's layers + 1,); 0 for layers that the head does not read.

        Args:
            card: card of the head's pack.
            head: one of its heads.
            windows: windows that the head reads; for pairs that are encoded separately, of first and of second texts.
            target: outputs whose sum is explained.
        """
        layers = layers_read([head])
        batch = (
            self._rows(card, windows, target, layers) if card.reads == "rows" else self._tokens(windows, target, layers)
        )
        hidden = batch.padded
        # a copy, since a pass without gradients may return tensors that cannot require them
        states = hidden.states.detach().float().clone().requires_grad_()
        copied = StateBatch(HiddenStates(states, hidden.mask, context=hidden.context), lowest=layers[0])
        by_token = card.reads == "rows" or card.task.kind == "spans"
        outputs, mask = copied.read(head, None if by_token else card.pool)
        rows = outputs if by_token else pool_rows(outputs, mask, card.pool)[:, None]  # (1, tokens, outputs)
        explained = torch.stack([rows[0, token, output] for token, output in target.places]).sum()
        (gradient,) = torch.autograd.grad(explained, states)
        contributions = np.zeros(self._encoder.depth + 1)
        by_layer = (gradient * states).detach().double().sum(dim=(0, 2, 3))
        contributions[layers.start : layers.stop] = by_layer.cpu().numpy()
        return contributions

    def _tokens(self, windows: tuple[Windows, ...], target: Target, layers: range) -> StateBatch:
        return StreamStates(self._encoder, windows[0], self._passes, layers).batch(np.array([target.window]))

    def _rows(self, card: PackCard, windows: tuple[Windows, ...], target: Target, layers: range) -> StateBatch:
        texts = [one.select(np.array([target.window])) for one in windows]
        rows = encode_texts(self._encoder, texts, self._passes, pool=card.pool, pairs=card.pairs, layers=layers)
        return RowStates(rows, self._encoder.device, lowest=layers[0]).batch(np.zeros(1, dtype=np.int64))
