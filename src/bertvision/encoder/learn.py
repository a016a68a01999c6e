"""The choices of `--learn`: which parameters of an encoder are trained."""

import re
from dataclasses import dataclass

from torch import nn

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.houlsby import add_houlsby_adapters
from bertvision.encoder.lora import add_lora
from bertvision.errors import BertVisionError, MisfitError

CHOICES = "full, top:K, top:K:strict, houlsby:D, houlsby:D+full, lora:R, bitfit, layernorm, none"
SIZES = "K is a whole number from 0 on, D and R are whole numbers from 1 on, such as lora:16."


@dataclass(frozen=True, slots=True, kw_only=True)
class Learn:
    """Which parameters of an encoder learn.

    Attributes:
        word: the choice as the user wrote it.
        everything: whether all of the encoder's own parameters learn.
        top: number of uppermost layers that learn; None if no whole layers are chosen.
        norms: whether all LayerNorms learn, also those of layers that do not learn otherwise.
        biases: whether all biases learn, except the pooler's.
        houlsby: inner width of new bottleneck adapters; None adds none.
        lora: rank of new low-rank changes to every linear map of the layers; None adds none.
    """

    word: str
    everything: bool = False
    top: int | None = None
    norms: bool = False
    biases: bool = False
    houlsby: int | None = None
    lora: int | None = None


_PLAIN = {
    "full": Learn(word="full", everything=True),
    "bitfit": Learn(word="bitfit", biases=True),
    "layernorm": Learn(word="layernorm", top=0, norms=True),
    "none": Learn(word="none"),
}


def parse_learn(word: str) -> Learn:
    """Read a `--learn` choice.

    Raises:
        BertVisionError: it is none of `CHOICES`.

    Example:
        >>> parse_learn("top:3").top
        3
    """
    if word in _PLAIN:
        return _PLAIN[word]
    parsed = re.fullmatch(r"(top|lora|houlsby):(\d+)(:strict|\+full)?", word)
    kind, size, rest = (parsed[1], int(parsed[2]), parsed[3]) if parsed else ("", 0, None)
    match kind, rest:
        case "top", None | ":strict":
            return Learn(word=word, top=size, norms=rest is None)
        case "houlsby", None | "+full" if size:
            return Learn(word=word, houlsby=size, norms=True, everything=rest is not None)
        case "lora", None if size:
            return Learn(word=word, lora=size)
        case _:
            raise BertVisionError(f"--learn is '{word}', one of these is expected: {CHOICES}. {SIZES}")


def apply_learn(encoder: Encoder, learn: Learn) -> None:
    """Freeze all parameters of the encoder except those that learn; adds adapters and low-rank changes.

    Raises:
        MisfitError: the encoder has fewer layers than `top`, or no biases where these are to learn.
        BertVisionError: it has bottleneck adapters already, and more or low-rank changes are to be added.
    """
    if learn.top is not None and learn.top > encoder.depth:
        raise MisfitError(f"--learn {learn.word}: {encoder.name} has {encoder.depth} layers only.")
    encoder.model.requires_grad_(learn.everything)
    for value in _own_parameters(encoder, learn):
        value.requires_grad_(True)
    if learn.houlsby is not None:
        add_houlsby_adapters(encoder, learn.houlsby)
    if learn.lora is not None:
        add_lora(encoder, learn.lora)


def _own_parameters(encoder: Encoder, learn: Learn) -> list[nn.Parameter]:
    """The encoder's own parameters that are chosen by module: those of the top layers, LayerNorms, or biases."""
    modules = encoder.top_blocks(learn.top or 0)
    if learn.top and encoder.architecture.final_norm is not None:
        modules.append(encoder.model.get_submodule(encoder.architecture.final_norm))
    if learn.norms:
        modules += [module for module in encoder.model.modules() if isinstance(module, nn.LayerNorm)]
    chosen = [value for module in modules for value in module.parameters()]
    if learn.biases:
        chosen += [value for name, value in encoder.model.named_parameters() if _is_bias(name)]
        if not chosen:
            raise MisfitError(f"--learn bitfit: {encoder.name} ({encoder.config.model_type}) has no biases.")
    return chosen


def _is_bias(name: str) -> bool:
    return name.endswith(".bias") and not name.startswith("pooler")
