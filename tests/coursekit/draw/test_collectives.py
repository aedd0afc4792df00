"""Pictures of collectives show each value; its colour names the device it came from."""

import matplotlib

matplotlib.use("Agg")

import re

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest
from jax import lax
from matplotlib.colors import to_hex, to_rgba
from matplotlib.patches import Rectangle

from coursekit import draw
from coursekit.draw.canvas import TINTS

X = np.float32(10 * np.arange(8)[:, None] + np.arange(2))


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def spmd(function, x=X):
    return jax.pmap(function, axis_name="i")(x)


def cells():
    """Lists (text, colour, weight) of every drawn value, from top to bottom."""
    found = []
    for axes in plt.gcf().axes:
        values = [t for t in axes.texts if t.get_text().replace(".", "").isdigit()]
        for text in values:
            [box] = [
                patch
                for patch in axes.patches
                if isinstance(patch, Rectangle) and holds(patch, *text.get_position())
            ]
            colour = to_hex(box.get_facecolor())
            found.append((text.get_text(), colour, text.get_weight()))
    return found


def holds(patch, x, y):
    inside_x = patch.get_x() < x < patch.get_x() + patch.get_width()
    return inside_x and patch.get_y() < y < patch.get_y() + patch.get_height()


def test_moved_values_keep_the_colour_of_their_device():
    pairs = [(d, (d + 1) % 8) for d in range(8)]
    draw.draw_collective("right", X, spmd(lambda x: lax.ppermute(x, "i", pairs)))
    found = cells()
    assert len(found) == 32  # two values on eight devices, before and after
    assert all(colour == TINTS[int(text) // 10] for text, colour, _ in found)
    assert [text for text, _, _ in found][2:4] == ["70", "71"]  # device 0, after


def test_combined_values_are_white_and_bold():
    draw.draw_collective("psum", X, spmd(lambda x: lax.psum(x, "i")))
    sums = [cell for cell in cells() if cell[0] in ("280", "288")]
    assert sums == [("280", "#ffffff", "bold"), ("288", "#ffffff", "bold")] * 8


def test_a_scalar_per_device_and_a_matrix_are_drawn_value_by_value():
    draw.draw_collective("sum", X, spmd(lambda x: x.sum()))
    assert len(cells()) == 16 + 8
    grid = np.arange(48, dtype=np.float32).reshape(4, 3, 4)
    draw.draw_collective("double", grid, 2 * grid)
    assert len(cells()) == 48 + 48


def test_a_value_that_a_device_held_already_counts_as_its_own():
    same = np.ones((8, 1), np.float32)
    draw.draw_collective("nothing", same, same)
    assert {weight for _, _, weight in cells()} == {"bold"}  # from any of eight


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [(X, X[:4], ["8", "4"]), (np.zeros((8, 2, 2, 2)), X, ["[8, 2, 2, 2]", "3"])],
)
def test_what_cannot_be_drawn_is_named(before, after, named):
    with pytest.raises(ValueError) as error:
        draw.draw_collective("psum", before, after)
    assert all(word in str(error.value) for word in named)


def test_groups_have_a_bar_each():
    halves = [[0, 1, 2, 3], [4, 5, 6, 7]]
    draw.draw_collective("psum in groups", X, X, groups=halves)
    [axes] = plt.gcf().axes
    found = [text for text in axes.texts if text.get_text() == "psum in groups"]
    assert [text.get_position()[0] for text in found] == [2, 6]


@pytest.mark.parametrize("groups", [[[0, 2, 4, 6], [1, 3, 5, 7]], [[0, 1, 2]]])
def test_groups_that_are_no_neighbours_are_named(groups):
    with pytest.raises(ValueError, match=re.escape(f"groups is {groups}")):
        draw.draw_collective("psum", X, X, groups=groups)


def test_a_row_of_many_values_is_readable_on_few_devices():
    rows = np.arange(16.0).reshape(4, 1, 4)
    draw.draw_collective("nothing", rows, rows)
    [axes] = plt.gcf().axes
    sizes = [t.get_fontsize() for t in axes.texts if t.get_text().isdigit()]
    assert len(sizes) == 32 and min(sizes) >= 6


def test_a_ring_has_an_arrow_into_each_value_that_came():
    states = [np.ones((4, 4)), np.ones((4, 4)) + np.eye(4)]
    draw.draw_steps(states, ["at first", "then"], complete=4, row="chunk", ring=True)
    before, after = plt.gcf().axes
    arrows = [text.xy for text in after.texts if not text.get_text()]
    into = [(x, y) for x, y in arrows if x < 4]
    assert into == [(device + 0.3, device + 0.5) for device in range(4)]
    assert len(arrows) == 5  # the one into device 0 leaves the last device's edge
    assert all(text.get_text() for text in before.texts)


def test_steps_mark_what_is_complete():
    states = [np.ones((4, 4)), np.full((4, 4), 4.0)]
    draw.draw_steps(states, ["at first", "at last"], complete=4, row="chunk")
    labels = [text.get_text() for axes in plt.gcf().axes for text in axes.texts]
    assert [label for label in labels if label.startswith("chunk")] == [
        f"chunk {place}" for place in range(4)
    ] * 2
    titles = [axes.get_title() for axes in plt.gcf().axes]
    assert titles == ["at first", "at last"]
    assert cells()[:16] == [("1", to_hex(to_rgba("white")), "normal")] * 16
    assert cells()[16:] == [("4", TINTS[2], "bold")] * 16
