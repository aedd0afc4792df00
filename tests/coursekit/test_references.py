"""The references agree with JAX's own gradients and with Optax's own steps."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from coursekit.references import (
    reference_adamw,
    reference_clip,
    reference_norm,
    reference_perceptron,
    reference_relu_layers,
    reference_sgd,
)

RNG = np.random.default_rng(0)
X = np.float32(RNG.normal(size=(6, 5)))
TARGETS = np.float32(RNG.normal(size=6))
CLASSES = np.int32([0, 2, 1, 2, 2, 0])
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def perceptron(num_outputs):
    shapes = {"w1": (5, 7), "b1": (7,), "w2": (7, num_outputs), "b2": (num_outputs,)}
    return {name: np.float32(RNG.normal(size=shape)) for name, shape in shapes.items()}


def outputs(params, x):
    hidden = jnp.tanh(x @ params["w1"] + params["b1"][None])
    return hidden @ params["w2"] + params["b2"][None]


def squared_error(params, x, y):
    return ((outputs(params, x)[:, 0] - y) ** 2).mean()


def cross_entropy(params, x, y):
    logits = outputs(params, x)
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def relu_layers(params, x, y):
    for w1, w2 in zip(params["w1"], params["w2"], strict=True):
        x = jax.nn.relu(x @ w1) @ w2
    return ((x - y) ** 2).mean()


LAYERS = {
    "w1": np.float32(RNG.normal(size=(3, 5, 8))),
    "w2": np.float32(RNG.normal(size=(3, 8, 5)) / 3),
}
CASES = {
    "numbers": (reference_perceptron, squared_error, perceptron(1), TARGETS),
    "classes": (reference_perceptron, cross_entropy, perceptron(3), CLASSES),
    "layers": (reference_relu_layers, relu_layers, LAYERS, X[::-1]),
}


def agree(found, wanted):
    for name in wanted:
        assert found[name].dtype == np.float64
        np.testing.assert_allclose(found[name], wanted[name], **CLOSE)


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients_are_those_of_jax(case):
    reference, loss_fn, params, y = CASES[case]
    loss, grads = reference(params, X, y)
    wanted, wanted_grads = jax.value_and_grad(loss_fn)(params, X, y)
    np.testing.assert_allclose(loss, wanted, **CLOSE)
    agree(grads, wanted_grads)


def test_rows_may_lie_in_blocks():
    params = perceptron(1)
    loss, grads = reference_perceptron(params, X, TARGETS)
    blocks = X.reshape(3, 2, 5), TARGETS.reshape(3, 2)
    assert reference_perceptron(params, *blocks)[0] == loss
    agree(reference_perceptron(params, *blocks)[1], grads)


def steps(optimizer, num_steps, params):
    state, losses = optimizer.init(params), []
    for _ in range(num_steps):
        loss, grads = jax.value_and_grad(squared_error)(params, X, TARGETS)
        updates, state = optimizer.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        losses.append(loss)
    return params, state, losses


def test_sgd_steps_as_optax_does():
    params = perceptron(1)
    found, losses = reference_sgd(params, X, TARGETS, 0.1, 4)
    wanted, _, wanted_losses = steps(optax.sgd(0.1), 4, params)
    agree(found, wanted)
    np.testing.assert_allclose(losses, wanted_losses, **CLOSE)


@pytest.mark.parametrize("decay", [0.0, 0.2])
def test_adamw_steps_as_optax_does(decay):
    rates, params = [0.1, 0.03, 0.01, 0.1], perceptron(1)
    before = {name: leaf.copy() for name, leaf in params.items()}
    found, mu, nu, losses = reference_adamw(
        params, rates, lambda p: reference_perceptron(p, X, TARGETS), decay
    )
    schedule = optax.adamw(lambda n: jnp.array(rates)[n], weight_decay=decay)
    with jax.numpy_dtype_promotion("standard"):  # Optax counts steps in int32
        wanted, state, wanted_losses = steps(schedule, 4, params)
    agree(found, wanted)
    agree(mu, state[0].mu)
    agree(nu, state[0].nu)
    np.testing.assert_allclose(losses, wanted_losses, **CLOSE)
    assert all(np.array_equal(params[name], before[name]) for name in params)


@pytest.mark.parametrize("max_norm", [0.5, 1e6, np.inf])
def test_clipping_is_by_the_norm_of_all_gradients(max_norm):
    _, grads = reference_perceptron(perceptron(1), X, TARGETS)
    wanted, _ = optax.clip_by_global_norm(max_norm).update(
        jax.tree.map(jnp.float32, grads), optax.EmptyState()
    )
    found = reference_clip(grads, max_norm)
    agree(found, wanted)
    norm = min(reference_norm(grads), max_norm)
    np.testing.assert_allclose(reference_norm(found), norm, **CLOSE)
