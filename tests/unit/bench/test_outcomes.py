import numpy as np

from bertvision.bench.outcomes import pack_outcomes, unpack_outcomes


def test_outcomes_are_one_line_of_three_places() -> None:
    line = pack_outcomes(np.array([1.0, 0.0, 2 / 3, 0.5, 0.1]))
    assert line == "1 0 0.667 0.5 0.1"
    assert unpack_outcomes(line).tolist() == [1.0, 0.0, 0.667, 0.5, 0.1]


def test_right_and_wrong_are_1_and_0() -> None:
    assert pack_outcomes([True, False]) == "1 0"
