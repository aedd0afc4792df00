"""What a run computes: its settings, task, data, mesh and step, for `full_pipeline.py`.

Nothing here touches a file of a run, or begins one. `prepare` checks all and returns the
step with the shapes and shardings of what it takes: a plan needs no more. The file stands
apart so that one can read, and change, the step without the rest.

Source: JAX, "Introduction to multi-controller JAX", "Writing custom Jaxpr interpreters".
"""

from __future__ import annotations

import collections
import dataclasses
import fnmatch
import functools
import hashlib
import importlib
import inspect
import itertools
import json
import math
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental import mesh_utils
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun
from jax.flatten_util import ravel_pytree
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

FOLDER = Path(__file__).absolute().parent  # of the tasks in TASKS
RESERVED = {"loss", "weight", "step", "grad_norm", "learning_rate"}  # in the log
TASKS = {
    "digits": "pipeline_tasks.py:Digits",
    "regression": "pipeline_tasks.py:Regression",
    "transformer": "pipeline_transformer.py:Transformer",
    "flax-transformer": "pipeline_flax.py:FlaxTransformer",
    "text": "pipeline_text.py:Text",
}
# Dense bfloat16 FLOP/s of a chip, by JAX's name for it: NVIDIA's data sheet of the A100,
# and the chips of coursekit/plan/chips.py, which this program does not need.
PEAK_FLOPS = {
    "NVIDIA A100-SXM4-40GB": 312e12,
    "NVIDIA A100-SXM4-80GB": 312e12,
    "NVIDIA H100 80GB HBM3": 989e12,
    "NVIDIA H200": 989e12,
    "NVIDIA B200": 2250e12,
    "AMD Instinct MI300X": 1307.4e12,
    "TPU v4": 275e12,
    "TPU v5 lite": 197e12,
    "TPU v5": 459e12,
    "TPU v6 lite": 918e12,
    "TPU7x": 2307e12,
}


class RunError(Exception):
    """The run cannot start or go on; the text names the value and the remedy."""


def name_of(path: tuple) -> str:
    """Returns a place in a tree as text: "layers/0/w"."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def named(tree: Any) -> dict[str, Any]:
    """Returns a tree's leaves by their names."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {name_of(path): leaf for path, leaf in leaves}


def shapes_of(tree: Any) -> Any:
    """Returns shapes and dtypes, without shardings."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), tree)


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
    eval_batches: int = setting(0, "batches in an evaluation; 0: all held-out rows")
    keep: int = setting(3, "how many checkpoints stay, besides the best")
    start_from: str = setting(
        "",
        "a checkpoint to begin with, /old/run/checkpoints/150: to continue with the same "
        "settings, else to take only its parameters",
    )
    begin_anew: str = setting(
        "", "parameters that start_from's checkpoint need not have: head/*,out/w"
    )
    on_nan: str = setting(
        "stop", "at a loss that is not finite: stop, or skip the step"
    )
    hang_after: int = setting(
        120, "seconds until it is said which process hangs; 0: off"
    )
    profile: int = setting(0, "steps to trace, for XProf or TensorBoard")
    peak_lr: float = setting(3e-3, "the highest learning rate")
    hidden: int = setting(256, "width of the model's layers")
    warmup_steps: int = setting(20, "steps in which the learning rate rises")
    weight_decay: float = setting(1e-4, "of AdamW")
    max_norm: float = setting(1.0, "gradients are scaled down to this global norm")
    compute_dtype: str = setting("bfloat16", "of activations; what is kept is float32")
    ema: float = setting(0.0, "decay of an average of parameters to evaluate; 0: none")
    seed: int = setting(0, "of data order, initial parameters and dropout")
    set: str = setting("", "settings of the task's own class: num_layers=6,dropout=0.2")

    FREE: ClassVar = ("directory", "mesh", "data", "num_steps", "save_every", "keep")
    FREE += ("eval_every", "eval_batches", "start_from", "begin_anew", "profile")
    FREE += ("on_nan", "hang_after")


@dataclasses.dataclass(frozen=True)
class Task:
    """What is trained. `pipeline_template.py` shows how to write your own.

    `params`, a batch and `mutable` are trees: any nesting of dicts, lists and tuples.
    """

    config: Config
    # The names of each parameter's axes, {"layers/*/w1": ("width", "units")}, and the
    # mesh axes of these: (("width", "data"), ("units", "model")); the first rule counts.
    axes: ClassVar[dict[str, tuple]] = {}
    rules: ClassVar[tuple] = ()
    tokens_per_row: ClassVar[int] = 1

    @property
    def specs(self) -> dict[str, P]:
        """How parameters are sharded: {"layers/*/w1": P("data", "model")}, by their path.

        Others are replicated. "data" is FSDP, "model" tensor parallelism. `loss` is
        written as for one device all the same.
        """
        rules = dict(reversed(self.rules))
        return {name: P(*map(rules.get, axes)) for name, axes in self.axes.items()}

    def load(self) -> tuple[Any, Any]:
        """Returns rows to train on and held-out ones, or None for the latter.

        Rows are a tree of arrays. The first axis of each counts the rows. A
        `numpy.memmap` will do: each process reads only the rows of its own devices.

        To train on a stream, return in place of rows an iterator of batches with
        `get_state` and `set_state`, or what `iter` makes one of, such as a Grain
        `DataLoader`. Each batch has `batch_size` rows over the number of processes.
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
            batch: some rows of `load`'s trees.
            key: for dropout, another one for other rows and steps; None in an
                evaluation.
            step: steps taken so far, i32 ().
            mutable: as `mutable` makes it, if it does.

        losses, weights and each of `metrics` are f32[rows]. What is minimised is the sum
        of losses over the sum of weights: with a row's loss summed over its valid tokens
        and their number as its weight, the mean over all valid tokens of the batch.
        """
        raise NotImplementedError

    def learning_rate(self, step: Any) -> Any:
        """Rises for `warmup_steps`, then falls along a cosine to a tenth of its peak."""
        config, peak = self.config, self.config.peak_lr
        rises, ends = config.warmup_steps, config.schedule_steps
        if rises >= ends:
            raise RunError(
                f"warmup_steps={rises} must be less than {ends}, the step where the "
                "learning rate's schedule ends: choose fewer, or a larger --num-steps."
            )
        schedule = optax.warmup_cosine_decay_schedule(0, peak, rises, ends, peak / 10)
        return schedule(step)

    def optimizer(self) -> Any:
        """Makes AdamW after clipping, at `learning_rate`; any of Optax will do."""
        config = self.config
        adamw = optax.adamw(self.learning_rate, weight_decay=config.weight_decay)
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
    kind = getattr(module, name)
    return type(name, (kind,), own_settings(kind, config.set))(config)


def own_settings(kind: type, text: str) -> dict[str, Any]:
    """Reads "num_layers=6,dropout=0.2": values for a task's own class attributes."""
    plain = inspect.getmembers(kind, lambda value: isinstance(value, int | float | str))
    known = {name: value for name, value in plain if not name.startswith("_")}
    found = {}
    for part in filter(None, text.split(",")):
        name, _, value = part.partition("=")
        if name not in known:
            raise RunError(
                f"--set {part}: {kind.__name__} has no setting {name!r}; it has "
                f"{', '.join(known) or 'none'}."
            )
        wanted = type(known[name])
        try:
            found[name] = value == "True" if wanted is bool else wanted(value)
        except ValueError:
            raise RunError(f"--set {part}: {name} is a {wanted.__name__}.") from None
    return found


