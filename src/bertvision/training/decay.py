"""Weight decay: which parameters it applies to, of an encoder as of a head."""

from torch import nn


def decays(name: str, value: nn.Parameter) -> bool:
    """Whether weight decay applies to a parameter: to matrices, not to biases, norms, scales and mixing weights.

    Args:
        name: of the parameter within its model; needed because some biases and mixing weights are matrices (one row for
            each of several adapters or outputs).
        value: the parameter.
    """
    return value.ndim > 1 and name.rpartition(".")[2] not in {"bias", "mix"}
