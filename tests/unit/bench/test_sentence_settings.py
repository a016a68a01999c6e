from dataclasses import replace

import pytest

from bertvision.bench.sentence_settings import SentenceSettings
from bertvision.errors import BertVisionError


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (SentenceSettings(task="squad2"), "task is 'squad2'; one with labels or scores of texts"),
        (SentenceSettings(task="answerable"), "task is 'answerable'; one with labels or scores of texts"),
        (SentenceSettings(methods=("layerconcat",)), "unknown method 'layerconcat'. Did you mean 'layer_concat'"),
        (SentenceSettings(methods=()), r"methods is \[\]; each of last_layer, .* may stand once"),
        (SentenceSettings(methods=("setfit", "setfit")), "may stand once"),
        (
            SentenceSettings(task="stsb", methods=("setfit",)),
            "method 'setfit' labels single texts, and stsb has",
        ),
        (SentenceSettings(task="rte", methods=("setfit",)), "method 'setfit' labels single texts, and rte has"),
        (SentenceSettings(task="rte", methods=("triplets",)), "method 'triplets' labels single texts, and rte has"),
        (SentenceSettings(per_class=4), "per_class is 4; 5 or more"),
        (SentenceSettings(most=0), "most is 0; 5 or more"),
        (SentenceSettings(length=2), "length is 2; 3 or more"),
    ],
)
def test_what_cannot_be_measured_is_refused(settings: SentenceSettings, message: str) -> None:
    with pytest.raises(BertVisionError, match=message):
        settings.check()


def test_chance_rules_where_examples_are_drawn_or_an_encoder_is_tuned() -> None:
    whole = SentenceSettings()
    whole.check()
    assert not whole.by_chance
    assert replace(whole, per_class=8).by_chance
    assert replace(whole, methods=("last_layer", "setfit")).by_chance


def test_cells_that_read_the_same_texts_share_their_vectors() -> None:
    cell = SentenceSettings(task="cola", per_class=8)
    assert cell.vectors == replace(cell, per_class=None, methods=("embeddings",)).vectors
    others = [replace(cell, task="rte"), replace(cell, data="glue"), replace(cell, most=9), replace(cell, encoder="e")]
    assert len({one.vectors for one in [cell, replace(cell, length=9), *others]}) == 6
