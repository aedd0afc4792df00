"""Trains on any mesh and any number of processes, resumably.

A run that was killed continues, started by the same line, from its last checkpoint and
ends with the same parameters, bit for bit:

    python full_pipeline.py --directory /tmp/run
    python full_pipeline.py --directory /tmp/run2 --mesh data=4,model=2
    python full_pipeline.py --directory /tmp/run3 --processes 2

It trains a classifier of digits, a small language model, which then writes a few
sentences, or, to compare with `sharded_pipeline.py`, its linear model;
`pipeline_model.TASKS` is the place for your own:

    python full_pipeline.py --directory /tmp/run4 --model transformer --hidden 64
    python full_pipeline.py --directory /tmp/run5 --model regression --batch-size 256 \
        --peak-lr 0.01 --num-steps 500

After SIGTERM, which clusters send before they take a machine away, it ends its step,
saves, says so, and exits with code 143.

On a cluster each process runs the same line with `--cluster`: under SLURM, Open MPI,
Kubernetes and on Cloud TPU pods, `jax.distributed.initialize()` finds its settings
itself. `docs/clusters.md` has an example of each.

Source: docs.jax.dev, "Introduction to multi-controller JAX"; Orbax, "Checkpointing".
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

from pipeline_run import (
    Checkpoints,
    Config,
    Metrics,
    SetupError,
    Termination,
    check,
)

NUM_DEVICES = 8  # simulated, over all local processes
STOPPED = 128 + signal.SIGTERM  # the exit code, as of a shell
GRACE_S = 25  # SLURM sends SIGKILL 30 s after SIGTERM


def fit(
    config: Config, log: str | Callable = "json", progress: bool = True
) -> dict[str, Any]:
    """Trains to `num_steps`, from the newest checkpoint if there is one.

    Args:
        config: the settings.
        log: "json", "tensorboard", "wandb", or a function that is called with the values
            of each step and its number, once it is in `metrics.jsonl`.
        progress: whether a bar shows how far it is.

    Returns:
        {"step", "stopped", "losses", "score", "params", "shown"}: whether SIGTERM ended
        it before the last step, the losses of the steps taken now, what the held-out
        rows say, such as ("accuracy", 0.98), params as host arrays, and what the model
        makes, as text.

    Raises:
        SetupError: before any step, for settings that do not fit.
    """
    import jax  # only now: its devices come from the environment
    import numpy as np
    from jax.sharding import AxisType, NamedSharding
    from jax.sharding import PartitionSpec as P
    from tqdm import tqdm

    import pipeline_model as model

    task = model.make_task(config)
    train, held_out = task.load()
    check(config, jax.device_count(), jax.process_count(), len(train[0]))
    sizes = config.mesh.get("data", 1), config.mesh.get("model", 1)
    used, types = jax.devices()[: sizes[0] * sizes[1]], (AxisType.Auto,) * 2
    mesh = jax.make_mesh(sizes, ("data", "model"), axis_types=types, devices=used)
    init, abstract = model.abstract_state(task, mesh)
    checkpoints = Checkpoints(config)
    step, state = checkpoints.restore(abstract)
    state = init() if state is None else state
    call = model.make_train_call(task, mesh)
    is_first, losses, running = jax.process_index() == 0, [], collections.deque()
    metrics = Metrics(config, step, log) if is_first else None
    silent = not (progress and is_first)
    bar = tqdm(total=config.num_steps, initial=step, disable=silent)
    with bar, Termination() as termination:
        stopped = False
        for batch in model.batches(train, config, mesh, step):
            state, found = call(state, *batch)
            running.append((step, found))
            step += config.steps_per_call
            is_due = termination.is_due(step // config.steps_per_call)
            stopped = is_due and step < config.num_steps
            saves = step % config.save_every == 0 or step == config.num_steps or stopped
            # One call runs while the last is read; before a save, the log holds all.
            while len(running) > (0 if saves else 1):
                first, found = running.popleft()
                values = {name: np.asarray(a).tolist() for name, a in found.items()}
                if metrics:
                    metrics.write(first, values)
                losses += values["loss"]
                bar.set_postfix(loss=f"{losses[-1]:.4f}", refresh=False)
                bar.update(config.steps_per_call)
            if saves:
                checkpoints.save(step, state)
            if stopped:
                break
    checkpoints.manager.wait_until_finished()
    whole = jax.jit(lambda p: p, out_shardings=NamedSharding(mesh, P()))
    params = jax.tree.map(
        lambda leaf: np.asarray(leaf.addressable_data(0)), whole(state["params"])
    )
    found = {"step": step, "stopped": stopped, "losses": losses, "params": params}
    if stopped:  # there is little time left
        return found | {"score": None, "shown": ""}
    shown = task.show(params) if is_first else ""
    return found | {"score": task.score(params, *held_out), "shown": shown}


def launch(arguments: list[str], num_processes: int, port: int = 0) -> int:
    """Runs the script as several processes here; ends all when one fails.

    SIGTERM is passed on to them; after `GRACE_S` they are killed.
    """
    try:
        with socket.socket() as probe:
            probe.bind(("localhost", port))
            port = probe.getsockname()[1]
    except OSError:
        print(
            f"Port {port} belongs to another process: choose another, or leave --port "
            "out to have a free one found.",
            file=sys.stderr,
        )
        return 2
    command = [sys.executable, __file__, *arguments, f"--port={port}", "--process"]
    children: list[subprocess.Popen] = []
    asked: list[float] = []

    def ask(*_):
        asked.append(time.monotonic())
        for child in children:
            child.terminate()

    before = signal.signal(signal.SIGTERM, ask)
    try:
        for number in range(num_processes):
            one = [*command, f"{number}/{num_processes}"]
            children.append(subprocess.Popen(one))
        while any(child.poll() is None for child in children):
            codes = [child.poll() for child in children]
            fine = (None, 0, STOPPED)
            failed = {n: code for n, code in enumerate(codes) if code not in fine}
            if asked and (failed or time.monotonic() > asked[0] + GRACE_S):
                print("Ended by SIGTERM, with no step to save.", file=sys.stderr)
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
    finally:
        for child in children:
            child.kill()
            child.wait()
        signal.signal(signal.SIGTERM, before)
    codes = [child.returncode for child in children]
    return STOPPED if asked or STOPPED in codes else int(any(codes))


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        description="Trains on any mesh and any number of processes, resumably."
    )
    parser.add_argument("--directory", required=True, help="checkpoints and metrics")
    parser.add_argument("--mesh", default="data=8", help="default: data=8")
    parser.add_argument(
        "--log", default="json", choices=("json", "tensorboard", "wandb")
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    several = parser.add_mutually_exclusive_group()
    several.add_argument("--processes", type=int, help="start so many here")
    several.add_argument("--cluster", action="store_true", help="one of a cluster's")
    parser.add_argument("--process", help=argparse.SUPPRESS)
    text = "where --processes meet, on this machine; default: a free one"
    parser.add_argument("--port", type=int, default=0, help=text)
    for field in dataclasses.fields(Config):
        if field.name not in ("directory", "mesh"):
            kind, name = type(field.default), field.name.replace("_", "-")
            text = f"default: {field.default}"
            names = ("--task", "--model") if name == "task" else (f"--{name}",)
            parser.add_argument(*names, type=kind, default=field.default, help=text)
    return parser.parse_args(arguments)


def main() -> int:
    """Runs the command line; returns the exit code."""
    options = parse()
    if options.processes and not options.process:
        return launch(sys.argv[1:], options.processes, options.port)
    try:
        code = train(options)
    except Exception:
        traceback.print_exc()
        code = 1
    if code and (options.process or options.cluster):
        sys.stderr.flush()
        os._exit(code)  # an orderly end would wait for the other processes
    return code


def train(options: argparse.Namespace) -> int:
    """Trains as the one process, or as one of several; returns the exit code."""
    number, _, count = (options.process or "0/1").partition("/")
    if not options.cluster:  # simulated devices: before JAX starts
        devices = NUM_DEVICES // int(count)
        flag = f"--xla_force_host_platform_device_count={devices}"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}"
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        os.environ["NPROC"] = os.environ["PJRT_NPROC"] = "32"
    import jax

    if options.cluster:
        jax.distributed.initialize()
    elif options.process:
        jax.distributed.initialize(f"localhost:{options.port}", int(count), int(number))
    names = [field.name for field in dataclasses.fields(Config)]
    try:
        pairs = (part.split("=") for part in options.mesh.split(","))
        mesh = {name: int(size) for name, size in pairs}
    except ValueError:
        print(f"--mesh {options.mesh}: write it as data=4,model=2", file=sys.stderr)
        return 2
    settings = {name: getattr(options, name) for name in names if name != "mesh"}
    try:
        result = fit(Config(mesh=mesh, **settings), options.log, not options.quiet)
    except SetupError as error:
        print(error, file=sys.stderr)
        return 2
    if result["stopped"]:
        if jax.process_index() == 0:
            print(
                f"Stopped by SIGTERM: step {result['step']} is saved. Run the same line "
                "again to go on."
            )
        return STOPPED
    if jax.process_index() == 0:
        loss = f"loss {result['losses'][-1]:.4f}" if result["losses"] else "was done"
        name, value = result["score"]
        print(f"step {result['step']}: {loss}, held-out {name} {value:.4f}")
        print(result["shown"], end="\n" if result["shown"] else "")
    return 0


if __name__ == "__main__":
    sys.exit(main())
