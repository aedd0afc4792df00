"""The text alternative of each picture says what it shows."""

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit import draw
from coursekit.draw.pipeline import COMPUTES, EXCHANGES, Span, _profile_alt

X = np.float32(10 * np.arange(8)[:, None] + np.arange(2))


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture
def alt_text(monkeypatch):
    """Draws, and returns the text alternative that a notebook shows."""
    found = []
    plt.switch_backend("Agg")  # which would ask the shell below otherwise
    monkeypatch.setattr("IPython.get_ipython", lambda: "a notebook's shell")
    monkeypatch.setattr(
        "IPython.display.display", lambda data, raw: found.append(data["text/plain"])
    )

    def draw(function, *arguments, **options):
        function(*arguments, **options)
        return found.pop()

    return draw


def mesh(**axes):
    types = (AxisType.Auto,) * len(axes)
    return jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=types)


def put(shape, spec, **axes):
    x = np.zeros(shape, np.float32)
    return jax.device_put(x, NamedSharding(mesh(**axes), spec))


def test_devices(alt_text):
    assert alt_text(draw.draw_devices) == "8 boxes side by side: devices 0-7 (CPU)."


def test_trace(alt_text):
    program = jax.make_jaxpr(lambda x: jax.numpy.sin(x) * x)(X[0])
    text = alt_text(draw.draw_trace, "g", program, 8)
    starts = "g runs once in Python, on a stand-in f32[2] without numbers. "
    assert text.startswith(starts)
    assert "a program of it: sin: f32[2]; mul: f32[2]. It is compiled" in text
    assert text.endswith("devices 0 to 7 run it.")


def test_mesh(alt_text):
    text = alt_text(draw.draw_mesh, mesh(b=8))
    assert text == "A mesh of 8 devices along axis b: devices 0-7."
    text = alt_text(draw.draw_mesh, mesh(a=4, b=2))
    assert text.startswith("A mesh of 4 x 2 devices; axis a runs down, axis b across.")
    assert "a 0: devices 0-1; " in text
    assert text.endswith("; a 3: devices 6-7.")


def test_mesh_in_another_order(alt_text):
    grid = np.array(jax.devices()).reshape(2, 4).T
    text = alt_text(draw.draw_mesh, jax.sharding.Mesh(grid, ("a", "b")))
    assert "a 0: devices 0, 4; a 1: devices 1, 5;" in text


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (lambda: np.zeros((3, 2)), "x: f64[3,2], whole on the host."),
        (lambda: put((), P(), a=8), "x: f32[], whole on devices 0-7, 8 replicas."),
        (lambda: jax.numpy.zeros(4), "x: f32[4], whole on device 0."),
        (
            lambda: put(8, P("a"), a=8),
            "x: f32[8] on 8 devices: device d holds entry d.",
        ),
        (
            lambda: put((8, 2), P("a"), a=8),
            "x: f32[8,2] on 8 devices: device d holds row d.",
        ),
        (
            lambda: put((8, 2, 3), P("a"), a=8),
            "x: f32[8,2,3] on 8 devices: device d holds block d of axis 0.",
        ),
        (
            lambda: put((4, 8), P("b"), a=4, b=2),
            "x: f32[4,8] in 2 parts: devices 0, 2, 4, 6 [0:2, :]; "
            "devices 1, 3, 5, 7 [2:4, :].",
        ),
        (
            lambda: put((2, 2, 4), P("a", None, "b"), a=2, b=2),
            "x: f32[2,2,4] in 4 parts: device 0 [0, :, 0:2]; device 1 [0, :, 2:4]; "
            "device 2 [1, :, 0:2]; device 3 [1, :, 2:4].",
        ),
    ],
)
def test_array(alt_text, array, text):
    assert alt_text(draw.draw_array, array(), "x:") == text


def test_rows_on_other_devices_are_not_called_row_d(alt_text):
    turned = jax.sharding.Mesh(np.array(jax.devices()[:2])[::-1], ("a",))
    rows = jax.device_put(X[:2], NamedSharding(turned, P("a")))
    text = alt_text(draw.draw_array, rows)
    assert text == "f32[2,2] in 2 parts: device 0 [1, :]; device 1 [0, :]."


def test_pmap(alt_text):
    text = alt_text(draw.draw_pmap, "loss", {"x": X, "y": X[:, 0]}, {"loss": X[:, 0]})
    assert text == (
        "pmap of loss on 8 devices: device d receives x[d] (f32[2]) and y[d] (f32[]), "
        "runs loss and returns loss[d] (f32[])."
    )
    text = alt_text(draw.draw_pmap, "f", {"x": X}, {"y": X}, {"params": {"w": X}})
    ends = ' Every device also receives a full copy of params: {"w": f32[8,2]}.'
    assert text.endswith(ends)
    text = alt_text(draw.draw_pmap, "f", {"x": X}, {"y": X}, sync="a mean")
    assert text.endswith("from every device to a mean, and from there to every result.")


def test_collective_that_combines(alt_text):
    text = alt_text(draw.draw_collective, "psum", X, np.tile(X.sum(0), (8, 1)))
    assert text.startswith("psum on 8 devices. Before: device 0 [0, 1]; device 1 [10,")
    assert "After: devices 0-7 [280, 288]." in text
    assert text.endswith("Each of these is combined from several devices.")


def test_collective_that_moves(alt_text):
    text = alt_text(draw.draw_collective, "ppermute", X, np.roll(X, 1, axis=0))
    assert "After: device 0 [70, 71]; device 1 [0, 1]; device 2 [10, 11];" in text
    assert text.endswith("Each of these is one device's value, unchanged.")


