"""KINDS: every kind of cell by name, with its settings and the function that measures it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bertvision.bench.ensemble_cell import measure_ensemble
from bertvision.bench.ensemble_settings import EnsembleSettings
from bertvision.bench.environment import BenchEnvironment
from bertvision.bench.heads_cell import measure_heads
from bertvision.bench.heads_settings import HeadsSettings
from bertvision.bench.plain_cell import measure_plain
from bertvision.bench.sentence_settings import SENTENCES, SentenceSettings
from bertvision.bench.sentences_cell import measure_sentences
from bertvision.bench.settings import PlainSettings, TuneSettings
from bertvision.bench.tune_cell import measure_tune

Measure = Callable[[Any, int, BenchEnvironment], dict[str, Any]]
"""Settings, a seed and an environment → the result, which can be written as JSON."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of cell.

    Attributes:
        settings: dataclass of its settings, each with a default, and with a method `check`.
        measure: function that runs and measures a cell.
    """

    settings: type[Any]
    measure: Measure


KINDS: dict[str, Kind] = {
    "tune": Kind(TuneSettings, measure_tune),
    "heads": Kind(HeadsSettings, measure_heads),
    "ensemble": Kind(EnsembleSettings, measure_ensemble),
    "plain": Kind(PlainSettings, measure_plain),
    SENTENCES: Kind(SentenceSettings, measure_sentences),
}
"""Every kind by name. A result has `models`: the scores and costs of each model by name; see docs/suites.md."""
