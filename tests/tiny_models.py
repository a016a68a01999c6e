"""Small random encoders of every architecture, saved so that `load_encoder` reads them without a network."""

import string
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from bertvision.tasks.windows import Windows

SPECIAL = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
LETTERS = [*string.ascii_lowercase, *(f"##{letter}" for letter in string.ascii_lowercase)]
VOCABULARY = [*SPECIAL, *LETTERS, ".", ",", "?"]
"""60 tokens: any lower-case text can be spelt with them."""

LONGEST = 40
"""Tokens that the small encoders take."""

_SHAPE = {
    "hidden_size": 16,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": LONGEST,
}
_AFTER_PADDING = {"max_position_embeddings": LONGEST + 2}  # positions begin after the padding token's number
_GROUPS = {"num_hidden_layers": 4, "num_hidden_groups": 2, "inner_group_num": 2}
_DEBERTA = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 4, "type_vocab_size": 0}
_CONV = {"conv_kernel_size": 3, "norm_rel_ebd": "layer_norm", "share_att_key": True}
_CONFIGS: dict[str, dict[str, Any]] = {
    "bert": {},
    "albert": {"embedding_size": 8},
    "albert-groups": {"model_type": "albert", "embedding_size": 8, **_GROUPS},
    "distilbert": {},
    "roberta": {"type_vocab_size": 1, **_AFTER_PADDING},
    "xlm-roberta": {"type_vocab_size": 1, **_AFTER_PADDING},
    "electra": {"embedding_size": 8},
    "mpnet": _AFTER_PADDING,
    "deberta-v2": _DEBERTA,
    "deberta-v2-conv": {"model_type": "deberta-v2", **_DEBERTA, **_CONV},
    "modernbert": {"local_attention": 4, "global_attn_every_n_layers": 2},
}

KINDS = list(_CONFIGS)
"""Every small encoder by name: its architecture, and what is special about it."""

PACKABLE = [kind for kind in KINDS if not kind.startswith(("mpnet", "deberta"))]
"""Those whose attention can be told where windows end."""

POOLED = ["bert", "albert", "albert-groups", "roberta", "xlm-roberta", "mpnet"]
"""Those with a pooled vector."""


def tiny_config(kind: str) -> Any:  # noqa: ANN401 - transformers' configs have no type
    """The config of a small encoder."""
    values = {"model_type": kind, "vocab_size": len(VOCABULARY), **_SHAPE, **_CONFIGS[kind]}
    values |= {f"{word}_token_id": VOCABULARY.index(f"[{word.upper()}]") for word in ("pad", "cls", "sep")}
    if kind == "distilbert":
        names = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"}
        names["intermediate_size"] = "hidden_dim"
        values = {names.get(name, name): value for name, value in values.items()}
    return AutoConfig.for_model(bos_token_id=None, eos_token_id=None, **values)


def tiny_model(kind: str = "bert", *, seed: int = 0, auto: Any = AutoModel) -> Any:  # noqa: ANN401 - no types either
    """A small encoder in which every parameter differs from its usual start, biases and LayerNorms too.

    Args:
        kind: one of `KINDS`.
        seed: of the weights.
        auto: the transformers class that builds it, such as `AutoModelForQuestionAnswering`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # transformers' DeBERTa still uses torch.jit.script
        model = auto.from_config(tiny_config(kind)).eval()
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in model.named_parameters():
            is_gain = value.ndim == 1 and name.endswith("weight")
            value.copy_(0.3 * torch.randn(value.shape, generator=random) + float(is_gain))
    return model


def save_tiny(folder: Path, kind: str = "bert", *, seed: int = 0, auto: Any = AutoModel) -> str:  # noqa: ANN401
    """Save a small encoder with its tokenizer; returns the name that `load_encoder` takes."""
    tiny_model(kind, seed=seed, auto=auto).save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return str(folder)


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """A tokenizer that spells words letter by letter."""
    backend = Tokenizer(models.WordPiece({token: row for row, token in enumerate(VOCABULARY)}, unk_token="[UNK]"))  # noqa: S106
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 0), ("[SEP]", 2)],
    )
    words = {f"{word}_token": f"[{word.upper()}]" for word in ("cls", "pad", "sep", "unk", "mask")}
    return PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=LONGEST, **words)


SAME_SEGMENT = processors.TemplateProcessing(
    single="[CLS]:0 $A:0 [SEP]:0",
    pair="[CLS]:0 $A:0 [SEP]:0 [SEP]:0 $B:0 [SEP]:0",
    special_tokens=[("[CLS]", 0), ("[SEP]", 2)],
)
"""What RoBERTa's tokenizer puts around texts: two separators between them, and segment 0 everywhere."""


def save_tiny_same_segment(folder: Path, kind: str) -> str:
    """Save a small encoder whose tokenizer gives both texts of a pair segment 0."""
    name = save_tiny(folder, kind)
    tokenizer = tiny_tokenizer()
    tokenizer.backend_tokenizer.post_processor = SAME_SEGMENT
    tokenizer.save_pretrained(folder)
    return name


def tiny_windows(*lengths: int, seed: int = 0) -> Windows:
    """Windows of random tokens: [CLS] first, the second half of each in segment 1, never a padding token."""
    bounds = np.cumsum([0, *lengths], dtype=np.int64)
    ids = np.random.default_rng(seed).integers(len(SPECIAL), len(VOCABULARY), int(bounds[-1]), dtype=np.int32)
    ids[bounds[:-1]] = VOCABULARY.index("[CLS]")
    types = [np.arange(length) >= length / 2 for length in lengths]
    rows = np.arange(len(lengths), dtype=np.int64)
    return Windows(
        ids=ids,
        types=np.concatenate(types).astype(np.uint8),
        bounds=bounds,
        example=rows,
        targets=np.zeros_like(rows),
        context=np.zeros((len(lengths), 2), dtype=np.int64),
        context_token=np.zeros_like(rows),
        offsets=np.zeros((len(ids), 2), dtype=np.int32),
        truncated=0,
    )
