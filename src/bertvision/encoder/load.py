"""Load an encoder, tuned or not, by name; or build one without weights from a config."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from bertvision.encoder.delta import apply_changes, freeze
from bertvision.encoder.encoder import Encoder
from bertvision.encoder.learn import parse_learn
from bertvision.encoder.tuned import Tuned, base_encoder, find_tuned
from bertvision.errors import BertVisionError, first_line
from bertvision.pretrained import BUILTIN_ENCODER, check_builtin_weights, encoder_file, locate_encoder
from bertvision.tasks.files import read_json
from bertvision.tasks.task import Pool

Precision = Literal["float32", "bfloat16"]


def load_encoder(
    name: str = BUILTIN_ENCODER,
    *,
    device: str | torch.device = "cpu",
    precision: Precision = "float32",
    pooler: bool = False,
) -> Encoder:
    """Load an encoder in evaluation mode; `apply_learn` prepares it for training.

    Args:
        name: `minilm`, a local folder, a hub name, a tuned run: `runs/x` (its last snapshot) or `runs/x@0.3`, or a
            pack: its folder, or `qa-minilm` for the shipped one.
        device: of the weights.
        precision: type of the weights.
        pooler: whether to keep the pooler, if there is one; by default it is removed, see `drop_pooler`.

    Raises:
        BertVisionError: there is no such encoder, or its weights are incomplete or do not fit its config.

    Example:
        >>> from bertvision import load_encoder
        >>> encoder = load_encoder("minilm")
        >>> encoder.depth, encoder.width
        (6, 384)
    """
    tuned = find_tuned(name)
    if tuned is not None:
        encoder = load_encoder(tuned.encoder, device=device, pooler=pooler)
        apply_tuned(encoder, tuned)
        encoder.name = name
        return encoder.to(getattr(torch, precision))
    if name == BUILTIN_ENCODER:
        check_builtin_weights()
    model = _load_model(name, locate_encoder(name), getattr(torch, precision))
    if not pooler:
        drop_pooler(model)
    return Encoder(model, name=name).to(device).eval()


def build_encoder(source: str) -> Encoder:
    """An encoder without weights, on the meta device, so that it may have any size.

    Args:
        source: an encoder's name, its folder, or the path of a config.json.

    Raises:
        BertVisionError: the config is not found or not valid.
    """
    from transformers import AutoConfig, AutoModel  # noqa: PLC0415 - takes seconds to import

    if source.endswith(".json") and not Path(source).is_file():
        raise BertVisionError(f"no config for encoder '{source}': there is no such file.")
    place = source if source.endswith(".json") else locate_encoder(source)
    try:
        config = AutoConfig.from_pretrained(place)
        with torch.device("meta"):
            model = AutoModel.from_config(config)
    except Exception as error:  # noqa: BLE001 - an invalid config raises many kinds of errors
        raise BertVisionError(f"no config for encoder '{source}' ({first_line(error)}).") from None
    return Encoder(model, name=source)


def apply_tuned(encoder: Encoder, tuned: Tuned, *, otherwise: str = "Use the same weights.") -> None:
    """Apply the changes of a tuned encoder to the encoder that was tuned, in place, and freeze it.

    Args:
        encoder: with the weights it had before tuning.
        tuned: the tuned encoder, whose changes are read from disk.
        otherwise: advice at the end of the error if the encoder has other weights.

    Raises:
        BertVisionError: the encoder's fingerprint is another, or the changes cannot be read or do not fit.
    """
    got = fingerprint(encoder)
    if got != tuned.fingerprint:
        raise BertVisionError(
            f"{tuned.folder} was tuned from {tuned.encoder} with fingerprint {tuned.fingerprint}; "
            f"'{encoder.name}' has {got}. {otherwise}"
        )
    freeze(encoder)  # needed where there are no stages
    for stage in tuned.stages:
        apply_changes(encoder, parse_learn(stage.learn), stage.load())
        freeze(encoder)


def drop_pooler(model: nn.Module) -> None:
    """Remove the pooler of a model, if it has one: distributed training fails on parameters without a gradient."""
    if getattr(model, "pooler", None) is not None:
        model.pooler = None  # type: ignore[assignment]  # transformers models take None for no pooler


def fingerprint(encoder: Encoder) -> str:
    """A hash of names, shapes and a sample of the values of all parameters, to tell encoders apart in milliseconds.

    The pooler does not count: an encoder has the same fingerprint with and without it.
    """
    digest = hashlib.sha256()
    for name, value in sorted(encoder.model.named_parameters()):
        if name.startswith("pooler."):
            continue
        flat = value.detach().flatten()
        # rounded, so that weights give the same hash in bfloat16 and in float32
        sample = flat[:: max(1, len(flat) // 64)].bfloat16().float().cpu().numpy()
        digest.update(f"{name}{tuple(value.shape)}".encode())
        digest.update(sample.tobytes())
    return digest.hexdigest()[:16]


def mean_pooled(name: str) -> bool:
    """Whether the files of an encoder say that its sentence vector is the mean over tokens (sentence-transformers).

    Raises:
        DataError: they have a config for pooling, and it is not JSON.
    """
    path = encoder_file(base_encoder(name), "1_Pooling/config.json")
    if path is None:
        return False
    match read_json(path):
        case {"pooling_mode": mode}:  # from sentence-transformers 5.4 on; a list if several are joined
            return mode == "mean" or (isinstance(mode, list) and "mean" in mode)
        case {"pooling_mode_mean_tokens": bool(is_mean)}:
            return is_mean
        case _:
            return False


def usual_pool(name: str) -> Pool:
    """The default pool for an encoder: the one it was trained with; for a tuned one, in its last tuning."""
    tuned = find_tuned(name)
    if tuned is not None:
        return tuned.pool if tuned.stages else usual_pool(tuned.encoder)
    return "mean" if mean_pooled(name) else "cls"


def _load_model(name: str, place: str, dtype: torch.dtype) -> Any:  # noqa: ANN401 - transformers' models have no type
    from transformers import AutoModel  # noqa: PLC0415 - takes seconds to import

    try:
        with silence():
            model, loading = AutoModel.from_pretrained(
                place, dtype=dtype, output_loading_info=True, ignore_mismatched_sizes=True
            )
    except Exception as error:  # noqa: BLE001 - incomplete or unfit files raise many kinds of errors
        raise BertVisionError(
            f"encoder '{name}' cannot be loaded ({first_line(error)}). "
            f"Expected '{BUILTIN_ENCODER}', a folder with config.json and weights, a name on the hub, a run, or a pack."
        ) from None
    missing = sorted(key for key in loading["missing_keys"] if not key.startswith("pooler."))
    if len(missing) < len(loading["missing_keys"]):
        drop_pooler(model)  # not in the checkpoint, so transformers has made a random one
    if missing:
        raise BertVisionError(f"encoder '{name}' lacks {len(missing)} weights, first '{missing[0]}'. Is it whole?")
    for key, got, expected in sorted(loading["mismatched_keys"]):
        raise BertVisionError(
            f"encoder '{name}': '{key}' has shape {tuple(got)}, its config.json asks for {tuple(expected)}."
        )
    return model


@contextmanager
def silence() -> Iterator[None]:
    """Hide transformers' progress bar and report of loaded weights, which we check; downloads still show progress."""
    from transformers.utils import logging  # noqa: PLC0415

    verbosity = logging.get_verbosity()
    hook = logging.set_tqdm_hook(lambda _factory, args, kwargs: logging.EmptyTqdm(*args, **kwargs))
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        logging.set_tqdm_hook(hook)
