"""Folds: the encoders of a cross-fit, and the states of training windows, each from the encoder that never saw it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor

from bertvision.encoder.encoder import Encoder
from bertvision.encoder.snapshot import split_snapshot
from bertvision.errors import BertVisionError
from bertvision.inference.computed_states import StreamStates, encode_texts
from bertvision.inference.outputs import PassOptions
from bertvision.inference.pair_rows import PARTS
from bertvision.runs.fitting.fit_request import WHOLE, FitRequest, fold_encoder
from bertvision.runs.tuned_split import check_unseen
from bertvision.tasks.examples import Examples, IntArray
from bertvision.tasks.files import read_json
from bertvision.tasks.folds import fold_numbers, folds_digest
from bertvision.tasks.part import Part
from bertvision.tasks.task import Pairs, Pool
from bertvision.tasks.token_rows import TokenRows
from bertvision.training.states import StateBatch

FORMAT = 1
CROSS_FIT = "cross_fit.json"


@dataclass(frozen=True, slots=True)
class Folds:
    """One encoder per fold, each tuned without its fold, and the fold of every training window.

    Attributes:
        encoders: encoder k was tuned without fold k.
        numbers: (windows,) fold of each window.
    """

    encoders: tuple[Encoder, ...]
    numbers: IntArray

    def stream(self, windows: TokenRows, options: PassOptions, layers: range) -> "FoldStates":
        """A source that computes the states of every batch, each window's with the encoder of its fold."""
        streams = [StreamStates(encoder, windows, options, layers) for encoder in self.encoders]
        return FoldStates(streams, self.numbers)

    def rows(
        self, texts: Sequence[TokenRows], options: PassOptions, *, pool: Pool, pairs: Pairs, layers: range
    ) -> Tensor:
        """One row per example and layer, each from the encoder of its fold; arguments and result as `encode_texts`."""
        first = self.encoders[0]
        rows = torch.empty(len(texts[0]), len(layers), PARTS[pairs] * first.width)
        for fold, encoder in enumerate(self.encoders):
            chosen = np.flatnonzero(self.numbers == fold)
            if len(chosen):
                in_fold = [windows.select(chosen) for windows in texts]
                rows[torch.from_numpy(chosen)] = encode_texts(
                    encoder, in_fold, options, pool=pool, pairs=pairs, layers=layers
                )
        return rows


@final
class FoldStates:
    """States computed batch by batch; all windows of a batch are in one fold, so that one encoder runs for it."""

    def __init__(self, streams: list[StreamStates], numbers: IntArray) -> None:
        self._streams = streams
        self._numbers = numbers

    def batch(self, rows: IntArray) -> StateBatch:
        """The states of the windows at `rows`, which must be in one fold."""
        folds = set(self._numbers[rows].tolist())
        if len(folds) > 1:
            raise ValueError("a batch is of one fold")
        return self._streams[int(folds.pop())].batch(rows)


def refuse_bare_folds(request: FitRequest) -> None:
    """Refuse the folder of a cross-fit as the encoder of a fit without one: it holds several encoders.

    Raises:
        BertVisionError: the message names the option, and the encoder that was tuned on all folds.
    """
    run, _ = split_snapshot(request.encoder)
    if request.cross_fit is None and (run / CROSS_FIT).is_file():
        whole = fold_encoder(request.encoder, WHOLE)
        raise BertVisionError(
            f"{run} holds the encoders of a cross-fit. Use all of them with --cross-fit, or one: --encoder {whole}"
        )


def check_folds(request: FitRequest, train: Examples) -> dict[str, int]:
    """The fold of every training example by id, after checking the cross-fit that the request names.

    Raises:
        BertVisionError: it is not finished, has another number of folds or other training examples, or may have trained
            on examples that the fit holds out.
    """
    (run, _), folds = split_snapshot(request.encoder), request.cross_fit or 0
    content = read_json(run / CROSS_FIT) if (run / CROSS_FIT).is_file() else None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise BertVisionError(
            f"--cross-fit: {run} holds no whole cross-fit: {CROSS_FIT} is not there. Make one, or go on with it: "
            f"bertvision tune {request.task} --cross-fit {folds} --out {run}"
        )
    if content["folds"] != folds:
        raise BertVisionError(
            f"--cross-fit is {folds}, but {run} was tuned with {content['folds']} folds. Use as many."
        )
    numbers = fold_numbers(train, folds)
    if content["digest"] != folds_digest(train, numbers):
        raise BertVisionError(f"{run} was tuned on other training examples than these. Use its --data, or tune anew.")
    check_unseen(request, run / WHOLE)
    return dict(zip(train.ids, numbers.tolist(), strict=True))


def load_folds(request: FitRequest, fold_of: Mapping[str, int], train: Part, load: Callable[[str], Encoder]) -> Folds:
    """Load the encoders of a cross-fit, for the training windows of heads.

    Args:
        request: the settings of the fit.
        fold_of: the fold of every example, by id.
        train: the training examples of the heads.
        load: loads an encoder by name.
    """
    encoders = [load(fold_encoder(request.encoder, fold)) for fold in range(request.cross_fit or 0)]
    numbers = np.array([fold_of[key] for key in train.examples.ids])
    return Folds(tuple(encoders), numbers[train.windows.example])
