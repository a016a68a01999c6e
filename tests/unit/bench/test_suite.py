import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bertvision.bench.ensemble_settings import EnsembleSettings
from bertvision.bench.environment import BenchEnvironment
from bertvision.bench.heads_settings import HeadsSettings
from bertvision.bench.sentence_settings import SentenceSettings
from bertvision.bench.settings import TuneSettings
from bertvision.bench.suite import Cell, Suite, find_suite, load_suite, parse_suite
from bertvision.errors import BertVisionError
from conftest import ROOT

TUNE = {"name": "lora", "kind": "tune", "learn": "lora:16", "snapshots": [0.5]}
PLAIN = {"name": "plain", "kind": "plain", "learn": "lora:16"}
SENTENCES = {"name": "{task}", "kind": "sentences"}
HEADS = {"name": "heads", "kind": "heads", "on": "lora", "at": [0.5, 1], "heads": ["layer_mix", "ladder size=8"]}

TOGETHER = {"name": "both", "kind": "ensemble", "of": ["lora", "top"], "ensembles": ["mean"]}
TOP = {"name": "top", "kind": "tune", "learn": "top:1"}


def parse(*cells: dict[str, Any], **more: Any) -> Suite:  # noqa: ANN401 - any content
    return parse_suite("small", {"cell": list(cells), **more})


def test_defaults_reach_the_cells_that_know_them_and_cells_win() -> None:
    suite = parse(
        TUNE | {"batch": 8}, HEADS | {"at": [0.5]}, defaults={"epochs": 3, "batch": 4, "encoder": "e", "head_epochs": 2}
    )
    lora, heads = (cell.settings for cell in suite.cells)
    assert (lora.epochs, lora.batch, lora.encoder) == (3, 8, "e")
    assert (heads.batch, heads.head_epochs) == (4, 2)


def test_heads_take_over_the_examples_of_the_run_that_they_read() -> None:
    suite = parse(TUNE | {"fraction": 0.1, "length": 99, "encoder": "e"}, HEADS)
    heads = suite.cells[1].settings
    assert isinstance(heads, HeadsSettings)
    assert heads.on == suite.cells[0].settings
    assert (heads.fraction, heads.length, heads.encoder) == (0.1, 99, "e")


def test_an_ensemble_takes_over_the_examples_of_its_runs() -> None:
    suite = parse(TUNE, TOP, TOGETHER, defaults={"fraction": 0.1, "encoder": "e"})
    both = suite.cells[2].settings
    assert isinstance(both, EnsembleSettings)
    assert both.of == tuple(cell.settings for cell in suite.cells[:2])
    assert (both.fraction, both.encoder, both.models) == (0.1, "e", ["lora:16", "top:1", "mean"])


def test_members_that_learn_alike_are_told_apart() -> None:
    several = parse(TUNE, TOP, TUNE | {"name": "other", "lr": 1.0}, TOGETHER | {"of": ["lora", "other", "top"]})
    assert several.cells[3].settings.labels == ["lora:16", "lora:16 2", "top:1"]


def test_scores_are_joined_by_their_mean_alone() -> None:
    ways = {"ensembles": ["greedy", "mean"]}
    suite = parse(TUNE, TOP, TOGETHER | ways, HEADS | ways | {"at": [1]}, defaults={"task": "stsb"})
    both, heads = (cell.settings for cell in suite.cells[2:])
    assert both.models == ["lora:16", "top:1", "mean"]
    assert heads.models == ["layer_mix@1", "ladder size=8@1", "own_output@1", "mean@1"]


def test_heads_are_judged_after_every_epoch_unless_the_last_is_to_be_kept() -> None:
    def judged_at(**words: Any) -> list[float]:  # noqa: ANN401 - any setting
        settings = HeadsSettings(heads=("layer_mix",), **words)
        return settings.request(BenchEnvironment(), 0, "e").fractions

    assert judged_at() == [1.0]
    assert judged_at(head_epochs=3.0) == [1.0, 2.0, 3.0]
    assert judged_at(head_epochs=2.5) == [1.0, 2.0, 2.5]
    assert judged_at(head_epochs=0.5) == [0.5]
    assert judged_at(head_epochs=3.0, each_epoch=False) == [3.0]


