"""Trains a Keras model on several devices with the JAX backend.

Run it with: python solutions/references/keras_digits.py --epochs 20

It needs Keras 3. A batch of 64 on each of 8 devices is a global batch of 8 x 64 = 512.
The images are scikit-learn's bundled digits, 1,797 of 8 x 8, because the source's image
set cannot be had offline: 3 such batches train, the other 261 images test. The source
reports a loss of 0.286, then 0.237, but it ran on one device and left its labels unsplit.
"""

from __future__ import annotations

import argparse
import importlib.util
import os

NUM_DEVICES = 8


def read_options() -> argparse.Namespace:
    """Reads the command line, before imports that take seconds."""
    text = "It needs Keras: pip install keras"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=text)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-per-device", type=int, default=64)
    parser.add_argument("--dropout", type=float, default=0.5)
    args = parser.parse_args()
    if importlib.util.find_spec("keras") is None:
        parser.error(text)
    return args


if __name__ == "__main__":
    ARGS = read_options()
    flag = f"--xla_force_host_platform_device_count={NUM_DEVICES}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()
    os.environ["NPROC"] = os.environ["PJRT_NPROC"] = "32"  # threads for the all-reduce
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["KERAS_BACKEND"] = "jax"

import jax
import keras
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from sklearn.datasets import load_digits

# Of Keras's default, 0.99, the few steps here would leave moving statistics half made.
MOMENTUM = 0.9


def make_model(dropout: float = 0.5):
    """Builds a CNN: images (B, 8, 8, 1), from 0 to 16 -> logits (B, 10)."""
    layers = keras.layers
    blocks = [keras.Input((8, 8, 1)), layers.Rescaling(1 / 16)]
    for filters, size, strides in ((12, 3, 1), (24, 6, 2), (32, 6, 2)):
        blocks += [
            layers.Conv2D(filters, size, strides, padding="same", use_bias=False),
            layers.BatchNormalization(scale=False, momentum=MOMENTUM),
            layers.ReLU(),
        ]
    blocks += [layers.GlobalAveragePooling2D(), layers.Dense(256, activation="relu")]
    # The mask's seed is a variable of the model, so that every step draws another.
    return keras.Sequential(
        [*blocks, layers.Dropout(dropout, seed=0), layers.Dense(10)]
    )


def load_data(num_train: int = 3 * 512):
    """Loads the digits, shuffled: two pairs of images (N, 8, 8, 1), labels (N,)."""
    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = np.float32(digits.images[order, ..., None])
    labels = np.int32(digits.target[order])
    train, test = slice(num_train), slice(num_train, None)
    return (images[train], labels[train]), (images[test], labels[test])


def make_mesh(num_devices: int):
    """Puts devices in a row, along the axis "batch"."""
    devices = jax.devices()[:num_devices]
    types = (AxisType.Auto,)
    return jax.make_mesh((num_devices,), ("batch",), axis_types=types, devices=devices)


def make_step(model, optimizer):
    """Compiles a train step without side effects: (state, x, y) -> (state, loss)."""
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def loss(trainable, others, x, y):
        logits, others = model.stateless_call(trainable, others, x, training=True)
        return cross_entropy(y, logits), others

    def step(state, x, y):
        trainable, others, moments = state
        grad = jax.value_and_grad(loss, has_aux=True)
        (value, others), grads = grad(trainable, others, x, y)
        trainable, moments = optimizer.stateless_apply(moments, grads, trainable)
        return (trainable, others, moments), value

    return jax.jit(step, donate_argnums=0)


def train(model, data, mesh, num_epochs: int, batch_size: int = 512):
    """Trains a model, split over the mesh's batch, and writes the weights back to it.

    Under jit the batch is one array: BatchNorm's statistics are those of all of it, and
    each device gets its own part of one dropout mask.

    Args:
        model: the Keras model; it holds the trained weights afterwards.
        data: images f32[N, 8, 8, 1] and labels i32[N].
        mesh: devices along "batch"; its size divides `batch_size`.
        num_epochs: passes over the data, each in another order.
        batch_size: images in one step, over all devices.

    Returns:
        The losses, f32[num_epochs, N // batch_size].

    Source:
        Keras's guide to distributed training with JAX.
    """
    images, labels = data
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer.build(model.trainable_variables)
    variables = (
        model.trainable_variables,
        model.non_trainable_variables,
        optimizer.variables,
    )
    # Copies, because the step gives its state's memory away.
    state = jax.tree.map(lambda variable: np.array(variable.value), variables)
    state = jax.device_put(state, NamedSharding(mesh, P()))
    split = NamedSharding(mesh, P("batch"))
    step, losses = make_step(model, optimizer), []
    rng = np.random.default_rng(0)
    for _ in range(num_epochs):
        order = rng.permutation(len(images))
        for first in range(0, len(images) - batch_size + 1, batch_size):
            rows = order[first : first + batch_size]
            x, y = jax.device_put((images[rows], labels[rows]), split)
            state, value = step(state, x, y)
            losses.append(value)
            if len(losses) % 10 == 0:
                jax.block_until_ready(state)  # keeps the devices' queue short
    for variable, value in zip(
        jax.tree.leaves(variables), jax.tree.leaves(state), strict=True
    ):
        variable.assign(np.asarray(value))
    return np.reshape(jax.device_get(losses), (num_epochs, -1))


def accuracy(model, images, labels) -> float:
    """Measures the share of labels that the model, as it stands, gets right."""
    logits = model.predict(images, batch_size=len(images), verbose=0)
    return float(np.mean(logits.argmax(-1) == labels))


def main(args) -> None:
    """Draws the batch's layout and prints the loss of the epochs and the accuracy."""
    keras.utils.set_random_seed(0)
    model, mesh = make_model(args.dropout), make_mesh(NUM_DEVICES)
    data, test = load_data()
    batch_size = NUM_DEVICES * args.batch_per_device
    print(f"global batch: {NUM_DEVICES} x {args.batch_per_device} = {batch_size}")
    rows = data[0][:batch_size].reshape(batch_size, -1)  # only matrices can be drawn
    jax.debug.visualize_array_sharding(
        jax.device_put(rows, NamedSharding(mesh, P("batch")))
    )
    losses = train(model, data, mesh, args.epochs, batch_size)
    for epoch, value in enumerate(losses.mean(axis=1), 1):
        print(f"epoch {epoch:2d}  loss {value:.3f}")
    print(f"accuracy on {len(test[1])} test digits: {accuracy(model, *test):.3f}")


if __name__ == "__main__":
    main(ARGS)