def test_collective_in_groups_and_in_part(alt_text):
    after = np.float32([64] * 4 + [224] * 3 + [71])
    text = alt_text(draw.draw_collective, "sum", X[:, 1:], after)
    assert "After: devices 0-3 [64]; devices 4-6 [224]; device 7 [71]." in text
    assert text.endswith("1 of these 8 values are one device's, unchanged.")


def test_many_values_are_cut_short(alt_text):
    wide = np.arange(8 * 100).reshape(8, 100)
    text = alt_text(draw.draw_collective, "nothing", wide, wide)
    assert "device 0 [0, 1, ..., 99]; device 1 [100, 101, ..., 199]; ...; " in text
    assert len(text) < 400


def test_steps(alt_text):
    last = np.array([[4, 4], [4, 1]])
    states = [np.ones((2, 2)), np.full((2, 2), 2), [[4, 1], [1, 4]], last]
    text = alt_text(draw.draw_steps, states, list("abcd"), complete=4, row="chunk")
    assert text == (
        "2 devices hold 2 chunks each, complete at 4: a, at most 1; b, at most 2; "
        "c, 1 complete on each device; d, 3 of 4 complete."
    )


def test_a_ring_says_what_its_arrows_are(alt_text):
    states = [np.ones((2, 2)), np.full((2, 2), 2)]
    text = alt_text(draw.draw_steps, states, ["a", "b"], complete=2, ring=True)
    assert text.endswith("Arrows show what each device got from its left neighbour.")


def test_groups_are_named(alt_text):
    halves = [[0, 1, 2, 3], [4, 5, 6, 7]]
    text = alt_text(draw.draw_collective, "sum", X, X, groups=halves)
    assert text.startswith("sum on 8 devices, apart: devices 0-3 and devices 4-7. ")


def test_losses(alt_text):
    curves = {
        "falls": [1.0, 0.5, 0.2496],
        "rises": [0.0, 5.0, 1.0],
        "flat": [0, 0, 0],
        "dips": [1.0, -2.04, 1.0],
        "lost": [3.0, np.nan],
        "nothing": [np.nan],
    }
    text = alt_text(draw.draw_losses, curves, "loss", "Runs", log=False)
    head, *parts = text.rstrip(".").replace("steps. ", "steps; ").split("; ")
    assert head == "Runs: loss, over 1 to 3 steps"
    assert parts == [
        "'falls' falls from 1 to 0.25",
        "'rises' rises from 0 to 1, in between up to 5",
        "'flat' starts and ends at 0",
        "'dips' starts and ends at 1, in between down to -2",
        "'lost' goes from 3 to nan",
        "'nothing' starts and ends at nan",
    ]


def test_losses_of_equal_length(alt_text):
    text = alt_text(draw.draw_losses, {"a": [2.0, 1.0]})
    assert text == "loss, over 2 steps. 'a' falls from 2 to 1."


@pytest.mark.parametrize(
    ("last", "end"),
    [
        ([2.0] * 4, "all 4 agree on 2"),
        ([2, 2 + 1e-6, 2, 2], "all 4 agree on 2"),
        ([1, 1, 3, 1], "they disagree: devices 0-1, 3 at 1, device 2 at 3"),
        ([np.nan] * 4, "all 4 agree on nan"),
    ],
)
def test_replicas(alt_text, last, end):
    text = alt_text(draw.draw_replicas, [[0.0] * 4, last], "w", "Replicas")
    start = "Replicas: w, a line per device. At step 0 all 4 agree on 0; at step 1 "
    assert text == f"{start}{end}."


def test_replicas_at_places(alt_text):
    text = alt_text(draw.draw_replicas, [[0.0]] * 2, "w", xlabel="x", x=[-2.5, 2.5])
    assert "At x -2.5 all 1 agree on 0; at x 2.5 all 1 agree on 0." in text


def test_replicas_that_all_differ(alt_text):
    text = alt_text(draw.draw_replicas, [[3.0, 5.0, 1.0, 4.0, 2.0]], "w")
    spread = "they are at 5 different values, from 1 on device 2 to 5 on device 1"
    assert text.endswith(f"at step 0 {spread}.")


def test_memory(alt_text):
    layouts = {
        "one": {"parameters": 32 * 2**20, "Adam": 64 * 2**20},
        "two": {"Adam": 8.04 * 2**20},
    }
    assert alt_text(draw.draw_memory, layouts, "Memory", {"two": "gathers"}) == (
        "Memory: MiB of parameters + Adam, for one 32.0 + 64.0 = 96.0; "
        "two 0.0 + 8.0 = 8.0 (gathers)."
    )


def test_schedule(alt_text):
    text = alt_text(draw.draw_schedule, 4, 6, "Pipeline")
    assert text.startswith("Pipeline: 4 devices, a stage each, run 6 microbatches in 9")
    assert "device 0 works from tick 0 to 5, device 3 from tick 3 to 8." in text
    assert text.endswith("12 of 36 cells, 33%, are idle: the bubble.")


def test_profile_says_nothing_that_another_run_would_not():
    both = [Span(0, 1, COMPUTES), Span(1, 2, EXCHANGES)]
    devices = {1: both, 0: both, 2: both[:1]}
    steps = [Span(0, 1, "4"), Span(1, 2, "5")]
    assert _profile_alt(devices, steps) == (
        "a row of bars for each device over steps 4, 5. They show devices 0-1 "
        "computing, by turns with waiting or exchanging in collectives; device 2 "
        "computing, without a collective. Blank is idle."
    )
    assert "steps" not in _profile_alt(devices, [])
