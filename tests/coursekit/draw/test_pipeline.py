"""A profile has a row per device, a schedule a cell per tick; both read in grey."""

import matplotlib

matplotlib.use("Agg")

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P
from matplotlib.colors import to_hex

from coursekit.draw import pipeline
from coursekit.draw.canvas import INK, TINTS
from coursekit.draw.pipeline import draw_profile, draw_schedule

ROTATE = [(device, (device + 1) % 8) for device in range(8)]
COLLECTIVES = {
    "psum": lambda x: lax.psum(x, "i"),
    "ppermute": lambda x: lax.ppermute(x, "i", ROTATE),
    "all_gather": lambda x: lax.all_gather(x, "i"),
    "psum_scatter": lambda x: lax.psum_scatter(x, "i", tiled=True),
    "all_to_all": lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True),
}


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def traced(directory, function, num_steps=2):
    """Traces steps of `function`, which maps one device's block to another block."""
    mesh = jax.make_mesh((8,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
    specs = {"in_specs": P("i"), "out_specs": P("i"), "check_vma": False}
    step = jax.jit(jax.shard_map(function, mesh=mesh, **specs))
    x = jnp.ones((64, 64))
    step(x).block_until_ready()
    with jax.profiler.trace(directory):
        for number in range(num_steps):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                step(x).block_until_ready()


def drawn(directory, title=""):
    draw_profile(directory, title)
    [axes] = plt.gcf().axes
    return axes


def bars(axes, *, hatched):
    """Lists (row, start, end) of the bars with or without a hatch."""
    extents = [
        path.get_extents()
        for bars in axes.collections
        if bool(bars.get_hatch()) == hatched
        for path in bars.get_paths()
    ]
    return [(round((e.y0 + e.y1) / 2), e.x0, e.x1) for e in extents]


def texts(axes):
    return [text.get_text() for text in axes.texts]


def labels(axes):
    return [label.get_text() for label in axes.get_yticklabels()]


def test_a_training_step_shows_its_devices_steps_and_all_reduce(tmp_path):
    traced(tmp_path, lambda x: x - 0.1 * lax.pmean(jnp.tanh(x) @ x.T @ x, "i"))
    axes = drawn(tmp_path, "Two steps")
    assert labels(axes) == ["step", *(f"device {device}" for device in range(8))]
    assert texts(axes)[:2] == ["0", "1"]
    assert sorted(row for row, *_ in bars(axes, hatched=True)) == sorted(
        2 * list(range(1, 9))
    )
    assert {row for row, *_ in bars(axes, hatched=False)} == set(range(1, 9))
    assert (axes.get_title(), axes.get_xlabel()) == ("Two steps", "milliseconds")


@pytest.mark.parametrize("name", COLLECTIVES)
def test_each_collective_is_hatched_on_every_device(name, tmp_path):
    traced(tmp_path, COLLECTIVES[name], num_steps=1)
    rows = [row for row, *_ in bars(drawn(tmp_path), hatched=True)]
    assert sorted(rows) == list(range(1, 9))


def test_a_loop_shows_what_its_rounds_do(tmp_path):
    def rounds(x):
        def one(x, _):
            return lax.ppermute(jnp.tanh(x @ x.T @ x), "i", ROTATE), None

        return lax.scan(one, x, length=3)[0]

    traced(tmp_path, rounds, num_steps=1)
    axes = drawn(tmp_path)
    assert len(bars(axes, hatched=True)) == 3 * 8
    assert len(bars(axes, hatched=False)) >= 3 * 8


def test_the_newest_trace_is_drawn(tmp_path):
    traced(tmp_path / "a", COLLECTIVES["psum"])
    traced(tmp_path / "b", jnp.tanh)
    axes = drawn(tmp_path)
    assert bars(axes, hatched=True) == []
    assert texts(axes)[-1] == "In collectives: 0% of the devices' busy time."


def test_without_steps_there_is_no_row_for_them(tmp_path):
    traced(tmp_path, jnp.tanh, num_steps=0)
    with jax.profiler.trace(tmp_path):
        jnp.ones(3).block_until_ready()
    assert labels(drawn(tmp_path)) == ["device 0"]


def event(name, start_ms, end_ms, **stats):
    start, end = 1e6 * (5000 + start_ms), 1e6 * (5000 + end_ms)
    times = {"start_ns": start, "end_ns": end, "duration_ns": end - start}
    return SimpleNamespace(name=name, stats=list(stats.items()), **times)


RUNS = [{"device_ordinal": 3, "run_id": number} for number in range(2)]
STEP = [
    event("dot.1", 2, 5, hlo_op="dot.1", **RUNS[0]),
    event("add.1", 5, 6, hlo_op="add.1", **RUNS[0]),
    event("psum.1", 6, 12, hlo_op="psum.1", **RUNS[0]),
    event("Rendezvous", 7, 11),
    event("dot.2", 12, 20, hlo_op="dot.2", **RUNS[0]),
]


@pytest.fixture
def draw_events(tmp_path, monkeypatch):
    """Draws a trace of the given events, thread by thread."""

    def draw(*threads):
        lines = [SimpleNamespace(events=events) for events in threads]
        data = SimpleNamespace(planes=[SimpleNamespace(name="/host:CPU", lines=lines)])
        reader = SimpleNamespace(from_file=lambda path: data)
        monkeypatch.setattr(pipeline, "ProfileData", reader)
        (tmp_path / "vm.xplane.pb").touch()
        return drawn(tmp_path, "Profile")

    return draw


def test_times_count_from_the_first_event_and_shares_are_of_busy_time(draw_events):
    axes = draw_events(STEP, [event("train", 0, 30, step_num=4)])
    assert labels(axes) == ["step", "device 3"]
    assert bars(axes, hatched=False) == [(1, 2, 6), (1, 12, 20)]
    assert bars(axes, hatched=True) == [(1, 6, 12)]
    assert texts(axes) == ["4", "In collectives: 33% of the devices' busy time."]
    assert axes.get_xlim() == (0, 30)


def test_a_step_too_short_for_its_number_keeps_its_line(draw_events):
    spans = [(0, 15), (15, 15.1), (15.1, 30)]
    steps = [event("train", *span, step_num=n) for n, span in enumerate(spans)]
    axes = draw_events(STEP, steps)
    assert texts(axes)[:-1] == ["0", "2"]
    assert [line.get_xdata()[0] for line in axes.lines] == pytest.approx([0, 15, 15.1])


def test_what_other_threads_finish_lasts_until_they_have(draw_events):
    launched = [
        event("dot.1", 0, 1, hlo_op="dot.1", **RUNS[0]),
        event("ThunkExecutor::Execute (wait for completion)", 1, 20, **RUNS[0]),
    ]
    resumed = [
        event("psum.1", 8, 12, hlo_op="psum.1", **RUNS[0]),
        event("Rendezvous", 8, 11),
        event("dot.2", 12, 13, hlo_op="dot.2", **RUNS[0]),
    ]
    axes = draw_events(launched, resumed)
    assert bars(axes, hatched=False) == [(0, 0, 8), (0, 12, 20)]
    assert bars(axes, hatched=True) == [(0, 8, 12)]


def test_a_device_is_blank_between_runs(draw_events):
    first = event("dot.1", 0, 4, hlo_op="dot.1", **RUNS[0])
    second = event("dot.1", 9, 10, hlo_op="dot.1", **RUNS[1])
    axes = draw_events([first, second])
    assert bars(axes, hatched=False) == [(0, 0, 4), (0, 9, 10)]


def test_the_legend_tells_bars_apart_without_colour(draw_events):
    legend = draw_events(STEP).get_legend()
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["computes", "in a collective: waits or exchanges", "blank: idle"]
    assert [bool(key.get_hatch()) for key in legend.get_patches()] == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("place", ["empty", "missing"])
def test_a_folder_without_a_trace_is_named_with_the_remedy(place, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError) as error:
        draw_profile(tmp_path / place)
    assert str(tmp_path / place) in str(error.value)
    assert "with jax.profiler.trace(" in str(error.value)
    assert "block_until_ready" in str(error.value)


def test_a_trace_in_which_nothing_ran_is_refused(tmp_path):
    with jax.profiler.trace(tmp_path):
        pass
    with pytest.raises(ValueError, match="no trace of simulated CPU devices"):
        draw_profile(tmp_path)


def cells():
    """Maps (stage, tick) to a cell's colour, None where it is blank."""
    [axes] = plt.gcf().axes
    return {
        (round(cell.get_y() + 0.5), round(cell.get_x() + 0.5)): (
            to_hex(cell.get_facecolor()) if cell.get_facecolor()[3] else None
        )
        for cell in axes.patches
    }


def test_a_microbatch_moves_one_stage_a_tick():
    draw_schedule(4, 8, "GPipe")
    [axes] = plt.gcf().axes
    *numbers, note = axes.texts
    found = {text.get_position()[::-1]: int(text.get_text()) for text in numbers}
    assert found == {(s, s + m): m for s in range(4) for m in range(8)}
    assert {cell: TINTS[number] for cell, number in found.items()} == {
        cell: tint for cell, tint in cells().items() if tint
    }
    assert len(cells()) == 4 * 11
    assert note.get_text().startswith("12 of 44 cells are idle")
    assert note.get_text().endswith("3/11 = 27%")


def test_rows_are_devices_and_columns_ticks():
    draw_schedule(3, 2, "GPipe")
    [axes] = plt.gcf().axes
    assert labels(axes) == [f"device {stage}: stage {stage}" for stage in range(3)]
    low, high = axes.get_ylim()
    assert low > high  # stage 0 on top
    assert [label.get_text() for label in axes.get_xticklabels()] == list("0123")
    assert (axes.get_title(), axes.get_xlabel()) == ("GPipe", "tick")


def test_one_stage_is_never_idle():
    draw_schedule(1, 5)
    assert None not in cells().values()
    assert plt.gcf().axes[0].texts[-1].get_text().startswith("0 of 5 cells")


def test_numbers_fit_their_cells_in_a_long_schedule():
    draw_schedule(8, 64)
    [axes] = plt.gcf().axes
    axes.figure.canvas.draw()
    cell = axes.patches[0].get_window_extent()
    assert all(t.get_window_extent().width < cell.width for t in axes.texts[:-1])


@pytest.mark.parametrize(
    ("numbers", "named"),
    [((0, 4), "num_stages is 0"), ((4, -1), "num_microbatches is -1")],
)
def test_a_number_below_one_is_named(numbers, named):
    with pytest.raises(ValueError, match=named):
        draw_schedule(*numbers)


@pytest.mark.parametrize("theme", ["default", "dark_background"])
def test_ground_is_white_and_writing_dark_in_every_theme(theme, draw_events):
    with plt.style.context(theme):
        draw_schedule(2, 3, "Schedule")
        draw_events(STEP, [event("train", 0, 30, step_num=4)])
        for number in plt.get_fignums():
            figure = plt.figure(number)
            figure.canvas.draw()
            pixels = np.asarray(figure.canvas.buffer_rgba())
            assert (pixels[[0, -1]] == 255).all()  # nothing is cut off
            assert (pixels[:, [0, -1]] == 255).all()
            [axes] = figure.axes
            written = [*axes.texts, axes.title, axes.xaxis.label]
            written += [*axes.get_xticklabels(), *axes.get_yticklabels()]
            assert {to_hex(text.get_color()) for text in written} == {INK}
