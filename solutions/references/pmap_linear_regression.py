"""Fits a line with pmap: stacked parameters, split data, averaged gradients.

Run it with: python solutions/references/pmap_linear_regression.py --plot fit.png
"""

from __future__ import annotations

import argparse
import os
from functools import partial
from typing import NamedTuple

NUM_DEVICES = 8


def read_options() -> argparse.Namespace:
    """Reads the command line, before imports that take seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--lr", type=float, default=0.005)
    parser.add_argument("--plot", metavar="FILE", help="draw the fit into this file")
    return parser.parse_args()


if __name__ == "__main__":
    ARGS = read_options()
    flag = f"--xla_force_host_platform_device_count={NUM_DEVICES}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()
    os.environ["NPROC"] = os.environ["PJRT_NPROC"] = "32"  # threads for the all-reduce
    os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np


class Params(NamedTuple):
    """A line: weight () and bias ()."""

    weight: jax.Array
    bias: jax.Array


def make_data(num_points: int = 128, seed: int = 0):
    """Draws points on y = 2x - 1 with noise of size 0.5: x (N,), y (N,)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=num_points)
    y = 2 * x - 1 + 0.5 * rng.normal(size=num_points)
    return np.float32(x), np.float32(y)


def init_params(key) -> Params:
    """Draws a line to start from."""
    weight_key, bias_key = jax.random.split(key)
    return Params(jax.random.normal(weight_key), jax.random.normal(bias_key))


def loss(params, x, y):
    """Mean squared error: x (B,), y (B,) -> ()."""
    return jnp.mean((x * params.weight + params.bias - y) ** 2)


@partial(jax.pmap, axis_name="devices", static_broadcasted_argnums=3)
def update(params, x, y, lr):
    """Takes one step with the gradients averaged over all devices."""
    value, grads = jax.value_and_grad(loss)(params, x, y)
    value, grads = jax.lax.pmean((value, grads), "devices")
    return jax.tree.map(lambda p, g: p - lr * g, params, grads), value


def replicate(params, num_devices: int):
    """Stacks one copy per device: leaf (...) -> (D, ...)."""
    return jax.tree.map(lambda leaf: np.stack([leaf] * num_devices), params)


def unreplicate(params):
    """Takes the first replica to the host: leaf (D, ...) -> (...)."""
    return jax.tree.map(lambda leaf: leaf[0], jax.device_get(params))


def train(x, y, num_devices: int, num_steps: int = 1000, lr: float = 0.005):
    """Trains on `num_devices` devices.

    Args:
        x: f32[N], with N divisible by `num_devices`.
        y: f32[N].
        num_devices: number of replicas.
        num_steps: number of steps.
        lr: learning rate.

    Returns:
        The stacked parameters, leaves f32[D], and the last step's loss.

    Source:
        JAX's own data parallel example for pmap, y = 2x - 1.
    """
    params = replicate(init_params(jax.random.key(0)), num_devices)
    x, y = (a.reshape(num_devices, -1) for a in (x, y))
    for number in range(num_steps):
        params, values = update(params, x, y, lr)
        if number % 10 == 9:
            jax.block_until_ready(params)  # keeps the simulated devices' queue short
    return params, float(values[0])


def plot(path: str, x, y, params) -> None:
    """Draws the points and the line into an image file."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.scatter(x, y, s=10, label="data")
    ends = np.array([x.min(), x.max()])
    plt.plot(ends, params.weight * ends + params.bias, color="C1", label="fit")
    plt.legend()
    plt.savefig(path)


def main(args) -> None:
    """Prints the line found, and how far the replicas are apart."""
    x, y = make_data()
    stacked, value = train(x, y, NUM_DEVICES, args.steps, args.lr)
    params = unreplicate(stacked)
    spread = max(np.ptp(leaf) for leaf in jax.device_get(stacked))
    print(f"points: {x.size}, {x.size // NUM_DEVICES} on each of {NUM_DEVICES} devices")
    print(f"y = {params.weight:.2f} x + {params.bias:.2f}, loss {value:.2f}")
    print(f"spread over the replicas: {spread:.1f}")
    if args.plot:
        plot(args.plot, x, y, params)


if __name__ == "__main__":
    main(ARGS)
