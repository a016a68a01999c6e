from dataclasses import replace
from pathlib import Path

import pytest

from bertvision.errors import BertVisionError, UnknownNameError
from bertvision.heads import HEADS
from bertvision.runs.fitting.head_specs import parse_heads, spread
from bertvision.tasks.task import TaskKind
from bertvision.training.trainee import HeadSpec

BASE = HeadSpec(head="last_layer", lr=0.25, seed=7)


def toml(folder: Path, text: str) -> str:
    path = folder / "heads.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_no_seed_at_all_is_refused() -> None:
    with pytest.raises(BertVisionError, match="--seeds is 0, at least 1 is expected"):
        spread([BASE], (), 0, (1.0,))


@pytest.mark.parametrize("kind", ["spans", "labels", "scores"])
def test_all_are_those_that_fit_the_kind_of_task(kind: TaskKind) -> None:
    specs = parse_heads("all", kind, BASE)
    names = [spec.head for spec in specs]
    assert ("xception" in names) == ("pooled_output" in names) == (kind != "spans")
    of_rows = {"pooled_output", "xception", "xception_skip", "xception_full"}
    of_tokens = {"ladder", "context_conv", "context_conv_simple", "pooled_adapter_ngram", "pooled_adapter_inception"}
    assert set(HEADS) - set(names) == (of_rows if kind == "spans" else of_tokens)
    assert specs == [replace(BASE, head=name) for name in names]


def test_all_may_stand_among_names() -> None:
    every = parse_heads("all", "labels", BASE)
    specs = parse_heads("ladder, all", "labels", BASE)
    assert specs == [replace(BASE, head="ladder"), *every]
    assert spread(parse_heads("all,layer_mix", "labels", BASE), (), 1, (1.0,)) == every  # once each


def test_names_stand_between_commas_and_may_stand_twice() -> None:
    specs = parse_heads(" layer_mix,last_layer, layer_mix,", "spans", BASE)
    assert [spec.head for spec in specs] == ["layer_mix", "last_layer", "layer_mix"]
    assert {spec.lr for spec in specs} == {0.25}


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown head 'layer_mx'\. Did you mean 'layer_mix'\?.*all"):
        parse_heads("last_layer,layer_mx", "spans", BASE)


@pytest.mark.parametrize("words", ["", " , "])
def test_no_name_at_all_is_refused(words: str) -> None:
    with pytest.raises(BertVisionError, match="--heads names no head; 'all', names between commas, or a TOML file"):
        parse_heads(words, "spans", BASE)


def test_a_file_says_of_each_head_what_differs(tmp_path: Path) -> None:
    path = toml(
        tmp_path,
        """
        [[head]]
        head = "adapter_pool"
        lr = 1
        schedule = "cosine"
        fraction = 0.5
        options = { size = 64, layers = "0..6" }
        [[head]]
        head = "last_layer"
        seed = 3
        """,
    )
    assert parse_heads(path, "spans", BASE) == [
        HeadSpec(
            head="adapter_pool",
            lr=1.0,
            schedule="cosine",
            fraction=0.5,
            options={"size": 64, "layers": "0..6"},
            seed=7,
        ),
        HeadSpec(head="last_layer", lr=0.25, seed=3),
    ]
    assert isinstance(parse_heads(path, "spans", BASE)[0].lr, float)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("head = [", r"heads\.toml cannot be read as TOML \("),
        ("", r"heads\.toml holds \[\], tables \[\[head\]\] alone are expected"),
        ("head = []", r"heads\.toml holds \['head'\], tables \[\[head\]\] alone are expected"),
        ("head = [1]", r"heads\.toml holds \['head'\], tables"),
        ("[head]\nhead = 'last_layer'", r"heads\.toml holds \['head'\], tables"),
        ("lr = 1\n[[head]]\nhead = 'last_layer'", r"heads\.toml holds \['head', 'lr'\], tables"),
        ("[[head]]\nlr = 1", r"unknown head in .*heads\.toml 'None'"),
        ("[[head]]\nhead = ['last_layer']", r"unknown head in .*heads\.toml"),
        ("[[head]]\nhead = 'last_lyer'", r"unknown head in .*heads\.toml 'last_lyer'\. Did you mean 'last_layer'"),
        ("[[head]]\nhead = 'last_layer'\nwarm = 1", r"unknown key in .*heads\.toml 'warm'\. Did you mean 'warmup'"),
        ("[[head]]\nhead = 'last_layer'\nlr = 'fast'", r"lr in .*heads\.toml is 'fast', a number is expected"),
        ("[[head]]\nhead = 'last_layer'\nlr = true", r"lr in .*heads\.toml is True, a number is expected"),
        ("[[head]]\nhead = 'last_layer'\nseed = 1.5", r"seed in .*heads\.toml is 1\.5, a whole number is expected"),
        ("[[head]]\nhead = 'last_layer'\nschedule = 1", r"schedule in .*heads\.toml is 1, a word is expected"),
        ("[[head]]\nhead = 'last_layer'\noptions = 1", r"options in .*heads\.toml is 1, a table is expected"),
    ],
)
def test_a_file_that_is_not_right_is_named_with_what_is_wrong(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=message):
        parse_heads(toml(tmp_path, text), "spans", BASE)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BertVisionError, match=r"none\.toml cannot be read as TOML \(.*No such file"):
        parse_heads(str(tmp_path / "none.toml"), "spans", BASE)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "heads.toml").write_bytes(b"head = '\xff'")
    with pytest.raises(BertVisionError, match=r"heads\.toml cannot be read as TOML \(.*can't decode"):
        parse_heads(str(tmp_path / "heads.toml"), "spans", BASE)


