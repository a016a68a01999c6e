"""Who learns from texts of which the ends are not read is told so."""

from dataclasses import replace
from pathlib import Path

import pytest

from bertvision.runs.cut_texts import cut_notice
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.tuning.tune import tune
from bertvision.tasks.load import TASKS, load_task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import WindowOptions, Windows, build_windows
from bertvision.training.trainee import HeadSpec
from tiny_run import save_tiny_encoder, tiny_fit, tiny_request, write_scores

pytestmark = pytest.mark.usefixtures("few_strengths")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder and a small table."""
    folder = tmp_path_factory.mktemp("place")
    save_tiny_encoder(folder / "encoder")
    write_scores(folder / "table", train=20)
    return folder


def cut(place: Path, length: int) -> tuple[Windows, WindowOptions, TextTokenizer]:
    tokenizer, options = TextTokenizer.load(str(place / "encoder")), WindowOptions(length=length)
    loaded = load_task("own", data=place / "table")
    return build_windows(loaded.task, loaded.splits["train"], tokenizer, options), options, tokenizer


def test_texts_that_are_cut_are_counted_and_the_limit_is_named(place: Path) -> None:
    windows, options, tokenizer = cut(place, 4)
    limit = tokenizer.limit
    assert limit is not None
    [notice] = cut_notice(TASKS["stsb"], windows, options, tokenizer)
    count = f"{windows.truncated} of 20 texts to learn from"
    assert notice == (
        f"{count} are longer than 4 tokens; what comes after is not read. Read more of them: --length. This encoder "
        f"takes up to {limit}."
    )
    [notice] = cut_notice(TASKS["stsb"], windows, WindowOptions(length=limit), tokenizer)
    assert notice.endswith("This encoder takes no more.")


def test_where_hardly_a_text_is_cut_or_contexts_have_several_windows_nothing_is_told(place: Path) -> None:
    windows, options, tokenizer = cut(place, 4)
    assert cut_notice(TASKS["squad2"], windows, options, tokenizer) == ()
    assert cut_notice(TASKS["stsb"], replace(windows, truncated=0), options, tokenizer) == ()
    whole, options, tokenizer = cut(place, 64)
    assert cut_notice(TASKS["stsb"], whole, options, tokenizer) == ()


def test_fits_and_tuned_runs_tell_it(place: Path, tmp_path: Path) -> None:
    table, encoder, windows = str(place / "table"), str(place / "encoder"), WindowOptions(length=4)
    fitted = fit_heads(tiny_fit("own", table, encoder, HeadSpec(head="last_layer"), windows=windows), tmp_path / "fit")
    tuned = tune(tiny_request("own", table, encoder, windows=windows), tmp_path / "tune")
    for notices in (fitted.notices, tuned.notices):
        assert any("are longer than 4 tokens; what comes after is not read." in notice for notice in notices)
