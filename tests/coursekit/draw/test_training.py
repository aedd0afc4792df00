"""Curves of a run are told apart by labels, widths and dashes; colour repeats them."""

import matplotlib

matplotlib.use("Agg")

import itertools

import matplotlib.pyplot as plt
import numpy as np
import pytest
from contrast import luminance
from matplotlib.patches import FancyArrowPatch
from matplotlib.text import Text

from coursekit import draw
from coursekit.draw import training

CURVES = {
    "one device": [1.0, 0.5, 0.25],
    "pmean": [1.0, 0.5, 0.25],
    "psum": [1.0, 0.2, 0.1],
    "no sync": [1.0, 0.4],
}


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def drawn(curves=CURVES, **options):
    draw.draw_losses(curves, "loss", "Four runs", **options)
    [axes] = plt.gcf().axes
    return axes


def test_every_curve_has_a_line_and_a_label():
    axes = drawn()
    assert [text.get_text() for text in axes.texts] == [
        "psum",
        "one device",
        "pmean",
        "no sync",
    ]
    assert [list(line.get_ydata()) for line in axes.lines] == list(CURVES.values())
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "loss")
    assert axes.get_title() == "Four runs"


def test_curves_are_drawn_at_the_places_that_are_named():
    curves = {"spread": [1.0, 0.2, 1.0], "distance": [2.0, 0.0, 2.0]}
    axes = drawn(curves, xlabel="x", x=[-3, 0, 3])
    assert [list(line.get_xdata()) for line in axes.lines] == 2 * [[-3, 0, 3]]
    assert {text.xy[0] for text in axes.texts} == {3}


def test_a_label_points_to_the_end_of_its_curve():
    ends = {text.get_text(): text.xy for text in drawn().texts}
    assert ends == {
        "one device": (2, 0.25),
        "pmean": (2, 0.25),
        "psum": (2, 0.1),
        "no sync": (1, 0.4),
    }


def test_beside_a_label_lies_a_piece_of_its_curve():
    axes = drawn()
    axes.figure.canvas.draw()
    for name, line in zip(CURVES, axes.lines, strict=True):
        [label] = [text for text in axes.texts if text.get_text() == name]
        place = Text.get_window_extent(label)
        [piece] = [
            patch
            for patch in axes.patches
            if type(patch) is FancyArrowPatch
            and place.y0 < patch.get_window_extent().y0 < place.y1
        ]
        assert piece.get_window_extent().x1 < place.x0
        assert piece.get_linestyle() == line.get_linestyle()
        assert piece.get_linewidth() == line.get_linewidth()
        assert matplotlib.colors.same_color(piece.get_edgecolor(), line.get_color())


def test_labels_stand_apart_in_the_order_of_the_curves():
    heights = [text.xyann[1] for text in drawn().texts]
    assert heights == [1 / 8, 3 / 8, 5 / 8, 7 / 8]


def test_labels_do_not_overlap_and_stand_in_the_figure():
    axes = drawn({str(number): [1.0, 0.5] for number in range(8)})
    figure = axes.figure
    figure.canvas.draw()
    boxes = [Text.get_window_extent(text) for text in axes.texts]  # without arrows
    assert all(low.y1 <= high.y0 for low, high in itertools.pairwise(boxes))
    assert all(box.x1 <= figure.bbox.x1 for box in boxes)


def test_an_earlier_curve_shows_around_a_later_one_that_covers_it():
    lines = drawn().lines
    widths = [line.get_linewidth() for line in lines]
    assert all(one - other >= 1 for one, other in itertools.pairwise(widths))
    assert all(
        one.get_zorder() <= other.get_zorder()
        for one, other in itertools.pairwise(lines)
    )


@pytest.mark.parametrize("number", range(2, 9))
def test_a_broken_line_is_seen_on_the_whole_one_under_it(number):
    lines = drawn({str(place): [1.0, 0.5] for place in range(number)}).lines
    for whole, broken in zip(lines[::2], lines[1::2], strict=False):
        assert (whole.get_linestyle(), broken.get_linestyle() != "-") == ("-", True)
        assert luminance(whole.get_color()) > 3 * luminance(broken.get_color())


def test_neighbouring_curves_differ_in_more_than_colour():
    styles = [line.get_linestyle() for line in drawn().lines]
    assert all(one != other for one, other in itertools.pairwise(styles))


@pytest.mark.parametrize(("log", "scale"), [(True, "log"), (False, "linear")])
def test_the_scale_is_chosen_by_the_caller(log, scale):
    assert drawn(log=log).get_yscale() == scale


def test_one_curve_alone_is_drawn():
    axes = drawn({"loss": np.float32([3, 2, 1])})
    assert len(axes.lines) == 1


def test_a_logarithmic_axis_is_labelled_by_plain_numbers(monkeypatch):
    def written(figure, alt):
        figure.canvas.draw()
        labels = figure.axes[0].get_yticklabels(which="both")
        found.extend(text.get_text() for text in labels)

    found = []
    monkeypatch.setattr(training, "show", written)
    drawn({"less than a decade": [2.0, 0.25], "the same": [2.0, 0.25]})
    assert {r"$\mathdefault{1}$", r"$\mathdefault{0.4}$"} <= {*found}
    assert not any("times" in text or "10^" in text for text in found)


def test_a_run_that_diverged_keeps_its_label():
    axes = drawn({"right": [1.0, 0.5], "wrong": [1.0, np.nan]})
    axes.figure.canvas.draw()
    assert [text.get_text() for text in axes.texts] == ["right", "wrong"]


@pytest.mark.parametrize("theme", ["default", "dark_background"])
@pytest.mark.parametrize("log", [True, False])
def test_ground_is_white_and_writing_dark_in_every_theme(theme, log):
    with plt.style.context(theme):
        axes = drawn(log=log)
        figure = axes.figure
        figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())
    assert (pixels[[0, -1]] == 255).all()
    assert axes.get_facecolor() == (1, 1, 1, 1)
    written = [*axes.texts, axes.title, axes.xaxis.label, axes.yaxis.label]
    written += [
        *axes.get_xticklabels(which="both"),
        *axes.get_yticklabels(which="both"),
    ]
    seen = [text for text in written if text.get_text()]
    assert max(luminance(text.get_color()) for text in seen) <= 1.05 / 7 - 0.05