def test_a_grid_seeds_and_shares_are_all_combined() -> None:
    [adapter, plain] = [replace(BASE, head="adapter_pool"), BASE]
    specs = spread([adapter, plain], ["lr=0.5,1", "size=4,8"], 2, [0.1, 1.0])
    assert len(specs) == 2 * 2 * 2 * 2 + 2 * 2 * 2  # the plain one has no size, and is not repeated for it
    found = {(spec.head, spec.lr, spec.options.get("size"), spec.seed, spec.fraction) for spec in specs}
    assert found == {
        ("adapter_pool", lr, size, seed, fraction)
        for lr in (0.5, 1.0)
        for size in ("4", "8")
        for seed in (7, 8)
        for fraction in (0.1, 1.0)
    } | {("last_layer", lr, None, seed, fraction) for lr in (0.5, 1.0) for seed in (7, 8) for fraction in (0.1, 1.0)}


def test_what_is_asked_for_twice_is_fitted_once() -> None:
    again = [BASE, replace(BASE, options={"dropout": 0.1}), BASE]
    specs = spread(again, ("lr=1e-3,0.001,1e-2",), 1, (1.0, 0.5, 1.0))
    assert [(spec.options, spec.lr, spec.fraction) for spec in specs] == [
        (options, lr, fraction) for options in ({}, {"dropout": 0.1}) for lr in (1e-3, 1e-2) for fraction in (1.0, 0.5)
    ]


def test_without_a_grid_there_is_what_there_was() -> None:
    own = replace(BASE, fraction=0.5)
    assert spread([BASE, own], [], 1, [1.0]) == [BASE, own]
    assert [spec.fraction for spec in spread([BASE, own], ["fraction=0.25,1"], 1, [1.0])] == [0.25, 1.0]  # alike now


def test_every_head_has_layers_to_choose() -> None:
    assert [spec.options for spec in spread([BASE], ["layers=0..1,0..2"], 1, [1.0])] == [
        {"layers": "0..1"},
        {"layers": "0..2"},
    ]


@pytest.mark.parametrize("word", ["lr", "lr=", ""])
def test_a_grid_without_values_is_refused(word: str) -> None:
    with pytest.raises(
        BertVisionError, match=f"--grid is '{word}', a name and values such as lr=3e-4,1e-3 are expected"
    ):
        spread([BASE], [word], 1, [1.0])


def test_a_grid_over_something_unknown_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown key of --grid for these heads 'siz'\. Did you mean 'size'"):
        spread([BASE, replace(BASE, head="adapter_pool")], ["siz=1"], 1, [1.0])


def test_a_grid_over_what_none_of_the_heads_has_is_refused() -> None:
    with pytest.raises(
        UnknownNameError, match=r"unknown key of --grid for these heads 'size'\..* Known: clip, dropout"
    ):
        spread([BASE], ["size=1"], 1, [1.0])


@pytest.mark.parametrize("word", ["lr=0.5,1", "schedule=linear,cosine", "dropout=0,0.1"])
def test_heads_that_are_solved_are_there_once_whatever_changes_nothing_in_them(word: str) -> None:
    trained = replace(BASE, head="layer_mix")
    specs = spread([BASE, trained], [word, "layers=0..1,0..2"], 2, [0.1, 1.0], solve=True)
    names = [spec.head for spec in specs]
    assert names.count("last_layer") == 2 * 2 * 2  # layers, seeds and shares
    assert names.count("layer_mix") == 2 * 2 * 2 * 2


@pytest.mark.parametrize(("word", "kind"), [("lr=fast", "number"), ("seed=1.5", "whole number")])
def test_a_value_of_another_kind_is_refused(word: str, kind: str) -> None:
    key, _, value = word.partition("=")
    with pytest.raises(BertVisionError, match=rf"{key} is '{value}', a {kind} is expected"):
        spread([BASE], [word], 1, [1.0])
