from bertvision.analysis.checks import share


def test_a_share_is_of_the_whole_and_of_nothing_undefined() -> None:
    assert (share(1, 4), share(0, 4), share(4, 4)) == (0.25, 0.0, 1.0)
    assert share(0, 0) is None
