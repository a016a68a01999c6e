"""One linear map of the last layer: the encoder's own output."""

from typing import final

from torch import Tensor, nn
from typing_extensions import override

from bertvision.heads.head import Head, HeadShape


@final
class LastLayer(Head):
    """Project the last layer, as plain fine-tuning does."""

    def __init__(self, shape: HeadShape, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.project = nn.Linear(shape.width, shape.outputs)
        nn.init.normal_(self.project.weight, std=0.02)  # as BERT initialises its output
        nn.init.zeros_(self.project.bias)

    @property
    @override
    def reads(self) -> tuple[int, ...]:
        return (-1,)

    @override
    def forward(self, states: Tensor, mask: Tensor) -> Tensor:
        outputs: Tensor = self.project(self.dropout(states[:, -1]))
        return outputs
