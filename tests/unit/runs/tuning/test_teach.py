"""Runs that learn from a teacher, whole ones of tiny encoders on tiny data."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bertvision.errors import BertVisionError
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.request import TeacherRequest, TuneRequest
from bertvision.runs.tuning.teach import Teacher
from bertvision.runs.tuning.tune import tune
from bertvision.tasks.examples import Answer, Questions
from bertvision.tasks.load import TASKS, load_task
from bertvision.tasks.tokenizer import TextTokenizer
from bertvision.tasks.windows import build_windows
from bertvision.training import tune as loop_module
from bertvision.training.schedule import rate_factor
from bertvision.training.trainee import HeadSpec
from conftest import make_tags
from folders import everything
from tiny_models import tiny_tokenizer
from tiny_run import (
    WINDOWS,
    losses,
    same_state,
    save_tiny_encoder,
    tiny_fit,
    tiny_request,
    write_labels,
    write_questions,
    write_scores,
    write_tags,
)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save_tiny_encoder(tmp_path_factory.mktemp("encoder"), dropout=0.1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The data of several tasks, by name."""
    folder = tmp_path_factory.mktemp("data")
    squad, labels = write_questions(folder / "squad2"), write_labels(folder / "sst2")
    return {"squad2": squad, "answerable": squad, "sst2": labels}


