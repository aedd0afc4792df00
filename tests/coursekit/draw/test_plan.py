"""A plan's pictures show when a chip computes and sends, and what goes where."""

import matplotlib

matplotlib.use("Agg")

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit.draw import draw_links, draw_plan
from coursekit.draw import plan as module
from coursekit.plan import PlanError, plan

MESH = AbstractMesh((2, 8), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def shaped(shape, *spec):
    sharding = NamedSharding(MESH, P(*spec))
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=sharding)


@pytest.fixture(scope="module")
def found():
    """Tensor parallelism inside of nodes, data parallelism between them."""

    def step(up, down, x):
        loss = lambda up, down: jnp.sum(jnp.tanh(x @ up) @ down)  # noqa: E731
        return jax.grad(loss, argnums=(0, 1))(up, down)

    up, down = shaped((512, 2048), None, "model"), shaped((2048, 512), "model")
    return plan(step, up, down, shaped((4096, 512), "data"), on="h100:2x8")


@pytest.fixture
def alts(monkeypatch):
    said = []
    monkeypatch.setattr(module, "show", lambda figure, alt: said.append(alt))
    yield said
    plt.close("all")


def test_each_lane_has_a_row_and_memory_lies_below(found, alts):
    draw_plan(found, "A step")
    lanes, memory = plt.gcf().axes
    names = [text.get_text() for text in lanes.get_yticklabels()]
    assert names == ["compute", "sends: node", "sends: network"]
    assert memory.get_ylabel() == "GiB"
    [said] = alts
    assert said.startswith("A step: One chip of h100:2x8 over ")
    assert "network" in said and "GiB at most, of 74.5" in said


def test_events_lie_one_after_the_other_in_each_lane(found):
    ends = {}
    for event in found.timeline.events:
        assert event.start >= ends.get(event.lane, 0) - 1e-12
        ends[event.lane] = event.start + event.length
    assert max(ends.values()) == pytest.approx(found.seconds)


def test_what_leaves_a_node_is_off_the_diagonals_squares(found, alts):
    sent = module.matrix(found)
    total = sum(one.num_bytes for one in found.sent)
    assert sent.sum() == pytest.approx(16 * total)
    nodes = np.arange(16) // 8
    between = sent[nodes[:, None] != nodes].sum()
    slow = sum(one.num_bytes for one in found.sent if one.link == "network")
    assert between == pytest.approx(16 * slow)
    draw_links(found)
    assert f"{between / sent.sum():.0%} of it between nodes" in alts[0]


def test_without_times_there_is_nothing_to_draw():
    here = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    x = jax.ShapeDtypeStruct((8,), jnp.float32, sharding=NamedSharding(here, P("data")))
    with pytest.raises(PlanError, match="has no times to draw: plan for a chip"):
        draw_plan(plan(jnp.sum, x))
