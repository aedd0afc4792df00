"""Trains a linear model on a mesh, from synthetic data to a checkpoint.

Run it with: python solutions/references/sharded_pipeline.py --checkpoint params.npz

Its source cuts the first 256 rows once and trains on them for ever: the other 3,840 rows
are never seen. Here every step gets a fresh batch, every epoch another order.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

NUM_DEVICES = 8
if __name__ == "__main__":
    flag = f"--xla_force_host_platform_device_count={NUM_DEVICES}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()
    os.environ["NPROC"] = os.environ["PJRT_NPROC"] = "32"  # threads for the all-reduce
    os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

NOISE = 0.1


def make_data(num_rows: int = 4096, num_features: int = 32, seed: int = 0):
    """Draws x (N, F), y = x w + b + noise (N,), and the true {"w": (F,), "b": ()}."""
    rng = np.random.default_rng(seed)
    true = {"w": rng.normal(size=num_features), "b": rng.normal()}
    x = rng.normal(size=(num_rows, num_features))
    y = x @ true["w"] + true["b"] + NOISE * rng.normal(size=num_rows)
    return np.float32(x), np.float32(y), true


def make_mesh(num_devices: int):
    """Puts devices in a row, along the axis "data"."""
    devices = jax.devices()[:num_devices]
    types = (AxisType.Auto,)
    return jax.make_mesh((num_devices,), ("data",), axis_types=types, devices=devices)


def batches(x, y, batch_size: int, seed: int = 0):
    """Yields fresh batches for ever: each epoch every row once, in a new order."""
    rng = np.random.default_rng(seed)
    while True:
        rows = rng.permutation(len(x))
        for start in range(0, len(x) - batch_size + 1, batch_size):
            chosen = rows[start : start + batch_size]
            yield x[chosen], y[chosen]


def loss(params, x, y):
    """Mean squared error: x (B, F), y (B,) -> ()."""
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)


def make_step(mesh, lr: float):
    """Compiles one SGD step: replicated parameters, batch split over "data"."""
    replicated, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))

    def step(params, x, y):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        return jax.tree.map(lambda p, g: p - lr * g, params, grads), value

    return jax.jit(
        step,
        in_shardings=(replicated, split, split),
        out_shardings=replicated,
        donate_argnums=0,
    )


def train(x, y, mesh, num_steps: int = 500, batch_size: int = 256, lr: float = 0.01):
    """Trains from zeros on fresh batches.

    Args:
        x: f32[N, F].
        y: f32[N].
        mesh: devices along "data"; its size divides `batch_size`.
        num_steps: number of steps.
        batch_size: rows in one step, over all devices.
        lr: learning rate.

    Returns:
        {"w": f32[F], "b": f32[]}, replicated, and the losses [(step, loss), ...] of
        every 50th step.

    Source:
        A full pipeline on 4096 x 32 synthetic rows, 500 steps of 256.
    """
    split = NamedSharding(mesh, P("data"))
    start = {"w": np.zeros(x.shape[1], np.float32), "b": np.float32(0)}
    params = jax.device_put(start, NamedSharding(mesh, P()))
    step, stream, losses = make_step(mesh, lr), batches(x, y, batch_size), []
    for number in range(num_steps):
        x_batch, y_batch = jax.device_put(next(stream), split)
        params, value = step(params, x_batch, y_batch)
        if number % 10 == 9:
            jax.block_until_ready(params)  # keeps the simulated devices' queue short
        if number % 50 == 0 or number == num_steps - 1:
            losses.append((number, float(value)))
    return params, losses


def save(path: Path, params) -> None:
    """Writes a host copy of the parameters as an .npz file."""
    with path.open("wb") as file:  # given a name, NumPy would add .npz to it
        np.savez(file, **jax.device_get(params))


def restore(path: Path, mesh):
    """Reads the parameters of an .npz file onto every device of a mesh."""
    with np.load(path) as file:
        return jax.device_put(dict(file), NamedSharding(mesh, P()))


def main() -> None:
    """Prints the loss every 50 steps, and the recovered weights against the true."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--checkpoint", metavar="FILE", help="keep the .npz file here")
    args = parser.parse_args()
    mesh = make_mesh(NUM_DEVICES)
    x, y, true = make_data()
    params, losses = train(x, y, mesh, args.steps, args.batch_size, args.lr)
    for number, value in losses:
        print(f"step {number:3d}  loss {value:7.3f}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(args.checkpoint or Path(folder, "params.npz"))
        save(path, params)
        kept = jax.device_get(restore(path, mesh))
    for index in range(3):
        print(f"w[{index}]: {kept['w'][index]:.2f}, true {true['w'][index]:.2f}")
    error = np.abs(kept["w"] - true["w"]).max()
    print(f"largest error of {len(true['w'])} weights: {error:.3f} (noise {NOISE})")


if __name__ == "__main__":
    main()
