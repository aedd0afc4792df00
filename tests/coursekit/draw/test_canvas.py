"""A picture is readable by contrast, and by words where it cannot be seen."""

import matplotlib

matplotlib.use("Agg")

import itertools
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from contrast import contrast

from coursekit import draw
from coursekit.draw.canvas import (
    FAINT,
    HOST,
    INK,
    SHADES,
    TINTS,
    listed,
    named,
    show,
    titled,
)

LESSONS = Path(__file__).resolve().parents[3] / "lessons"
GROUNDS = [*TINTS, HOST, "white"]


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def test_contrast_is_that_of_the_standard():
    assert contrast("black", "white") == pytest.approx(21)
    assert contrast("#767676", "white") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("ground", GROUNDS)
def test_ink_is_readable_and_faint_lines_are_seen_on_every_ground(ground):
    assert contrast(INK, ground) >= 7
    assert contrast(FAINT, ground) >= 3


def test_neighbouring_devices_have_different_tints():
    assert len(set(TINTS)) == len(TINTS) == 8


@pytest.mark.parametrize("number", range(1, 9))
def test_every_line_is_seen_on_white_and_on_the_one_that_it_may_cover(number):
    draw.draw_losses({str(place): [1.0, 0.5] for place in range(number)})
    curves = [line.get_color() for line in plt.gca().lines]
    draw.draw_replicas(np.zeros((2, number)), "loss")
    replicas = [line.get_color() for line in plt.gca().lines]
    assert min(contrast(colour, "white") for colour in curves + replicas) >= 3
    pairs = itertools.pairwise(curves)
    assert all(contrast(whole, broken) >= 3 for whole, broken in pairs)


def test_replicas_have_their_devices_colours_and_the_lower_lines_are_wider():
    draw.draw_replicas(np.zeros((2, 8)), "loss")
    lines = plt.gca().lines
    assert [line.get_color() for line in lines] == [*SHADES]
    widths = [line.get_linewidth() for line in lines]
    assert all(lower > upper for lower, upper in itertools.pairwise(widths))


def test_what_fades_out_is_never_writing():
    draw.draw_schedule(3, 4, "Schedule")
    draw.draw_losses({"a": [2.0, 1.0], "b": [2.0, 0.5]}, title="Losses")
    for number in plt.get_fignums():
        [axes] = plt.figure(number).axes
        written = [*axes.texts, axes.title, axes.xaxis.label, *axes.get_yticklabels()]
        assert {text.get_color() for text in written if text.get_text()} == {INK}


@pytest.fixture
def displayed(monkeypatch):
    """Lists what a notebook with the inline backend would be given to display."""
    calls = []
    monkeypatch.setattr("IPython.get_ipython", lambda: "a notebook's shell")
    monkeypatch.setattr("IPython.display.display", lambda *a, **k: calls.append((a, k)))
    monkeypatch.setattr(plt, "get_backend", lambda: "inline")
    return calls


def test_a_notebook_gets_picture_and_words_once(displayed):
    figure = plt.figure()
    show(figure, 'x < 3 & y: "z"')
    (drawn, options), (below, more) = displayed
    assert drawn == (figure,)
    assert options == {"metadata": {"image/png": {"alt": 'x < 3 & y: "z"'}}}
    assert plt.get_fignums() == []
    assert below[0]["text/plain"] == 'x < 3 & y: "z"'
    assert "x &lt; 3 &amp; y: &quot;z&quot;" in below[0]["text/html"]
    assert below[0]["text/html"].startswith("<details><summary>")
    assert more == {"raw": True}


def test_a_backend_that_shows_figures_itself_gets_the_words_alone(
    displayed, monkeypatch
):
    monkeypatch.setattr(plt, "get_backend", lambda: "widget")
    figure = plt.figure()
    show(figure, "words")
    [(below, _)] = displayed
    assert "words" in below[0]["text/html"]
    assert plt.get_fignums() == [figure.number]


def test_outside_of_a_notebook_the_figure_stays_open(capsys):
    figure = plt.figure()
    show(figure, "words")
    assert plt.get_fignums() == [figure.number]
    assert capsys.readouterr().out == ""


def test_a_script_that_draws_does_not_import_ipython():
    code = "import sys; from coursekit import draw; draw.draw_schedule(2, 2); "
    command = [sys.executable, "-c", code + "print('IPython' in sys.modules)"]
    run = subprocess.run(command, cwd=LESSONS, capture_output=True, text=True)
    assert run.stdout == "False\n"


@pytest.mark.parametrize(
    ("items", "text"),
    [
        ([], ""),
        (["one", "two"], "one; two"),
        (list("abcde"), "a; b; c; d; e"),
        (["first", "second", "third", "fourth"], "first; second; ...; fourth"),
        (["very long", "very long", "very long"], "very long; very long; very long"),
    ],
)
def test_a_long_list_keeps_its_start_and_its_end(items, text):
    assert listed(items, 20) == text


def test_devices_are_named_in_short_and_in_their_order():
    assert named([3]) == "device 3"
    assert named([0, 1, 2, 6]) == "devices 0-2, 6"
    assert named([4, 0, 1]) == "devices 4, 0-1"


def test_a_title_stands_before_the_words_where_there_is_one():
    assert titled("", "words") == "words"
    assert titled('x, P("data"): ', "words") == 'x, P("data"): words'
