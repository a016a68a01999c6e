"""SharedRows: one row of states per different window of several tasks, encoded once."""

from collections.abc import Iterable
from typing import final

import numpy as np
import torch
from torch import Tensor

from bertvision.encoder.encoder import Encoder
from bertvision.objectives import Pool
from bertvision.runs.outputs import PassOptions
from bertvision.runs.states import encode_rows
from bertvision.tasks.token_rows import TokenRows, join_rows


@final
class SharedRows:
    """The rows of all windows that it was made for, in memory.

    Attributes:
        windows: how many it was made for.
    """

    def __init__(self, encoder: Encoder, parts: Iterable[TokenRows], options: PassOptions, pool: Pool) -> None:
        """Encode every different window once.

        Args:
            encoder: frozen.
            parts: windows of any tasks and splits.
            options: how the encoder is run.
            pool: which row stands for a window.
        """
        whole = join_rows(list(parts))
        self.windows = len(whole)
        first: dict[bytes, int] = {}
        for row, content in enumerate(whole.contents()):
            first.setdefault(content, row)
        self._numbers = {content: number for number, content in enumerate(first)}
        self._rows = encode_rows(encoder, whole.select(np.array(list(first.values()))), options, pool)

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, windows: TokenRows) -> Tensor:
        """One row per window and layer, (windows, layers, width), as `encode_rows` gives them."""
        return self._rows[torch.tensor([self._numbers[content] for content in windows.contents()])]
