"""What tells heads of the same name apart."""

from typing import Any

from bertvision.analysis.settings import different_settings, head_labels


def row(head: str, warmup: float, **options: Any) -> dict[str, Any]:  # noqa: ANN401 - any option
    return {"head": head, "options": options, "lr": 0.1, "schedule": "linear", "warmup": warmup, "seed": 0}


def test_settings_are_told_in_which_rows_of_a_head_differ() -> None:
    rows = [
        row("conv", 0.0, filters=[8, 16], layers="0..6", dropout=0.1),
        row("conv", 0.0, filters=[8], layers="0..3", dropout=0.1),
        row("layer_mix", 0.1, layers="0..6", norm=True),
        row("layer_mix", 0.0, layers="0..6", norm=False),
        row("last_layer", 0.3, layers="0..6"),
    ]
    assert different_settings(rows) == [
        "filters=[8, 16] layers=0..6",
        "filters=[8] layers=0..3",
        "norm=true warmup=0.1",
        "norm=false warmup=0.0",
        "",
    ]


def test_seeds_and_rates_are_no_settings() -> None:
    assert different_settings([row("conv", 0.0), {**row("conv", 0.0), "lr": 0.2, "seed": 1}]) == ["", ""]


def test_rows_of_earlier_versions_have_no_training_options() -> None:
    old = [{"head": "conv", "options": {"size": size}, "lr": 0.1} for size in (4, 8)]
    assert different_settings(old) == ["size=4", "size=8"]
    assert different_settings([]) == []


def test_labels_name_only_options_in_which_heads_of_the_same_name_differ() -> None:
    plain, pooled = {"size": 64, "layers": "0..2"}, {"size": 32, "layers": "0..2", "tokens": "attention"}
    heads = [("adapter_pool", plain), ("adapter_pool", pooled), ("layer_mix", plain)]
    assert head_labels(heads) == ["adapter_pool size=64", "adapter_pool size=32 tokens=attention", "layer_mix"]
