"""Each member is a model trained alone, and together they are no worse than one."""

import jax
import numpy as np
import pytest

pytest.importorskip("flax", reason="the ensemble's CNN needs Flax")
pytestmark = pytest.mark.usefixtures("usual_promotion")


@pytest.fixture(scope="module")
def program(load):
    return load("ensemble")


@pytest.fixture(scope="module")
def data(program):
    return program.load_data()


def train(program, keys, data, num_epochs):
    """Trains one member per key; returns the states and each epoch's losses."""
    states = program.create_state(keys, 0.1, 0.9)
    rng, losses = np.random.default_rng(0), []
    for _ in range(num_epochs):
        states, values = program.train_epoch(states, *data, 128, rng)
        losses.append(values)
    return states, losses


@pytest.fixture(scope="module")
def keys():
    return jax.random.split(jax.random.key(0), 4)


@pytest.fixture(scope="module")
def ensemble(usual_promotion, program, keys, data):
    return train(program, keys, data[0], num_epochs=4)


def test_ensemble_is_at_least_as_accurate_as_the_mean_member(program, ensemble, data):
    own, together = jax.device_get(program.evaluate(ensemble[0], *data[1]))
    assert np.ptp(together) == 0
    assert together[0] >= own.mean() > 0.6


def test_members_differ(ensemble):
    for leaf in jax.tree.leaves(jax.device_get(ensemble[0].params)):
        assert len(np.unique(leaf.reshape(4, -1), axis=0)) == 4
    assert np.mean(ensemble[1][-1]) < np.mean(ensemble[1][0])


def test_each_member_equals_a_model_trained_alone(program, keys, data):
    few = [a[:512] for a in data[0]]
    together, losses = train(program, keys, few, num_epochs=1)
    for one in (slice(0, 1), slice(3, 4)):
        alone, own = train(program, keys[one], few, num_epochs=1)
        np.testing.assert_allclose(losses[0][one], own[0], atol=1e-5)
        pairs = zip(*map(jax.tree.leaves, (together.params, alone.params)), strict=True)
        for many, leaf in pairs:
            np.testing.assert_allclose(np.asarray(many)[one], leaf, atol=1e-5)


def test_script_prints_members_and_ensemble(run):
    printed = run("ensemble", "--epochs", "1", "--batch-size", "512")
    assert printed[0] == "scikit-learn digits: 1437 to train, 360 to test"
    assert "members" in printed[1]
    assert "ensemble" in printed[1]
