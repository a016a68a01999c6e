from bertvision.runs.watch import main_values
from bertvision.tasks.load import TASKS

SPANS = {"exact": 1.0, "f1": 2.0, "total": 3, "HasAns_f1": 4.0, "best_f1": 5.0, "f1_fitted": 6.0, "threshold": 7.0}


def test_of_two_dozen_values_the_main_ones_are_shown() -> None:
    held_out = {f"held_out_{name}": value for name, value in SPANS.items()}
    shown = {"f1": 2.0, "exact": 1.0, "f1_fitted": 6.0, "best_f1": 5.0}
    assert main_values(TASKS["squad2"], held_out | SPANS) == shown
    assert main_values(TASKS["squad1"], {"f1": 2.0, "exact_match": 1.0, "total": 3}) == {"f1": 2.0, "exact_match": 1.0}


def test_a_tasks_own_metrics_are_shown() -> None:
    assert main_values(TASKS["mrpc"], {"accuracy": 0.5, "f1": 0.6, "held_out_accuracy": 0.7}) == {
        "accuracy": 0.5,
        "f1": 0.6,
    }


def test_held_out_values_are_shown_where_there_is_no_dev() -> None:
    assert main_values(TASKS["sst2"], {"held_out_accuracy": 0.7}) == {"held_out_accuracy": 0.7}
    assert main_values(TASKS["sst2"], {}) == {}
