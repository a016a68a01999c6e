"""What answers cost: the encoder stops where a head does, and runs once for each depth."""

from collections import Counter
from pathlib import Path

import pytest

from bertvision.encoder.batch import TokenBatch
from bertvision.encoder.encoder import Encoder
from bertvision.inference.stopwatch import REPEATS
from bertvision.runs.fitting.fit import fit_heads
from bertvision.runs.judging.measure_inference import InferenceSeconds, measure_inference
from bertvision.runs.judging.read_subjects import SharedPass
from bertvision.runs.judging.subject import load_subject
from bertvision.training.trainee import HeadSpec
from tiny_run import save_tiny_encoder, tiny_fit, write_labels, write_questions


@pytest.mark.parametrize(("task", "write"), [("squad2", write_questions), ("sst2", write_labels)])
def test_every_depth_is_timed_once_however_many_heads_stop_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, write: object
) -> None:
    assert callable(write)
    data, encoder = write(tmp_path / "data", dev=20), save_tiny_encoder(tmp_path / "encoder")
    depths = (0, 1, 1)
    specs = [HeadSpec(head="layer_mix", options={"layers": f"0..{depth}"}, seed=n) for n, depth in enumerate(depths)]
    fit_heads(tiny_fit(task, data, encoder, *specs), tmp_path / "fit")
    subject = load_subject(tmp_path / "fit")
    shared = SharedPass(subject, "cpu")
    heads = {name: head for name in subject.heads if (head := shared.load(subject, name)) is not None}
    passes: Counter[int] = Counter()
    forward = Encoder.forward

    def note(self: Encoder, batch: TokenBatch, *, layers: range) -> object:
        assert len(batch.ids) == 16
        passes[layers[-1]] += 1
        return forward(self, batch, layers=layers)

    monkeypatch.setattr(Encoder, "forward", note)
    found = measure_inference(shared, subject, heads)
    assert passes == {0: REPEATS, 1: REPEATS, 2: REPEATS + 1}  # the first, whole one warms up
    assert (found.examples, found.device) == (16, "cpu")
    assert list(found.encoder) == [0, 1, 2]
    assert list(found.heads) == list(heads)
    assert all(seconds > 0 for seconds in (*found.encoder.values(), *found.heads.values()))


def test_encoder_and_head_add_up() -> None:
    found = InferenceSeconds(examples=1, device="cpu", encoder={1: 2.0, 3: 5.0}, heads={"a": 0.5})
    assert found.total("a", 1) == 2.5
    assert found.total("a", 3) == 5.5
    assert found.total("own_output", 3) is None
