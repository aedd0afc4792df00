"""A learner's own collectives are animated with their values, by CSS alone."""

import xml.etree.ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from coursekit.draw import animate

RING = [(device, (device + 1) % 4) for device in range(4)]


def mapped(function):
    mesh = jax.make_mesh(
        (4,), ("i",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4]
    )
    specs = {"in_specs": P("i"), "out_specs": P("i")}
    return jax.shard_map(function, mesh=mesh, check_vma=False, **specs)


def ring_sum(x):
    """Passes running sums on, in a scan."""

    def step(state, _):
        total, moving = state
        moving = lax.ppermute(moving, "i", RING)
        return (total + moving, moving), None

    return lax.scan(step, (x, x), None, length=3)[0][0]


X = np.arange(4, dtype=np.float32) + 1


@pytest.mark.parametrize("jit", [False, True])
def test_each_round_of_a_ring_is_a_step_with_its_values(jit):
    f = mapped(ring_sum)
    found = animate(jax.jit(f) if jit else f, X, title="A ring")
    assert found.alt.startswith(
        "A ring: 4 devices. step 1: ppermute, device 0 sends 1 to 1, 1 sends 2 to 2, "
        "2 sends 3 to 3, 3 sends 4 to 0; step 2: ppermute, device 0 sends 4 to 1,"
    )
    assert found.alt.count("ppermute") == 3


def test_it_is_an_image_with_an_alternative_and_no_script():
    found = animate(mapped(ring_sum), X)
    tree = xml.etree.ElementTree.fromstring(found.svg)
    assert tree.attrib["aria-label"] == found.alt
    assert "script" not in found.svg and "@keyframes" in found.svg
    assert "prefers-reduced-motion" in found.svg
    assert found._repr_html_().startswith('<img src="data:image/svg+xml;base64,')
    assert f'alt="{found.alt}"' in found._repr_html_()


def test_other_collectives_and_big_arrays_are_shown_too():
    def f(x):
        y = lax.psum(x, "i")
        z = lax.psum_scatter(jnp.tile(x, 4), "i", tiled=True)
        return lax.all_gather(jnp.tile(y + z, 8), "i", tiled=True)

    said = animate(mapped(f), X).alt
    assert "psum of 1, 2, 3, 4: all get 10" in said
    assert "reduce_scatter of 1 1 1 1, 2 2 2 2, 3 3 3 3, 4 4 4 4: all get 10" in said
    assert "all_gather of f32[8]" in said


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: x + 1, "found no collective: give it a function that is mapped"),
        (
            mapped(lambda x: lax.while_loop(lambda x: x[0] < 9, lambda x: x + 1, x)),
            "but not a while",
        ),
    ],
    ids=["not mapped", "while"],
)
def test_what_cannot_be_animated_is_refused(function, said):
    with pytest.raises(ValueError, match=said):
        animate(function, X)