def check_config(config: Config, devices: list | None = None) -> None:
    """Raises `RunError` for settings that do not fit together or the machine."""
    counts = ("num_steps", "batch_size", "num_microbatches", "steps_per_call")
    least = dict.fromkeys((*counts, "save_every", "keep", "hidden"), 1)
    least |= dict.fromkeys(("schedule_steps", "eval_every", "profile", "seed"), 0)
    least |= dict.fromkeys(("warmup_steps", "weight_decay", "eval_batches"), 0)
    least |= dict.fromkeys(("ema", "hang_after"), 0)
    for name, at_least in least.items():
        if not at_least <= (value := getattr(config, name)) < math.inf:
            raise RunError(f"{name}={value} must be a number from {at_least} up.")
    for name in ("peak_lr", "max_norm"):
        if not 0 < (value := getattr(config, name)) < math.inf:
            raise RunError(f"{name}={value} must be a number above 0.")
    if config.compute_dtype not in (dtypes := ("float32", "bfloat16")):
        raise RunError(
            f"compute_dtype={config.compute_dtype}: use {' or '.join(dtypes)}. (float16 "
            "would need its losses scaled, which this program does not do.)"
        )
    if config.on_nan not in ("stop", "skip"):
        raise RunError(f"on_nan={config.on_nan}: use stop or skip.")
    if config.ema >= 1:
        raise RunError(f"ema={config.ema} must be less than 1, such as 0.999.")
    for name in ("save_every", "eval_every", "num_steps"):
        if getattr(config, name) % config.steps_per_call:
            raise RunError(
                f"{name}={getattr(config, name)} is no multiple of steps_per_call="
                f"{config.steps_per_call}."
            )
    if unknown := set(config.mesh) - {"data", "model"}:
        raise RunError(f"Unknown mesh axis {sorted(unknown)}: use data and model.")
    num_devices = len(devices or jax.devices())
    num_processes = 1 if devices else jax.process_count()
    sizes = mesh_sizes(config, num_devices)
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
    for data, may_be in ((train, is_stream(train)), (held_out, held_out is None)):
        if may_be:
            continue
        is_tree = data is not None and not hasattr(data, "__next__")
        leaves = named(data) if is_tree else {"": data}
        for name, leaf in leaves.items():
            kind = getattr(getattr(leaf, "dtype", None), "kind", "O")
            if kind in "OSU" or not getattr(leaf, "ndim", 0):
                raise RunError(
                    f"load returns {type(leaf).__name__!r} as rows"
                    f"{f' of {name!r}' if name else ''}: return trees of numeric arrays "
                    "whose first axis counts the rows, or an iterator of batches that "
                    "has get_state and set_state."
                )
        if isinstance(data, list) and not hasattr(data[0], "dtype"):
            raise RunError(
                f"load returns a list of {len(data)} trees, which look like batches: join "
                "them into one tree of arrays, or return an iterator of batches that has "
                "get_state and set_state."
            )
        lengths = {len(array) for array in jax.tree.leaves(data)}
        if len(lengths) != 1 or 0 in lengths:
            raise RunError(f"The task loads arrays of {sorted(lengths)} rows.")
    if not is_stream(train) and config.batch_size > (num_rows := count_rows(train)):
        raise RunError(f"A batch of {config.batch_size} exceeds {num_rows} rows.")


