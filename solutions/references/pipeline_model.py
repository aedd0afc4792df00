"""The full pipeline's data, model and train step: no files, no command line."""

from __future__ import annotations

import collections
import functools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from pipeline_run import Config


def load_data() -> tuple[Any, Any]:
    """Returns scikit-learn's digits: f32[1797, 64] in 0..1 and i32[1797], shuffled."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    return np.float32(x[order] / 16), np.int32(y[order])


def rows_of_step(step: int, batch_size: int, num_rows: int, seed: int) -> Any:
    """Returns the rows of a step's batch: i64[batch_size].

    The stream takes every row once per epoch, in another order each time; a batch may
    reach into the next epoch. It is a function of the step, so a resumed run needs no
    other state.
    """

    places = step * batch_size + np.arange(batch_size)
    epochs = places // num_rows
    rows = np.empty(batch_size, np.int64)
    for epoch in np.unique(epochs):
        order = np.random.default_rng((seed, epoch)).permutation(num_rows)
        rows[epochs == epoch] = order[places[epochs == epoch] % num_rows]
    return rows


def batches(
    data: tuple, config: Config, mesh: Mesh, start_step: int
) -> Iterator[tuple]:
    """Yields each call's batches, (K, M, B/M, ...), with the next on its way.

    Each process reads the rows of its own devices only.
    """

    pieces = config.steps_per_call, config.num_microbatches
    sharding = NamedSharding(mesh, P(None, None, "data"))

    def place(step):
        rows = np.stack(
            [
                rows_of_step(number, config.batch_size, len(data[0]), config.seed)
                for number in range(step, step + config.steps_per_call)
            ]
        ).reshape(*pieces, -1)
        return tuple(
            jax.make_array_from_callback(
                (*rows.shape, *a.shape[1:]), sharding, lambda i, a=a: a[rows[i[:3]]]
            )
            for a in data
        )

    ahead = collections.deque()
    for step in range(start_step, config.num_steps, config.steps_per_call):
        ahead.append(place(step))
        if len(ahead) > 1:
            yield ahead.popleft()
    yield from ahead


def init_params(key: Any, hidden: int) -> dict[str, Any]:
    """Draws a perceptron of widths 64, hidden, hidden, 10, float32."""

    keys = jax.random.split(key, 3)
    sizes = ((64, hidden), (hidden, hidden), (hidden, 10))
    params = {}
    for number, (one, (n_in, n_out)) in enumerate(zip(keys, sizes, strict=True), 1):
        params[f"w{number}"] = jax.random.normal(one, (n_in, n_out)) / n_in**0.5
        params[f"b{number}"] = jnp.zeros(n_out)
    return params


def make_loss(dtype: str) -> Any:
    """Makes loss(params, x, y): mean cross-entropy, computed in `dtype`, f32 ()."""

    def loss(params, x, y):  # x: f32[B, 64], y: i32[B]
        low = jax.tree.map(lambda p: p.astype(dtype), params)
        hidden = jax.nn.relu(x.astype(dtype) @ low["w1"] + low["b1"])
        hidden = jax.nn.relu(hidden @ low["w2"] + low["b2"])
        logits = (hidden @ low["w3"]).astype(jnp.float32) + params["b3"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    return loss


def make_optimizer(config: Config) -> Any:
    """Makes AdamW after clipping, on a warm-up cosine schedule."""

    schedule = optax.warmup_cosine_decay_schedule(
        0, config.peak_lr, config.warmup_steps, max(config.num_steps, 1000)
    )
    adamw = optax.adamw(schedule, weight_decay=config.weight_decay)
    return optax.chain(optax.clip_by_global_norm(config.max_norm), adamw)


def make_train_call(config: Config, optimizer: Any, mesh: Mesh) -> Any:
    """Compiles call(state, xs, ys) -> (state, metrics) of `steps_per_call` steps.

    State is donated. Gradients cross the "data" axis once a step, after the loop over
    microbatches; what the "model" axis needs, the compiler puts in.
    """

    loss = make_loss(config.compute_dtype)

    # Without the check, gradients of replicated parameters are each device's own.
    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P(None, "data"), P(None, "data")),
        out_specs=P(),
        axis_names={"data"},
        check_vma=False,
    )
    def grads_of(params, x, y):  # x: f32[M, B/M/D, 64] on each device
        def add(total, batch):
            found = jax.value_and_grad(loss)(params, *batch)
            return jax.tree.map(jnp.add, total, found), None

        zeros = jnp.zeros(()), jax.tree.map(jnp.zeros_like, params)
        total, _ = jax.lax.scan(add, zeros, (x, y))
        mean = jax.tree.map(lambda leaf: leaf / len(x), total)
        return jax.lax.pmean(mean, "data")

    def step(state, batch):
        value, grads = grads_of(state["params"], *batch)
        updates, opt_state = optimizer.update(
            grads, state["opt_state"], state["params"]
        )
        params = optax.apply_updates(state["params"], updates)
        state = {"params": params, "opt_state": opt_state, "step": state["step"] + 1}
        return state, {"loss": value, "grad_norm": optax.tree.norm(grads)}

    def call(state, xs, ys):
        return jax.lax.scan(step, state, (xs, ys))

    _, abstract = abstract_state(config, optimizer, mesh)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
    return jax.jit(call, donate_argnums=0, out_shardings=(shardings, None))


def abstract_state(config: Config, optimizer: Any, mesh: Mesh) -> tuple[Any, Any]:
    """Returns the function that makes the first state, and the state's abstract arrays.

    These carry their shardings, so that nothing is ever whole on one device.
    """

    def init():
        params = init_params(jax.random.key(config.seed), config.hidden)
        opt_state = optimizer.init(params)
        return {"params": params, "opt_state": opt_state, "step": jnp.int32(0)}

    specs = {"w1": P(None, "model"), "b1": P("model"), "w2": P("model", None)}
    shapes = jax.eval_shape(init)
    params = {name: specs.get(name, P()) for name in shapes["params"]}
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


def predict(params: dict[str, Any], x: Any) -> Any:
    """Returns the most likely class of each row, in NumPy: i64[B]."""
    hidden = np.maximum(x @ params["w1"] + params["b1"], 0)
    hidden = np.maximum(hidden @ params["w2"] + params["b2"], 0)
    return (hidden @ params["w3"] + params["b3"]).argmax(-1)
