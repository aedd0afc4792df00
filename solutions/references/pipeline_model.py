"""The full pipeline's tasks, batches and train step: no files, no command line."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from pipeline_run import Config, SetupError
from pipeline_task import Task
from pipeline_transformer import Transformer


@dataclasses.dataclass(frozen=True)
class Digits(Task):
    """Recognises scikit-learn's digits by a perceptron of two hidden layers, by AdamW."""

    specs: ClassVar = {"w1": P(None, "model"), "b1": P("model"), "w2": P("model", None)}

    def load(self) -> tuple[tuple, tuple]:
        """Returns rows to train on and held-out ones: (f32[N, 64] in 0..1, i32[N])."""
        from sklearn.datasets import load_digits

        x, y = load_digits(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(x))
        x, y = np.float32(x[order] / 16), np.int32(y[order])
        return (x[:1437], y[:1437]), (x[1437:], y[1437:])

    def init(self, key: Any) -> dict[str, Any]:
        """Draws the parameters, float32."""
        hidden = self.config.hidden
        sizes = ((64, hidden), (hidden, hidden), (hidden, 10))
        params = {}
        for number, (n_in, n_out) in enumerate(sizes, 1):
            drawn = jax.random.normal(jax.random.fold_in(key, number), (n_in, n_out))
            params |= {f"w{number}": drawn / n_in**0.5, f"b{number}": jnp.zeros(n_out)}
        return params

    def loss(self, params: dict[str, Any], x: Any, y: Any) -> Any:
        """Mean cross-entropy, computed in `compute_dtype`: f32 ()."""
        dtype = self.config.compute_dtype
        low = jax.tree.map(lambda p: p.astype(dtype), params)
        hidden = jax.nn.relu(x.astype(dtype) @ low["w1"] + low["b1"])
        hidden = jax.nn.relu(hidden @ low["w2"] + low["b2"])
        logits = (hidden @ low["w3"]).astype(jnp.float32) + params["b3"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    def score(self, params: dict[str, Any], x: Any, y: Any) -> tuple[str, float]:
        """Returns the share of rows that are right, in NumPy."""
        hidden = np.maximum(x @ params["w1"] + params["b1"], 0)
        hidden = np.maximum(hidden @ params["w2"] + params["b2"], 0)
        guess = (hidden @ params["w3"] + params["b3"]).argmax(-1)
        return "accuracy", float(np.mean(guess == y))


@dataclasses.dataclass(frozen=True)
class Regression(Task):
    """Fits `sharded_pipeline`'s linear model by SGD, from zeros, in float32."""

    def load(self) -> tuple[tuple, tuple]:
        """Returns rows to train on and held-out ones: (f32[N, 32], f32[N])."""
        from sharded_pipeline import make_data

        x, y, _ = make_data(4096 + 1024)
        return (x[:4096], y[:4096]), (x[4096:], y[4096:])

    def init(self, key: Any) -> dict[str, Any]:
        """Makes zeros."""
        return {"w": jnp.zeros(32), "b": jnp.zeros(())}

    def loss(self, params: dict[str, Any], x: Any, y: Any) -> Any:
        """Mean squared error: f32 ()."""
        return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)

    def optimizer(self) -> Any:
        """Makes plain SGD."""
        return optax.sgd(self.config.peak_lr)

    def score(self, params: dict[str, Any], x: Any, y: Any) -> tuple[str, float]:
        """Returns the root mean squared error, in NumPy."""
        errors = x @ params["w"] + params["b"] - y
        return "rms_error", float(np.sqrt(np.mean(errors**2)))


def flax_transformer(config: Config) -> Any:
    """Makes a `FlaxTransformer`; raises `SetupError` without Flax."""
    try:
        from pipeline_flax import FlaxTransformer
    except ModuleNotFoundError as error:
        text = f"--model flax-transformer needs `pip install {error.name}`."
        raise SetupError(text) from None
    return FlaxTransformer(config)


TASKS = {
    "digits": Digits,
    "regression": Regression,
    "transformer": Transformer,
    "flax-transformer": flax_transformer,
}


def make_task(config: Config) -> Any:
    """Raises `SetupError` for a task that is not in `TASKS`."""
    if config.task not in TASKS:
        raise SetupError(f"Unknown task {config.task!r}: use {' or '.join(TASKS)}.")
    return TASKS[config.task](config)


@functools.lru_cache(maxsize=4)
def order_of_epoch(epoch: int, num_rows: int, seed: int) -> Any:
    """Returns the rows in the order of an epoch: i64[num_rows]."""
    return np.random.default_rng((seed, epoch)).permutation(num_rows)


def rows_between(start: int, stop: int, num_rows: int, seed: int) -> Any:
    """Returns a piece of the endless stream of rows: i64[stop - start].

    The stream takes every row once per epoch, in another order each time; a batch may
    reach into the next epoch. It is a function of the place, so a resumed run needs no
    other state.
    """
    first, last = start // num_rows, (stop - 1) // num_rows
    orders = [order_of_epoch(n, num_rows, seed) for n in range(first, last + 1)]
    return np.concatenate(orders)[start - first * num_rows : stop - first * num_rows]


