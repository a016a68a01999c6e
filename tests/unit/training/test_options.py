import math
import typing
from dataclasses import replace

import pytest

from bertvision.errors import BertVisionError
from bertvision.training.options import RECIPE_LENGTHS, RECIPES, Recipe, TuneOptions, default_rate, with_recipe


def test_the_defaults_are_fine() -> None:
    TuneOptions().check()


def test_all_problems_are_reported_at_once() -> None:
    bad = TuneOptions(
        epochs=0,
        batch=0,
        accumulate=-1,
        lr=0.0,
        head_lr=-1.0,
        warmup=1.0,
        weight_decay=-0.1,
        clip=-1.0,
        dropout=1.5,
        patience=0,
        seed=-1,
    )
    with pytest.raises(BertVisionError) as caught:
        bad.check()
    assert str(caught.value) == (
        "--batch is 0, at least 1 is expected; --accumulate is -1, at least 1 is expected; "
        "--seed is -1, at least 0 is expected; --patience is 0, at least 1 is expected; "
        "--epochs is 0, more than 0 is expected; --lr is 0, more than 0 and less than 1e+37 is expected; "
        "--head-lr is -1, more than 0 and less than 1e+37 is expected; --weight-decay is -0.1, at least 0 is expected; "
        "--clip is -1, at least 0 is expected; --warmup is 1, at least 0 and less than 1 is expected; "
        "--dropout is 1.5, at least 0 and less than 1 is expected."
    )


def test_a_seed_that_torch_does_not_take_is_refused() -> None:
    TuneOptions(seed=2**63 - 1).check()
    with pytest.raises(BertVisionError, match=f"--seed is {2**63}, at most {2**63 - 1} is expected"):
        TuneOptions(seed=2**63).check()


@pytest.mark.parametrize("name", ["epochs", "lr", "head_lr", "warmup", "weight_decay", "clip", "dropout"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_finite_number_is_refused(name: str, value: float) -> None:
    with pytest.raises(BertVisionError, match=f"--{name.replace('_', '-')} is {value}"):
        replace(TuneOptions(), **{name: value}).check()  # type: ignore[arg-type]  # names of numbers only


def test_zero_means_off_where_it_makes_sense() -> None:
    TuneOptions(warmup=0.0, weight_decay=0.0, clip=0.0, dropout=0.0, seed=0).check()


@pytest.mark.parametrize(
    ("learn", "rate"),
    [
        ("full", 1e-4),
        ("top:3", 2e-4),
        ("none", 1e-3),
        ("houlsby:64+full", 1e-4),
        ("lora:16", 1e-3),
        ("houlsby:64", 1e-3),
        ("bitfit", 1e-3),
        ("layernorm", 1e-3),
        ("top:0", 1e-3),
    ],
)
def test_the_fewer_parameters_learn_the_larger_the_default_rate(learn: str, rate: float) -> None:
    assert default_rate(learn) == rate


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_works(recipe: Recipe) -> None:
    RECIPES[recipe].check()
    assert with_recipe(TuneOptions(), recipe) == RECIPES[recipe]


def test_recipes_are_those_of_the_type() -> None:
    assert set(RECIPES) == set(RECIPE_LENGTHS) == set(typing.get_args(Recipe))


def test_recipes_have_the_settings_of_their_documents() -> None:
    asked = ("epochs", "batch", "lr", "schedule", "warmup")
    assert {name: tuple(getattr(recipe, one) for one in asked) for name, recipe in RECIPES.items()} == {
        "bertvision": (6, 4, 1e-5, "constant", 0.0),
        "hulburd": (3, 8, 5e-5, "linear", 0.1),
        "silva": (2, 8, 3e-5, "linear", 0.0),
        "minbert": (50, 8, 1e-5, "constant", 0.0),
    }
    assert RECIPES["minbert"].dropout == 0.1
    assert (RECIPES["bertvision"].weight_decay, RECIPES["bertvision"].clip) == (0.0, 0.0)


def test_without_a_recipe_nothing_changes() -> None:
    options = TuneOptions(batch=7)
    assert with_recipe(options, None, {"batch"}) is options


def test_what_the_user_gives_wins_over_the_recipe_even_if_it_is_the_default() -> None:
    options = TuneOptions(lr=1e-4, epochs=1.0)
    assert TuneOptions().epochs == 1.0
    mixed = with_recipe(options, "minbert", {"lr", "epochs", "task", "recipe"})
    assert mixed == replace(RECIPES["minbert"], lr=1e-4, epochs=1.0)
    assert mixed.batch == 8
