"""Tables show each text where it belongs; a schedule's rows say what a stage keeps."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest
from matplotlib.colors import to_hex

from coursekit.draw.canvas import TINTS
from coursekit.draw.table import draw_speeds, draw_table, draw_turns

SCHEDULE = [
    [("F", 0), None],
    [("F", 1), ("F", 0)],
    [None, ("B", 0)],
    [("B", 0), ("F", 1)],
    [None, ("B", 1)],
    [("B", 1), None],
]


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def test_texts_are_in_their_cells_and_empty_cells_are_empty():
    draw_table({"one": ["a", ""], "two": ["", "b"]}, "column", "A table")
    [axes] = plt.gcf().axes
    assert {text.get_position(): text.get_text() for text in axes.texts} == {
        (0, 0): "a",
        (1, 1): "b",
    }
    assert [label.get_text() for label in axes.get_yticklabels()] == ["one", "two"]
    assert len(axes.patches) == 4


def test_a_schedule_s_rows_say_how_much_a_stage_keeps():
    draw_turns(SCHEDULE, "Two stages")
    [axes] = plt.gcf().axes
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["stage 0 keeps 2", "stage 1 keeps 1"]
    tints = [
        to_hex(one.get_facecolor()) for one in axes.patches if one.get_facecolor()[3]
    ]
    assert tints.count(TINTS[1]) == tints.count(TINTS[5]) == 4


def test_speeds_have_their_numbers_at_their_ends():
    draw_speeds({"slow": 2, "fast": 12345.6}, "rows/s", "Speeds")
    [axes] = plt.gcf().axes
    assert [text.get_text() for text in axes.texts] == ["2 rows/s", "12,346 rows/s"]
    assert [bar.get_width() for bar in axes.patches] == [2, 12345.6]