def load(task: Task) -> tuple[Any, Any]:
    """Loads a task's data; what makes an iterator with a state becomes that."""
    found = task.load()
    if not (isinstance(found, tuple) and len(found) == 2):
        raise RunError(
            f"load returns a {type(found).__name__}: return a pair, the rows to train on "
            "and held-out ones (or None)."
        )
    train, held_out = found
    is_tree = isinstance(train, dict | list | tuple) or hasattr(train, "dtype")
    if not is_tree and hasattr(train, "__iter__"):
        train = iter(train)
    return train, held_out


def is_stream(data: Any) -> bool:
    return all(hasattr(data, name) for name in ("__next__", "get_state", "set_state"))


def first_rows(data: Any) -> Any:
    """Returns rows, of a stream those of its first batch, whose state stays as it is."""
    if not is_stream(data):
        return data
    before = data.get_state()
    try:
        return jax.tree.map(np.asarray, next(data))
    except StopIteration:
        raise RunError("The task's stream has no batch.") from None
    finally:
        data.set_state(before)


def batch_shapes(rows: Any, pieces: tuple, sharding: Any = None) -> Any:
    """Returns the shapes of a batch: `pieces` in place of the number of rows."""

    def like(row):
        dtype = jax.dtypes.canonicalize_dtype(row.dtype)
        return jax.ShapeDtypeStruct((*pieces, *row.shape[1:]), dtype, sharding=sharding)

    return jax.tree.map(like, rows)


def data_fingerprint(data: Any) -> int:
    """Returns a number for shapes, dtypes and 256 rows, evenly spaced."""
    found = 0
    for leaf in jax.tree.leaves(data):
        rows = np.unique(np.linspace(0, len(leaf) - 1, 256).astype(int))
        found = zlib.crc32(f"{leaf.dtype}{leaf.shape}".encode(), found)
        found = zlib.crc32(np.ascontiguousarray(leaf[rows]).tobytes(), found)
    return found


def check_loss(task: Task, params: Any, rows: Any) -> str:
    """Traces `loss` once for training and once for an evaluation.

    Returns:
        A fingerprint of what `loss` and the optimizer compute.

    Raises:
        RunError: parameters are not float32, or `loss` does not return what it should.
    """
    for name, leaf in named(params).items():
        if leaf.dtype != jnp.float32:
            raise RunError(
                f"init makes {name!r} {leaf.dtype}: parameters are float32, and `loss` "
                "casts them to self.config.compute_dtype where it wants to; other state, "
                "such as counters, belongs into `mutable`."
            )
    count = task.config.batch_size // task.config.num_microbatches
    batch, mutable = batch_shapes(rows, (count,)), jax.eval_shape(task.mutable)
    key, step = jax.eval_shape(lambda: (jax.random.key(0), jnp.int32(0)))
    shapes, texts = shapes_of(mutable), []
    for given in (key, None):
        traced, found = jax.make_jaxpr(task.loss, return_shape=True)(
            params, batch, given, step, *mutable
        )
        texts.append(str(traced))
        if not isinstance(found, tuple | list) or len(found) != 3 + len(mutable):
            size = len(found) if isinstance(found, tuple | list) else "one value"
            more = ", *mutable" * bool(mutable)
            raise RunError(
                f"loss returns {size} where {3 + len(mutable)} are expected: (losses, "
                f"weights, metrics{more})."
            )
        losses, weights, metrics, *new = found
        if not isinstance(metrics, dict):
            raise RunError(
                f"loss returns metrics of type {type(metrics).__name__}: return a dict, "
                "{} if there are none."
            )
        if taken := RESERVED.intersection(metrics):
            raise RunError(
                f"loss returns a metric named {sorted(taken)[0]!r}, which is the "
                "program's own: choose another name."
            )
        values = {"losses": losses, "weights": weights, **metrics}
        for name, value in values.items():
            if getattr(value, "shape", None) != (count,):
                raise RunError(
                    f"loss returns {name!r} of shape {list(np.shape(value))} for {count} "
                    f"rows: return one value a row, of shape [{count}]. What is summed "
                    "over a row's tokens is summed in `loss`."
                )
        if not jnp.issubdtype(losses.dtype, jnp.floating):
            raise RunError(f"loss returns losses of {losses.dtype}: return float32.")
        if (kept := shapes_of(tuple(new))) != tuple(shapes):
            raise RunError(
                "loss returns `mutable` of other shapes, dtypes or names than it takes: "
                f"{kept} after {tuple(shapes)}."
            )
    optimizer = optax.with_extra_args_support(task.optimizer())
    opt_state = jax.eval_shape(optimizer.init, params)
    update = functools.partial(optimizer.update, value=0.0)
    update = jax.make_jaxpr(update, return_shape=True)
    try:
        traced, (updates, _) = update(params, opt_state, params, grad=params)
    except (AttributeError, TypeError, ValueError) as error:
        raise RunError(
            f"The optimizer needs more than gradients, parameters and the loss: {error}. "
            "Of a line search, which computes the loss anew, take the form without one, "
            "as in optax.lbfgs(linesearch=None)."
        ) from error
    if jax.tree.map(np.shape, updates) != jax.tree.map(np.shape, params):
        raise RunError(
            "The optimizer makes updates of other shapes than the parameters have, as one "
            "that wants a gradient of each row does: there is one, of the mean loss."
        )
    texts.append(str(traced))
    text = re.sub("0x[0-9a-f]+", "", "".join(texts))  # addresses of functions
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def mesh_sizes(config: Config, num_devices: int) -> tuple[int, int]:
    """Returns the devices along "data" and "model"; all along "data" where none is said."""
    whole = {} if config.mesh else {"data": num_devices}
    sizes = {"data": 1, "model": 1} | whole | config.mesh
    return sizes["data"], sizes["model"]


