"""Runs one program on four simulated devices: map, shard a batch, drift apart.

The whole of lesson 1 as a script: python solutions/references/pmap_spmd.py
"""

from __future__ import annotations

import argparse
import os

NUM_DEVICES = 4
if __name__ == "__main__":
    flag = f"--xla_force_host_platform_device_count={NUM_DEVICES}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()

import jax
import jax.numpy as jnp
import numpy as np


def f(x):
    """Computes x^2 + sin(x), element by element."""
    return x**2 + jnp.sin(x)


def map_over_devices(num_devices: int):
    """Applies `f` to one row per device: f32[D, 2] -> f32[D, 2]."""
    x = np.arange(2 * num_devices, dtype=np.float32).reshape(num_devices, 2)
    return x, jax.pmap(f)(x)


def shard_images(images, num_devices: int):
    """Cuts a batch into blocks: (B, 784) -> (num_devices, B / num_devices, 784)."""
    return images.reshape(num_devices, -1, *images.shape[1:])


def loss(params, x, y):
    """Mean squared error of a linear model: x (B, F), y (B,) -> ()."""
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)


def sgd_step(params, x, y, lr=0.1):
    """Takes one step of gradient descent on one device's own data."""
    grads = jax.grad(loss)(params, x, y)
    return jax.tree.map(lambda p, g: p - lr * g, params, grads)


def train_apart(x, y, num_steps: int):
    """Trains one replica per device from one common start, without communication.

    Args:
        x: f32[D, B, F].
        y: f32[D, B].
        num_steps: number of steps, at least 1.

    Returns:
        {"w": f32[D, F], "b": f32[D]}: as many models as there are devices.
    """
    start = {"w": jnp.zeros(x.shape[-1]), "b": jnp.zeros(())}
    params = jax.pmap(sgd_step, in_axes=(None, 0, 0))(start, x, y)
    step = jax.pmap(sgd_step)
    for number in range(1, num_steps):
        params = step(params, x, y)
        if number % 10 == 0:
            jax.block_until_ready(params)  # keeps the simulated devices' queue short
    return params


def main() -> None:
    """Prints each part's shapes, and how far the replicas have drifted."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-steps", type=int, default=60, help="default: 60")
    num_steps = parser.parse_args().num_steps
    x, y = map_over_devices(NUM_DEVICES)
    print("map:", x.shape, "->", y.shape, "on", len(y.addressable_shards), "devices")
    images = np.zeros((128, 784), np.float32)
    print("batch:", images.shape, "->", shard_images(images, NUM_DEVICES).shape)
    rng = np.random.default_rng(0)
    x = np.float32(rng.normal(size=(NUM_DEVICES, 8, 1)))
    y = np.float32(2 * x[..., 0] - 1 + 0.5 * rng.normal(size=x.shape[:2]))
    slopes = np.asarray(train_apart(x, y, num_steps)["w"])[:, 0]
    print("slopes of the replicas:", " ".join(f"{slope:.2f}" for slope in slopes))


if __name__ == "__main__":
    main()
