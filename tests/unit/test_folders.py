"""A comparison of folders that sees nothing would make many tests useless."""

from pathlib import Path

import torch
from safetensors.torch import save_file

from folders import differences


def test_every_kind_of_difference_is_told(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder, last in ((one, 3.0), (other, 3.5)):
        (folder / "below").mkdir(parents=True)
        save_file({"same": torch.ones(2), "states": torch.tensor([1.0, last])}, folder / "below" / "a.safetensors")
        (folder / "b.json").write_text(f'{{"last": {last}}}', encoding="utf-8")
        (folder / "c.json").write_text("[]" * int(2 * last), encoding="utf-8")
    (one / "first").touch()
    (other / "second").touch()
    assert differences(one, one) == []
    assert differences(one, other) == [
        "first is in one alone",
        "second is in other alone",
        """b.json: byte 11: b'{"last": 3.0}' and b'{"last": 3.5}'""",
        "below/a.safetensors: states in 1 of 2 values by up to 0.5",
        "c.json: 12 and 14 bytes, one begins with the other",
    ]
