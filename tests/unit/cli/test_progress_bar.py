import pytest

from bertvision.cli.output import ProgressBar

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seconds go by between any two looks at the clock."""
    times = iter(range(100, 1000, 2))
    monkeypatch.setattr("bertvision.cli.output.time.monotonic", lambda: float(next(times)))


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "150")


Call = tuple[int, dict[str, float], str]


def run(*calls: Call) -> None:
    with ProgressBar("tune squad2") as bar:
        for step, values, doing in calls:
            bar.show(step, 1000, values, doing=doing)


CALLS: tuple[Call, ...] = (
    (200, {}, ""),
    (220, {"loss": 1.25, "lr": 3e-5}, ""),
    (220, {}, "scoring snapshot 0.3 …"),
    (220, {"snapshot": 0.3, "loss": 1.25, "f1": 71.44}, ""),
)


def test_without_a_terminal_every_step_is_a_plain_line_on_standard_error(capsys: Capture) -> None:
    run(*CALLS)
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.splitlines() == [
        "step 220 of 1,000  10.0 steps/s  loss 1.25  lr 3e-05",
        "step 220 of 1,000  5.0 steps/s  scoring snapshot 0.3 …",
        "step 220 of 1,000  snapshot 0.3  loss 1.25  f1 71.4",
    ]


@pytest.mark.usefixtures("terminal")
def test_on_a_terminal_there_is_a_bar_and_snapshots_stay(capsys: Capture) -> None:
    run(*CALLS)
    output = capsys.readouterr()
    assert output.out == ""
    assert "tune squad2" in output.err
    assert "220/1000" in output.err
    assert "step 220 of 1,000  snapshot 0.3  loss 1.25  f1 71.4\n" in output.err
    assert "step 220 of 1,000  10.0 steps/s" not in output.err


def test_a_long_snapshot_line_is_not_broken(capsys: Capture) -> None:
    values = {"snapshot": 1.0} | {f"metric_{number}": 0.5 for number in range(30)}
    run((5, values, ""))
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_count_is_a_whole_number(capsys: Capture) -> None:
    run((1, {"heads": 34.0, "lowest loss": float("nan")}, ""))
    assert "heads 34  lowest loss nan" in capsys.readouterr().err


def test_the_rate_counts_from_where_a_run_goes_on(capsys: Capture) -> None:
    run((900, {}, ""), (910, {"loss": 0.5}, ""))
    assert "5.0 steps/s" in capsys.readouterr().err


def test_before_the_first_step_there_is_no_rate(capsys: Capture) -> None:
    run((0, {}, ""), (0, {}, "waiting"))
    assert capsys.readouterr().err == "step 0 of 1,000  waiting\n"


def test_the_rate_of_the_next_of_several_runs_starts_anew(capsys: Capture) -> None:
    run((0, {}, ""), (100, {}, "first"), (0, {}, "second"), (40, {}, "second"))
    assert capsys.readouterr().err.splitlines() == [
        "step 100 of 1,000  50.0 steps/s  first",
        "step 0 of 1,000  second",
        "step 40 of 1,000  20.0 steps/s  second",
    ]


def test_slow_steps_have_seconds_instead_of_a_rate(capsys: Capture) -> None:
    run((0, {}, ""), *((0, {}, "") for _ in range(7)), (1, {}, "learning …"))  # 16 seconds
    assert capsys.readouterr().err == "step 1 of 1,000  16.0 s a step  learning …\n"


def test_without_a_terminal_nothing_to_say_is_no_line(capsys: Capture) -> None:
    run(*((step, {}, "") for step in range(20)))
    assert capsys.readouterr().err == ""


def test_steps_of_a_run_are_not_counted_from_the_planning_before_it(capsys: Capture) -> None:
    with ProgressBar("fit squad2") as bar:
        bar.show(0, 1, {}, doing="planning …")
        bar.show(500, 1000, {})
        bar.show(510, 1000, {"loss": 1.0})
    assert capsys.readouterr().err.splitlines()[1:] == ["step 510 of 1,000  5.0 steps/s  loss 1"]


@pytest.mark.usefixtures("terminal")
def test_a_step_without_news_leaves_the_newest_values_on_a_terminal_but_not_what_took_long(capsys: Capture) -> None:
    run((0, {}, ""), (1, {"loss": 1.25}, ""), (1, {}, "scoring …"), (2, {}, ""))
    last = [line for line in capsys.readouterr().err.splitlines() if "2/1000" in line][-1]
    assert "loss 1.25" in last
    assert "scoring" not in last


@pytest.mark.usefixtures("terminal")
def test_a_title_with_braces_and_brackets_is_shown_as_it_is(capsys: Capture) -> None:
    with ProgressBar("predict a{0}[bold].csv") as bar:
        bar.show(1, 2, {})
    assert "predict a{0}[bold].csv" in capsys.readouterr().err
