import math

import pytest
import torch

from bertvision.heads import HeadShape
from bertvision.heads.parts.image import LayerImage
from close import EXACT, FLOAT32
from known_weights import fill, random_states

SHAPE = HeadShape(layers=3, width=2, outputs=1)
STATES = torch.tensor(
    [
        [[0.0, 6.0], [12.0, 0.0]],
        [[6.0, 0.0], [12.0, 0.0]],
        [[0.0, 0.0], [-12.0, 6.0]],
    ]
)[None]
"""One example: three layers of two tokens."""


def test_every_layer_is_a_channel() -> None:
    image = LayerImage(SHAPE, source="layers", adapter=None)
    assert (image.channels, image.width) == (3, 2)
    assert not list(image.parameters())
    torch.testing.assert_close(image(STATES), STATES, rtol=EXACT, atol=EXACT)


def test_the_mean_of_the_layers_is_one_channel() -> None:
    image = LayerImage(SHAPE, source="mean", adapter=None)
    assert (image.channels, image.width) == (1, 2)
    torch.testing.assert_close(image(STATES), torch.tensor([[[[2.0, 2.0], [4.0, 2.0]]]]), rtol=FLOAT32, atol=FLOAT32)


def test_the_learned_mixture_of_the_layers_is_one_channel() -> None:
    image = LayerImage(SHAPE, source="mix", adapter=None)
    fill(image, {"pool.mix": [0.0, math.log(2), math.log(3)], "pool.scale": [2.0]})  # 1/6, 2/6, 3/6; all doubled
    assert (image.channels, image.width) == (1, 2)
    expected = torch.tensor([[[[4.0, 2.0], [0.0, 6.0]]]])
    torch.testing.assert_close(image(STATES), expected, rtol=FLOAT32, atol=FLOAT32)


def test_an_adapter_makes_every_channel_small() -> None:
    image = LayerImage(SHAPE, source="layers", adapter=1)
    fill(image, {"adapter.weight": [0.5, 0.25], "adapter.bias": [-0.5]})
    assert (image.channels, image.width) == (3, 1)
    # gelu of 1, 5.5; 2.5, 5.5; -0.5, -5: by tanh, of which the exact one differs by up to 0.0005
    expected = [0.841192, 5.5, 2.484916, 5.5, -0.154286, 0.0]
    assert image(STATES).shape == (1, 3, 2, 1)
    assert image(STATES).flatten().tolist() == pytest.approx(expected, abs=FLOAT32)


def test_an_adapter_reads_the_mixture_not_the_layers() -> None:
    image = LayerImage(SHAPE, source="mean", adapter=3)
    fill(image, {"adapter.weight": [0.5, -0.5, 1.0, 0.0, 0.0, 1.5], "adapter.bias": [0.0, 0.0, 0.0]})
    assert (image.channels, image.width) == (1, 3)
    # tokens (2, 2) and (4, 2): gelu of (1, -1, 5) and (2, -2, 7)
    expected = [0.841192, -0.158808, 5.0, 1.954598, -0.045402, 7.0]
    assert image(STATES).shape == (1, 1, 2, 3)
    assert image(STATES).flatten().tolist() == pytest.approx(expected, abs=FLOAT32)


@pytest.mark.parametrize("source", ["layers", "mix", "mean"])
@pytest.mark.parametrize("adapter", [None, 4])
def test_the_image_has_the_channels_and_the_width_that_it_says(source: str, adapter: int | None) -> None:
    image = LayerImage(HeadShape(layers=5, width=7, outputs=2), source=source, adapter=adapter)  # type: ignore[arg-type]  # from a list
    assert image(random_states(2, 5, 3, 7)).shape == (2, image.channels, 3, image.width)
