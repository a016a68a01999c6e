"""Where to compute, and how precisely."""

from typing import TYPE_CHECKING, Literal, get_args

from bertvision.errors import BertVisionError

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]
Dtype = Literal["auto", "float32", "bfloat16"]


def choose_device(device: Device) -> "torch.device":
    """Where to compute.

    Raises:
        BertVisionError: a GPU was asked for, and there is none; or it is no device that we know.
    """
    if device not in get_args(Device):
        raise BertVisionError(f"the device is '{device}'; {', '.join(get_args(Device))} are known.")
    import torch  # noqa: PLC0415 - exported packs, which know devices by name, run without it

    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise BertVisionError("--device cuda was asked for, but there is no GPU here. Use --device cpu.")
    return torch.device("cpu" if device == "cpu" or not has_gpu else "cuda")