def batches(
    data: tuple, config: Config, mesh: Mesh, start_step: int
) -> Iterator[tuple]:
    """Yields each call's batches, (K, M, B/M, ...), with the next on its way.

    Each process reads the rows of its own devices only.
    """
    pieces = config.steps_per_call, config.num_microbatches
    sharding = NamedSharding(mesh, P(None, None, "data"))

    def place(step):
        places = np.multiply((step, step + config.steps_per_call), config.batch_size)
        rows = rows_between(*places, len(data[0]), config.seed).reshape(*pieces, -1)
        return tuple(
            jax.make_array_from_callback(
                (*rows.shape, *a.shape[1:]),
                sharding,
                lambda i, a=a: np.take(a, rows[i[:3]], axis=0),
            )
            for a in data
        )

    placed = map(place, range(start_step, config.num_steps, config.steps_per_call))
    for batch, _ in itertools.pairwise(itertools.chain(placed, [None])):
        yield batch


def make_train_call(task: Any, mesh: Mesh) -> Any:
    """Compiles call(state, xs, ys) -> (state, metrics) of `steps_per_call` steps.

    State is donated. Gradients cross the "data" axis once a step, after the loop over
    microbatches; what the "model" axis needs, the compiler puts in.
    """
    optimizer = task.optimizer()
    _, abstract = abstract_state(task, mesh)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
    # What of the layout the map over "data" sees.
    parts = {
        name: P(*(axis if axis == "data" else None for axis in sharding.spec))
        for name, sharding in shardings["params"].items()
    }

    def average(value, grads):  # where parts were gathered, the sum is made already
        num_devices = mesh.shape["data"]
        split = {n: g / num_devices for n, g in grads.items() if any(parts[n])}
        whole = {n: g for n, g in grads.items() if n not in split}
        value, whole = average_whole((value, whole))
        return value, split | whole

    def average_whole(tree):
        if mesh.shape["model"] > 1:  # joining would gather what that axis splits
            return jax.lax.pmean(tree, "data")
        # Small leaves travel as one: devices meet once for all, not once for each.
        leaves, structure = jax.tree.flatten(tree)
        small = [leaf for leaf in leaves if leaf.size <= 4096]
        large = [leaf for leaf in leaves if leaf.size > 4096]
        joined, split = ravel_pytree(small)
        joined, large = jax.lax.pmean((joined, large), "data")
        means = {True: iter(split(joined)), False: iter(large)}
        return structure.unflatten(next(means[leaf.size <= 4096]) for leaf in leaves)

    # Without the check, gradients of replicated parameters are each device's own.
    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(parts, P(None, "data"), P(None, "data")),
        out_specs=(P(), parts),
        axis_names={"data"},
        check_vma=False,
    )
    def grads_of(params, x, y):  # x: [M, B/M/D, ...] on each device
        def add(total, batch):
            found = jax.value_and_grad(task.loss)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, (x, y))
        return average(*jax.tree.map(lambda leaf: leaf / len(x), total))

    def step(state, batch):
        params, opt_state, number = state["params"], state["opt_state"], state["step"]
        value, grads = grads_of(params, *batch)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        state = {"params": params, "opt_state": opt_state, "step": number + 1}
        return state, {"loss": value, "grad_norm": optax.tree.norm(grads)}

    def call(state, xs, ys):
        return jax.lax.scan(step, state, (xs, ys))

    return jax.jit(call, donate_argnums=0, out_shardings=(shardings, None))


def abstract_state(task: Any, mesh: Mesh) -> tuple[Any, Any]:
    """Returns the function that makes the first state, and the state's abstract arrays.

    These carry their shardings, so that nothing is ever whole on one device.

    Raises:
        SetupError: an axis of the mesh does not divide an array's axis.
    """
    optimizer = task.optimizer()

    def init():
        params = task.init(jax.random.key(task.config.seed))
        opt_state = optimizer.init(params)
        return {"params": params, "opt_state": opt_state, "step": jnp.int32(0)}

    shapes = jax.eval_shape(init)
    params = {name: task.specs.get(name, P()) for name in shapes["params"]}
    for name, spec in params.items():
        for size, axis in zip(shapes["params"][name].shape, spec, strict=False):
            if axis and size % mesh.shape[axis]:
                raise SetupError(
                    f"{size} of {name} do not divide by {mesh.shape[axis]} devices "
                    f"along {axis}: choose another --hidden, or another mesh."
                )
    state = optax.tree_utils.tree_map_params(
        optimizer,
        lambda _, spec: spec,
        shapes["opt_state"],
        params,
        transform_non_params=lambda _: P(),
    )
    specs = {"params": params, "opt_state": state, "step": P()}
    abstract = jax.tree.map(
        lambda leaf, spec: jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec)
        ),
        shapes,
        specs,
    )
    shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
    return jax.jit(init, out_shardings=shardings), abstract
