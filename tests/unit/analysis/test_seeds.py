import numpy as np
import pytest

from bertvision.analysis.seeds import SeedMean, seed_means
from bertvision.errors import BertVisionError
from close import about

T_WITH_2 = 4.302653
"""Student's t with two degrees of freedom, 97.5 %, from a printed table."""

PRINTED = 1e-6
"""The digits of that table."""


def test_the_interval_is_students() -> None:
    # 1, 2, 6: mean 3, variance (4 + 1 + 9) / 2 = 7; the mean's error is √(7 / 3)
    reach = T_WITH_2 * (7 / 3) ** 0.5
    (found, same) = seed_means(np.array([[1.0, 5.0], [2.0, 5.0], [6.0, 5.0]]))
    assert found == SeedMean(3.0, about(3.0 - reach, PRINTED), about(3.0 + reach, PRINTED), 3)
    assert same == SeedMean(5.0, 5.0, 5.0, 3)


def test_one_seed_has_no_interval() -> None:
    assert seed_means(np.array([[1.5]])) == (SeedMean(1.5, None, None, 1),)


@pytest.mark.parametrize("shape", [(0, 3), (3,)])
def test_no_seed_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(BertVisionError, match=r"\(seeds, columns\) with a seed is expected"):
        seed_means(np.zeros(shape))


def test_a_failed_seed_is_refused() -> None:
    with pytest.raises(BertVisionError, match="not finite"):
        seed_means(np.array([[1.0], [np.nan]]))
