"""Trains an ensemble of Flax CNNs, one on each device, and averages what they say.

Run it with: python solutions/references/ensemble.py --epochs 10

It needs Flax. The images are scikit-learn's bundled digits, 1,797 of 8 x 8, because the
source's MNIST cannot be had offline.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
from functools import partial

NUM_DEVICES = 8


def read_options() -> argparse.Namespace:
    """Reads the command line, before imports that take seconds."""
    text = "It needs Flax: pip install flax"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=text)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--momentum", type=float, default=0.9)
    args = parser.parse_args()
    if importlib.util.find_spec("flax") is None:
        parser.error(text)
    return args


if __name__ == "__main__":
    ARGS = read_options()
    flag = f"--xla_force_host_platform_device_count={NUM_DEVICES}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()
    os.environ["NPROC"] = os.environ["PJRT_NPROC"] = "32"  # threads for the all-reduce
    os.environ.setdefault("JAX_PLATFORMS", "cpu")

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState
from sklearn.datasets import load_digits


class CNN(nn.Module):
    """Two convolutions and two dense layers: (B, 8, 8, 1) -> logits (B, 10)."""

    @nn.compact
    def __call__(self, x):
        """Computes the logits."""
        for features in (32, 64):
            x = nn.relu(nn.Conv(features, kernel_size=(3, 3))(x))
            x = nn.avg_pool(x, window_shape=(2, 2), strides=(2, 2))
        x = nn.relu(nn.Dense(256)(x.reshape(len(x), -1)))
        return nn.Dense(10)(x)


def load_data(num_test: int = 360):
    """Loads the digits, shuffled: two pairs of images (N, 8, 8, 1), labels (N,)."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = np.float32(digits.images[order, ..., None] / 16)
    labels = np.int32(digits.target[order])
    train, test = slice(num_test, None), slice(num_test)
    return (images[train], labels[train]), (images[test], labels[test])


@partial(jax.pmap, static_broadcasted_argnums=(1, 2))
def create_state(key, lr, momentum):
    """Draws one member's own weights and sets up SGD with momentum."""
    model = CNN()
    params = model.init(key, jnp.ones((1, 8, 8, 1)))["params"]
    tx = optax.sgd(lr, momentum)
    return TrainState.create(apply_fn=model.apply, params=params, tx=tx)


@partial(jax.pmap, in_axes=(0, None, None))
def train_step(state, images, labels):
    """Takes one step of every member on the same batch, without communication."""

    def loss(params):
        logits = state.apply_fn({"params": params}, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    value, grads = jax.value_and_grad(loss)(state.params)
    return state.apply_gradients(grads=grads), value


@partial(jax.pmap, axis_name="ensemble", in_axes=(0, None, None))
def evaluate(state, images, labels):
    """Measures each member's accuracy and that of the averaged probabilities."""
    own = jax.nn.softmax(state.apply_fn({"params": state.params}, images))
    mean = jax.lax.pmean(own, "ensemble")
    return tuple(jnp.mean(p.argmax(-1) == labels) for p in (own, mean))


def train_epoch(states, images, labels, batch_size: int, rng):
    """Trains all members on one shuffled permutation of the data.

    Args:
        states: TrainState with leaves (D, ...), one member per device.
        images: f32[N, 8, 8, 1].
        labels: i32[N].
        batch_size: images in one step; what is left over at the end waits.
        rng: NumPy generator that draws the order.

    Returns:
        The new states and every member's mean loss, f32[D].

    Source:
        Flax's guide to ensembling on several devices.
    """
    used, losses = len(images) // batch_size * batch_size, []
    for rows in rng.permutation(len(images))[:used].reshape(-1, batch_size):
        states, values = train_step(states, images[rows], labels[rows])
        losses.append(values)
        if len(losses) % 10 == 0:
            jax.block_until_ready(states)  # keeps the simulated devices' queue short
    return states, np.mean(jax.device_get(losses), axis=0)


def main(args) -> None:
    """Prints each epoch's mean loss, the members' accuracies and the ensemble's."""
    train, test = load_data()
    keys = jax.random.split(jax.random.key(0), NUM_DEVICES)
    states = create_state(keys, args.lr, args.momentum)
    rng = np.random.default_rng(0)
    print("scikit-learn digits:", len(train[1]), "to train,", len(test[1]), "to test")
    for epoch in range(1, args.epochs + 1):
        states, losses = train_epoch(states, *train, args.batch_size, rng)
        own, ensemble = jax.device_get(evaluate(states, *test))
        print(
            f"epoch {epoch:2d}  loss {losses.mean():.3f}"
            f"  members {own.min():.3f} to {own.max():.3f}, mean {own.mean():.3f}"
            f"  ensemble {ensemble[0]:.3f}"
        )


if __name__ == "__main__":
    main(ARGS)
