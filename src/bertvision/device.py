"""Names of devices and number formats, and the choice of a torch device."""

from typing import TYPE_CHECKING, Literal, get_args

from bertvision.errors import BertVisionError

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]
Dtype = Literal["auto", "float32", "bfloat16"]


def choose_device(device: Device) -> "torch.device":
    """The torch device of this name; `auto` takes the GPU if there is one.

    Raises:
        BertVisionError: the name is unknown, or it is `cuda` and there is no GPU.
    """
    if device not in get_args(Device):
        raise BertVisionError(f"the device is '{device}'; {', '.join(get_args(Device))} are known.")
    import torch  # noqa: PLC0415 - exported packs use the device names above and run without torch

    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise BertVisionError("--device cuda was asked for, but there is no GPU here. Use --device cpu.")
    return torch.device("cpu" if device == "cpu" or not has_gpu else "cuda")
