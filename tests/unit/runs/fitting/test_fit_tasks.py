"""Several tasks, one pass over the union of their texts."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bertvision.errors import BertVisionError
from bertvision.inference.computed_states import StreamStates, encode_texts
from bertvision.inference.outputs import BATCH_TOKENS
from bertvision.inference.shared_rows import SharedRows
from bertvision.runs.fitting import fit_tasks as module
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.fitting.fit_request import FitRequest
from bertvision.runs.fitting.fit_tasks import fit_tasks
from bertvision.runs.fitting.frozen import freeze_task
from bertvision.tasks.examples import IntArray
from bertvision.tasks.task import Pairs
from bertvision.tasks.token_rows import TokenRows
from bertvision.training.states import StateBatch
from bertvision.training.trainee import HeadSpec
from close import FLOAT32, SOLVED
from folders import everything
from tiny_run import head_tensors, save_tiny_encoder, tiny_fit, write_labels, write_questions, write_scores

pytestmark = pytest.mark.usefixtures("few_strengths")

MIX = HeadSpec(head="layer_mix", lr=2e-2, seed=1)
PLAIN = HeadSpec(head="last_layer", lr=2e-2)

Ask = Callable[..., list[FitRequest]]


def write_tasks(root: Path) -> str:
    """SST-2, and CoLA and RTE made of the same texts: the texts of RTE are pairs of them."""
    write_labels(root / "SST-2")
    write_questions(root / "squad2", train=20)
    write_scores(root / "own")
    for split in ("train", "dev"):
        rows = [line.split("\t") for line in (root / "SST-2" / f"{split}.tsv").read_text().splitlines()[1:]]
        cola = [f"x\t{label}\t\t{text}\n" for text, label in rows]
        rte = ["index\tsentence1\tsentence2\tlabel\n"]
        rte += [
            f"{row}\t{text}\t{rows[row - 1][0]}\t{'entailment' if label == '1' else 'not_entailment'}\n"
            for row, (text, label) in enumerate(rows)
        ]
        for folder, lines in (("CoLA", cola), ("RTE", rte)):
            (root / folder).mkdir(exist_ok=True)
            (root / folder / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
    return str(root)


@pytest.fixture(scope="module")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Makes requests for tasks that lie in one folder."""
    encoder = save_tiny_encoder(tmp_path_factory.mktemp("encoder"), dropout=0.1)
    root = write_tasks(tmp_path_factory.mktemp("data"))

    def make(*tasks: str, **changes: Any) -> list[FitRequest]:  # noqa: ANN401 - any field
        changes = {"pairs": "apart", "pool": "mean", "epochs": 2, **changes}
        places = {task: str(Path(root) / task) if task == "own" else root for task in tasks}
        return [tiny_fit(task, places[task], encoder, PLAIN, MIX, **changes) for task in tasks]

    return make


def encoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many windows are encoded from now on, batch by batch."""
    counts: list[int] = []
    batch = StreamStates.batch

    def counting(self: StreamStates, rows: IntArray) -> StateBatch:
        counts.append(len(rows))
        return batch(self, rows)

    monkeypatch.setattr(StreamStates, "batch", counting)
    return counts


@pytest.mark.parametrize(
    ("tasks", "pairs"), [(("own", "rte", "sst2"), "apart"), (("rte", "sst2"), "aligned"), (("cola", "rte"), "together")]
)
def test_each_task_ends_as_if_it_were_fitted_alone(
    tasks: tuple[str, ...], pairs: str, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # every window by itself: beside others its states are summed in another order, and AdamW enlarges last bits
    monkeypatch.setitem(BATCH_TOKENS, "cpu", 1)
    requests = ask(*tasks, pairs=pairs)
    together = fit_tasks(requests, tmp_path / "out")
    assert sorted(path.name for path in together.out.iterdir()) == list(tasks)
    for request in requests:
        alone = fit_heads(request, tmp_path / f"alone-{request.task}")
        ours, theirs = head_tensors(together.out / request.task), head_tensors(alone.run)
        assert ours.keys() == theirs.keys()
        for name, value in ours.items():
            torch.testing.assert_close(value, theirs[name], rtol=FLOAT32, atol=FLOAT32)
        result = together.results[request.task]
        assert result.run == together.out / request.task
        rows = {row["folder"]: row["metrics"] for row in alone.leaderboard}
        assert {row["folder"]: row["metrics"] for row in result.leaderboard} == {
            folder: pytest.approx(metrics, abs=SOLVED) for folder, metrics in rows.items()
        }


def test_every_different_text_is_encoded_once_for_all_tasks_and_parts(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = encoded(monkeypatch)
    result = fit_tasks(ask("sst2", "cola", "rte"), tmp_path / "out")
    texts = set()
    for split in ("train", "dev"):
        lines = (Path(ask("sst2")[0].data or "") / "SST-2" / f"{split}.tsv").read_text().splitlines()
        texts |= {line.split("\t")[0] for line in lines[1:]}
    assert sum(counts) == len(texts) <= 52
    # 52 texts of each task, and second texts of one of them
    assert result.notices[0] == f"208 texts or pairs of 3 tasks; {len(texts)} different ones, encoded once."


def test_shared_rows_are_those_that_each_example_has_by_itself(ask: Ask) -> None:
    # pairs of one task are aligned, and have a row for each two texts; those of another have one for each text
    ways = {"sst2": "apart", "rte": "aligned", "own": "apart"}
    tasks = [freeze_task(ask(task, pairs=way)[0]) for task, way in ways.items()]
    first = tasks[0]
    parts = [some for one in tasks for some in one.texts]
    shared = SharedRows(first.encoder, parts, first.passes, "mean")
    aligned = [texts for texts, pairs in parts if pairs == "aligned"]
    single = [windows for texts, pairs in parts if pairs != "aligned" for windows in texts]
    assert shared.asked == sum(map(len, single)) + sum(len(texts[0]) for texts in aligned)
    different = {content for windows in single for content in windows.contents()}
    both = {content for one, two in aligned for content in zip(one.contents(), two.contents(), strict=True)}
    assert len(shared) == len(different) + len(both)

    def check(texts: Sequence[TokenRows], pairs: Pairs) -> None:
        expected = encode_texts(first.encoder, texts, first.passes, pool="mean", pairs=pairs)
        torch.testing.assert_close(shared.rows(texts, pairs), expected, rtol=FLOAT32, atol=FLOAT32)

    for texts, pairs in parts:
        check(texts, pairs)
        check([windows.select(np.array([3, 1])) for windows in texts], pairs)


def test_one_killed_between_two_tasks_goes_on_and_encodes_only_what_is_left(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = ask("sst2", "own")

    def killed(request: FitRequest, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        if request.task == "own":
            raise KeyboardInterrupt
        return fit_heads(request, *args, **options)

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(module, "fit_heads", killed)
        with pytest.raises(KeyboardInterrupt):
            fit_tasks(requests, out)
    before = everything(out / "sst2")
    with pytest.raises(BertVisionError, match=r"holds runs already\. Go on with them: --resume"):
        fit_tasks(requests, out)
    counts = encoded(monkeypatch)
    resumed = fit_tasks(requests, out, resume=True)
    assert sum(counts) <= 2**4  # texts of own: four words, each of two
    assert everything(out / "sst2") == before
    assert [len(result.leaderboard) for result in resumed.results.values()] == [2, 2]
    counts.clear()
    again = fit_tasks(requests, out, resume=True)
    assert counts == []
    assert again.results["own"].leaderboard == resumed.results["own"].leaderboard
    assert len(again.notices) == 2
    assert all("is finished; there was nothing left to do" in notice for notice in again.notices)


def test_spans_share_no_pass(ask: Ask, tmp_path: Path) -> None:
    expected = r"squad2: it asks for spans, .* Fit it by itself: bertvision fit squad2"
    with pytest.raises(BertVisionError, match=expected):
        fit_tasks(ask("sst2", "squad2"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_questions_without_spans_share_one(ask: Ask, tmp_path: Path) -> None:
    requests = ask("sst2", "squad2")
    requests[1] = replace(requests[1], task="answerable")
    result = fit_tasks(requests, tmp_path / "out")
    assert len(result.results["answerable"].leaderboard) == 2


def test_what_cannot_be_in_one_task_is_refused_before_anything_is_written(ask: Ask, tmp_path: Path) -> None:
    wrong = [
        (replace(ask("rte")[0], heads=(HeadSpec(head="ladder"),)), "'ladder' looks at neighbouring tokens"),
        (replace(ask("rte")[0], heads=(replace(MIX, options={"odd": 1}),)), "unknown option of head 'layer_mix' 'odd'"),
        (replace(ask("rte")[0], validate=(3.0,)), "--validate has 3"),
        (replace(ask("rte")[0], batch=0), "--batch is 0"),
        (replace(ask("rte")[0], pool="cls"), "tasks that share a pass need the same pool; cls and mean differ"),
        (replace(ask("rte")[0], source="store:x"), "a store holds the states of one task"),
        (ask("sst2")[0], "sst2 is named 2 times. Name every task once"),
    ]
    for request, message in wrong:
        with pytest.raises(BertVisionError, match=message):
            fit_tasks([*ask("sst2", "cola"), request], tmp_path / "out")
        assert not (tmp_path / "out").exists()


def test_whoever_watches_is_told_which_task_it_is(ask: Ask, tmp_path: Path) -> None:
    told: list[str] = []

    def show(step: int, total: int, values: Any, *, doing: str = "") -> None:  # noqa: ANN401, ARG001 - as `Show` has it
        told.append(doing)

    fit_tasks(ask("sst2", "own"), tmp_path / "out", show=show)
    assert told[0] == "encoding the texts of sst2, own …"
    assert "sst2 scoring 2 heads …" in told
    assert told[-1] == "own scoring 2 heads …"
