"""Times the full pipeline's trainer against the source material's own loop.

Run `python tools/benchmarks/pipeline_speed.py`. All figures come from one run on one
machine: eight simulated devices, the sides in turns, round after round, each for about
half a second. A side's figure is its best round, the one least disturbed by whatever
else the machine did; the ratios are of these. Under load more rounds help.

The model is the source's linear regression: 4,096 rows of 32 features, batch 256. The
trainer feeds fresh batches from the host, keeps every loss and writes every step's
metrics; the source trains on its first batch forever and reads every fiftieth loss.

`--bare` compares with two bare loops that train the same digits with the same
optimizer, on fresh batches and with as many steps a call, data parallel by the compiler
and by hand.
It counts CPU seconds a step, which other programs on the machine disturb least, in both
precisions.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "lessons"), str(ROOT / "solutions" / "references")]

from coursekit import setup

setup.with_devices(8)

import full_pipeline
import jax
import numpy as np
import optax
import pipeline_step
import sharded_pipeline
from full_pipeline import Config
from jax.flatten_util import ravel_pytree
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

LR, BATCH_SIZE, SAVE_EVERY = 0.01, 256, 50
REGRESSION = {"task": "regression", "batch_size": BATCH_SIZE, "peak_lr": LR}
# What is trained with and without checkpoints: settings, and the number of steps.
CHECKPOINTED = {
    "regression": (REGRESSION, 1000),
    "digits, 64 rows x 256 units": ({}, 300),
    "digits, 1,024 rows x 512 units": ({"batch_size": 1024, "hidden": 512}, 300),
}


def first_params(mesh: Any) -> dict[str, Any]:
    """Returns zeros on every device: {"w": f32[32], "b": f32[]}."""
    start = {"w": np.zeros(32, np.float32), "b": np.float32(0)}
    return jax.device_put(start, NamedSharding(mesh, P()))


def sgd(params: Any, grads: Any) -> Any:
    return jax.tree.map(lambda p, g: p - LR * g, params, grads)


def source_loop(mesh: Any, num_steps: int) -> Callable[[], float]:
    """Makes the source's own loop, which returns its steps per second.

    One compiled step per turn of a Python loop, on the first 256 rows, a loss read
    every fifty. It waits for nothing else: `setup` gives JAX threads enough.
    """
    x, y, _ = sharded_pipeline.make_data()
    split = NamedSharding(mesh, P("data"))
    x, y = jax.device_put((x[:BATCH_SIZE], y[:BATCH_SIZE]), split)

    @jax.jit
    def step(params, x, y):
        value, grads = jax.value_and_grad(sharded_pipeline.loss)(params, x, y)
        return sgd(params, grads), value

    def loop():
        params, begin = first_params(mesh), time.perf_counter()
        for number in range(num_steps):
            params, value = step(params, x, y)
            if number % 50 == 0:
                float(value)
        jax.block_until_ready(params)
        return num_steps / (time.perf_counter() - begin)

    return loop


def scanned(mesh: Any, num_steps: int, by_hand: bool) -> Callable[[], float]:
    """Makes one `lax.scan` over batches in place, which returns its steps per second.

    Args:
        mesh: devices along "data".
        num_steps: batches, all on the devices before the clock starts.
        by_hand: with the all-reduce written out, one for loss and gradients together;
            without, the source's step, where the compiler puts it in.
    """
    x, y, _ = sharded_pipeline.make_data()
    rows = np.random.default_rng(0).integers(0, len(x), (num_steps, BATCH_SIZE))
    xs, ys = jax.device_put((x[rows], y[rows]), NamedSharding(mesh, P(None, "data")))

    def step(params, batch):
        found = jax.value_and_grad(sharded_pipeline.loss)(params, *batch)
        if by_hand:
            joined, split = ravel_pytree(found)
            found = split(jax.lax.pmean(joined, "data"))
        value, grads = found
        return sgd(params, grads), value

    def scan(params, xs, ys):
        return jax.lax.scan(step, params, (xs, ys))

    if by_hand:
        specs = (P(), P(None, "data"), P(None, "data"))
        scan = jax.shard_map(
            scan, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False
        )
    compiled = jax.jit(scan)

    def run():
        params, begin = first_params(mesh), time.perf_counter()
        jax.block_until_ready(compiled(params, xs, ys))
        return num_steps / (time.perf_counter() - begin)

    return run


def bare_loop(
    mesh: Any, num_steps: int, by_hand: bool, **settings: Any
) -> Callable[[], float]:
    """Makes a loop without any comfort, which returns its steps per CPU second.

    Fresh batches, `steps_per_call` steps in one compiled scan; it keeps every loss, and
    reads those of a call while the next one runs.

    Args:
        mesh: devices along "data".
        num_steps: how many steps are timed.
        by_hand: whether one all-reduce for loss and gradients together is written out;
            else the compiler puts them in.
        settings: of the `Config`.
    """
    config = Config("unused", schedule_steps=1000, **settings)
    task, size = pipeline_step.make_task(config), config.batch_size
    (x, y), _ = task.load()
    per_call, optimizer = config.steps_per_call, task.optimizer()
    rows, everywhere = (NamedSharding(mesh, P(*axes)) for axes in ((None, "data"), ()))

    def mean(params, batch):
        losses, weights, metrics = task.loss(params, batch, None, 0)
        return losses.sum() / weights.sum(), metrics["accuracy"].mean()

    def averaged(params, batch):
        return jax.lax.pmean(of_rows(params, batch), "data")

    of_rows = grads_of = jax.value_and_grad(mean, has_aux=True)
    if by_hand:
        specs = {"in_specs": (P(), P("data")), "out_specs": P(), "check_vma": False}
        grads_of = jax.shard_map(averaged, mesh=mesh, **specs)

    def step(state, batch):
        params, opt_state = state
        found, grads = grads_of(params, batch)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        norm = optax.tree.norm(grads)
        return (optax.apply_updates(params, updates), opt_state), (*found, norm)

    @functools.partial(jax.jit, donate_argnums=0)
    def call(state, batches):
        return jax.lax.scan(step, state, batches)

    def loop():
        params = task.init(jax.random.key(0))
        state = jax.device_put((params, optimizer.init(params)), everywhere)
        losses, waiting, begin = [], [], 0.0
        for number in range(0, num_steps + SAVE_EVERY, per_call):
            if number == SAVE_EVERY:
                begin = time.process_time()
            places = number * size, (number + per_call) * size
            chosen = pipeline_step.rows_between(*places, len(x), 0)
            chosen = chosen.reshape(per_call, size)
            state, found = call(state, jax.device_put((x[chosen], y[chosen]), rows))
            waiting.append(found)
            if len(waiting) == 2:
                losses.append(
                    [np.asarray(values).tolist() for values in waiting.pop(0)]
                )
        losses.append([np.asarray(values).tolist() for values in waiting.pop(0)])
        return num_steps / (time.process_time() - begin)

    return loop


def compare_with_bare(num_rounds: int) -> None:
    """Prints CPU milliseconds a step, of the best round, for both precisions."""
    mesh, num_steps = sharded_pipeline.make_mesh(8), 200
    for dtype in ("float32", "bfloat16"):
        settings = {"compute_dtype": dtype, "batch_size": 256, "hidden": 256}
        ours = functools.partial(trained, num_steps, num_steps, time.process_time)
        sides = {
            "by the compiler": bare_loop(mesh, num_steps, False, **settings),
            "by hand": bare_loop(mesh, num_steps, True, **settings),
            "ours": functools.partial(ours, **settings),
        }
        best = take_turns(sides, num_rounds)
        texts = [f"{name} {1000 / speed:.2f} ms" for name, speed in best.items()]
        value = best.pop("ours") / max(best.values())
        print(f"{dtype:<9} {', '.join(texts)} of CPU time a step")
        print(f"ours / the faster {value:5.2f}  target >= 0.95: {met(value >= 0.95)}")


def trained(
    num_steps: int,
    save_every: int,
    clock: Callable = time.perf_counter,
    **settings: Any,
) -> float:
    """Trains by `fit` in a fresh folder; returns its steps per second.

    The clock starts after the steps that compile and make the first checkpoint, and
    ends when the last step's metrics are written; the last checkpoint is not counted.
    """
    written = []

    class TimedLog(full_pipeline.Log):
        def write(self, first_step, values):
            super().write(first_step, values)
            written.append((first_step + len(values["loss"]), clock()))

    plain = full_pipeline.Log
    full_pipeline.Log = TimedLog
    settings |= {"num_steps": num_steps, "save_every": save_every, "eval_every": 0}
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            contextlib.redirect_stdout(io.StringIO()),
        ):
            full_pipeline.fit(Config(folder, **settings), progress=False)
    finally:
        full_pipeline.Log = plain
    warm = next(place for place in written if place[0] > SAVE_EVERY)
    return (written[-1][0] - warm[0]) / (written[-1][1] - warm[1])


def take_turns(sides: dict[Any, Callable], num_rounds: int) -> dict[Any, float]:
    """Runs each side once a round; returns its best steps per second."""
    best = dict.fromkeys(sides, 0.0)
    for _ in range(num_rounds + 1):  # a side's first also compiles
        for name, side in sides.items():
            best[name] = max(best[name], side())
    return best


def met(holds: bool) -> str:
    return "met" if holds else "MISSED"


def main() -> None:
    """Prints the figures, with the targets beside them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps-per-call", type=int, default=100)
    parser.add_argument("--bare", action="store_true", help="compare with a bare loop")
    options = parser.parse_args()
    if options.bare:
        return compare_with_bare(options.rounds)
    num_rounds, per_call = options.rounds, options.steps_per_call
    mesh = sharded_pipeline.make_mesh(8)
    ours = functools.partial(trained, **REGRESSION, steps_per_call=per_call)
    sides = {
        "source": source_loop(mesh, 600),
        "ours": functools.partial(ours, 2500, 2500),
        "scan": scanned(mesh, 2000, by_hand=True),
        "plain": scanned(mesh, 2000, by_hand=False),
    }
    for name, (settings, num_steps) in CHECKPOINTED.items():
        trains = functools.partial(trained, **settings, steps_per_call=SAVE_EVERY)
        sides[name, "without"] = functools.partial(trains, num_steps, num_steps)
        sides[name, "with"] = functools.partial(trains, num_steps, SAVE_EVERY)
    best = take_turns(sides, num_rounds)

    print(f"JAX {jax.__version__}; steps per second, the best of {num_rounds} rounds")
    for name, text in {
        "source": "source: its own loop, a step a call, one batch for ever",
        "ours": f"ours: {per_call} steps a call, fresh batches, every loss kept",
        "scan": "scan: the bare step in one scan, its all-reduces joined by hand",
        "plain": "plain: the bare step in one scan, as the source wrote it",
    }.items():
        print(f"  {text:<64}{best[name]:6.0f}")
    for name, target in {"source": 1.6, "scan": 0.85, "plain": 0.85}.items():
        value = best["ours"] / best[name]
        print(
            f"ours / {name:<7}{value:5.2f}  target >= {target}: {met(value >= target)}"
        )
    print(f"A checkpoint every {SAVE_EVERY} steps, {SAVE_EVERY} steps a call")
    for name in CHECKPOINTED:
        without, saving = best[name, "without"], best[name, "with"]
        cost = without / saving - 1
        each = 1000 * SAVE_EVERY * (1 / saving - 1 / without)
        print(
            f"  {name:<31}{without:5.0f} without, {saving:5.0f} with, {each:3.0f} ms "
            f"each: {cost:+.0%}  target < 10 %: {met(cost < 0.1)}"
        )


if __name__ == "__main__":
    main()
