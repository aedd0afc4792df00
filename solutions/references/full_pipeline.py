"""Trains on any mesh and any number of processes, resumably.

A run that was killed continues, started by the same line, from its last checkpoint and
ends with the same parameters, bit for bit:

    python full_pipeline.py --directory /tmp/run
    python full_pipeline.py --directory /tmp/run2 --mesh data=4,model=2
    python full_pipeline.py --directory /tmp/run3 --processes 2

It uses the GPUs or TPUs that JAX finds, and simulates 8 devices where there are none.
It trains a classifier of digits, a language model, or a task of your own, for which
`pipeline_template.py` is a start:

    python full_pipeline.py --directory /tmp/run4 --task text --data book.txt
    python full_pipeline.py --directory /tmp/run5 --task my_task.py:MyTask

After SIGTERM, which clusters send before they take a machine away, and after Ctrl-C it
ends its step, saves, says so, and exits with code 143. `docs/training.md` explains how to
adapt it, what it writes, and its messages.

On a cluster each process runs the same line with `--cluster`: `docs/clusters.md`.

Source: docs.jax.dev, "Introduction to multi-controller JAX"; Orbax, "Checkpointing".
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import fnmatch
import functools
import importlib
import itertools
import json
import logging
import math
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

FOLDER = Path(__file__).absolute().parent  # of the tasks in TASKS
NUM_DEVICES = 8  # simulated, over all local processes
SIGNALS = (signal.SIGTERM, signal.SIGINT)  # clusters send the first, Ctrl-C the second
STOPPED = 128 + signal.SIGTERM  # the exit code, as of a shell
GRACE_S = 25  # SLURM sends SIGKILL 30 s after SIGTERM
TASKS = {
    "digits": "pipeline_tasks.py:Digits",
    "regression": "pipeline_tasks.py:Regression",
    "transformer": "pipeline_transformer.py:Transformer",
    "flax-transformer": "pipeline_flax.py:FlaxTransformer",
    "text": "pipeline_text.py:Text",
}
# Dense bfloat16 FLOP/s of a chip, by JAX's name for it. Sources: NVIDIA's data sheets of
# the A100, H100 SXM and H200 SXM; cloud.google.com/tpu/docs.
PEAK_FLOPS = {
    "NVIDIA A100-SXM4-40GB": 312e12,
    "NVIDIA A100-SXM4-80GB": 312e12,
    "NVIDIA H100 80GB HBM3": 989e12,
    "NVIDIA H200": 989e12,
    "TPU v4": 275e12,
    "TPU v5 lite": 197e12,
    "TPU v5": 459e12,
}


class RunError(Exception):
    """The run cannot start or go on; the text names the value and the remedy."""


def setting(default: Any, text: str) -> Any:
    """Makes a field of `Config`, with what `--help` says about it."""
    return dataclasses.field(default=default, metadata={"help": text})


@dataclasses.dataclass(frozen=True)
class Config:
    """The settings of a run. Those not in `FREE` stay fixed when it is resumed."""

    directory: str
    mesh: dict[str, int] = dataclasses.field(default_factory=dict)  # {}: all on "data"
    task: str = setting("digits", f"{', '.join(TASKS)}, or FILE.py:CLASS of your own")
    data: str = setting("", "a file that the task reads")
    num_steps: int = setting(200, "the last step; may grow")
    schedule_steps: int = setting(
        0, "where the learning rate ends its fall; 0: the first run's num_steps"
    )
    batch_size: int = setting(64, "rows in a step, of all devices and microbatches")
    num_microbatches: int = setting(1, "pieces that a device takes one after the other")
    steps_per_call: int = setting(10, "steps that one compiled call takes")
    save_every: int = setting(50, "steps between two checkpoints")
    eval_every: int = setting(100, "steps between two evaluations; 0: only at the end")
    keep: int = setting(3, "how many checkpoints stay, besides the best")
    start_from: str = setting(
        "", "a checkpoint to begin with: /old/run/checkpoints/150"
    )
    profile: int = setting(0, "steps to trace, for XProf or TensorBoard")
    peak_lr: float = setting(3e-3, "the highest learning rate")
    hidden: int = setting(256, "width of the model's layers")
    warmup_steps: int = setting(20, "steps in which the learning rate rises")
    weight_decay: float = setting(1e-4, "of AdamW")
    max_norm: float = setting(1.0, "gradients are scaled down to this global norm")
    compute_dtype: str = setting("bfloat16", "of activations; what is kept is float32")
    seed: int = setting(0, "of data order, initial parameters and dropout")

    FREE: ClassVar = ("directory", "mesh", "data", "num_steps", "save_every")
    FREE += ("eval_every", "keep", "start_from", "profile")


@dataclasses.dataclass(frozen=True)
class Task:
    """What is trained. `pipeline_template.py` shows how to write your own.

    `params`, a batch and `mutable` are trees: any nesting of dicts, lists and tuples.
    """

    config: Config
    # How parameters are sharded: {"layers/*/w1": P("data", "model")}, by their path in
    # the tree. Others are replicated. What is sharded over "data" reaches `loss` as one
    # device's part, for it to gather.
    specs: ClassVar[dict[str, P]] = {}
    tokens_per_row: ClassVar[int] = 1

    def load(self) -> tuple[Any, Any]:
        """Returns rows to train on and held-out ones, each a tree of arrays.

        The first axis of each array counts the rows. A `numpy.memmap` will do: each
        process reads only the rows of its own devices.
        """
        raise NotImplementedError

    def init(self, key: Any) -> Any:
        """Draws the parameters, float32."""
        raise NotImplementedError

    def mutable(self) -> tuple:
        """Returns what `loss` also takes and gives back, such as running statistics.

        Float arrays in a tuple of trees. Over the devices the trainer takes their mean.
        """
        return ()

    def loss(
        self, params: Any, batch: Any, key: Any, step: Any, *mutable: Any
    ) -> tuple:
        """Returns (losses, weights, metrics, *mutable), of one device's rows.

        Args:
            params: as `init` makes them.
            batch: rows of `load`'s trees. `jax.lax` can reach the other devices' rows by
                the axis "data".
            key: for dropout, another one on each device and in each step; None in an
                evaluation.
            step: steps taken so far, i32 ().
            mutable: as `mutable` makes it, if it does.

        losses, weights and each of `metrics` are f32[rows]. What is minimised is the sum
        of losses over the sum of weights: with a row's loss summed over its valid tokens
        and their number as its weight, the mean over all valid tokens of the batch.
        """
        raise NotImplementedError

    def optimizer(self) -> Any:
        """Makes AdamW after clipping, on a warm-up cosine schedule to a tenth."""
        config, peak = self.config, self.config.peak_lr
        rises, ends = config.warmup_steps, config.schedule_steps
        if rises >= ends:
            raise RunError(
                f"warmup_steps={rises} must be less than {ends}, the step where the "
                "learning rate's schedule ends: choose fewer, or a larger --num-steps."
            )
        rate = optax.warmup_cosine_decay_schedule(0, peak, rises, ends, peak / 10)
        adamw = optax.adamw(rate, weight_decay=config.weight_decay)
        return optax.chain(optax.clip_by_global_norm(config.max_norm), adamw)

    def flops_per_row(self, num_params: int) -> float:
        """Returns what a row costs: 6 a parameter and token, as in dense layers."""
        return 6 * num_params * self.tokens_per_row

    def show(self, run: Callable) -> str:
        """Returns what the trained model makes, as text.

        `run(f)` computes `f(params)` where the parameters are, and returns host arrays.
        """
        return ""


def make_task(config: Config) -> Task:
    """Imports the task; raises `RunError` where there is none."""
    file, _, name = TASKS.get(config.task, config.task).partition(":")
    path = (FOLDER if config.task in TASKS else Path.cwd()) / file
    if not (name and path.is_file()):
        raise RunError(
            f"There is no task {config.task!r}: use {', '.join(TASKS)}, or a class in a "
            "file of yours, as in --task my_task.py:MyTask."
        )
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    try:
        module = importlib.import_module(path.stem)
    except ModuleNotFoundError as error:
        text = f"--task {config.task} needs `pip install {error.name}`."
        raise RunError(text) from None
    if not hasattr(module, name):
        raise RunError(f"{path} has no class {name}.")
    return getattr(module, name)(config)


def check_config(config: Config) -> None:
    """Raises `RunError` for settings that do not fit together or the machine."""
    counts = ("num_steps", "batch_size", "num_microbatches", "steps_per_call")
    least = dict.fromkeys((*counts, "save_every", "keep", "hidden"), 1)
    least |= dict.fromkeys(("schedule_steps", "eval_every", "profile", "seed"), 0)
    least |= dict.fromkeys(("warmup_steps", "weight_decay"), 0)
    for name, at_least in least.items():
        if not at_least <= (value := getattr(config, name)) < math.inf:
            raise RunError(f"{name}={value} must be a number from {at_least} up.")
    for name in ("peak_lr", "max_norm"):
        if not 0 < (value := getattr(config, name)) < math.inf:
            raise RunError(f"{name}={value} must be a number above 0.")
    if config.compute_dtype not in (dtypes := ("float32", "bfloat16", "float16")):
        raise RunError(
            f"compute_dtype={config.compute_dtype}: use {', '.join(dtypes)}."
        )
    for name in ("save_every", "eval_every", "num_steps"):
        if getattr(config, name) % config.steps_per_call:
            raise RunError(
                f"{name}={getattr(config, name)} is no multiple of steps_per_call="
                f"{config.steps_per_call}."
            )
    if unknown := set(config.mesh) - {"data", "model"}:
        raise RunError(f"Unknown mesh axis {sorted(unknown)}: use data and model.")
    num_devices, num_processes = jax.device_count(), jax.process_count()
    sizes = mesh_sizes(config)
    needed = sizes[0] * sizes[1]
    mesh = f"A mesh of data={sizes[0]}, model={sizes[1]}"
    if min(sizes) < 1:
        raise RunError(f"{mesh} is empty: each axis takes at least one device.")
    if needed > num_devices:
        raise RunError(f"{mesh} needs {needed} devices; there are {num_devices}.")
    if num_processes > 1 and needed < num_devices:
        raise RunError(
            f"{mesh} takes {needed} of the {num_devices} devices of {num_processes} "
            f"processes: take all, as in --mesh data={num_devices}."
        )
    share = sizes[0] * config.num_microbatches
    if config.batch_size % share:
        raise RunError(
            f"A batch of {config.batch_size} does not divide by {sizes[0]} devices x "
            f"{config.num_microbatches} microbatches = {share}."
        )


def check_rows(config: Config, train: Any, held_out: Any) -> None:
    """Raises `RunError` for data that does not fit the settings."""
    for data in (train, held_out):
        lengths = {len(array) for array in jax.tree.leaves(data)}
        if len(lengths) != 1 or 0 in lengths:
            raise RunError(f"The task loads arrays of {sorted(lengths)} rows.")
    if config.batch_size > (num_rows := count_rows(train)):
        raise RunError(f"A batch of {config.batch_size} exceeds {num_rows} rows.")


def check_folder(folder: Path) -> None:
    """Makes the folder of a run; raises `RunError` where it cannot be written to."""
    try:
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        try:
            probe.write_bytes(bytes(2**20))
        finally:
            probe.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(f"Cannot write to {folder}: {reason}.") from None


def mesh_sizes(config: Config) -> tuple[int, int]:
    """Returns the devices along "data" and "model"; all along "data" where none is said."""
    whole = {} if config.mesh else {"data": jax.device_count()}
    sizes = {"data": 1, "model": 1} | whole | config.mesh
    return sizes["data"], sizes["model"]


def make_mesh(config: Config) -> Mesh:
    """Makes a mesh of the first devices."""
    sizes, types = mesh_sizes(config), (AxisType.Auto,) * 2
    used = jax.devices()[: math.prod(sizes)]
    return jax.make_mesh(sizes, ("data", "model"), axis_types=types, devices=used)


def count_rows(data: Any) -> int:
    return len(jax.tree.leaves(data)[0])


@functools.lru_cache(maxsize=4)
def epoch_order(seed: int, epoch: int, num_rows: int) -> Any:
    """Returns the rows in the order of an epoch: i64[num_rows]."""
    return np.random.default_rng((seed, epoch)).permutation(num_rows)


def rows_between(start: int, stop: int, num_rows: int, seed: int) -> Any:
    """Returns a piece of the endless stream of rows: i64[stop - start].

    The stream takes every row once per epoch, in another order each time; a batch may
    reach into the next epoch. It is a function of the place, so a resumed run needs no
    other state.
    """
    first, last = start // num_rows, (stop - 1) // num_rows
    orders = [epoch_order(seed, n, num_rows) for n in range(first, last + 1)]
    return np.concatenate(orders)[start - first * num_rows : stop - first * num_rows]


def place(data: Any, rows: Any, sharding: NamedSharding) -> Any:
    """Puts rows of `data` on the devices; each process reads those of its own only."""
    return jax.tree.map(
        lambda a: jax.make_array_from_callback(
            (*rows.shape, *a.shape[1:]), sharding, lambda i: a[rows[i[: rows.ndim]]]
        ),
        data,
    )


def batches(data: Any, config: Config, mesh: Mesh, start_step: int) -> Iterator[Any]:
    """Yields each call's batches, (K, M, B/M, ...), with the next on its way."""
    pieces = config.steps_per_call, config.num_microbatches
    sharding, num_rows = NamedSharding(mesh, P(None, None, "data")), count_rows(data)

    def batch(step):
        places = np.multiply((step, step + config.steps_per_call), config.batch_size)
        rows = rows_between(*places, num_rows, config.seed).reshape(*pieces, -1)
        return place(data, rows, sharding)

    placed = map(batch, range(start_step, config.num_steps, config.steps_per_call))
    for batch, _ in itertools.pairwise(itertools.chain(placed, [None])):
        yield batch


