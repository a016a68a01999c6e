"""TextTokenizer: texts → tokens without special tokens, and templates of the special tokens that windows need."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from bertvision.atomic import write_text
from bertvision.errors import BertVisionError, first_line
from bertvision.pretrained import BUILTIN_ENCODER, encoder_file, locate_encoder
from bertvision.tasks.examples import IntArray
from bertvision.tasks.token_rows import SECOND

_COUNT_AFTER_PADDING = {"roberta", "xlm-roberta", "mpnet"}
"""Model types whose positions are numbered from `pad_token_id` + 1 on."""

_AT_ONCE = 1024
"""Texts per call of the tokenizer: bounds the memory of its result objects, and still keeps all its threads busy."""

_UNLIMITED = 10**6  # transformers writes 1e30 where a tokenizer knows no limit


@dataclass(frozen=True, slots=True)
class TokenTexts:
    """The tokens of many texts, concatenated.

    Attributes:
        ids: (tokens,) token ids.
        offsets: (tokens, 2) first character of each token in its text, and the one after the last; (0, 2) if offsets
            were not requested.
        bounds: (texts + 1,) text i consists of the tokens `bounds[i]:bounds[i + 1]`.
    """

    ids: NDArray[np.int32]
    offsets: NDArray[np.int32]
    bounds: IntArray

    @property
    def lengths(self) -> IntArray:
        """Tokens per text, (texts,)."""
        return np.diff(self.bounds)


@dataclass(frozen=True, slots=True)
class Special:
    """Consecutive special tokens: their ids and segment numbers."""

    ids: tuple[int, ...]
    types: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Template:
    """Special tokens before, between and after one or two texts, and the segment number of each text (see `SECOND`)."""

    before: Special
    between: Special
    after: Special
    types: tuple[int, ...]

    @property
    def specials(self) -> int:
        """Number of special tokens in a window."""
        return len(self.before) + len(self.between) + len(self.after)


class TextTokenizer:
    """A fast tokenizer (Rust, with character offsets) that encodes texts without special tokens.

    Attributes:
        single: template of a window with one text.
        pair: template of a window with two texts.
        limit: maximum number of tokens that the encoder takes, special tokens included; None if unlimited or unknown.
    """

    def __init__(self, backend: Tokenizer, *, limit: int | None) -> None:
        self._backend = Tokenizer.from_str(backend.to_str())  # a copy, since the calls below change its settings
        self._backend.no_truncation()  # tokenizers of sentence encoders may cut texts and pad them to 128 tokens
        self._backend.no_padding()
        self.limit = limit
        self.single = _template(self._backend.encode("a"))
        self.pair = _template(self._backend.encode("a", "a"))

    @classmethod
    def load(cls, encoder: str = BUILTIN_ENCODER) -> Self:
        """The tokenizer of an encoder: the built-in one, a local folder's, or one from the hub.

        Raises:
            BertVisionError: there is none, or it has no fast version, which character offsets need.
        """
        place = locate_encoder(encoder)
        if encoder == BUILTIN_ENCODER:  # its file is enough: transformers and torch are not imported
            return cls(Tokenizer.from_file(str(Path(place) / "tokenizer.json")), limit=512)
        from transformers import AutoTokenizer  # noqa: PLC0415 - imports torch, which takes seconds

        try:
            loaded = AutoTokenizer.from_pretrained(place)
            limit = min(int(loaded.model_max_length), _positions(encoder))
        except Exception as error:  # noqa: BLE001 - damaged files raise many kinds of errors
            raise BertVisionError(
                f"no tokenizer for encoder '{encoder}' ({first_line(error)}). "
                f"Expected a folder with tokenizer.json, a name on the hub, or '{BUILTIN_ENCODER}'."
            ) from None
        if not loaded.is_fast:
            raise BertVisionError(f"encoder '{encoder}' has no fast tokenizer, which offsets need. Take another.")
        return cls(loaded.backend_tokenizer, limit=limit if limit < _UNLIMITED else None)

    def capped(self, length: int) -> int:
        """The smaller of `length` and `limit`."""
        return length if self.limit is None else min(length, self.limit)

    @classmethod
    def from_file(cls, path: Path, *, limit: int | None) -> Self:
        """Load a tokenizer that `save` wrote.

        Raises:
            BertVisionError: the file is missing or damaged.
        """
        try:
            return cls(Tokenizer.from_file(str(path)), limit=limit)
        except Exception as error:  # noqa: BLE001 - the library raises plain Exception
            raise BertVisionError(f"{path} is no tokenizer that can be read ({error}).") from None

    def save(self, path: Path) -> None:
        """Write the tokenizer as one JSON file, which `from_file` loads without torch."""
        write_text(path, self._backend.to_str())

    def encode(self, texts: Sequence[str], *, offsets: bool = True) -> TokenTexts:
        """Token ids of every text, without special tokens and truncation.

        Args:
            texts: any number of texts.
            offsets: also compute the character offsets of tokens, which takes longer.
        """
        encode = self._backend.encode_batch if offsets else self._backend.encode_batch_fast
        ids, places = [np.empty(0, dtype=np.int32)], [np.empty((0, 2), dtype=np.int32)]
        lengths = [0]
        for begin in range(0, len(texts), _AT_ONCE):
            encodings = encode(list(texts[begin : begin + _AT_ONCE]), add_special_tokens=False)
            lengths += [len(encoding) for encoding in encodings]
            ids.append(np.fromiter(chain.from_iterable(encoding.ids for encoding in encodings), np.int32))
            if offsets:
                pairs = chain.from_iterable(encoding.offsets for encoding in encodings)
                places.append(np.fromiter(chain.from_iterable(pairs), np.int32).reshape(-1, 2))
        return TokenTexts(np.concatenate(ids), np.concatenate(places), np.cumsum(lengths, dtype=np.int64))

    def pieces(self, texts: Sequence[str]) -> list[list[str]]:
        """The tokens (word pieces) of every text as strings."""
        return [encoding.tokens for encoding in self._backend.encode_batch(list(texts), add_special_tokens=False)]


def _template(encoding: Encoding) -> Template:
    """The template by which one-letter probe texts were encoded."""
    groups: list[list[tuple[int, int]]] = [[]]
    types = []
    text: int | None = None
    for token, kind, sequence in zip(encoding.ids, encoding.type_ids, encoding.sequence_ids, strict=True):
        if sequence is None:
            groups[-1].append((token, kind))
        elif sequence != text:  # a new text begins, and with it the group of special tokens after it
            text = sequence
            types.append(kind)
            groups.append([])
    specials = [Special(tuple(t for t, _ in group), tuple(k for _, k in group)) for group in groups]
    if types == [0, 0]:
        types = [0, SECOND]
    between = specials[1] if len(types) == 2 else Special((), ())
    return Template(specials[0], between, specials[-1], tuple(types))


def _positions(encoder: str) -> int:
    """Maximum number of tokens by an encoder's position embeddings; `_UNLIMITED` if it has none, or no config."""
    if encoder_file(encoder, "config.json") is None:
        return _UNLIMITED
    from transformers import AutoConfig  # noqa: PLC0415 - imports torch, which takes seconds

    config: Any = AutoConfig.from_pretrained(locate_encoder(encoder))
    positions = getattr(config, "max_position_embeddings", None)
    if not positions or not getattr(config, "position_biased_input", True):  # DeBERTa: relative positions only
        return _UNLIMITED
    return int(positions) - (config.pad_token_id + 1 if config.model_type in _COUNT_AFTER_PADDING else 0)
