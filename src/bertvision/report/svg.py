"""SVG for plots: elements, scales, ticks, axes and marks; colours are CSS classes, so that they follow the theme."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import final

from bertvision.report.numbers import show_number

WIDTH, HEIGHT = 480, 340
LEFT, RIGHT, TOP, BOTTOM = 72, 16, 14, 56
SHAPES = ("circle", "square", "triangle", "diamond", "cross")
COLOURS = 8
SIZE = 5.5
MOST_TICKS = 7


def element(name: str, content: str = "", **attributes: object) -> str:
    """An SVG element.

    Underscores in attribute names become dashes, and one at the end (`class_`) is dropped; attributes of None are left
    out, floats are rounded to two decimals. `content` must be escaped.
    """
    listed = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{listed}>{content}</{name}>" if content else f"<{name}{listed}/>"


def text(words: str, **attributes: object) -> str:
    """A text element; `words` are escaped."""
    return element("text", escape(words), **attributes)


def shorten(words: str, most: int) -> str:
    """Text of at most `most` characters; longer text ends with an ellipsis."""
    return words if len(words) <= most else words[: most - 1] + "…"


def _attribute(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else escape(str(value))


@final
@dataclass(frozen=True, slots=True)
class Palette:
    """Colour and shape of the marks of every name, the same in the whole report.

    Attributes:
        names: in order. Name i has colour i mod 8 and shape i mod 5, so that forty names look different, and neighbours
            differ in both.
    """

    names: tuple[str, ...]

    def classes(self, name: str) -> str:
        """CSS class with the colour of a name; grey (`plain`) for names that are not in the palette."""
        return f"c{self.names.index(name) % COLOURS}" if name in self.names else "plain"

    def shape(self, name: str) -> str:
        """Shape of the marks of a name; a circle for names that are not in the palette."""
        return SHAPES[self.names.index(name) % len(SHAPES)] if name in self.names else "circle"

    def mark(self, name: str, x: float, y: float, tip: str = "") -> str:
        """The mark of a name at a position, with a tooltip."""
        shown = element("title", escape(tip)) if tip else ""
        return element("g", _outline(self.shape(name), x, y) + shown, class_=f"mark {self.classes(name)}")


def _outline(shape: str, x: float, y: float) -> str:
    s = SIZE
    match shape:
        case "square":
            return element("rect", x=x - s, y=y - s, width=2 * s, height=2 * s)
        case "triangle":
            points = [(x, y - 1.3 * s), (x + 1.2 * s, y + s), (x - 1.2 * s, y + s)]
        case "diamond":
            points = [(x, y - 1.4 * s), (x + 1.4 * s, y), (x, y + 1.4 * s), (x - 1.4 * s, y)]
        case "cross":
            w, v = 0.4 * s, 1.2 * s
            arms = [(-w, -v), (w, -v), (w, -w), (v, -w), (v, w), (w, w), (w, v), (-w, v), (-w, w), (-v, w), (-v, -w)]
            points = [(x + dx, y + dy) for dx, dy in [*arms, (-w, -w)]]
        case _:
            return element("circle", cx=x, cy=y, r=s)
    return element("polygon", points=" ".join(f"{px:.2f},{py:.2f}" for px, py in points))


@final
@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to coordinates along an axis.

    Attributes:
        low, high: values at both ends.
        begin, end: coordinates of both ends; for a vertical axis, `begin` (bottom) is larger.
        log: whether the scale is logarithmic.
    """

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Coordinate of a value."""
        low, high, value = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return self.begin + (value - low) / (high - low) * (self.end - self.begin)

    def ticks(self) -> list[float]:
        """Round values for ticks."""
        return log_ticks(self.low, self.high) if self.log else nice_ticks(self.low, self.high)


def fit_scale(values: Sequence[float], begin: float, end: float, *, log: bool = False) -> Scale:
    """A scale that contains all values, with a margin; it starts at 0 if the lowest value is near 0."""
    low, high = min(values), max(values)
    if log:
        room = max((high / low) ** 0.06, 1.3)
        return Scale(low / room, high * room, begin, end, log=True)
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    ticks = nice_ticks(low - room, high + room)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else room
    bottom = 0.0 if 0.0 <= low < step else low - room
    return Scale(bottom, high + room, begin, end)


def nice_ticks(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between two numbers.

    >>> nice_ticks(0, 10)
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """
    raw = (high - low) / (MOST_TICKS - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between two numbers; if there are fewer than three, also 2 and 5 times powers of ten."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    tens = [10.0**power for power in powers if low <= 10.0**power <= high]
    if len(tens) >= 3:
        return tens[:: math.ceil(len(tens) / MOST_TICKS)]
    return [tick for p in powers for tick in (10.0**p, 2 * 10.0**p, 5 * 10.0**p) if low <= tick <= high]


def tick_label(value: float) -> str:
    """Label of a tick, with k, M or G for thousands, millions and billions."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return show_number(value / size) + letter
    return show_number(value)


def axes(x: Scale, y: Scale, x_title: str, y_title: str) -> str:
    """Both axes with ticks, grid lines and titles."""
    parts = []
    for tick in y.ticks():
        at = y.at(tick)
        parts.append(element("line", x1=x.begin, x2=x.end, y1=at, y2=at, class_="grid"))
        parts.append(text(tick_label(tick), x=x.begin - 8, y=at, class_="tick end"))
    parts += [bottom_axis(x, y.begin, x_title)]
    middle = (y.begin + y.end) / 2
    parts.append(text(y_title, x=12, y=middle, class_="axis", transform=f"rotate(-90 12 {middle:.0f})"))
    return "".join(parts)


def bottom_axis(x: Scale, y: float, title: str) -> str:
    """A horizontal axis with ticks and title, at the coordinate `y`."""
    parts = [element("line", x1=x.begin, x2=x.end, y1=y, y2=y, class_="base")]
    for tick in x.ticks():
        at = x.at(tick)
        parts.append(element("line", x1=at, x2=at, y1=y, y2=y + 5, class_="base"))
        parts.append(text(tick_label(tick), x=at, y=y + 19, class_="tick middle"))
    parts.append(text(title, x=(x.begin + x.end) / 2, y=y + 44, class_="axis"))
    return "".join(parts)


def drawing(content: str, *, key: str, title: str, description: str, height: float = HEIGHT) -> str:
    """The complete SVG of a plot, with title and description for screen readers."""
    head = element("title", escape(title), id=f"{key}-title") + element("desc", escape(description), id=f"{key}-desc")
    labels = f"{key}-title {key}-desc"
    return element(
        "svg", head + content, viewBox=f"0 0 {WIDTH} {height:.0f}", role="img", aria_labelledby=labels, class_="plot"
    )