def name_of(path: tuple) -> str:
    """Returns a place in a tree as text: "layers/0/w"."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def first_state(task: Task, mesh: Mesh) -> tuple[Callable, Any]:
    """Returns the function that makes the first state, and the state's abstract arrays.

    These carry their shardings, so no device ever holds a full copy of a sharded array.

    Raises:
        RunError: `specs` names no parameter, or does not divide one.
    """
    optimizer = task.optimizer()

    def init():
        params = task.init(jax.random.key(task.config.seed))
        state = {"params": params, "opt_state": optimizer.init(params)}
        return state | {"mutable": task.mutable(), "step": jnp.int32(0)}

    shapes = jax.eval_shape(init)
    unused = set(task.specs)

    def spec_of(path, leaf):
        name = name_of(path)
        found = [text for text in task.specs if fnmatch.fnmatchcase(name, text)]
        unused.difference_update(found)
        spec = task.specs[found[0]] if found else P()
        for size, axis in zip(leaf.shape, spec, strict=False):
            if axis and size % mesh.shape[axis]:
                raise RunError(
                    f"{size} of {name} do not divide by {mesh.shape[axis]} devices "
                    f"along {axis}: choose another --hidden, or another mesh."
                )
        return spec

    params = jax.tree_util.tree_map_with_path(spec_of, shapes["params"])
    if unused:
        raise RunError(f"No parameter has the name {sorted(unused)}, which specs has.")
    opt_state = optax.tree_utils.tree_map_params(
        optimizer,
        lambda _, spec: spec,
        shapes["opt_state"],
        params,
        transform_non_params=lambda _: P(),
    )
    specs = {"params": params, "opt_state": opt_state, "step": P()}
    specs["mutable"] = jax.tree.map(lambda _: P(), shapes["mutable"])
    abstract = jax.tree.map(
        lambda leaf, spec: jax.ShapeDtypeStruct(
            leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, spec)
        ),
        shapes,
        specs,
    )
    shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
    return jax.jit(init, out_shardings=shardings), abstract


def parts_of(abstract: Any) -> Any:
    """Returns, for each parameter, what of its layout the map over "data" sees."""
    return jax.tree.map(
        lambda leaf: P(*(a if a == "data" else None for a in leaf.sharding.spec)),
        abstract["params"],
    )


def sums_of(found: tuple, counts: Any = None) -> dict[str, Any]:
    """Adds up what `loss` returned, over the rows that count: f32 () each."""
    losses, weights, metrics, *_ = found
    named = {"loss": losses, "weight": weights} | metrics
    if counts is not None:
        named = {name: jnp.where(counts, a, 0) for name, a in named.items()}
    return {name: jnp.sum(a, dtype=jnp.float32) for name, a in named.items()}


def make_train_step(task: Task, mesh: Mesh) -> Callable:
    """Compiles call(state, batches) -> (state, metrics) of `steps_per_call` steps.

    State is donated. Gradients cross the "data" axis once a step, after the loop over
    microbatches; what the "model" axis needs, the compiler puts in.
    """
    optimizer, (_, abstract) = task.optimizer(), first_state(task, mesh)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
    parts = parts_of(abstract)
    seed = np.array([1, task.config.seed], np.uint32)  # that of `init` begins with 0
    # Small leaves travel as one: devices meet once for all, not once for each. Along
    # "model", joining would gather what that axis splits. Where `loss` gathered parts,
    # the gradient's sum is made already.
    small = 4096 if mesh.shape["model"] == 1 else 0

    def kind_of(leaf, spec):
        return "done" if any(spec) else "small" if leaf.size <= small else "large"

    def summed(grads, rest):
        tree, specs = (grads, rest), (parts, jax.tree.map(lambda _: P(), rest))
        kinds = jax.tree.leaves(jax.tree.map(kind_of, tree, specs))
        leaves, structure = jax.tree.flatten(tree)
        found = {"done": [], "small": [], "large": []}
        for kind, leaf in zip(kinds, leaves, strict=True):
            found[kind].append(leaf)
        joined, split = ravel_pytree(found["small"])
        joined, found["large"] = jax.lax.psum((joined, found["large"]), "data")
        found["small"] = split(joined)
        sums = {kind: iter(leaves) for kind, leaves in found.items()}
        return structure.unflatten(next(sums[kind]) for kind in kinds)

    # Without the check, gradients of replicated parameters are each device's own.
    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(parts, P(), P(), P(None, "data")),
        out_specs=(parts, P(), P()),
        axis_names={"data"},
        check_vma=False,
    )
    def grads_of(params, mutable, number, batch):  # batch: [M, B/M/D, ...] on a device
        key = jax.random.fold_in(jax.random.wrap_key_data(seed), number)
        first = jax.lax.axis_index("data") * task.config.num_microbatches

        def add(carry, piece):
            (total, mutable), (n, rows) = carry, piece

            def loss(params):
                own = jax.random.fold_in(key, first + n)
                found = task.loss(params, rows, own, number, *mutable)
                return found[0].sum(), (sums_of(found), tuple(found[3:]))

            grads, (sums, mutable) = jax.grad(loss, has_aux=True)(params)
            return (jax.tree.map(jnp.add, total, grads), mutable), sums

        zeros = jax.tree.map(jnp.zeros_like, params)
        numbers = jnp.arange(task.config.num_microbatches)
        (grads, mutable), sums = jax.lax.scan(add, (zeros, mutable), (numbers, batch))
        sums = jax.tree.map(lambda a: a.sum(0), sums)
        mutable = jax.tree.map(lambda a: a / mesh.shape["data"], mutable)
        grads, (mutable, sums) = summed(grads, (mutable, sums))
        return grads, mutable, sums

    def step(state, batch):
        params, opt_state, number = state["params"], state["opt_state"], state["step"]
        grads, mutable, sums = grads_of(params, state["mutable"], number, batch)
        # Where nothing counts, gradients are 0, not nan.
        weight = jnp.maximum(sums.pop("weight"), 1e-20)
        grads, metrics = jax.tree.map(lambda a: a / weight, (grads, sums))
        updates, opt_state = optimizer.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        state = {"params": params, "opt_state": opt_state}
        state |= {"mutable": mutable, "step": number + 1}
        return state, metrics | {"grad_norm": optax.tree.norm(grads)}

    def call(state, batches):
        return jax.lax.scan(step, state, batches)

    return jax.jit(call, donate_argnums=0, out_shardings=(shardings, None))


def make_evaluate(task: Task, mesh: Mesh, held_out: Any, abstract: Any) -> Callable:
    """Makes evaluate(state) -> {"loss": ..., ...}: means over all held-out rows.

    Parameters stay sharded as they are. The last batch is filled up with rows that do
    not count.
    """

    @jax.jit
    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(parts_of(abstract), P(), P(), P("data"), P("data")),
        out_specs=P(),
        axis_names={"data"},
        check_vma=False,
    )
    def sums(params, mutable, number, batch, counts):
        found = task.loss(params, batch, None, number, *mutable)
        return jax.lax.psum(sums_of(found, counts), "data")

    num_rows, sharding = count_rows(held_out), NamedSharding(mesh, P("data"))
    size = task.config.batch_size // task.config.num_microbatches

    def evaluate(state):
        totals = collections.Counter()
        for start in range(0, num_rows, size):
            rows = np.arange(start, start + size)
            batch = place(held_out, np.minimum(rows, num_rows - 1), sharding)
            counts = place(rows < num_rows, np.arange(size), sharding)
            tree = state["params"], state["mutable"], state["step"]
            found = sums(*tree, batch, counts)
            totals.update({name: float(np.asarray(a)) for name, a in found.items()})
        weight, loss = totals.pop("weight"), totals.pop("loss")
        return {n: total / weight for n, total in {"loss": loss, **totals}.items()}

    return evaluate


def short(error: Exception) -> str:
    """Returns an error's kind and text on one line, without its middle if it is long."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) < 300 else f"{text[:200]} ... {text[-90:]}"


