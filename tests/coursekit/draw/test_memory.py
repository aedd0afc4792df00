"""A bar per layout; hatches and a legend tell its parts apart, not colour alone."""

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pytest

from coursekit.draw.memory import draw_memory

LAYOUTS = {
    "data parallel": {"parameters": 32 * 2**20, "Adam": 64 * 2**20},
    "FSDP": {"parameters": 4 * 2**20, "Adam": 8 * 2**20},
}


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def drawn(*arguments):
    draw_memory(*arguments)
    [axes] = plt.gcf().axes
    return axes


def test_parts_lie_end_to_end_in_mib():
    bars = [(b.get_x(), b.get_width()) for b in drawn(LAYOUTS).patches]
    assert bars == [(0, 32), (32, 64), (0, 4), (4, 8)]


def test_layouts_run_from_top_to_bottom():
    axes = drawn(LAYOUTS)
    assert [label.get_text() for label in axes.get_yticklabels()] == list(LAYOUTS)
    low, high = axes.get_ylim()
    assert low > high


def test_sum_and_note_stand_behind_each_bar():
    texts = [text.get_text() for text in drawn(LAYOUTS, "", {"FSDP": "gathers"}).texts]
    assert texts == ["96.0 MiB", "12.0 MiB   gathers"]


def test_each_part_has_one_entry_in_the_legend_and_its_own_hatch():
    axes = drawn(LAYOUTS, "Memory")
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["parameters", "Adam"]
    first, second = axes.patches[:2]
    assert first.get_hatch() != second.get_hatch()
    assert axes.get_title() == "Memory"


def test_a_part_that_only_a_later_layout_has_is_in_the_legend():
    axes = drawn({"a": {"parameters": 1.0}, "b": {"gathered": 2.0}})
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["parameters", "gathered"]