def test_heads_of_less_data_are_trained_beside_those_of_all() -> None:
    settings = HeadsSettings(heads=("layer_mix", "ladder size=8"), shares=(0.3, 1.0), ensembles=(), fraction=0.5)
    request = settings.request(BenchEnvironment(), 0, "e")
    assert settings.models == ["layer_mix share=0.3@0", "layer_mix@0", "ladder size=8 share=0.3@0", "ladder size=8@0"]
    assert [spec.fraction for spec in request.heads] == [0.15, 0.5, 0.15, 0.5]
    assert request.largest == 0.5
    for shares in ((), (0.3,), (0.0, 1.0), (1.0, 1.5)):
        with pytest.raises(BertVisionError, match="shares is"):
            HeadsSettings(shares=shares).check()


def test_an_ensemble_is_known_by_what_its_runs_differ_in() -> None:
    keys = {parse(TUNE | {"lr": lr}, TOP, TOGETHER).cells[2].key(0) for lr in (1e-3, 2e-3)}
    assert len(keys) == 2


def test_models_are_named_before_they_are_measured() -> None:
    lora, heads = (cell.settings for cell in parse(TUNE, HEADS).cells)
    assert lora.models == ["0.5", "1"]
    assert heads.models[:4] == ["layer_mix@0.5", "ladder size=8@0.5", "own_output@0.5", "max@0.5"]
    assert heads.models[-3:] == ["max", "mean", "greedy"]
    alone = HeadsSettings(heads=("layer_mix",), ensembles=("mean",))
    assert alone.models == ["layer_mix@0", "mean@0"]


def test_a_table_with_lists_is_a_cell_for_each_combination() -> None:
    grid = {"name": "{task} {per_class}", "kind": "sentences", "each": {"task": ["cola", "sst2"], "per_class": [8, 32]}}
    pair = {"first": "{task} 8:layer_concat", "second": "{task} 8:last_layer", "each": {"task": ["cola", "sst2"]}}
    suite = parse(grid, TUNE, compare=[pair], defaults={"most": 99})
    assert [cell.name for cell in suite.cells] == ["cola 8", "cola 32", "sst2 8", "sst2 32", "lora"]
    assert suite.cells[1].settings == SentenceSettings(task="cola", per_class=32, most=99)
    assert [(pair.first, pair.second) for pair in suite.pairs] == [
        (f"{task} 8:layer_concat", f"{task} 8:last_layer") for task in ("cola", "sst2")
    ]


def test_a_cell_is_known_by_its_settings_and_seed_and_not_by_its_name() -> None:
    cell = Cell(name="a", kind="tune", settings=TuneSettings(epochs=1))
    assert cell.key(0) == Cell(name="b", kind="tune", settings=TuneSettings(epochs=1.0)).key(0)
    others = [cell.key(1), Cell(name="a", kind="plain", settings=TuneSettings(epochs=1)).key(0)]
    others.append(Cell(name="a", kind="tune", settings=TuneSettings(epochs=2)).key(0))
    others.append(Cell(name="a", kind="tune", settings=TuneSettings(epochs=1, compile=True)).key(0))
    assert len({cell.key(0), *others}) == 5


