"""The scanned stack is split as published and trains as on one device."""

import jax
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

pytest.importorskip("flax", reason="the stack of layers needs Flax")
pytestmark = pytest.mark.usefixtures("usual_promotion")

WIDTH, ROWS = 64, 8
SPECS = {"W1": P(None, None, "model"), "W2": P(None, "model", None)}


@pytest.fixture(scope="module")
def program(load):
    return load("dot_relu_dot")


def train(program, mesh, logical=False):
    """Takes five steps; returns the bare state, its shardings, losses and output."""
    model = program.MLP(WIDTH, mesh, logical=logical)
    init, shardings = program.compile_init(model, ROWS)
    state = init(jax.random.key(0))
    step, infer = program.compile_steps(mesh, shardings)
    x = np.float32(np.random.default_rng(0).normal(size=(ROWS, WIDTH)))
    losses = []
    for _ in range(5):
        state, value = step(state, x)
        losses.append(float(value))
    return program.nn.unbox(state), shardings, losses, infer(state, x)


@pytest.fixture(scope="module")
def split(usual_promotion, program):
    return train(program, program.make_mesh())


def layers(state):
    """The weights and both Adam moments of the stack."""
    moments = state.opt_state[0]
    return [tree["layers"] for tree in (state.params, moments.mu, moments.nu)]


def test_weights_and_moments_are_split_as_published(split):
    for tree in layers(split[0]):
        for name, spec in SPECS.items():
            assert tree[name].shape == (4, WIDTH, WIDTH)
            same = jax.sharding.NamedSharding(tree[name].sharding.mesh, spec)
            assert tree[name].sharding.is_equivalent_to(same, 3)


def test_each_device_holds_a_quarter(split):
    for tree in layers(split[0]):
        assert tree["W1"].addressable_shards[0].data.shape == (4, WIDTH, WIDTH // 4)
        assert tree["W2"].addressable_shards[0].data.shape == (4, WIDTH // 4, WIDTH)


def test_abstract_evaluation_names_the_same_layout(program):
    _, shardings = program.compile_init(program.MLP(WIDTH, program.make_mesh()), ROWS)
    for tree in layers(shardings):
        assert {name: tree[name].spec for name in SPECS} == SPECS


def test_no_device_ever_builds_a_full_copy(program, split):
    init, _ = program.compile_init(program.MLP(WIDTH, program.make_mesh()), ROWS)
    built = init.lower(jax.random.key(0)).compile().memory_analysis()
    whole = sum(leaf.nbytes for leaf in jax.tree.leaves(split[0]))
    counters = 128  # the two step counts and the table of outputs
    assert built.output_size_in_bytes <= whole / 4 + counters
    assert built.temp_size_in_bytes < split[0].params["layers"]["W1"].nbytes


def test_equals_one_device(program, split):
    state, _, losses, y = split
    alone, _, alone_losses, alone_y = train(program, program.make_mesh(1, 1))
    np.testing.assert_allclose(losses, alone_losses, atol=1e-5)
    np.testing.assert_allclose(y, alone_y, atol=1e-4)
    for name in SPECS:
        many, one = (s.params["layers"][name] for s in (state, alone))
        np.testing.assert_allclose(many, one, atol=1e-4)
    assert losses[-1] < losses[0]


def test_logical_names_give_the_same_layout_and_values(program, split):
    logical = train(program, program.make_mesh(), logical=True)
    for tree, other in zip(layers(split[0]), layers(logical[0]), strict=True):
        for name in SPECS:
            sharding = other[name].sharding
            assert sharding.is_equivalent_to(tree[name].sharding, 3)
            np.testing.assert_allclose(tree[name], other[name], atol=1e-5)
    np.testing.assert_allclose(split[2], logical[2], atol=1e-5)


def test_other_rules_change_the_layout_and_not_the_model(program, monkeypatch):
    rules = (("batch", "data"), ("hidden", None), ("embed", "model"), ("layer", None))
    monkeypatch.setattr(program, "RULES", rules)
    state, *_ = train(program, program.make_mesh(), logical=True)
    w1 = layers(state)[0]["W1"].addressable_shards[0].data
    assert w1.shape == (4, WIDTH // 4, WIDTH)


@pytest.mark.parametrize("options", [(), ("--logical",)], ids=["mesh", "logical"])
def test_script_prints_specs_and_time(run, options):
    printed = run("dot_relu_dot", "--width", "64", "--steps", "2", *options)
    assert printed[0].startswith("W1 (4, 64, 64), P(None, None, 'model'): (4, 64, 16)")
    assert printed[1].startswith("W2 (4, 64, 64), P(None, 'model', None): (4, 16, 64)")
    assert printed[-1].endswith("ms a step")