class Checkpoints:
    """Saves and restores states, asynchronously; the last few and the best are kept."""

    def __init__(self, config: Config):
        import orbax.checkpoint as ocp
        from orbax.checkpoint.checkpoint_managers import preservation_policy as policy

        logging.getLogger("absl").setLevel(logging.CRITICAL)  # errors are raised, too

        def loss(metrics):  # nan is never the best
            return metrics["loss"] if math.isfinite(metrics["loss"]) else math.inf

        latest = policy.LatestN(config.keep)
        best = policy.BestN(get_metric_fn=loss, reverse=True, n=1)
        best.keep_checkpoints_without_metrics = False
        options = ocp.CheckpointManagerOptions(
            preservation_policy=policy.AnyPreservationPolicy([latest, best]),
            best_fn=loss,
            best_mode="min",
            create=False,
        )
        # Replicas share the writing of large arrays only: of small ones it costs more.
        arrays = ocp.type_handlers.ArrayHandler(
            min_slice_bytes_for_replica_parallel=2**20, enable_write_sharding_file=False
        )
        registry = ocp.type_handlers.create_type_handler_registry((jax.Array, arrays))

        state = ocp.PyTreeCheckpointHandler(type_handler_registry=registry)
        handlers = {"state": state, "facts": ocp.JsonCheckpointHandler()}

        def manager(folder):
            folder, more = Path(folder).absolute(), {"item_handlers": handlers}
            found = ocp.CheckpointManager(folder, options=options, **more)
            # It would count steps where `fit` counts calls, and so delay the end of a run
            # after SIGTERM by as many calls as steps were taken.
            found.reached_preemption = lambda step: False
            return found

        self.ocp = ocp
        self.manager = self.source = manager(Path(config.directory) / "checkpoints")
        self.step = self.manager.latest_step() or 0
        if config.start_from and not self.step:
            path = Path(config.start_from)
            self.source = manager(path.parent)
            if path.name not in map(str, self.source.all_steps()):
                raise RunError(
                    f"start_from={path} is no checkpoint: {path.parent} holds "
                    f"{sorted(self.source.all_steps())}."
                )
            self.step = int(path.name)

    def save_state(
        self, step: int, state: Any, facts: dict, evaluation: dict | None
    ) -> None:
        """Starts to save; the state may be donated right after.

        Raises:
            RunError: this one, or the one before, cannot be written.
        """
        args = self.ocp.args
        items = args.Composite(state=args.PyTreeSave(state), facts=args.JsonSave(facts))
        with self.writing():
            self.manager.save(step, args=items, metrics=evaluation)

    def wait(self) -> None:
        """Waits until all is written; raises as `save_state`."""
        with self.writing():
            self.manager.wait_until_finished()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            folder = Path(self.manager.directory)
            whole = sorted(int(path.name) for path in folder.glob("*[0-9]"))
            raise RunError(
                f"A checkpoint cannot be written to {folder}: {short(error)}\n"
                f"Complete ones: {whole or 'none'}. Make room, then run the same line "
                "again to continue from the last of them."
            ) from error

    def facts(self) -> dict[str, Any]:
        """Reads the settings of the run that the checkpoint belongs to; {} without one."""
        return self.read("facts", self.ocp.args.JsonRestore()) if self.step else {}

    def restore_state(self, abstract: Any) -> Any:
        """Reads the state, sharded as the abstract arrays say."""
        of_arrays = self.ocp.checkpoint_utils.construct_restore_args(abstract)
        args = self.ocp.args.PyTreeRestore(abstract, restore_args=of_arrays)
        return self.read("state", args)

    def read(self, item: str, args: Any) -> Any:
        """Reads an item of the checkpoint that the run continues from.

        Raises:
            RunError: it cannot be read. The text names it, those before it, up to the
                first that can be read, and each one's error. Nothing is changed.
        """

        folder, texts = self.source.directory, []
        steps = [step for step in self.source.all_steps() if step <= self.step]
        for step in sorted(steps, reverse=True):
            try:
                wanted = self.ocp.args.Composite(**{item: args})
                found = self.source.restore(step, args=wanted)[item]
            except Exception as error:
                text = f"Checkpoint {step} in {folder} cannot be read: {short(error)}"
                texts.append(text)
            else:
                if step == self.step:
                    return found
                texts.append(
                    f"Checkpoint {step} can be read: to continue from it, add "
                    f"--start-from {folder}/{step} and choose another --directory."
                )
                break
            if jax.process_count() > 1:  # the others may have read it and gone on
                break
        texts.append(
            "Nothing was changed. If the reason can be removed (memory, another version, "
            "a changed model), run the same line again; to begin anew, choose another "
            "--directory."
        )
        raise RunError("\n".join(texts))


