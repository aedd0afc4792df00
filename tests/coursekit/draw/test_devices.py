"""Pictures name every device in words; colour and hatching only repeat them."""

import matplotlib

matplotlib.use("Agg")

import itertools
import re

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from contrast import contrast
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from matplotlib.colors import to_rgba
from matplotlib.patches import FancyBboxPatch, Rectangle

from coursekit import draw
from coursekit.draw.canvas import TINTS

X = np.ones((8, 4, 3), np.float32)
Y = np.ones((8, 4), np.float32)
ALL = [f"device {d}" for d in range(8)]


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def make_mesh(**axes):
    types = (AxisType.Auto,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=types)


def put(shape, spec, **axes):
    sharding = NamedSharding(make_mesh(**axes), spec)
    return jax.device_put(np.zeros(shape, np.float32), sharding)


def texts():
    found = [text.get_text() for axes in plt.gcf().axes for text in axes.texts]
    return [text for text in found if text]


def labels():
    return [text for text in texts() if re.match("device|host", text)]


def blocks():
    patches = [patch for axes in plt.gcf().axes for patch in axes.patches]
    return [patch for patch in patches if isinstance(patch, Rectangle) and patch.fill]


def hatches():
    patches = [patch for axes in plt.gcf().axes for patch in axes.patches]
    return [patch.get_hatch() for patch in patches if not patch.fill]


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (lambda: put((), P(), data=8), ["devices 0-7: 8 replicas"]),
        (lambda: put((16,), P("data"), data=8), ALL),
        (lambda: put((16,), P(), data=8), ["devices 0-7: 8 replicas"]),
        (lambda: put((8, 3), P("data"), data=8), ALL),
        (lambda: put((3, 8), P(None, "data"), data=8), ALL),
        (lambda: put((8, 2, 3), P("data"), data=8), ALL),
        (lambda: put((2, 3, 8), P(None, None, "data"), data=8), ALL),
        (lambda: put((8, 2, 3, 4), P("data"), data=8), ALL),
        (lambda: put((2, 3, 4, 8), P(None, None, None, "data"), data=8), ALL),
        (lambda: put((4, 8), P("a", "b"), a=2, b=4), ALL),
        (
            lambda: put((8, 4), P("b", "a"), a=2, b=4),
            [f"device {d}" for d in (0, 4, 1, 5, 2, 6, 3, 7)],
        ),
        (
            lambda: put((4, 8), P("a"), a=2, b=4),
            ["devices 0-3: 4 replicas", "devices 4-7: 4 replicas"],
        ),
        (
            lambda: put((8,), P("b"), a=2, b=4),
            [f"devices {d}, {d + 4}: 2 replicas" for d in range(4)],
        ),
        (
            lambda: put((2, 4, 8), P("a", None, None), a=2, b=4),
            ["devices 0-3: 4 replicas", "devices 4-7: 4 replicas"],
        ),
        (lambda: put((4, 2, 8), P("a", None, "b"), a=2, b=4), ALL),
        (lambda: put((2, 4, 3, 5), P("a", "b"), a=2, b=4), ALL),
        (
            lambda: put((2, 4, 3, 5), P(None, "b"), a=2, b=4),
            [f"devices {d}, {d + 4}: 2 replicas" for d in range(4)],
        ),
        (lambda: jax.pmap(lambda row: 2 * row)(X), ALL),
        (lambda: jax.pmap(jnp.sum)(X), ALL),
        (lambda: jnp.zeros((4, 4)), ["device 0"]),
        (lambda: jax.device_put(X[0], jax.devices()[5]), ["device 5"]),
        (lambda: X, ["host"]),
        (lambda: np.float32(1), ["host"]),
        (lambda: Y, ["host"]),
    ],
)
def test_each_block_of_an_array_names_its_devices(array, expected):
    draw.draw_array(array())
    assert labels() == expected
    assert len(blocks()) == len(expected)
    assert hatches() == ["///" for text in expected if "replicas" in text]


def test_equal_devices_have_equal_tints():
    draw.draw_array(put((8, 3), P("data"), data=8))
    assert [block.get_facecolor() for block in blocks()] == [
        to_rgba(tint) for tint in TINTS
    ]


def test_the_title_gives_dtype_and_shape():
    draw.draw_array(put((8, 3), P("data"), data=8))
    assert plt.gcf().get_suptitle() == "f32[8,3]"
    draw.draw_array(X, "x")
    assert plt.gcf().get_suptitle() == "x   f32[8,4,3]"


def test_the_indices_of_each_block_are_written_beside_it():
    draw.draw_array(put((4, 8), P("a", "b"), a=2, b=4))
    assert {"0:2", "2:4", "4:6", "6:8"} <= set(texts())


