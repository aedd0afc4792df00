"""The language model in Flax NNX: the plain one's loss, gradients and layout."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

REFERENCES = Path(__file__).resolve().parents[2] / "solutions" / "references"
sys.path.append(str(REFERENCES))
pytest.importorskip("orbax.checkpoint")
pytest.importorskip("flax")

import pipeline_step
from full_pipeline import Config, RunError, fit
from pipeline_flax import FlaxTransformer
from pipeline_transformer import Transformer

SMALL = {
    "task": "flax-transformer",
    "hidden": 16,
    "batch_size": 16,
    "num_steps": 20,
    "save_every": 10,
    "compute_dtype": "float32",
    "schedule_steps": 1000,
}
# A parameter's name here, the plain one's, and its place along the axis "kind".
SAME = (
    ("letters/embedding", "letters", None),
    ("places/embedding", "places", None),
    ("layers/attention/query/kernel", "qkv", 0),
    ("layers/attention/key/kernel", "qkv", 1),
    ("layers/attention/value/kernel", "qkv", 2),
    ("layers/attention/out/kernel", "out", None),
    ("layers/up/kernel", "up", None),
    ("layers/down/kernel", "down", None),
    ("layers/norm_1/scale", "scale_1", None),
    ("layers/norm_2/scale", "scale_2", None),
    ("norm/scale", "scale", None),
)

pytestmark = pytest.mark.usefixtures("usual_promotion")


def both(**settings):
    """The two tasks, of the same settings."""
    config = Config("unused", **SMALL | settings)
    return FlaxTransformer(config), Transformer(config)


def in_flax(tree):
    """Gives a tree of the plain parameters Flax's names and shapes."""
    return {
        name: tree[plain] if kind is None else tree[plain][:, :, kind]
        for name, plain, kind in SAME
    }


def same(one, other):
    return all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    "dtype, rtol", [("float32", 1e-4), ("bfloat16", 0.1)], ids=["float32", "bfloat16"]
)
def test_loss_and_gradients_are_the_plain_ones(dtype, rtol):
    flax, plain = both(compute_dtype=dtype)
    params = plain.init(jax.random.key(0))
    params["scale_1"] += jax.random.normal(jax.random.key(1), (4, 16))
    (x, y), _ = plain.load()

    def mean(task):
        def loss(params):
            losses, weights, _ = task.loss(params, (x[:4], y[:4]), None, 0)
            return losses.sum() / weights.sum()

        return jax.value_and_grad(loss)

    values, grads = zip(mean(flax)(in_flax(params)), mean(plain)(params), strict=True)
    np.testing.assert_allclose(*values, rtol=rtol / 10)
    expected = in_flax(grads[1])
    assert grads[0].keys() == expected.keys()
    for name, grad in grads[0].items():
        assert grad.dtype == jnp.float32
        np.testing.assert_allclose(
            grad, expected[name], atol=rtol * float(jnp.abs(expected[name]).max())
        )


def test_first_parameters_have_the_plain_ones_shapes_and_spread():
    flax, plain = both(hidden=64)
    params = flax.init(jax.random.key(0))
    expected = in_flax(plain.init(jax.random.key(0)))
    assert params.keys() == expected.keys()
    for name, leaf in params.items():
        assert (leaf.shape, leaf.dtype) == (expected[name].shape, jnp.float32)
        spread = float(jnp.std(expected[name]))
        np.testing.assert_allclose(jnp.std(leaf), spread, rtol=0.05)
    layers = params["layers/up/kernel"]
    assert not np.array_equal(layers[0], layers[1])


def test_parameters_lie_as_the_plain_ones():
    flax, plain = both()
    assert flax.specs.keys() == {name for name, *_ in SAME}
    for name, of_plain, _ in SAME:
        axes = [axis for axis in plain.axes[of_plain] if axis != "kind"]
        assert list(flax.axes[name]) == axes
        assert list(flax.specs[name]) == [dict(plain.rules).get(axis) for axis in axes]


def test_weights_are_gathered_one_layer_at_a_time():
    types = (jax.sharding.AxisType.Auto,) * 2
    mesh = jax.make_mesh((8, 1), ("data", "model"), axis_types=types)
    task, _ = both(hidden=64)
    state = pipeline_step.first_state(task, mesh)[1]
    x = jax.ShapeDtypeStruct((1, 1, 16, 64), "int32")
    call = pipeline_step.make_train_step(task, mesh)
    text = call.lower(state, (x, x)).compile().as_text()
    assert "f32[64,8,8]" in text and "f32[4,64,8,8]" not in text
    assert " reduce-scatter(" in text


def test_a_run_goes_on_with_the_same_bits_on_a_mesh_of_two_axes(tmp_path):
    settings = SMALL | {"mesh": {"data": 4, "model": 2}}

    def run(folder, **changes):
        config = Config(str(tmp_path / folder), **settings | changes)
        return fit(config, progress=False)

    whole = run("whole")
    assert whole["losses"][-1] < whole["losses"][0] - 0.5
    run("halves", num_steps=10)
    assert same(run("halves")["params"], whole["params"])
    assert whole["shown"].splitlines()[1].startswith("ada ")


def test_a_width_that_the_heads_do_not_divide_is_refused():
    flax, _ = both(hidden=20)
    with pytest.raises(RunError, match="20 for 8 heads"):
        flax.init(jax.random.key(0))


def test_without_flax_the_run_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "pipeline_flax")
    monkeypatch.setitem(sys.modules, "flax", None)
    with pytest.raises(RunError, match=r"flax-transformer needs `pip install flax`"):
        pipeline_step.make_task(Config("unused", **SMALL))