def settings_of(config: Config) -> dict[str, Any]:
    """Returns what a resumed run must share with the one before."""
    settings = dataclasses.asdict(config) | {"task": Path(config.task).name}
    return {name: value for name, value in settings.items() if name not in Config.FREE}


def compare(step: int, there: dict[str, Any], here: dict[str, Any]) -> None:
    """Raises `RunError` where a checkpoint's facts are not this run's."""
    texts = [
        f"{name}={there.get(name, '(not said)')} there, {value} here"
        for name, value in here.items()
        if there.get(name, ...) != value  # ...: never in JSON, as None is
    ]
    if there and texts:
        raise RunError(
            f"Checkpoint {step} is another run's: {'; '.join(texts[:4])}. Use the same "
            "settings, or another --directory."
        )


class Log:
    """Writes JSON lines: metrics of each step, evaluations, and the speed of each call.

    Metrics and evaluations are, to the byte, those of a run that nothing interrupted.
    """

    def __init__(
        self, config: Config, step: int, log: str | Callable, per_second: dict
    ):
        self.folder, self.per_second = Path(config.directory), per_second
        self.log = log if callable(log) else make_logger(log, config)
        self.since: float | None = None
        for name in ("metrics", "evaluations", "speed"):
            self.cut(name, step)
        part = self.folder / "settings.part"
        part.write_text(json.dumps(dataclasses.asdict(config), indent=1))
        part.replace(self.folder / "settings.json")

    def cut(self, name: str, step: int) -> None:
        """Moves lines of later steps, which will be taken again, into a file beside."""
        path = self.folder / f"{name}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []

        def stays(line):
            with contextlib.suppress(ValueError):  # the last line may be half-written
                return json.loads(line)["step"] <= step
            return False

        kept = [*itertools.takewhile(stays, lines)]
        if later := lines[len(kept) :]:
            with (self.folder / f"{name}.cut.jsonl").open("a") as file:
                file.writelines(f"{line}\n" for line in later)
            part = path.with_suffix(".part")
            part.write_text("".join(f"{line}\n" for line in kept))
            part.replace(path)
            text = (
                f"Moved the lines of later steps from {path.name} to {name}.cut.jsonl."
            )
            print(text, flush=True)

    def write(self, first_step: int, values: dict[str, list]) -> None:
        """Adds a line for each step of a call; values: a list of one per step, each."""
        rows = [
            dict(zip(values, row, strict=True))
            for row in zip(*values.values(), strict=True)
        ]
        last, now, speed = first_step + len(rows), time.perf_counter(), {}
        if self.since is not None:  # else it would count the compilation
            seconds = (now - self.since) / len(rows)
            speed = {name: amount / seconds for name, amount in self.per_second.items()}
            speed = {"step_seconds": seconds} | speed
            self.add("speed", [{"step": last, **speed}])
        self.since = now
        numbered = [*enumerate(rows, first_step + 1)]
        self.add("metrics", [{"step": step, **row} for step, row in numbered])
        for step, row in numbered:
            self.log(row | speed if step == last else row, step)

    def evaluation(self, step: int, found: dict[str, float]) -> None:
        """Adds the line of an evaluation."""
        self.add("evaluations", [{"step": step, **found}])
        self.log({f"held_out_{name}": value for name, value in found.items()}, step)

    def add(self, name: str, lines: list[dict]) -> None:
        path = self.folder / f"{name}.jsonl"
        try:
            with path.open("a") as file:
                file.writelines(f"{json.dumps(line)}\n" for line in lines)
        except OSError as error:
            raise RunError(
                f"Cannot write to {path}: {error.strerror}. Make room, then run the same "
                "line again to continue from the last checkpoint."
            ) from None