def test_a_panel_says_which_blocks_of_the_leading_axes_it_shows():
    draw.draw_array(put((4, 4, 3, 5), P("a", "b"), a=2, b=4))
    titles = [axes.get_title() for axes in plt.gcf().axes]
    assert titles[0] == "[0:2, 0, :, :]"
    assert titles[-1] == "[2:4, 3, :, :]"


def places(found):
    """Lists texts from the top row to the bottom one, each from left to right."""
    [axes] = plt.gcf().axes
    chosen = [text for text in axes.texts if re.match(found, text.get_text())]
    chosen.sort(key=lambda text: (-text.get_position()[1], text.get_position()[0]))
    return [text.get_text() for text in chosen]


@pytest.mark.parametrize("axes", [{"a": 4, "b": 2}, {"a": 2, "b": 4}, {"b": 8}])
def test_a_mesh_stands_as_a_grid_with_its_axes_on_the_sides(axes):
    draw.draw_mesh(make_mesh(**axes))
    assert places("device") == ALL
    assert places("a") == [f"a {row}" for row in range(axes.get("a", 0))]
    assert places("b") == [f"b {column}" for column in range(axes["b"])]


def test_a_mesh_in_another_order_shows_which_device_stands_where():
    devices = np.array(jax.devices()).reshape(2, 4).T
    draw.draw_mesh(jax.sharding.Mesh(devices, ("a", "b")))
    assert places("device") == [f"device {d}" for d in (0, 4, 1, 5, 2, 6, 3, 7)]


def test_a_mesh_of_three_axes_is_refused():
    with pytest.raises(ValueError, match="up to 2 axes"):
        draw.draw_mesh(make_mesh(a=2, b=2, c=2))
    assert plt.get_fignums() == []


def test_an_array_of_rank_five_is_refused_by_its_shape():
    with pytest.raises(ValueError, match=re.escape("f32[1,2,3,4,5]")):
        draw.draw_array(np.zeros((1, 2, 3, 4, 5), np.float32))
    assert plt.get_fignums() == []


def test_every_device_is_drawn():
    draw.draw_devices()
    assert texts() == [f"device {d}\nCPU" for d in range(8)]


def test_a_choice_of_devices_keeps_their_numbers():
    draw.draw_devices(jax.devices()[4:6])
    assert texts() == ["device 4\nCPU", "device 5\nCPU"]


@pytest.mark.parametrize("broadcast", [None, {"params": {"w": X[0], "b": Y[0]}}])
def test_a_pmap_call_shows_what_each_device_gets_runs_and_returns(broadcast):
    draw.draw_pmap("loss", {"x": X}, {"loss": Y[:, 0]}, broadcast)
    for d in range(8):
        row = [f"x[{d}]\nf32[4,3]", f"device {d}\nloss", f"loss[{d}]\nf32[]"]
        assert set(row) <= set(texts())


def test_a_broadcast_argument_is_shown_whole_and_once():
    draw.draw_pmap("loss", {"x": X}, {"y": Y}, {"params": {"b": Y[0], "w": X[0]}})
    [text] = [text for text in texts() if "in_axes=None" in text]
    assert 'params: {"b": f32[4], "w": f32[4,3]}' in text


def test_without_broadcast_nothing_is_said_of_it():
    draw.draw_pmap("loss", {"x": X}, {"y": Y})
    assert not any("in_axes" in text for text in texts())


@pytest.mark.parametrize(
    ("mapped", "first"),
    [
        ({"x": X, "y": Y}, "x[0]\nf32[4,3]\ny[0]\nf32[4]"),
        ({"params": {"b": Y, "w": X}}, "params[0]\nf32[4]\nf32[4,3]"),
        ({"p": [Y, Y, X]}, "p[0]\nf32[4]\nf32[4]\n..."),
    ],
)
def test_a_pmap_call_takes_several_arguments_and_dicts(mapped, first):
    draw.draw_pmap("step", mapped, {"out": {"b": Y, "w": X}})
    assert first in texts()
    assert "out[7]\nf32[4]\nf32[4,3]" in texts()


@pytest.mark.parametrize("broadcast", [None, {"params": X[0]}])
def test_arrows_lead_from_every_device_into_a_sync_and_out_to_every_result(broadcast):
    draw.draw_pmap("step", {"x": X}, {"out": X}, broadcast, sync="sync: pmean")
    [axes] = plt.gcf().axes
    sizes = {
        text.get_text(): box.get_extents().transformed(axes.transData.inverted())
        for box in axes.patches
        for text in axes.texts
        if box.get_extents().contains(*axes.transData.transform(text.get_position()))
    }
    sync, arrows = sizes["sync: pmean"], [t for t in axes.texts if not t.get_text()]
    starts = [arrow.xyann for arrow in arrows if arrow.xy[1] == pytest.approx(sync.y1)]
    ends = [arrow.xy for arrow in arrows if arrow.xyann[1] == pytest.approx(sync.y0)]
    for d in range(8):
        device, result = sizes[f"device {d}\nstep"], sizes[f"out[{d}]\nf32[4,3]"]
        assert sum(device.x0 < x < device.x1 for x, _ in starts) == 1
        assert sum(result.x0 < x < result.x1 for x, _ in ends) == 1
    assert len(starts) == len(ends) == 8


