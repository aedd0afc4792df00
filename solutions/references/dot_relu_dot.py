"""Trains a scanned MLP on a 2 x 4 mesh with Flax, its layers split over "model".

Run it with: python solutions/references/dot_relu_dot.py --logical --width 256

It needs Flax. Its authors report 621 ms +- 90 ms a step on their machine. Simulated
devices share one CPU: the time printed here says nothing about the layout.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time

NUM_DEVICES = 8


def read_options() -> argparse.Namespace:
    """Reads the command line, before imports that take seconds."""
    text = "It needs Flax: pip install flax"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog=text)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--logical", action="store_true", help="name axes by meaning")
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
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

RULES = (("batch", "data"), ("hidden", "model"), ("embed", None), ("layer", None))


class DotReluDot(nn.Module):
    """Two matrix products with a ReLU between: (B, E) -> (B, E), by mesh axis names."""

    hidden: int
    mesh: Mesh

    w1_axes = (None, "model")
    w2_axes = ("model", None)
    hidden_axes = ("data", "model")
    embed_axes = ("data", None)
    partition = staticmethod(nn.with_partitioning)

    def constrain(self, x, axes):
        """Pins an activation to the mesh axes named."""
        return jax.lax.with_sharding_constraint(x, NamedSharding(self.mesh, P(*axes)))

    @nn.compact
    def __call__(self, x, _=None):
        """Computes one layer, as a scan's body: x -> (y, None)."""
        init, embed = nn.initializers.xavier_normal(), x.shape[-1]
        w1_init = self.partition(init, self.w1_axes)
        w1 = self.param("W1", w1_init, (embed, self.hidden))
        w2_init = self.partition(init, self.w2_axes)
        w2 = self.param("W2", w2_init, (self.hidden, embed))
        h = self.constrain(nn.relu(x @ w1), self.hidden_axes)
        return self.constrain(h @ w2, self.embed_axes), None


class LogicalDotReluDot(DotReluDot):
    """The same layer by logical axis names, which `RULES` map to mesh axes."""

    w1_axes = ("embed", "hidden")
    w2_axes = ("hidden", "embed")
    hidden_axes = ("batch", "hidden")
    embed_axes = ("batch", "embed")
    partition = staticmethod(nn.with_logical_partitioning)

    def constrain(self, x, axes):
        """Pins an activation to what the rules make of logical names."""
        return nn.with_logical_constraint(x, axes, rules=RULES, mesh=self.mesh)


class MLP(nn.Module):
    """Equal layers, scanned, their weights stacked: W1 (L, E, H), W2 (L, H, E)."""

    width: int
    mesh: Mesh
    num_layers: int = 4
    logical: bool = False

    @nn.compact
    def __call__(self, x):
        """Computes all layers: (B, E) -> (B, E)."""
        stack = nn.scan(
            LogicalDotReluDot if self.logical else DotReluDot,
            variable_axes={"params": 0},
            split_rngs={"params": True},
            length=self.num_layers,
            metadata_params={nn.PARTITION_NAME: "layer" if self.logical else None},
        )
        return stack(self.width, self.mesh, name="layers")(x, None)[0]


def make_mesh(data: int = 2, model: int = 4) -> Mesh:
    """Arranges devices as a "data" x "model" mesh."""
    shape, types = (data, model), (AxisType.Auto, AxisType.Auto)
    devices = jax.devices()[: data * model]
    return jax.make_mesh(shape, ("data", "model"), axis_types=types, devices=devices)


def compile_init(model: MLP, batch_size: int):
    """Compiles the making of the state, already split: no full copy is ever built.

    Args:
        model: the network; its mesh is the one to split over.
        batch_size: rows of the batches to come.

    Returns:
        The compiled function from a key to a TrainState, and the shardings of that:
        weights and both Adam moments are W1 f32[L, E, H@model], W2 f32[L, H@model, E].

    Source:
        Flax's guide to several devices: shardings from abstract evaluation.
    """

    def init(key):
        params = model.init(key, jnp.zeros((batch_size, model.width)))["params"]
        tx = optax.adam(1e-3)
        return TrainState.create(apply_fn=model.apply, params=params, tx=tx)

    abstract = jax.eval_shape(init, jax.random.key(0))
    if model.logical:
        specs = nn.get_partition_spec(abstract)
        shardings = nn.logical_to_mesh_sharding(specs, model.mesh, RULES)
    else:
        shardings = nn.get_sharding(abstract, model.mesh)
    return jax.jit(init, out_shardings=shardings), shardings


def loss(params, apply_fn, x):
    """Mean squared distance of the output from the input: x (B, E) -> ()."""
    return jnp.mean((apply_fn({"params": params}, x) - x) ** 2)


def train_step(state, x):
    """Takes one step of Adam."""
    value, grads = jax.value_and_grad(loss)(state.params, state.apply_fn, x)
    return state.apply_gradients(grads=grads), value


def infer(state, x):
    """Computes the network's output: (B, E) -> (B, E)."""
    return state.apply_fn({"params": state.params}, x)


def compile_steps(mesh, shardings):
    """Compiles the train step and inference for one layout of the state."""
    rows, scalar = NamedSharding(mesh, P("data")), NamedSharding(mesh, P())
    inputs = (shardings, rows)
    step = jax.jit(train_step, in_shardings=inputs, out_shardings=(shardings, scalar))
    return step, jax.jit(infer, in_shardings=inputs, out_shardings=rows)


def main(args) -> None:
    """Prints the weights' specs and shards, the losses, and the time of a step."""
    model = MLP(args.width, make_mesh(), logical=args.logical)
    init, shardings = compile_init(model, args.batch_size)
    state = init(jax.random.key(0))
    step, infer_step = compile_steps(model.mesh, shardings)
    for name, w in sorted(nn.unbox(state.params["layers"]).items()):
        shard = w.addressable_shards[0].data.shape
        print(f"{name} {w.shape}, P{tuple(w.sharding.spec)}: {shard} on each device")
    x = np.random.default_rng(0).normal(size=(args.batch_size, args.width))
    x = jax.device_put(np.float32(x), NamedSharding(model.mesh, P("data")))
    losses, times = [], []
    for _ in range(args.steps):
        start = time.perf_counter()
        state, value = jax.block_until_ready(step(state, x))
        times.append(1000 * (time.perf_counter() - start))
        losses.append(float(value))
    print(f"loss {losses[0]:.3f} -> {losses[-1]:.3f} in {args.steps} steps")
    print("inference:", infer_step(state, x).shape)
    times = times[1:] or times  # the first call also compiles
    print(f"{np.mean(times):.0f} ms +- {np.std(times):.0f} ms a step")


if __name__ == "__main__":
    main(ARGS)