def make_logger(kind: str, config: Config) -> Callable:
    """Returns log(values, step) for "json" (nothing more), "tensorboard" or "wandb".

    Raises:
        RunError: the library is not installed.
    """
    try:
        if kind == "tensorboard":
            from tensorboardX import SummaryWriter

            writer = SummaryWriter(str(Path(config.directory) / "tensorboard"))
            return lambda values, step: [
                writer.add_scalar(name, value, step) for name, value in values.items()
            ]
        if kind == "wandb":
            import wandb

            run = wandb.init(mode="offline", dir=config.directory, project=config.task)
            return lambda values, step: run.log(values, step=step)
    except ModuleNotFoundError as error:
        raise RunError(f"--log {kind} needs `pip install {error.name}`.") from None
    return lambda values, step: None


@contextlib.contextmanager
def asked_to_end(act: Callable[[int], Any], numbers: tuple = SIGNALS) -> Iterator[None]:
    """Calls `act` at SIGTERM and at a first Ctrl-C; a second one ends all at once."""

    def handle(number, _):
        act(number)
        if number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)
            text = "\nStopping after this step. Ctrl-C again ends at once, unsaved.\n"
            with contextlib.suppress(OSError):
                os.write(2, text.encode())  # print is not safe in a handler

    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def machine() -> str:
    """Returns what the run has: "8 simulated CPU devices", "8 x NVIDIA H200"."""
    count, device = jax.device_count(), jax.devices()[0]
    text = f"{count} x {device.device_kind}"
    if device.platform == "cpu":
        text = f"{count} simulated CPU devices" if count > 1 else "one CPU device"
    several = f", {jax.process_count()} processes" if jax.process_count() > 1 else ""
    return text + several


