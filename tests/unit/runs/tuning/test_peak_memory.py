import pytest
import torch

from bertvision.runs.tuning.peak_memory import PeakMemory


def test_without_a_gpu_nothing_is_known_and_progress_is_passed_on() -> None:
    told = []
    peak = PeakMemory("cpu", lambda step, total, values, *, doing="": told.append((step, total, dict(values), doing)))
    peak.show(1, 2, {"loss": 1.0}, doing="this")
    assert (peak.bytes, told) == (None, [(1, 2, {"loss": 1.0}, "this")])


def test_only_what_steps_took_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = [0]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: memory[0])
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda: memory.__setitem__(0, 1))
    peak = PeakMemory("cuda")
    for taken, values in ((5, {"loss": 1.0}), (9, {}), (99, {"snapshot": 1.0, "loss": 1.0}), (7, {"loss": 1.0})):
        memory[0] = max(memory[0], taken)
        peak.show(1, 2, values)
        assert memory[0] == 1
    assert peak.bytes == 7
