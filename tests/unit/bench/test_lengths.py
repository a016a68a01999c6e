from pathlib import Path

import numpy as np
import pytest

from bertvision.bench.lengths import LONGEST, parse_lengths, squad_lengths, stretched
from bertvision.errors import BertVisionError
from bertvision.tasks.load import TASKS, load_task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import build_windows


def test_squads_windows_have_177_tokens_on_average_and_384_at_most() -> None:
    lengths = squad_lengths()
    assert (round(float(lengths.mean())), lengths.max()) == (177, 384)


@pytest.mark.realdata
def test_the_sample_is_that_of_real_questions(real_data: Path, tokenizer: TextTokenizer) -> None:
    questions = load_task("squad2", data=real_data / "squad2").splits["train"]
    real = build_windows(TASKS["squad2"], questions, tokenizer).lengths
    sample = squad_lengths()
    assert sample.mean() == pytest.approx(real.mean(), rel=0.005)
    assert (sample**2).mean() == pytest.approx((real**2).mean(), rel=0.005)
    assert np.quantile(sample, [0.1, 0.5, 0.9]) == pytest.approx(np.quantile(real, [0.1, 0.5, 0.9]), abs=1)


def test_a_mean_stretches_them() -> None:
    assert stretched(60).mean() == pytest.approx(60, rel=0.01)
    assert (parse_lengths("60") == stretched(60)).all()
    assert stretched(400).max() == LONGEST


def test_a_file_has_a_length_per_line(tmp_path: Path) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text("12\n7\n300\n", encoding="utf-8")
    assert parse_lengths(str(path)).tolist() == [12, 7, 300]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("12\nlong\n", "a whole number of tokens per line"),
        ("", "one length or more is expected"),
        ("3 0", "at least 1"),
    ],
)
def test_what_is_no_length_is_refused(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "lengths.txt"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BertVisionError, match=said):
        parse_lengths(str(path))


def test_a_file_that_is_not_there_and_a_mean_that_no_encoder_takes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=r"none\.txt cannot be read .* A mean, or a file"):
        parse_lengths(str(tmp_path / "none.txt"))
    with pytest.raises(BertVisionError, match="a mean of 1 to 512 tokens"):
        parse_lengths("1000")