def make_mesh(config: Config, devices: list | None = None) -> Mesh:
    """Makes a mesh of the first devices.

    Where they lie in several slices (TPU pods, GPU hosts without a common NVLink domain),
    the slow links between these carry "data", which sends least: gradients, once a step.

    Source: JAX's `mesh_utils.create_hybrid_device_mesh`.
    """
    devices, types = devices or jax.devices(), (AxisType.Auto,) * 2
    sizes = mesh_sizes(config, len(devices))
    used = devices[: math.prod(sizes)]
    slices = collections.Counter(map(slice_of, used))
    if len(slices) == 1:
        return jax.make_mesh(sizes, ("data", "model"), axis_types=types, devices=used)
    data, model = sizes
    if data % len(slices) or len({*slices.values()}) > 1:
        raise RunError(
            f"A mesh of data={data}, model={model} over {len(slices)} slices of "
            f"{sorted(slices.values())} devices: take as many of each slice, and a "
            f"multiple of {len(slices)} along data, which crosses the slow links."
        )
    inside = data // len(slices), model
    arranged = mesh_utils.create_hybrid_device_mesh(inside, (len(slices), 1), used)
    return Mesh(arranged, ("data", "model"), axis_types=types)


def slice_of(device: Any) -> int:
    return getattr(device, "slice_index", 0)


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


def batches(
    data: Any, config: Config, mesh: Mesh, start_step: int
) -> Iterator[tuple[Any, Any]]:
    """Yields each call's batches, (K, M, B/M, ...), with the next on its way.

    Each comes with the state of the stream after it, or None. A stream may end early.
    """
    pieces = config.steps_per_call, config.num_microbatches
    sharding = NamedSharding(mesh, P(None, None, "data"))

    def batch(step):
        if is_stream(data):
            return from_stream(data, config, sharding)
        places = np.multiply((step, step + config.steps_per_call), config.batch_size)
        rows = rows_between(*places, count_rows(data), config.seed).reshape(*pieces, -1)
        return place(data, rows, sharding), None

    steps = range(start_step, config.num_steps, config.steps_per_call)
    placed = itertools.takewhile(lambda found: found is not None, map(batch, steps))
    for found, _ in itertools.pairwise(itertools.chain(placed, [None])):
        yield found