@pytest.mark.parametrize("broadcast", [None, {"params": X[0]}])
@pytest.mark.parametrize(
    "mapped", [{"x": X}, {"x": X, "y": Y}, {"params": {"b": Y, "w": X}}]
)
def test_the_labels_of_a_pmap_call_fit_into_their_boxes(mapped, broadcast):
    sync = "sync: pmean\nof the gradients"
    draw.draw_pmap("step", mapped, {"out": Y}, broadcast, sync)
    plt.gcf().canvas.draw()
    [axes] = plt.gcf().axes
    boxes = [p.get_window_extent() for p in axes.patches if type(p) is FancyBboxPatch]
    for text in filter(lambda text: text.get_text(), axes.texts):
        extent = text.get_window_extent()
        assert any(box.x0 <= extent.x0 and extent.x1 <= box.x1 for box in boxes)


def test_every_replica_has_a_line_and_a_label():
    history = np.arange(24.0).reshape(3, 8)
    draw.draw_replicas(history, "loss", "Eight replicas")
    [axes] = plt.gcf().axes
    assert sorted(texts()) == ALL
    assert len(axes.lines) == 8
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "loss")
    assert axes.get_title() == "Eight replicas"


def test_a_label_points_to_the_end_of_its_line():
    history = [[3.0, 1.0, 2.0], [30.0, 10.0, 20.0]]
    draw.draw_replicas(history, "loss")
    [axes] = plt.gcf().axes
    ends = {text.get_text(): text.xy for text in axes.texts}
    assert ends == {"device 0": (1, 30), "device 1": (1, 10), "device 2": (1, 20)}


def test_lines_are_drawn_at_the_places_that_are_named():
    draw.draw_replicas([[3.0, 1.0], [3.0, 3.0]], "w", xlabel="x", x=[-2.5, 2.5])
    [axes] = plt.gcf().axes
    assert [list(line.get_xdata()) for line in axes.lines] == 2 * [[-2.5, 2.5]]
    assert {text.xy[0] for text in axes.texts} == {2.5}


def test_labels_stand_in_the_order_of_the_lines():
    draw.draw_replicas([[0.0, 0.0, 0.0], [30.0, 10.0, 20.0]], "loss")
    heights = {text.get_text(): text.xyann[1] for text in plt.gcf().axes[0].texts}
    assert sorted(heights, key=heights.get) == ["device 1", "device 2", "device 0"]


def test_neighbouring_lines_differ_in_more_than_colour():
    draw.draw_replicas(np.zeros((2, 8)), "loss")
    styles = [line.get_linestyle() for line in plt.gcf().axes[0].lines]
    assert all(one != other for one, other in itertools.pairwise(styles))


PICTURES = {
    "devices": lambda: draw.draw_devices(),
    "mesh": lambda: draw.draw_mesh(make_mesh(a=4, b=2)),
    "array": lambda: draw.draw_array(put((8, 2, 3), P("data"), data=8), "x"),
    "replicas of an array": lambda: draw.draw_array(put((8, 4), P(), data=8), "x"),
    "host array": lambda: draw.draw_array(X),
    "pmap": lambda: draw.draw_pmap("f", {"x": X}, {"y": Y}, {"p": X[0]}),
    "replicas": lambda: draw.draw_replicas(np.zeros((2, 8)), "loss", "Replicas"),
}


@pytest.mark.parametrize("theme", ["default", "dark_background"])
@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)
def test_a_picture_has_a_white_ground_in_every_theme(draw, theme):
    with plt.style.context(theme):
        draw()
        figure = plt.gcf()
        figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())
    assert (pixels[[0, -1]] == 255).all()
    assert (pixels[:, :, 3] == 255).all()
    for axes in figure.axes:
        assert not axes.axison or axes.get_facecolor() == (1, 1, 1, 1)


@pytest.mark.parametrize("theme", ["default", "dark_background"])
@pytest.mark.parametrize("draw", PICTURES.values(), ids=PICTURES)
def test_all_writing_is_dark_in_every_theme(draw, theme):
    with plt.style.context(theme):
        draw()
        figure = plt.gcf()
        figure.canvas.draw()
    written = [text for axes in figure.axes for text in axes.texts]
    for axes in figure.axes:
        written += [axes.title, axes.xaxis.label, axes.yaxis.label] * axes.axison
        written += [*axes.get_xticklabels(), *axes.get_yticklabels()] * axes.axison
    seen = [text for text in written if text.get_text()]
    assert seen
    assert min(contrast(text.get_color(), "white") for text in seen) >= 7
