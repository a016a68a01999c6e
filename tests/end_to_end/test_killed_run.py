"""A run that is killed with SIGKILL and resumed ends as one that was left alone, to the last bit."""

from pathlib import Path

import pytest

from bertvision.cli.main import main
from launch import kill_at_a_random_moment
from tiny_run import read_lines, same_state, save_tiny_encoder, tiny_request, words, write_questions


@pytest.mark.slow
def test_a_killed_run_is_resumed_to_the_same_end(tmp_path: Path) -> None:
    encoder = save_tiny_encoder(tmp_path / "encoder", dropout=0.2)
    data = write_questions(tmp_path / "data", train=80)
    request = tiny_request(
        "squad2", data, encoder, epochs=30, snapshots=(0.3, 10, 20), save_every=2, schedule="cosine", warmup=0.1
    )
    run, whole = tmp_path / "run", tmp_path / "whole"
    kill_at_a_random_moment(words(request, run), run)
    done = read_lines(run)[-1]["step"] if (run / "metrics.jsonl").exists() else 0
    assert not (run / "result.json").exists(), f"it was faster than the kill: step {done}"
    assert main(words(request, run, "--resume")) == 0
    assert main(words(request, whole)) == 0
    assert same_state(run, whole), f"killed after step {done}"
    assert sorted(path.name for path in run.iterdir()) == sorted(path.name for path in whole.iterdir())