@pytest.fixture(scope="module")
def teachers(encoder: str, data: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Runs that have learnt their task, by name."""
    folder = tmp_path_factory.mktemp("teachers")
    for task in ("squad2", "sst2"):
        tune(tiny_request(task, data[task], encoder, epochs=24, snapshots=(0.2,)), folder / task)
    return {task: str(folder / task) for task in ("squad2", "sst2")}


@pytest.fixture(scope="module")
def wrong(data: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The same data, but the training examples have wrong labels, and questions no answers."""
    folder = tmp_path_factory.mktemp("wrong")
    for task, split in (("squad2", "train.json"), ("sst2", "train.tsv")):
        (folder / task).mkdir()
        text = (Path(data[task]) / split).read_text(encoding="utf-8")
        if task == "squad2":
            articles = json.loads(text)["data"]
            for article in articles:
                article["paragraphs"][0]["qas"][0] |= {"answers": [], "is_impossible": True}
            text = json.dumps({"data": articles})
        else:
            text = text.replace("\t1\n", "\t2\n").replace("\t0\n", "\t1\n").replace("\t2\n", "\t0\n")
        (folder / task / split).write_text(text, encoding="utf-8")
        dev = split.replace("train", "dev")
        (folder / task / dev).write_bytes((Path(data[task]) / dev).read_bytes())
    return {task: str(folder / task) for task in ("squad2", "sst2")}


def taught(request: TuneRequest, run: str, share: float = 0.5) -> TuneRequest:
    return replace(request, teacher=TeacherRequest(run=run, share=share))


@pytest.mark.parametrize(("task", "metric", "least"), [("squad2", "best_f1", 70), ("sst2", "accuracy", 0.9)])
def test_a_student_follows_its_teacher_where_all_labels_are_wrong(  # noqa: PLR0917 - fixtures
    task: str, metric: str, least: float, encoder: str, wrong: dict[str, str], teachers: dict[str, str], tmp_path: Path
) -> None:
    request = tiny_request(task, wrong[task], encoder, epochs=24)
    alone = tune(request, tmp_path / "alone").metrics
    result = tune(taught(request, teachers[task], share=1.0), tmp_path / "run")
    assert result.metrics[metric] > least > alone[metric]
    assert result.notices[-1].startswith(f"{teachers[task]}@24 read 36 examples in ")


def test_a_run_says_whom_it_learnt_from(
    encoder: str, data: dict[str, str], teachers: dict[str, str], tmp_path: Path
) -> None:
    early = f"{teachers['squad2']}@0.2"
    request = tiny_request("squad2", data["squad2"], encoder)
    configs = []
    for number, name in enumerate([early, teachers["squad2"], None]):
        out = tmp_path / str(number)
        tune(request if name is None else taught(request, name), out)
        configs.append(json.loads((out / "config.json").read_text(encoding="utf-8")))
    assert configs[0]["request"]["teacher"] == {"run": early, "share": 0.5, "temperature": 2.0}
    first, second = (config["teacher"] for config in configs[:2])
    base, *parts = first.split("+")
    assert base == configs[0]["weights"]  # the teacher was tuned from the same encoder
    assert [len(part) for part in parts] == [16, 16]
    assert all(one != two for one, two in zip(parts, second.split("+")[1:], strict=True))
    assert configs[2]["request"]["teacher"] is None
    assert "teacher" not in configs[2]
    assert len({tuple(losses(tmp_path / str(number))) for number in range(3)}) == 3


def interrupt(request: TuneRequest, run: Path, step: int) -> None:
    """Leave a run before a step, as a kill would."""

    def die(now: int, total: int, **more: Any) -> float:  # noqa: ANN401 - passed on
        if now == step:
            raise KeyboardInterrupt
        return rate_factor(now, total, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop_module, "rate_factor", die)
        with pytest.raises(KeyboardInterrupt):
            tune(request, run)


@pytest.mark.parametrize("task", ["squad2", "sst2"])
def test_an_interrupted_run_goes_on_to_the_same_end(
    task: str, encoder: str, data: dict[str, str], teachers: dict[str, str], tmp_path: Path
) -> None:
    more = {"class_weights": True} if task == "sst2" else {}
    request = tiny_request(task, data[task], encoder, epochs=2, save_every=3, accumulate=2, **more)
    request = taught(request, teachers[task])
    tune(request, tmp_path / "whole")
    interrupt(request, tmp_path / "run", 7)
    tune(request, tmp_path / "run", resume=True)
    assert same_state(tmp_path / "run", tmp_path / "whole")


def test_a_run_does_not_go_on_with_another_teacher(
    encoder: str, data: dict[str, str], teachers: dict[str, str], tmp_path: Path
) -> None:
    teacher = tmp_path / "teacher"
    request = tiny_request("sst2", data["sst2"], encoder)
    tune(request, teacher)
    student = replace(taught(request, str(teacher)), save_every=1)
    interrupt(student, tmp_path / "run", 3)
    with pytest.raises(BertVisionError, match=r"teacher.share was 0.5, is 0.75"):
        tune(taught(student, str(teacher), share=0.75), tmp_path / "run", resume=True)
    for path in (Path(teachers["sst2"]) / "snapshots" / "24").iterdir():
        (teacher / "snapshots" / "1" / path.name).write_bytes(path.read_bytes())
    with pytest.raises(BertVisionError, match=r"began with a teacher with fingerprint .*Use the same weights, or"):
        tune(student, tmp_path / "run", resume=True)


def test_a_teacher_with_other_tokens_and_windows_teaches_too(data: dict[str, str], teachers: dict[str, str]) -> None:
    examples = load_task("squad2", data=data["squad2"]).splits["train"]
    letters = TextTokenizer(tiny_tokenizer().backend_tokenizer, limit=None)
    windows = build_windows(TASKS["squad2"], examples, letters, WINDOWS)
    teacher = Teacher.find(TeacherRequest(run=teachers["squad2"]), TASKS["squad2"])
    targets = teacher.read(examples, windows, tiny_request("squad2", data["squad2"], "tiny")).targets
    assert targets.taught.all()
    # it learnt to say where 'gold' is: a window's best first token, and its first letter there
    best = [
        targets.outputs[begin:end, 0].argmax() for begin, end in zip(windows.bounds, windows.bounds[1:], strict=False)
    ]
    assert np.mean(np.array(best) == windows.targets[:, 0]) > 0.8


def test_every_kind_of_task_has_teachers(encoder: str, data: dict[str, str], tmp_path: Path) -> None:
    for task, place in (
        ("answerable", data["answerable"]),
        ("own", write_scores(tmp_path / "scores")),
        ("own", write_tags(tmp_path / "tags")),
    ):
        request = tiny_request(task, place, encoder)
        out = tmp_path / f"{Path(place).name}-runs"
        tune(request, out / "teacher")
        student = taught(request, str(out / "teacher"))
        assert losses(tune(student, out / "student").run) != losses(out / "teacher")


def test_a_run_says_how_many_windows_it_learns_without_its_teacher(
    data: dict[str, str], teachers: dict[str, str]
) -> None:
    examples = load_task("squad2", data=data["squad2"]).splits["train"]
    assert isinstance(examples, Questions)
    # 'gol' ends within a token of the teacher
    cut = [tuple(Answer("gol", answer.start) for answer in answers) for answers in examples.answers]
    examples = replace(examples, answers=cut)
    letters = TextTokenizer(tiny_tokenizer().backend_tokenizer, limit=None)
    windows = build_windows(TASKS["squad2"], examples, letters, WINDOWS)
    teacher = Teacher.find(TeacherRequest(run=teachers["squad2"]), TASKS["squad2"])
    taught = teacher.read(examples, windows, tiny_request("squad2", data["squad2"], "tiny"))
    alone = int(examples.answerable.sum())
    assert 0 < alone < 40
    assert f"s. {alone} of 40 windows are learned without it: none of its tokens begins or ends where" in taught.notice


def test_a_teacher_may_read_the_pooled_vector(encoder: str, data: dict[str, str], tmp_path: Path) -> None:
    request = tiny_request("sst2", data["sst2"], encoder)
    tune(replace(request, pooled=True, head="layer_mix"), tmp_path / "teacher")
    examples = load_task("sst2", data=data["sst2"]).splits["train"]
    windows = build_windows(TASKS["sst2"], examples, TextTokenizer.load(encoder), WINDOWS)
    teacher = Teacher.find(TeacherRequest(run=str(tmp_path / "teacher")), TASKS["sst2"])
    assert teacher.own.pooled
    assert teacher.read(examples, windows, request).targets.outputs.shape == (40, 2)


def test_who_answers_something_else_is_no_teacher(
    encoder: str, data: dict[str, str], teachers: dict[str, str], tmp_path: Path
) -> None:
    labels = taught(tiny_request("sst2", data["sst2"], encoder), teachers["squad2"])
    expected = r"squad2 was tuned for squad2 \(spans\); sst2 \(labels: .*\) is to be learned. Use a teacher of the same"
    with pytest.raises(BertVisionError, match=expected):
        tune(labels, tmp_path / "run")
    with pytest.raises(BertVisionError, match=r"tuned for sst2 \(labels: .*moods \(tags: 0, 1\) is to be learned"):
        Teacher.find(TeacherRequest(run=teachers["sst2"]), make_tags("0", "1"))
    with pytest.raises(BertVisionError, match=r"nobody holds no run: config.json is not there"):
        tune(replace(labels, teacher=TeacherRequest(run=str(tmp_path / "nobody"))), tmp_path / "run")
    heads = str(fit_heads(tiny_fit("sst2", data["sst2"], encoder, HeadSpec(head="layer_mix")), tmp_path / "heads").run)
    before = everything(tmp_path)
    with pytest.raises(BertVisionError, match=r"heads is a fit of heads. Expected a tuned run with its own output"):
        tune(replace(labels, teacher=TeacherRequest(run=heads)), tmp_path / "run")
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"share": 0.0}, "--teacher-share is 0, more than 0 and at most 1 is expected"),
        ({"share": 1.5, "temperature": 0.0}, "--teacher-share is 1.5, .*; --teacher-temperature is 0, more than 0 is"),
        ({"temperature": float("inf")}, "--teacher-temperature is inf, more than 0 is expected"),
        ({"share": float("nan")}, "--teacher-share is nan"),
    ],
)
def test_shares_and_temperatures_that_cannot_work_are_refused(asked: dict[str, float], message: str) -> None:
    with pytest.raises(BertVisionError, match=message):
        replace(tiny_request("sst2", "data", "tiny"), teacher=TeacherRequest(run="run", **asked)).check()
