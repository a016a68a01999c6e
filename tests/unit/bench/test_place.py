from pathlib import Path

import pytest

from bertvision.bench.place import Place
from bertvision.errors import BertVisionError


def test_data_are_found_below_one_folder(tmp_path: Path) -> None:
    (tmp_path / "squad2").mkdir()
    place = Place(data=tmp_path)
    assert place.find_data("squad2") == str(tmp_path / "squad2")
    assert place.find_data("builtin") is None
    with pytest.raises(BertVisionError, match=r"needs the data 'glue', and .* holds none of that name"):
        place.find_data("glue")
    with pytest.raises(BertVisionError, match=r"needs the data 'squad2'. Say where they are: --data DIR"):
        Place().find_data("squad2")


def test_an_encoder_is_where_it_is_said_to_be() -> None:
    place = Place(encoders={"mpnet": "models/m"})
    assert (place.find_encoder("mpnet"), place.find_encoder("minilm")) == ("models/m", "minilm")
