"""A cache of the Hugging Face hub with one model in it, read without a network."""

import shutil
from pathlib import Path

import pytest
from huggingface_hub import constants

_COMMIT = "0123456789abcdef0123456789abcdef01234567"


def keep_in_hub_cache(folder: Path, name: str, cache: Path, patch: pytest.MonkeyPatch) -> None:
    """Copy a model's folder to a cache as the hub's client lays it out, and let the client read there alone."""
    place = cache / f"models--{name.replace('/', '--')}"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text(_COMMIT, encoding="utf-8")
    shutil.copytree(folder, place / "snapshots" / _COMMIT)
    patch.setattr(constants, "HF_HUB_CACHE", str(cache))
    patch.setattr(constants, "HF_HUB_OFFLINE", True)