def from_stream(stream: Any, config: Config, sharding: NamedSharding) -> Any:
    """Takes a call's batches from a stream: (batches, state), or None at its end."""
    found = [*itertools.islice(stream, config.steps_per_call)]
    if len(found) < config.steps_per_call:
        return None
    own = config.batch_size // jax.process_count()
    pieces = config.steps_per_call, config.num_microbatches

    def joined(*leaves):
        if sizes := {len(leaf) for leaf in leaves} - {own}:
            raise RunError(
                f"The task's stream has a batch of {sorted(sizes)[0]} rows: each process "
                f"takes {own} (batch_size={config.batch_size} over {jax.process_count()} "
                "processes); let the stream drop what remains at the end of an epoch."
            )
        rows = np.stack(leaves).reshape(*pieces, -1, *leaves[0].shape[1:])
        shape = (*pieces, config.batch_size // pieces[1], *leaves[0].shape[1:])
        return jax.make_array_from_process_local_data(sharding, rows, shape)

    found = [jax.tree.map(np.asarray, one) for one in found]
    return jax.tree.map(joined, *found), stream.get_state()


def written(position: Any) -> list | None:
    """Returns the streams' states, one a process, as JSON can hold them."""
    if position is None:
        return None
    kind = "bytes" if isinstance(position, bytes) else "json"
    try:
        value = position.hex() if kind == "bytes" else position
        text = json.dumps([kind, value]).encode()
    except TypeError as error:
        raise RunError(
            f"The stream's get_state returns what JSON cannot hold ({error}): return "
            "bytes, or dicts and lists of numbers and text."
        ) from None
    if jax.process_count() == 1:
        return [json.loads(text)]
    from jax.experimental.multihost_utils import process_allgather

    longest = int(process_allgather(np.int32(len(text))).max())
    found = process_allgather(np.frombuffer(text.ljust(longest), np.uint8))
    return [json.loads(row.tobytes()) for row in found]


def set_position(stream: Any, positions: list | None) -> None:
    """Sets a stream to where `written` says that it was."""
    if not is_stream(stream) or not positions:
        return
    if len(positions) != jax.process_count():
        raise RunError(
            f"{len(positions)} processes read the stream before, {jax.process_count()} do "
            "now: use as many, since each one's place was saved."
        )
    kind, value = positions[jax.process_index()]
    stream.set_state(bytes.fromhex(value) if kind == "bytes" else value)


def checked_spec(name: str, shape: tuple, spec: P, mesh: Mesh) -> P:
    """Returns the spec; raises `RunError` if it does not fit the array or the mesh."""
    if len(spec) > len(shape):
        raise RunError(f"specs has {spec} for {name}, which has {len(shape)} axes.")
    used = []
    for size, entry in zip(shape, spec, strict=False):
        axes = entry if isinstance(entry, tuple) else (entry,) * (entry is not None)
        if unknown := set(axes) - set(mesh.axis_names):
            raise RunError(
                f"specs has {spec} for {name}: the mesh has no axis {sorted(unknown)[0]!r}"
                f", only {', '.join(mesh.axis_names)}."
            )
        used += axes
        if size % (count := math.prod(mesh.shape[axis] for axis in axes)):
            raise RunError(
                f"{size} of {name} do not divide by {count} devices along "
                f"{' x '.join(axes)}: choose another --hidden, or another mesh."
            )
    if len(used) > len({*used}):
        raise RunError(f"specs has {spec} for {name}: a mesh axis is there twice.")
    return spec


def first_state(task: Task, mesh: Mesh) -> tuple[Callable, Any]:
    """Returns the function that makes the first state, and the state's abstract arrays.

    These carry their shardings, so no device ever holds a full copy of a sharded array.
    An array of the optimizer's state has the sharding of the parameter whose path its own
    ends with, if it has that one's shape.

    Raises:
        RunError: `specs` names no parameter, or does not fit one.
    """
    optimizer = task.optimizer()

    def init():
        params = task.init(jax.random.key(task.config.seed))
        state = {"params": params, "opt_state": optimizer.init(params)}
        if task.config.ema:
            state["ema"] = params
        state |= {"mutable": task.mutable(), "step": jnp.int32(0)}
        return jax.tree.map(lambda a: jnp.asarray(a, jnp.result_type(a)), state)

    shapes, specs = jax.eval_shape(init), {}
    unused = set(task.specs)
    for name, leaf in named(shapes["params"]).items():
        found = [text for text in task.specs if fnmatch.fnmatchcase(name, text)]
        unused.difference_update(found)
        spec = task.specs[found[0]] if found else P()
        specs[name] = leaf.shape, checked_spec(name, leaf.shape, spec, mesh)
    if unused:
        raise RunError(f"No parameter has the name {sorted(unused)}, which specs has.")

    def abstract(path, leaf):
        ends = (specs.get(name_of(path[n:])) for n in range(1, len(path) + 1))
        of_params = path[0].key in ("params", "ema", "opt_state")
        fits = (s for s in ends if s and s[0] == leaf.shape and of_params)
        spec = next(fits, (leaf.shape, P()))[1]
        sharding = NamedSharding(mesh, spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    abstract = jax.tree_util.tree_map_with_path(abstract, shapes)
    shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
    return jax.jit(init, out_shardings=shardings), abstract


def axes_of(spec: P) -> dict[str, int]:
    """Returns which axis of an array each axis of the mesh splits."""
    entries = [one if isinstance(one, tuple) else (one,) for one in spec]
    return {name: axis for axis, entry in enumerate(entries) for name in entry if name}


def parts_of(abstract: Any) -> Any:
    """Returns, for each parameter, what of its layout the map over "data" sees."""

    def part(leaf):
        axis = axes_of(leaf.sharding.spec).get("data")
        return P() if axis is None else P(*[None] * axis, "data")

    return jax.tree.map(part, abstract["params"])


@dataclasses.dataclass(frozen=True)
class Part:
    """A device's block of a parameter that is sharded over "data" (FSDP).

    `axis` is sharded over "data", `split` over "model". `late` are operations on the
    gathered array alone, such as a cast.
    """

    block: Any
    axis: int
    split: int | None = None
    late: tuple = ()

    def gathered(self) -> Any:
        def gather(block):
            return jax.lax.all_gather(block, "data", axis=self.axis, tiled=True)

        if self.split is not None:  # else the compiler gathers along "model", too
            spec = P(*[None] * self.split, "model")
            how = {"in_specs": spec, "out_specs": spec, "axis_names": {"model"}}
            gather = jax.shard_map(gather, **how, check_vma=False)
        array = gather(self.block)
        for eqn in self.late:
            [array] = run_equation(eqn, [array])
        return array


def whole(value: Any) -> Any:
    return value.gathered() if isinstance(value, Part) else value


def block_of(value: Any) -> Any:
    return value.block if isinstance(value, Part) else value


def with_block(value: Any, block: Any, axis: int = 0) -> Any:
    """Returns a part like `value`, whose axes are counted from `axis`, or the block."""
    if not isinstance(value, Part):
        return block
    split = None if value.split is None else value.split - axis
    return dataclasses.replace(value, block=block, axis=value.axis - axis, split=split)


def gathering(loss: Callable, abstract: Any) -> Callable:
    """Makes of `loss` one that takes a device's parts of the parameters.

    It traces `loss`, and gathers a part where an operation needs it, once forward and
    once more for the gradient, which is thereby summed over the devices and cut into
    parts, too. A scan over stacked layers gathers one layer at a time.

    Source: JAX, "Writing custom Jaxpr interpreters"; Zhao et al., "PyTorch FSDP".
    """
    specs = [leaf.sharding.spec for leaf in jax.tree.leaves(abstract["params"])]
    places = [[axes_of(spec).get(name) for name in ("data", "model")] for spec in specs]
    if not any(data is not None for data, _ in places):
        return loss
    shapes = shapes_of(abstract["params"])

    def of_parts(params, *more):
        traced, shape = jax.make_jaxpr(loss, return_shape=True)(shapes, *more)
        values = [
            leaf if data is None else Part(leaf, data, None if model == data else model)
            for leaf, (data, model) in zip(jax.tree.leaves(params), places, strict=True)
        ]
        values += jax.tree.leaves(more)
        found = evaluate_parts(traced.jaxpr, traced.consts, values)
        return jax.tree.unflatten(jax.tree.structure(shape), map(whole, found))

    return of_parts


def evaluate_parts(jaxpr: Any, consts: Any, values: Any) -> list:
    """Evaluates a traced function, of which some arguments are parts."""
    known = dict(zip(jaxpr.constvars, consts, strict=True))
    known |= zip(jaxpr.invars, values, strict=True)

    def read(v):
        return v.val if isinstance(v, Literal) else known[v]

    for eqn in jaxpr.eqns:
        found = run_on_parts(eqn, [*map(read, eqn.invars)])
        known |= zip(eqn.outvars, found, strict=True)
    return [*map(read, jaxpr.outvars)]


def run_equation(eqn: Any, values: list) -> list:
    """Evaluates one equation of a traced function."""
    pairs = zip(eqn.invars, values, strict=True)
    variables = {v: value for v, value in pairs if not isinstance(v, Literal)}
    one = jax.make_jaxpr(lambda: ())().jaxpr.replace(
        invars=[*variables], outvars=eqn.outvars, eqns=[eqn], effects=eqn.effects
    )
    return jaxpr_as_fun(ClosedJaxpr(one, []))(*variables.values())


def run_on_parts(eqn: Any, values: list) -> list:
    """Evaluates one equation; gathers its parts, or goes into it with them."""
    kind, options = eqn.primitive.name, eqn.params
    if not any(isinstance(value, Part) for value in values):
        return run_equation(eqn, values)
    if kind in ("jit", "pjit"):
        return evaluate_parts(*traced_in(eqn), values)
    if kind == "scan":
        return scan_parts(eqn, values)
    if len(values) == len(eqn.outvars) == 1:
        [part] = values
        return [dataclasses.replace(part, late=(*part.late, eqn))]

    # Without `checkpoint` the gathered array would be kept for the gradient.
    @functools.partial(jax.checkpoint, policy=options.get("policy"))
    def gathered(*blocks):
        inputs = [*map(with_block, values, blocks)]
        if kind in ("remat2", "remat", "checkpoint"):
            return [*map(whole, evaluate_parts(*traced_in(eqn), inputs))]
        return run_equation(eqn, [*map(whole, inputs)])

    return gathered(*map(block_of, values))


def traced_in(eqn: Any) -> tuple[Any, Any]:
    """Returns the traced function that an equation calls, and its constants."""
    inner = eqn.params["jaxpr"]  # closed or open, by operation and version
    return getattr(inner, "jaxpr", inner), getattr(inner, "consts", ())


def scan_parts(eqn: Any, values: list) -> list:
    """Evaluates a scan whose stacked arguments may be parts of each layer."""
    options, (inner, inner_consts) = eqn.params, traced_in(eqn)

    def is_split(value):
        late = getattr(value, "late", ())
        casts = all(eqn.primitive.name == "convert_element_type" for eqn in late)
        return isinstance(value, Part) and value.axis > 0 and casts

    def unstacked(outer, within):  # has the same shape in the loop and outside
        pairs = zip(outer, within, strict=True)
        return sum(one.aval.shape == two.aval.shape for one, two in pairs)

    carried = unstacked(eqn.outvars, inner.outvars)
    consts = unstacked(eqn.invars, inner.invars) - carried
    fixed, first = values[:consts], values[consts : consts + carried]
    fixed, first = [*map(whole, fixed)], [*map(whole, first)]
    stacked = [v if is_split(v) else whole(v) for v in values[consts + carried :]]

    def body(carry, blocks):
        layer = map(functools.partial(with_block, axis=1), stacked, blocks)
        found = evaluate_parts(inner, inner_consts, [*fixed, *carry, *layer])
        found = [*map(whole, found)]
        return found[:carried], found[carried:]

    more = {name: options[name] for name in ("length", "reverse", "unroll")}
    carry, found = jax.lax.scan(body, first, [*map(block_of, stacked)], **more)
    return [*carry, *found]


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
    config, (_, abstract) = task.config, first_state(task, mesh)
    optimizer = optax.with_extra_args_support(task.optimizer())
    task_loss = gathering(task.loss, abstract)
    rated = type(task).learning_rate is not Task.learning_rate
    rated |= type(task).optimizer is Task.optimizer
    shardings = jax.tree.map(lambda leaf: leaf.sharding, abstract)
    parts = parts_of(abstract)
    seed = np.array([1, task.config.seed], np.uint32)  # that of `init` begins with 0
    # Small leaves travel as one: devices meet once for all, not once for each. Along
    # "model", joining would gather what that axis splits. Where parts were gathered, the
    # gradient's sum is made already.
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
                found = task_loss(params, rows, own, number, *mutable)
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
        updates, opt_state = optimizer.update(
            grads, opt_state, params, value=metrics["loss"], grad=grads
        )
        params = optax.apply_updates(params, updates)
        new = {"params": params, "opt_state": opt_state, "mutable": mutable}
        if config.ema:
            decay = jnp.minimum(config.ema, (1 + number) / (10 + number))
            new["ema"] = optax.incremental_update(params, state["ema"], 1 - decay)
        metrics["grad_norm"] = optax.tree.norm(grads)
        if rated:
            metrics["learning_rate"] = jnp.float32(task.learning_rate(number))
        if config.on_nan == "skip":
            fine = jnp.isfinite(metrics["loss"]) & jnp.isfinite(metrics["grad_norm"])
            old = {name: state[name] for name in new}
            new = jax.tree.map(functools.partial(jnp.where, fine), new, old)
        return new | {"step": number + 1}, metrics

    def call(state, batches):
        state, metrics = jax.lax.scan(step, state, batches)
        return state, metrics | {"param_norm": optax.tree.norm(state["params"])}

    return jax.jit(call, donate_argnums=0, out_shardings=(shardings, None))


def make_evaluate(task: Task, mesh: Mesh, held_out: Any, abstract: Any) -> Callable:
    """Makes evaluate(state, ends) -> {"loss": ..., ...}: means over all held-out rows.

    Parameters, or their average, stay sharded as they are. The last batch is filled up
    with rows that do not count. It returns None as soon as `ends()` says so.
    """
    task_loss = gathering(task.loss, abstract)

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
        found = task_loss(params, batch, None, number, *mutable)
        return jax.lax.psum(sums_of(found, counts), "data")

    size = task.config.batch_size // task.config.num_microbatches
    sharding = NamedSharding(mesh, P("data"))
    num_rows = count_rows(held_out)
    if limit := task.config.eval_batches:
        num_rows = min(num_rows, limit * size)

    def evaluate(state, ends=lambda: False):
        totals = collections.Counter()
        for start in range(0, num_rows, size):
            if ends():
                return None
            rows = np.arange(start, start + size)
            batch = place(held_out, np.minimum(rows, num_rows - 1), sharding)
            counts = place(rows < num_rows, np.arange(size), sharding)
            tree = state.get("ema", state["params"]), state["mutable"], state["step"]
            found = sums(*tree, batch, counts)
            totals.update({name: float(np.asarray(a)) for name, a in found.items()})
        weight, loss = totals.pop("weight"), totals.pop("loss")
        weight = weight or math.nan
        return {n: total / weight for n, total in {"loss": loss, **totals}.items()}

    return evaluate


@dataclasses.dataclass(frozen=True)
class Prepared:
    """What a run is made of, before anything is on a device."""

    config: Config
    task: Task
    mesh: Mesh
    train: Any
    held_out: Any
    fingerprint: str  # of the loss and the optimizer
    init: Callable  # () -> the first state
    step: Callable  # one call: (state, batch) -> (state, metrics)
    state: Any  # shapes with shardings
    batch: Any  # likewise


def prepare(config: Config, devices: list | None = None) -> Prepared:
    """Checks settings, data, specs and loss, and makes the step.

    `prepared.step.lower(prepared.state, prepared.batch)` is the program of the run, on
    `devices` that may be no more than planned.

    Raises:
        RunError: something does not fit; the text names it and the remedy.
    """
    if not config.schedule_steps:
        config = dataclasses.replace(config, schedule_steps=config.num_steps)
    check_config(config, devices)
    task, mesh = make_task(config), make_mesh(config, devices)
    train, held_out = load(task)
    check_rows(config, train, held_out)
    init, state = first_state(task, mesh)
    rows, share = first_rows(train), config.batch_size // config.num_microbatches
    fingerprint = check_loss(task, shapes_of(state["params"]), rows)
    sharding = NamedSharding(mesh, P(None, None, "data"))
    pieces = config.steps_per_call, config.num_microbatches, share
    batch = batch_shapes(rows, pieces, sharding)
    step = make_train_step(task, mesh)
    made = (task, mesh, train, held_out, fingerprint, init, step, state, batch)
    return Prepared(config, *made)


def planned(config: Config, on: str) -> str:
    """Plans a step of the run on chips such as "h100:2x8"; nothing is allocated or run.

    Raises:
        RunError: the package that plans is missing, or something does not fit.
    """
    sys.path.append(str(Path(__file__).resolve().parents[2] / "lessons"))
    try:
        from coursekit import plan as planning
    except ImportError:
        raise RunError(
            "--plan needs the course's package coursekit. Put the course's folder "
            "lessons/ on PYTHONPATH."
        ) from None
    once = dataclasses.replace(config, steps_per_call=1)
    try:
        run = prepare(once, planning.devices(on))
        found = planning.plan(run.step, run.state, run.batch, on=on)
    except planning.PlanError as error:  # of unknown chips, for instance
        raise RunError(str(error)) from error
    rows = config.batch_size / found.seconds
    length = run.task.tokens_per_row
    speed = f"{rows:,.0f} rows" + f", {rows * length:,.0f} tokens" * (length > 1)
    return f"{found}\n{speed} a second, if the input keeps up (a model)"


def plan_of(run: Prepared, compiled: Any) -> dict[str, list]:
    """Returns what a device is to hold, by the shardings and by the compiler."""
    state, memory = tree_bytes(run.state), compiled.memory_analysis()
    plan = {"parameters, optimizer and other state": [f"{state / 2**20:.1f} MiB"]}
    if memory:
        most = memory.argument_size_in_bytes + memory.temp_size_in_bytes
        plan["at most, in a call"] = [f"{most / 2**20:.1f} MiB"]
    return plan


def measured(plan: dict[str, list], state: Any) -> None:
    """Adds what the device holds, and the most that it ever held."""
    peak = (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use")
    texts = [f"{tree_bytes(state) / 2**20:.1f} MiB"]
    texts += [f"{peak / 2**20:.1f} MiB" if peak else "this device does not tell"]
    for pair, text in zip(plan.values(), texts, strict=False):
        pair.append(text)


def tree_bytes(tree: Any) -> int:
    """Returns the bytes of one device's parts."""
    return sum(
        math.prod(leaf.sharding.shard_shape(leaf.shape)) * leaf.dtype.itemsize
        for leaf in jax.tree.leaves(tree)
    )


def settings_of(run: Prepared) -> dict[str, Any]:
    """Returns what a resumed run must share with the one before."""
    settings = dataclasses.asdict(run.config) | {"task": Path(run.config.task).name}
    settings = {n: value for n, value in settings.items() if n not in Config.FREE}
    if not is_stream(run.train):
        settings["num_rows"] = count_rows(run.train)
        settings["data_fingerprint"] = data_fingerprint(run.train)
    for name, leaf in named(run.state["params"]).items():
        settings[f"params/{name}"] = list(leaf.shape)
    kind = f"JAX {jax.__version__} on {jax.default_backend()}"
    return settings | {"traced_by": kind, "loss_fingerprint": run.fingerprint}


def differences(there: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """Returns where a checkpoint's facts are not this run's, as text."""
    # Another JAX, or another kind of device, traces the same code differently.
    passed = {"traced_by"}
    if there.get("traced_by", here["traced_by"]) != here["traced_by"]:
        passed.add("loss_fingerprint")
    return [
        f"{name}={there.get(name, '(not said)')} there, {value} here"
        for name, value in here.items()
        if there.get(name, ...) != value and name not in passed  # ...: never in JSON
    ]


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