def amounts(task: Task, mesh: Mesh, abstract: Any) -> dict[str, float]:
    """Returns what a step does, by the name of what that is in a second."""
    rows = task.config.batch_size
    found = {"rows_per_second": rows}
    if task.tokens_per_row > 1:
        found["tokens_per_second"] = rows * task.tokens_per_row
    if peak := PEAK_FLOPS.get(mesh.devices.flat[0].device_kind):
        num_params = sum(leaf.size for leaf in jax.tree.leaves(abstract["params"]))
        found["mfu"] = rows * task.flops_per_row(num_params) / (peak * mesh.size)
    return found


def fit(
    config: Config, log: str | Callable = "json", progress: bool = True
) -> dict[str, Any]:
    """Trains to `num_steps`, from the newest checkpoint if there is one.

    Args:
        config: the settings.
        log: "json", "tensorboard", "wandb", or a function that is called with values and
            their step, once they are in the run's own files.
        progress: whether a bar shows how far it is.

    Returns:
        {"step", "stopped", "losses", "evaluation", "best", "params", "shown"}: whether
        a signal ended it before the last step, the losses of the steps taken now, means
        over the held-out rows, the step of the best checkpoint, params, sharded, and
        what the model makes, as text.

    Raises:
        RunError: settings or checkpoints that do not fit, before any step; later, a
            file that cannot be written.
    """
    from jax.experimental.multihost_utils import reached_preemption_sync_point
    from tqdm import tqdm

    is_first = jax.process_index() == 0
    say = functools.partial(print, flush=True) if is_first else lambda text: None
    say(f"Training {config.task} on {machine()}.")
    checkpoints = Checkpoints(config)
    facts = checkpoints.facts()
    if not config.schedule_steps:
        horizon = facts.get("schedule_steps", config.num_steps)
        config = dataclasses.replace(config, schedule_steps=horizon)
    check_config(config)
    task, mesh = make_task(config), make_mesh(config)
    train, held_out = task.load()
    check_rows(config, train, held_out)
    init, abstract = first_state(task, mesh)
    settings = settings_of(config) | {"num_rows": count_rows(train)}
    settings |= {
        f"params/{name_of(path)}": list(leaf.shape)
        for path, leaf in jax.tree_util.tree_leaves_with_path(abstract["params"])
    }
    compare(checkpoints.step, facts, settings)
    check_folder(Path(config.directory))
    step = start = checkpoints.step
    if start:
        newer = [n for n in sorted(checkpoints.source.all_steps()) if n > start]
        left = f" Newer ones stay: {newer}." if newer else ""
        say(
            f"Continuing from checkpoint {start} in {checkpoints.source.directory}.{left}"
        )
    if config.num_steps > config.schedule_steps:
        say(
            f"From step {config.schedule_steps} on, the learning rate is constant: its "
            "schedule ends there."
        )
    state = checkpoints.restore_state(abstract) if start else init()
    train_step = make_train_step(task, mesh)
    evaluate = make_evaluate(task, mesh, held_out, abstract)
    per_second = amounts(task, mesh, abstract)
    metrics = Log(config, start, log, per_second) if is_first else None
    losses, evaluation, stopped, running = [], None, False, collections.deque()
    silent = not (progress and is_first)
    bar = tqdm(total=config.num_steps, initial=step, disable=silent)

    def ask(number):
        nonlocal is_asked
        is_asked = True
        bar.disable |= number == signal.SIGINT  # `| tee`, which read it, may have ended

    # Of several processes, JAX's own handler tells all, and at which step.
    is_asked, numbers = False, SIGNALS if jax.process_count() == 1 else ()
    with bar, asked_to_end(ask, numbers), contextlib.ExitStack() as trace:
        for batch in batches(train, config, mesh, start):
            if config.profile and is_first and step == start + config.steps_per_call:
                folder = str(Path(config.directory) / "profile")
                trace.enter_context(jax.profiler.trace(folder))
            with jax.profiler.StepTraceAnnotation("train", step_num=step):
                state, found = train_step(state, batch)
            running.append((step, found))
            step += config.steps_per_call
            is_last = step == config.num_steps
            if not numbers:  # they agree on a call that none has begun
                is_asked = reached_preemption_sync_point(step // config.steps_per_call)
            stopped = is_asked and not is_last
            evaluates = is_last or (config.eval_every and step % config.eval_every == 0)
            evaluates = evaluates and not stopped  # then there is little time left
            saves = evaluates or stopped or step % config.save_every == 0
            # One call runs while the last is read; before a save, the log holds all.
            while len(running) > (0 if saves else 1):
                first, found = running.popleft()
                values = {name: np.asarray(a).tolist() for name, a in found.items()}
                if metrics:
                    metrics.write(first, values)
                losses += values["loss"]
                bar.set_postfix(loss=f"{losses[-1]:.4f}", refresh=False)
                bar.update(config.steps_per_call)
            evaluation = evaluate(state) if evaluates else None
            if evaluates and metrics:
                metrics.evaluation(step, evaluation)
            if saves:
                checkpoints.save_state(step, state, settings, evaluation)
            if saves and metrics:
                metrics.since = time.perf_counter()
            if step >= start + config.steps_per_call + config.profile:
                trace.close()
            if stopped:
                break
    checkpoints.wait()
    found = {"step": step, "stopped": stopped, "losses": losses}
    found |= {"params": state["params"], "best": checkpoints.manager.best_step()}
    if stopped:
        return found | {"evaluation": None, "shown": ""}

    def run(f):
        made = jax.jit(f, out_shardings=NamedSharding(mesh, P()))(state["params"])
        return jax.tree.map(lambda a: np.asarray(a.addressable_data(0)), made)

    evaluation = evaluation or evaluate(state)
    return found | {"evaluation": evaluation, "shown": task.show(run)}


def launch(arguments: list[str], num_processes: int) -> int:
    """Runs the script as several processes here; ends all when one fails.

    SIGTERM and Ctrl-C are passed on to them as SIGTERM; after `GRACE_S` they are killed.
    """
    with socket.create_server(("localhost", 0)) as probe:
        port = probe.getsockname()[1]
    command = [sys.executable, __file__, *arguments, "--process"]
    children: list[subprocess.Popen] = []
    asked: list[float] = []

    def ask(_):
        asked.append(time.monotonic())
        for child in children:
            child.terminate()

    with asked_to_end(ask), contextlib.ExitStack() as ended:
        # A terminal sends Ctrl-C to the children, too: they begin with it ignored.
        handle = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in range(num_processes):
            one = [*command, f"{number}/{num_processes}/{port}"]
            children.append(child := subprocess.Popen(one))
            ended.callback(child.wait)
            ended.callback(child.kill)
        signal.signal(signal.SIGINT, handle)
        while any(child.poll() is None for child in children):
            codes = [child.poll() for child in children]
            fine = (None, 0, STOPPED)
            failed = {n: code for n, code in enumerate(codes) if code not in fine}
            if asked and (failed or time.monotonic() > asked[0] + GRACE_S):
                text = f"Ended before a step could be saved; codes: {codes}."
                print(text, file=sys.stderr)
                return STOPPED
            if failed:
                ends = (f"process {n} with code {code}" for n, code in failed.items())
                print(
                    f"Of {num_processes} processes ended {', '.join(ends)}: ending the "
                    "others. Run the same line again to resume from the last "
                    "checkpoint.",
                    file=sys.stderr,
                )
                return 1
            time.sleep(0.1)
    codes = [child.returncode for child in children]
    return STOPPED if asked or STOPPED in codes else int(any(codes))


def read_mesh(text: str) -> dict[str, int]:
    """Returns {"data": 4, "model": 2} of "data=4,model=2"."""
    try:
        return {k: int(v) for k, v in (part.split("=") for part in text.split(","))}
    except ValueError:
        why = f"{text!r} is not written as data=4,model=2"
        raise argparse.ArgumentTypeError(why) from None


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--directory", required=True, help="where the run's files are")
    text = "such as data=4,model=2; default: all devices as data"
    parser.add_argument("--mesh", type=read_mesh, default={}, help=text)
    parser.add_argument(
        "--log", default="json", choices=("json", "tensorboard", "wandb")
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    several = parser.add_mutually_exclusive_group()
    text = "start so many here, on simulated devices"
    several.add_argument("--processes", type=int, help=text)
    several.add_argument("--cluster", action="store_true", help="one of a cluster's")
    parser.add_argument("--process", help=argparse.SUPPRESS)
    for field in dataclasses.fields(Config):
        if field.metadata:
            kind, name = type(field.default), f"--{field.name.replace('_', '-')}"
            text = field.metadata["help"] + (
                "; default: %(default)s" * (field.default != "")
            )
            names = ("--task", "--model") if name == "--task" else (name,)
            parser.add_argument(*names, type=kind, default=field.default, help=text)
    return parser.parse_args(arguments)


def main() -> int:
    """Runs the command line; returns the exit code."""
    options = parse()
    try:
        if options.processes and not options.process:
            return launch(sys.argv[1:], options.processes)
        code = train(options)
    except RunError as error:
        print(error, file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("Ended at once. Run the same line again to continue.", file=sys.stderr)
        code = 128 + signal.SIGINT
    except Exception:
        traceback.print_exc()
        code = 1
    if code and (options.process or options.cluster):
        sys.stderr.flush()
        os._exit(code)  # an orderly end would wait for the other processes
    return code


def train(options: argparse.Namespace) -> int:
    """Trains as the one process, or as one of several; returns the exit code."""
    number, count, port = (options.process or "0/1/").split("/")
    if options.cluster:
        jax.distributed.initialize()
    else:  # simulated devices, for where there are no others
        flag = f"--xla_force_host_platform_device_count={NUM_DEVICES // int(count)}"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}"
        os.environ["NPROC"] = os.environ["PJRT_NPROC"] = "32"
    if options.process:
        jax.config.update("jax_platforms", "cpu")  # two cannot share a GPU's memory
        jax.distributed.initialize(f"localhost:{port}", int(count), int(number))
    names = [field.name for field in dataclasses.fields(Config)]
    config = Config(**{name: getattr(options, name) for name in names})
    result = fit(config, options.log, not options.quiet)
    if jax.process_index():
        return STOPPED * result["stopped"]
    if result["stopped"]:
        text = "is saved. Run the same line again to continue."
        print(f"Stopped: step {result['step']} {text}")
        return STOPPED
    loss = f"loss {result['losses'][-1]:.4f}" if result["losses"] else "was done"
    means = (f"held-out {n} {value:.4f}" for n, value in result["evaluation"].items())
    print(f"step {result['step']}: {', '.join((loss, *means))}")
    if result["best"]:
        print(f"best held-out loss: {options.directory}/checkpoints/{result['best']}")
    print(result["shown"], end="\n" if result["shown"] else "")
    return 0


if __name__ == "__main__":
    sys.modules["full_pipeline"] = sys.modules[__name__]  # tasks import it
    sys.exit(main())