@pytest.mark.parametrize(
    ("cells", "more", "message"),
    [
        ([TUNE], {"cells": []}, r"unknown key 'cells'. Did you mean 'cell'\?"),
        ([TUNE], {"defaults": {"epoch": 1}}, r"unknown key in \[defaults\] 'epoch'. Did you mean 'epochs'\?"),
        ([TUNE], {"defaults": 3}, r"one table \[defaults\] and tables \[\[compare\]\] are expected"),
        (
            [TUNE, HEADS | {"heads": ["ladder size"]}],
            {},
            r"heads has 'ladder size'; a name and options such as size=64",
        ),
        ([TUNE, HEADS | {"heads": [""]}], {}, r"--heads names no head"),
        ([], {}, r"it has no cell; tables \[\[cell\]\]"),
        ([TUNE, TUNE], {}, "two cells are called 'lora'"),
        ([TUNE | {"name": "a:b"}], {}, "a cell is called 'a:b'; a name without colons and commas"),
        ([TUNE | {"name": "a,b"}], {}, "a cell is called 'a,b'"),
        ([{"kind": "tune"}], {}, "a cell is called ''"),
        ([TUNE | {"kind": "tuned"}], {}, r"unknown kind of cell 'lora' 'tuned'. Did you mean 'tune'\?"),
        ([TUNE | {"snapshot": []}], {}, r"unknown key in cell 'lora' 'snapshot'. Did you mean 'snapshots'\?"),
        ([TUNE | {"epochs": "two"}], {}, r"cell 'lora': epochs is 'two'; float is expected, such as the default 1.0"),
        ([TUNE | {"schedule": "line"}], {}, r"cell 'lora': schedule is 'line'; .*linear.* is expected"),
        ([TUNE | {"learn": "lora"}], {}, r"cell 'lora': --learn is 'lora', one of these is expected"),
        ([TUNE | {"head": "layermix"}], {}, r"cell 'lora': unknown head 'layermix'. Did you mean 'layer_mix'\?"),
        ([TUNE | {"task": "squad"}], {}, r"cell 'lora': unknown task 'squad'. Did you mean 'squad"),
        ([TUNE | {"batch": 0}], {}, r"cell 'lora': --batch is 0, at least 1 is expected"),
        ([TUNE | {"snapshots": [3.0]}], {}, r"cell 'lora': snapshots has 3, more than 0 and at most 1 is expected"),
        ([TUNE | {"lr": float("nan")}], {}, r"cell 'lora': --lr is nan, more than 0"),
        ([PLAIN | {"fraction": 0.0}], {}, r"cell 'plain': --fraction is 0, more than 0 and at most 1 is expected"),
        ([PLAIN | {"held_out": 1.5}], {}, r"cell 'plain': --held-out is 1.5, at least 0 and less than 1 is expected"),
        ([PLAIN | {"snapshots": [3.0]}], {}, r"cell 'plain': snapshots has 3, more than 0 and at most 1 is expected"),
        ([TUNE, HEADS | {"batch": 0}], {}, r"cell 'heads': --batch is 0, at least 1 is expected"),
        ([HEADS], {}, r"cell 'heads': unknown cell above 'lora'"),
        ([TUNE, HEADS | {"on": "lore"}], {}, r"cell 'heads': unknown cell above 'lore'. Did you mean 'lora'\?"),
        ([TUNE, HEADS | {"at": [0.7]}], {}, r"cell 'heads': at has 0.7; the tuned run has snapshots at 0.5, 1"),
        (
            [TUNE, HEADS | {"head_epochs": float("inf")}],
            {},
            r"cell 'heads': head_epochs is inf, more than 0 is expected",
        ),
        ([TUNE, HEADS | {"fraction": 0.5}], {}, r"cell 'heads': fraction is that of 'lora', 1.0; leave it out"),
        ([TUNE, HEADS | {"ensembles": ["men"]}], {}, r"unknown ensemble 'men'. Did you mean 'mean'\?"),
        ([TUNE, TOGETHER], {}, r"cell 'both': unknown cell above 'top'"),
        ([TUNE, TOGETHER | {"of": "lora"}], {}, r"cell 'both': of is 'lora'; a list of names of cells is expected"),
        ([TUNE, TOGETHER | {"of": ["lora"]}], {}, r"cell 'both': of names 1 cells; at least 2 different ones are"),
        ([TUNE, TOGETHER | {"of": ["lora", "lora"]}], {}, r"of names 2 cells, one of them twice; at least 2 different"),
        (
            [TUNE, HEADS, TOGETHER | {"of": ["lora", "heads"]}],
            {},
            r"of names 'heads', of kind heads; kind tune is expec",
        ),
        ([TUNE, TOP, TOGETHER | {"ensembles": []}], {}, r"ensembles is \[\]; some of max, mean, greedy are expected"),
        (
            [TUNE, TOP, TOGETHER | {"ensembles": ["max", "max"]}],
            {},
            r"ensembles is \['max', 'max'\]; each may stand once",
        ),
        (
            [TUNE, TOP, TOGETHER | {"ensembles": ["max"]}],
            {"defaults": {"task": "stsb"}},
            r"ensembles is \['max'\]; some of max, mean, greedy are expected, of scores mean",
        ),
        (
            [TUNE, TOP, TOGETHER | {"ensembles": ["greedy"]}],
            {"defaults": {"held_out": 0.0}},
            r"ensembles has greedy, and held_out is 0: nothing is left to choose by",
        ),
        ([TUNE, TOP, TOGETHER | {"ensembles": ["men"]}], {}, r"unknown ensemble 'men'. Did you mean 'mean'\?"),
        ([TUNE, TOP, TOGETHER | {"length": 9}], {}, r"cell 'both': length is that of \['lora', 'top'\], 384; leave it"),
        (
            [TUNE, TOP | {"fraction": 0.5}, TOGETHER],
            {},
            r"cell 'both': of names cells of fraction 1.0 and 0.5; one is expected",
        ),
        ([{"name": "h", "kind": "heads", "at": [1]}], {}, r"at names snapshots, and no tuned run is named"),
        (
            [{"name": "p", "kind": "plain", "learn": "top:3"}],
            {},
            r"learn is 'top:3'; the plain loop knows lora:R, full",
        ),
        ([{"name": "p", "kind": "plain", "task": "sst3"}], {}, r"cell 'p': unknown task 'sst3'. Did you mean 'sst"),
        ([TUNE], {"compare": [{"first": "lora"}]}, r"unknown cell in \[\[compare\]\] second ''"),
        ([TUNE], {"compare": [{"first": "lora", "other": "a"}]}, r"unknown key in \[\[compare\]\] 'other'"),
        (
            [TUNE],
            {"compare": [{"first": "lora:2", "second": "lora"}]},
            r"unknown model of cell 'lora' '2'.*Known: 0.5, 1",
        ),
        (
            [TUNE | {"held_out": 0.0}],
            {"compare": [{"first": "lora", "second": "lora:1"}]},
            r"first is 'lora', which has several models and no held-out examples to choose by. Name one: lora:0.5",
        ),
        (
            [TUNE, SENTENCES | {"each": {"task": ["cola"]}}],
            {"compare": [{"first": "lora:1", "second": "cola:last_layer"}]},
            r"'lora:1' of squad2 in builtin, and 'cola:last_layer' of cola in builtin; a paired test needs the same",
        ),
        ([SENTENCES | {"each": {"tsk": ["cola"]}}], {}, r"each lists tsk, and name '\{task\}' does not say \{tsk\}"),
        (
            [SENTENCES | {"name": "{tsk}", "each": {"tsk": ["cola"]}}],
            {},
            r"unknown key in cell 'cola' 'tsk'. Did you mean 'task'\?",
        ),
        ([SENTENCES | {"each": {"task": ["cola", "cola"]}}], {}, "two cells are called 'cola'"),
        ([SENTENCES | {"each": {"task": ["colo"]}}], {}, r"cell 'colo': unknown task 'colo'. Did you mean 'cola'\?"),
        (
            [SENTENCES | {"task": "cola", "methods": ["embedding"]}],
            {},
            r"unknown method 'embedding'. Did you mean 'embeddings'\?",
        ),
        (
            [SENTENCES | {"task": "cola", "per_class": "few"}],
            {},
            r"per_class is 'few'; int \| None is expected, such as the default None",
        ),
    ],
)
def test_wrong_words_are_answered_with_right_ones(
    cells: list[dict[str, Any]], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(BertVisionError, match=message):
        parse(*cells, **more)


@pytest.mark.parametrize("path", sorted((ROOT / "experiments").glob("*.toml")), ids=lambda path: path.stem)
def test_every_file_of_experiments_can_be_read(path: Path) -> None:
    suite = load_suite(path)
    assert suite.name == path.stem
    assert suite.about
    assert len({cell.key(0) for cell in suite.cells}) == len(suite.cells), "two cells are the same"


def test_the_examples_of_the_page_are_suites() -> None:
    page = (ROOT / "docs" / "suites.md").read_text(encoding="utf-8")
    whole, grid = (tomllib.loads(block) for block in re.findall(r"```toml\n(.*?)```", page, flags=re.DOTALL))
    assert [cell.kind for cell in parse_suite("page", whole).cells] == ["tune", "heads"]
    suite = parse_suite("grid", grid)
    assert [cell.name for cell in suite.cells] == ["cola 8", "cola 32", "rte 8", "rte 32"]
    assert [pair.first for pair in suite.pairs] == ["cola 8:layer_concat", "rte 8:layer_concat"]


def test_a_file_that_is_no_suite_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.toml").write_text("[[cell", encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"broken.toml cannot be read as TOML"):
        load_suite(tmp_path / "broken.toml")
    (tmp_path / "odd.toml").write_text("abut = 'a'", encoding="utf-8")
    with pytest.raises(BertVisionError, match=r"odd.toml: unknown key 'abut'. Did you mean 'about'\?"):
        load_suite(tmp_path / "odd.toml")
    monkeypatch.chdir(ROOT)
    assert find_suite("rival") == Path("experiments/rival.toml")
    with pytest.raises(BertVisionError, match=r"unknown suite 'rivals'. Did you mean 'rival'\?"):
        find_suite("rivals")
    with pytest.raises(BertVisionError, match=r"other.toml is not there"):
        find_suite("other.toml")


def test_only_names_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    suite = load_suite(find_suite("smoke"))
    assert [cell.name for cell in suite.only([])] == ["tuned", "tuned top", "together", "plain", "heads", "sentences"]
    assert [cell.name for cell in suite.only(["heads", "tuned"])] == ["tuned", "heads"]
    with pytest.raises(BertVisionError, match=r"unknown cell 'head'. Did you mean 'heads'\?"):
        suite.only(["head"])
