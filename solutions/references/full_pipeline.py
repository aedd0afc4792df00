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
ends its call, saves, says so, and exits with code 143. `docs/training.md` explains how to
adapt it, what it writes, and its messages.

This file holds what a run keeps on disk, and how it goes; `pipeline_step.py` its task,
mesh and step, `pipeline_stalls.py` what processes say of each other. Copy all three.

On a cluster each process runs the same line with `--cluster`: `docs/clusters.md`.

Source: docs.jax.dev, "Introduction to multi-controller JAX"; Orbax, "Checkpointing".
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import errno
import faulthandler
import fnmatch
import functools
import html
import io
import itertools
import json
import logging
import math
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pipeline_step
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from pipeline_stalls import Stalls, write_whole
from pipeline_step import Config, Prepared, RunError, Task, name_of, named

__all__ = ["Config", "RunError", "Task", "fit", "main"]  # tasks import the first three

LOGGERS = ("json", "tensorboard", "wandb", "mlflow")
NUM_DEVICES = 8  # simulated, over all local processes
SIGNALS = (signal.SIGTERM, signal.SIGINT)  # clusters send the first, Ctrl-C the second
STOPPED = 128 + signal.SIGTERM  # the exit code, as of a shell
GRACE_S = 25  # SLURM sends SIGKILL 30 s after SIGTERM
SLOW_S = 1.0  # a call that lasts longer is awaited before the next one is sent
SPIKE = 10.0  # times the usual gradient norm
SKIPS = 10  # steps in a row that may be left out


def short(error: Exception) -> str:
    """Returns an error's kind and text on one line, without its middle if it is long."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) < 300 else f"{text[:200]} ... {text[-90:]}"


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Makes the folder of a run, and keeps other runs out of it until this one ends.

    Raises:
        RunError: another run, which the text names, uses the folder, or it cannot be
            written to.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    path, since = folder / "lock", time.strftime("%Y-%m-%d %H:%M")
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder) as probe:
                probe.write(bytes(2**20))
            file = lock_file(path)
        except OSError as error:
            reason = error.strerror or str(error)
            raise RunError(f"Cannot write to {folder}: {reason}.") from None
        with file:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()} since {since}")
            file.flush()
            try:
                yield
            finally:
                path.unlink(missing_ok=True)
    finally:
        for path in made:
            with contextlib.suppress(OSError):  # it holds a run now
                path.rmdir()


def lock_file(path: Path) -> Any:
    """Opens a file that one process may hold; raises `RunError` if another one does."""
    try:
        import fcntl
    except ModuleNotFoundError:  # Windows has another one
        return path.open("a", encoding="utf-8")
    while True:
        file = path.open("a", encoding="utf-8")
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                text = f"{path} cannot be locked ({error.strerror}): see that no other "
                print(f"{text}run uses this --directory.", flush=True)
                return file
            file.close()
            holder = path.read_text(encoding="utf-8") or "another run"
            raise RunError(
                f"{path.parent} is in use by {holder}. Give each run a --directory of "
                "its own; in a sweep over seeds, say, "
                f"--directory {path.parent}-seed1 --seed 1."
            ) from None
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()  # the run before removed it just now


def checksum(leaf: Any) -> Any:
    """Adds up an array's bits, each word times an odd number of its place: u32 ().

    It is the same for every sharding, and another one if a single bit is.
    """
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    if leaf.dtype == jnp.bool_:
        leaf = leaf.astype(jnp.uint8)
    words = {1: jnp.uint8, 2: jnp.uint16}.get(leaf.dtype.itemsize, jnp.uint32)
    bits = jax.lax.bitcast_convert_type(leaf, words).astype(jnp.uint32)
    place, stride = jnp.zeros_like(bits), 1
    for axis in reversed(range(bits.ndim)):
        steps = jax.lax.broadcasted_iota(jnp.uint32, bits.shape, axis)
        place += steps * np.uint32(stride % 2**32)
        stride *= bits.shape[axis]
    return jnp.sum(bits * (2 * place + 1), dtype=jnp.uint32)


def checksums(state: Any) -> dict[str, int]:
    """Returns the checksum of each array, by its name."""
    leaves = named(state)
    mesh = next(iter(leaves.values())).sharding.mesh
    whole = NamedSharding(mesh, P())
    found = jax.jit(all_checksums, out_shardings=whole)([*leaves.values()])
    return dict(zip(leaves, np.asarray(found).tolist(), strict=True))


def all_checksums(leaves: list) -> Any:
    return jnp.stack([checksum(leaf) for leaf in leaves])


class Checkpoints:
    """Saves and restores states, asynchronously; the last few and the best are kept.

    The best is the one with the lowest held-out loss of those in `evaluations.jsonl`.
    """

    def __init__(self, config: Any):
        import orbax.checkpoint as ocp

        logging.getLogger("absl").setLevel(logging.CRITICAL)  # errors are raised, too
        keep = config.keep

        class LatestAndBest:
            def should_preserve(policy, checkpoints: Sequence, *, context: Any) -> list:
                steps = [checkpoint.step for checkpoint in checkpoints]
                kept = {*sorted(steps)[-keep:], self.best}
                return [step in kept for step in steps]

        options = ocp.CheckpointManagerOptions(
            preservation_policy=LatestAndBest(), create=False
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

        self.ocp, self.best, self.best_loss = ocp, None, math.inf
        self.manager = self.source = manager(Path(config.directory) / "checkpoints")
        self.step = self.manager.latest_step() or 0
        for line in read_lines(Path(config.directory) / "evaluations.jsonl"):
            if line["step"] in self.manager.all_steps():
                self.compare(line["step"], line.get("loss"))
        if config.start_from and not self.step:
            path = Path(config.start_from)
            self.source = manager(path.parent)
            if path.name not in map(str, self.source.all_steps()):
                raise RunError(
                    f"start_from={path} is no checkpoint: {path.parent} holds "
                    f"{sorted(self.source.all_steps())}."
                )
            self.step = int(path.name)

    def compare(self, step: int, loss: float | None) -> None:
        """Notes a held-out loss; what is not finite is never the best."""
        if loss is not None and loss < self.best_loss:
            self.best, self.best_loss = step, loss

    def save_state(self, step: int, state: Any, facts: dict) -> None:
        """Starts to save; the state may be donated right after.

        Raises:
            RunError: this one, or the one before, cannot be written.
        """
        facts, args = facts | {"checksums": checksums(state)}, self.ocp.args
        saved = args.PyTreeSave(without_empty(state))
        items = args.Composite(state=saved, facts=args.JsonSave(facts))
        with self.writing():
            self.manager.save(step, args=items)

    def wait(self) -> None:
        """Waits until all is written; raises as `save_state`."""
        with self.writing():
            self.manager.wait_until_finished()

    def steps(self) -> list[int]:
        """Returns the steps of the checkpoints that are there."""
        return sorted(
            int(path.name) for path in Path(self.manager.directory).glob("*[0-9]")
        )

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            folder = self.manager.directory
            raise RunError(
                f"A checkpoint cannot be written to {folder}: {short(error)}\n"
                f"Complete ones: {self.steps() or 'none'}. Make room, then run the "
                "same line again to continue from the last of them."
            ) from error

    def facts(self) -> dict[str, Any]:
        """Reads the settings of the run that the checkpoint belongs to; {} without one."""
        facts = {"facts": self.ocp.args.JsonRestore()}
        return self.read(facts)["facts"] if self.step else {}

    def restore_state(self, abstract: Any) -> Any:
        """Reads the state, sharded as the abstract arrays say."""
        wanted = without_empty(abstract)
        of_arrays = self.ocp.checkpoint_utils.construct_restore_args(wanted)
        args = self.ocp.args.PyTreeRestore(wanted, restore_args=of_arrays)
        facts = self.ocp.args.JsonRestore()
        found = self.read({"state": args, "facts": facts}, verify)["state"]
        return jax.tree.map(
            lambda leaf, new: new if leaf.size else jnp.zeros(leaf.shape, leaf.dtype),
            abstract,
            found,
        )

    def restore_params(self, params: Any, anew: list[str]) -> dict[str, Any]:
        """Reads parameters by name, but those whose names match one of `anew`.

        Raises:
            RunError: one is missing, or has another shape; the text names all.
        """
        ocp, folder = self.ocp, Path(self.source.directory) / str(self.step) / "state"
        tree = ocp.PyTreeCheckpointer().metadata(folder).item_metadata.tree["params"]
        there, chosen = named(tree), named(params)
        for pattern in anew:
            for name in fnmatch.filter(chosen, pattern):
                del chosen[name]
        texts = {
            name: f"{name} is "
            f"{list(there[name].shape) if name in there else 'missing'} there, "
            f"{list(leaf.shape)} here"
            for name, leaf in chosen.items()
            if name not in there or tuple(there[name].shape) != tuple(leaf.shape)
        }
        if texts:
            raise RunError(
                f"Checkpoint {self.step} in {self.source.directory} does not have all "
                f"parameters: {'; '.join(texts.values())}. To begin with new values for "
                f"these, add --begin-anew {','.join(texts)!r}."
            )

        rest = NamedSharding(jax.tree.leaves(params)[0].sharding.mesh, P())

        def wanted(path, leaf):
            like = jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=rest)
            return chosen.get(name_of(path), like)

        like = {"params": jax.tree_util.tree_map_with_path(wanted, tree)}
        of_arrays = ocp.checkpoint_utils.construct_restore_args(like)
        args = ocp.args.PyTreeRestore(
            like, restore_args=of_arrays, partial_restore=True
        )
        facts = ocp.args.JsonRestore()
        found = named(self.read({"state": args, "facts": facts}, verify)["state"])
        return {name: found[f"params/{name}"] for name in chosen}

    def read(self, wanted: dict, check: Callable = lambda found: None) -> Any:
        """Reads items of the checkpoint that the run continues from.

        Raises:
            RunError: it cannot be read. The text names it, those before it, up to the
                first that can be read, and each one's error. Nothing is changed.
        """
        folder, texts = self.source.directory, []
        steps = [step for step in self.source.all_steps() if step <= self.step]
        for step in sorted(steps, reverse=True):
            try:
                items = self.ocp.args.Composite(**wanted)
                found = self.source.restore(step, args=items)
                check(found)
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


def without_empty(tree: Any) -> Any:
    """Leaves out arrays without elements (GaLore has some), which Orbax cannot save."""
    return jax.tree.map(lambda leaf: leaf if leaf.size else None, tree)


def verify(found: Any) -> None:
    """Raises `ValueError` if an array's bits are not those that were saved."""
    leaves = named(found["state"]).items()
    arrays = {name: leaf for name, leaf in leaves if isinstance(leaf, jax.Array)}
    saved = found["facts"].get("checksums", {})
    now = checksums(arrays) if saved else {}
    if damaged := [name for name in now if now[name] != saved.get(name)]:
        raise ValueError(f"{', '.join(damaged[:4])}: the checksum is another one")


def read_lines(path: Path) -> list[dict]:
    """Reads JSON lines, up to the first that is half-written."""
    found: list[dict] = []
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    with contextlib.suppress(ValueError):
        found.extend(map(json.loads, lines))
    return found


def make_logger(kind: str, config: Any, step: int) -> Callable:
    """Returns log(values, step) for one of `LOGGERS`; "json" does nothing more.

    Each is configured as its own manual says: by `WANDB_MODE`, `MLFLOW_TRACKING_URI` ...

    Raises:
        RunError: the library is not installed.
    """
    folder, project = Path(config.directory), Path(config.task).name
    path = folder / f"{kind}.id"  # of the logger's run, which goes on after a pause
    known = path.read_text() if path.exists() else None
    try:
        if kind == "tensorboard":
            from tensorboardX import SummaryWriter

            writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)
            return lambda values, step: [
                writer.add_scalar(name, value, step) for name, value in values.items()
            ]
        if kind == "wandb":
            import wandb

            run = wandb.init(
                project=os.environ.get("WANDB_PROJECT", project),
                dir=config.directory,
                id=known,
                resume="allow",
                config=dataclasses.asdict(config),
            )
            path.write_text(run.id)
            return lambda values, step: run.log(values, step=step)
        if kind == "mlflow":
            import mlflow

            run = mlflow.start_run(run_id=known, run_name=project)
            path.write_text(run.info.run_id)
            return lambda values, step: mlflow.log_metrics(values, step=step)
    except ModuleNotFoundError as error:
        raise RunError(f"--log {kind} needs `pip install {error.name}`.") from None
    return lambda values, step: None


class Log:
    """Writes JSON lines: metrics of each step, evaluations, and the speed of each call.

    Metrics and evaluations are, to the byte, those of a run that nothing interrupted.
    What is not finite is written as null.
    """

    def __init__(self, config: Any, step: int, log: str | Callable, per_second: dict):
        self.folder, self.per_second = Path(config.directory), per_second
        self.log = log if callable(log) else make_logger(log, config, step)
        self.since: float | None = None
        self.speed: dict[str, float] = {}  # of the last call
        self.drawn, self.drawing = 0.0, 0.0
        for name in ("metrics", "evaluations", "speed"):
            self.cut(name, step)
        settings = json.dumps(dataclasses.asdict(config), indent=1)
        write_whole(self.folder / "settings.json", settings)

    def cut(self, name: str, step: int) -> None:
        """Moves lines of later steps, which will be taken again, into a file beside."""
        path, beside = (
            self.folder / f"{name}{end}" for end in (".jsonl", ".cut.jsonl")
        )
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        kept = sum(line["step"] <= step for line in read_lines(path))
        if later := lines[kept:]:
            with beside.open("a") as file:
                file.write(
                    "".join(later).rstrip("\n") + "\n"
                )  # the last may be cut off
            write_whole(path, "".join(lines[:kept]))
            text = f"Moved the lines of later steps from {path.name} to {beside.name}."
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
            self.speed = speed
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
                file.writelines(f"{json.dumps(finite(line))}\n" for line in lines)
        except OSError as error:
            raise RunError(
                f"Cannot write to {path}: {error.strerror}. Make room, then run the same "
                "line again to continue from the last checkpoint."
            ) from None

    def draw(self) -> None:
        """Draws `loss.png`, where matplotlib is installed; at most 1 % of the time."""
        begin = time.perf_counter()
        if begin - self.drawn > 100 * self.drawing:
            with contextlib.suppress(ModuleNotFoundError):
                curves(self.folder).savefig(self.folder / "loss.png", dpi=120)
            self.drawn = time.perf_counter()
            self.drawing = self.drawn - begin


def finite(line: dict[str, float]) -> dict[str, float | None]:
    return {n: value if math.isfinite(value) else None for n, value in line.items()}


def curves(folder: Path) -> Any:
    """Draws losses, learning rate, gradient norm and speed over the steps."""
    from matplotlib.figure import Figure

    names = ("metrics", "evaluations", "speed")
    lines = {name: read_lines(folder / f"{name}.jsonl") for name in names}
    panels = (
        ("loss", (("metrics", "loss"), ("evaluations", "loss"))),
        ("gradient norm", (("metrics", "grad_norm"),)),
        ("learning rate", (("metrics", "learning_rate"),)),
        ("seconds a step", (("speed", "step_seconds"),)),
    )
    figure = Figure(figsize=(9, 6), layout="constrained")
    for panel, (title, shown) in zip(figure.subplots(2, 2).flat, panels, strict=True):
        for kind, name in shown:
            found = [line for line in lines[kind] if line.get(name) is not None]
            found = found[:: len(found) // 2000 + 1]
            steps, values = ([line[key] for line in found] for key in ("step", name))
            held_out = kind == "evaluations"
            style, label = ("o-", "held out") if held_out else ("-", "training")
            panel.plot(steps, values, style, ms=3, lw=1, label=label)
        panel.set(title=title, xlabel="step")
    figure.axes[0].legend()
    return figure


def write_report(folder: Path) -> Path:
    """Writes `report.html`: curves, speed, the plan beside what was measured, settings.

    Raises:
        RunError: there is no run, or no matplotlib.
    """
    if not (folder / "settings.json").exists():
        raise RunError(f"{folder} holds no run: it has no settings.json.")
    try:
        picture = io.StringIO()
        curves(folder).savefig(picture, format="svg")
    except ModuleNotFoundError as error:
        raise RunError(f"--report needs `pip install {error.name}`.") from None

    def table(head: tuple, rows: list) -> str:
        cells = [[html.escape(str(cell)) for cell in row] for row in (head, *rows)]
        lines = (f"<tr><td>{'<td>'.join(row)}" for row in cells)
        return f"<table>{''.join(lines)}</table>"

    def read(name):
        path = folder / name
        return json.loads(path.read_text()) if path.exists() else {}

    speed = read_lines(folder / "speed.jsonl")
    usual = {
        name: f"{statistics.median(line[name] for line in speed):.4g}"
        for name in (speed[-1] if speed else {})
        if name != "step"
    }
    last = read_lines(folder / "evaluations.jsonl")[-1:]
    plan = read("plan.json")
    svg = picture.getvalue()
    page = f"""<!doctype html><meta charset="utf-8"><title>{html.escape(folder.name)}</title>
<style>body {{font: 16px sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em}}
svg {{max-width: 100%; height: auto}} td {{padding: .1em 1em .1em 0}}</style>
<h1>{html.escape(str(folder))}</h1>
<figure role="img" aria-label="Losses, gradient norm, learning rate and speed by step">
{svg[svg.index("<svg") :]}</figure>
<h2>Last evaluation</h2>{table(("what", "value"), [*itertools.chain(*map(dict.items, last))])}
<h2>Speed, median of all calls</h2>{table(("what", "value"), [*usual.items()])}
<h2>Plan beside measured</h2>
{table(("of one device", "planned", "measured"), [(n, *pair) for n, pair in plan.items()])}
<h2>Settings</h2>{table(("name", "value"), [*read("settings.json").items()])}
"""
    (path := folder / "report.html").write_text(page, encoding="utf-8")
    return path


def begin(
    run: Prepared, checkpoints: Checkpoints, facts: dict, settings: dict, say: Callable
) -> tuple[int, Any]:
    """Makes or restores the first state; returns the step that it belongs to, and it.

    Raises:
        RunError: the checkpoint is another run's, or cannot be read.
    """
    config, step, place = run.config, checkpoints.step, checkpoints.source.directory
    differing = pipeline_step.differences(facts, settings) if facts else []
    anew = [*filter(None, config.begin_anew.split(","))]
    if differing or (step and anew and checkpoints.source is not checkpoints.manager):
        if checkpoints.source is checkpoints.manager:
            raise RunError(
                f"Checkpoint {step} is another run's: {'; '.join(differing[:4])}. Use the "
                "same settings, or another --directory; to take its parameters along, "
                f"add --start-from {place}/{step} there."
            )
        params = checkpoints.restore_params(run.state["params"], anew)
        say(
            f"Beginning with the parameters of checkpoint {step} in {place}, at step 0: "
            f"{'; '.join(differing[:4]) or 'some parameters begin anew'}."
        )
        state = run.init()
        new = [name for name in named(state["params"]) if name not in params]
        if new:
            say(f"These begin anew: {', '.join(new)}.")

        def taken(path, leaf):
            return params.get(name_of(path), leaf)

        state["params"] = jax.tree_util.tree_map_with_path(taken, state["params"])
        if "ema" in state:
            state["ema"] = jax.tree.map(jnp.copy, state["params"])
        return 0, state
    if not step:
        return 0, run.init()
    newer = [n for n in sorted(checkpoints.source.all_steps()) if n > step]
    left = f" Newer ones stay: {newer}." if newer else ""
    say(f"Continuing from checkpoint {step} in {place}.{left}")
    if facts.get("traced_by") != settings["traced_by"]:
        say(
            f"It is of {facts.get('traced_by')}, this is {settings['traced_by']}: whether "
            "`loss` and the optimizer are the same was not checked."
        )
    pipeline_step.set_position(run.train, facts.get("position"))
    return step, checkpoints.restore_state(run.state)


@contextlib.contextmanager
def asked_to_end(act: Callable[[int], Any], numbers: tuple = SIGNALS) -> Iterator[None]:
    """Calls `act` at SIGTERM and at a first Ctrl-C; a second one ends all at once."""

    def handle(number, _):
        act(number)
        if number == signal.SIGINT:
            signal.signal(number, signal.default_int_handler)
            text = "\nStopping after this call. Ctrl-C again ends at once, unsaved.\n"
            with contextlib.suppress(OSError):
                os.write(2, text.encode())  # print is not safe in a handler

    before = {number: signal.signal(number, handle) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Watch:
    """Reads the metrics of calls: says what is odd, and stops at what is not finite."""

    def __init__(self, config: Config, say: Callable):
        self.config, self.say, self.skipped = config, say, 0
        self.norms: collections.deque = collections.deque(maxlen=100)
        self.losses: list[float] = []  # since the last line

    def read(self, first: int, values: dict[str, list]) -> tuple[int, str]:
        """Returns how many steps of a call count, and why those after them do not."""
        pairs = zip(values["loss"], values["grad_norm"], strict=True)
        for number, (loss, norm) in enumerate(pairs, 1):
            step = first + number
            if math.isfinite(loss) and math.isfinite(norm):
                self.skipped = 0
                self.losses.append(loss)
                usual = statistics.median(self.norms) if len(self.norms) > 20 else norm
                if norm > SPIKE * usual:
                    times = f"{norm / usual:.0f} times its median" if usual else "not 0"
                    text = f"Step {step}: the gradient's norm is {norm:.3g}, {times}."
                    self.say(text)
                self.norms.append(norm)
                continue
            text = f"Step {step}: the loss is {loss}, the gradient's norm {norm}."
            self.skipped += 1
            if self.config.on_nan == "stop":
                return number, text
            if self.skipped == SKIPS:
                return number, f"{text} {SKIPS} steps in a row were left out."
            self.say(f"{text} The step is left out.")
        return len(values["loss"]), ""

    def line(self, step: int, evaluation: dict | None, speed: dict, last: dict) -> str:
        """Returns what is said with each evaluation, on one line."""
        parts = []
        if self.losses:
            parts.append(f"loss {statistics.fmean(self.losses):.4f}")
        self.losses = []
        means = (evaluation or {}).items()
        parts += [f"held-out {name} {value:.4f}" for name, value in means]
        if "learning_rate" in last:
            parts.append(f"learning rate {last['learning_rate'][-1]:.3g}")
        for unit in ("tokens", "rows"):
            if rate := speed.get(f"{unit}_per_second"):
                left = (self.config.num_steps - step) * speed["step_seconds"]
                parts += [f"{rate:,.0f} {unit}/s", f"{duration(left)} left"]
                break
        return f"step {step}: {', '.join(parts)}"


def duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if seconds >= 90 else f"{seconds:.0f} s"


def fit(
    config: Config, log: str | Callable = "json", progress: bool = True
) -> dict[str, Any]:
    """Trains to `num_steps`, from the newest checkpoint if there is one.

    Args:
        config: the settings.
        log: one of `LOGGERS`, or a function that is called with values and their step,
            once they are in the run's own files.
        progress: whether a bar shows how far it is.

    Returns:
        {"step", "stopped", "losses", "evaluation", "best", "params", "shown"}: whether
        a signal ended it before the last step, the losses of the steps taken now, means
        over the held-out rows, the step of the best checkpoint, params (their average
        with `ema`), sharded, and what the model makes, as text.

    Raises:
        RunError: settings or checkpoints that do not fit, before any step; later, a
            file that cannot be written, or a loss that is not finite.
    """
    is_first = jax.process_index() == 0
    say = functools.partial(print, flush=True) if is_first else lambda text: None
    say(f"Training {config.task} on {pipeline_step.machine()}.")
    folder = Path(config.directory)
    stalls = Stalls(folder, config.hang_after)
    with locked(folder) if is_first else contextlib.nullcontext(), stalls.watched():
        checkpoints = Checkpoints(config)
        facts, horizon = checkpoints.facts(), config.schedule_steps
        known = facts.get("schedule_steps", config.num_steps)
        run = pipeline_step.prepare(
            dataclasses.replace(config, schedule_steps=horizon or known)
        )
        settings = pipeline_step.settings_of(run)
        if facts and checkpoints.source is not checkpoints.manager and not horizon:
            if pipeline_step.differences(
                facts, settings
            ):  # then its schedule is its own, too
                run = pipeline_step.prepare(config)
                settings = pipeline_step.settings_of(run)
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        start, state = begin(run, checkpoints, facts, settings, say)
        config = run.config
        if config.num_steps > config.schedule_steps:
            say(
                f"From step {config.schedule_steps} on, the learning rate is constant: "
                "its schedule ends there."
            )
        per_second = pipeline_step.amounts(run.task, run.mesh, run.state)
        metrics = Log(config, start, log, per_second) if is_first else None
        progress &= is_first
        loop = Loop(run, checkpoints, stalls, settings, metrics, say, progress)
        return loop.train(start, state, bool(start and facts.get("evaluation_missing")))


@dataclasses.dataclass
class Loop:
    """The steps of a run, and what is done between them."""

    run: Prepared
    checkpoints: Checkpoints
    stalls: Stalls
    settings: dict
    metrics: Log | None
    say: Callable
    progress: bool

    def __post_init__(self):
        run, self.config, self.checks = self.run, self.run.config, itertools.count()
        self.is_asked, self.slow = False, False
        self.watch = Watch(self.config, self.tell)
        self.losses: list[float] = []
        self.last: dict[str, list] = {}  # metrics of the last call that was read
        self.running: collections.deque = collections.deque()  # calls to be read
        self.position: Any = None  # of the stream
        parts = run.task, run.mesh, run.held_out, run.state
        self.evaluate = (
            pipeline_step.make_evaluate(*parts) if run.held_out is not None else None
        )

    def tell(self, text: str) -> None:
        """Prints a line, above the bar if there is one."""
        from tqdm import tqdm

        tqdm.write(text) if self.progress else self.say(text)

    def ends(self) -> bool:
        """Whether the run was asked to end; of several processes, all at the same call."""
        if jax.process_count() > 1:
            from jax.experimental.multihost_utils import reached_preemption_sync_point

            self.is_asked |= reached_preemption_sync_point(next(self.checks))
        return self.is_asked

    def ask(self, number: int) -> None:
        self.is_asked = True
        # `| tee`, which reads the bar, gets Ctrl-C, too, and may be gone.
        self.bar.disable |= number == signal.SIGINT

    def train(self, start: int, state: Any, owes: bool) -> dict[str, Any]:
        """Takes the steps from `start`; `owes`: an evaluation there was interrupted."""
        from tqdm import tqdm

        run, config = self.run, self.config
        step, evaluation, compiled = start, None, None
        saved, silent = start, not self.progress
        self.bar = tqdm(total=config.num_steps, initial=start, disable=silent)
        # Of several processes, JAX's own handler tells all, and at which call.
        numbers = SIGNALS if jax.process_count() == 1 else ()
        with self.bar, asked_to_end(self.ask, numbers), contextlib.ExitStack() as trace:
            if owes:
                evaluation = self.evaluated(step, state)
            for batch, position in pipeline_step.batches(
                run.train, config, run.mesh, start
            ):
                ends = step + config.steps_per_call
                self.stalls.enter(ends, 0, f"step {ends}")
                if compiled is None:
                    compiled = run.step.lower(state, batch).compile()
                    plan = pipeline_step.plan_of(run, compiled)
                if self.ends():
                    break
                if self.metrics and config.profile:
                    self.profile(trace, step - start)
                begun = time.perf_counter()
                with jax.profiler.StepTraceAnnotation("train", step_num=step):
                    state, found = compiled(state, batch)
                self.running.append((step, found))
                step, self.position = ends, position
                is_last, every = step == config.num_steps, config.eval_every
                evaluates = is_last or (every and step % every == 0)
                saves = evaluates or step % config.save_every == 0
                # One call runs while the last is read. If they are slow, none waits
                # behind it, which would have to end, too, after SIGTERM. Before a save,
                # the log holds all.
                while len(self.running) > (0 if saves or self.slow else 1):
                    self.read()
                self.slow = time.perf_counter() - begun > SLOW_S
                if evaluates:
                    evaluation = self.evaluated(step, state)
                if saves:
                    saved = step
                    self.save(step, state, evaluates and evaluation is None)
                self.stalls.enter(
                    step, 3, f"step {step + 1}, before which it loads data,"
                )
            self.stalls.enter(step, 4, "the end of the run")
            while self.running:
                self.read()
            if step > saved:
                self.save(step, state, missing=False)
        self.checkpoints.wait()
        if self.metrics and compiled:
            pipeline_step.measured(plan, state)
            text = json.dumps(plan, indent=1)
            write_whole(Path(config.directory) / "plan.json", text)
        stopped = self.is_asked and (step < config.num_steps or evaluation is None)
        stopped &= step > start or step < config.num_steps
        if step < config.num_steps and not stopped:
            raise RunError(
                f"The task's stream ended before step {step + config.steps_per_call}. Step "
                f"{step} is saved. Let the stream repeat its data, or end the run there: "
                f"--num-steps {step}."
            )
        params = state.get("ema", state["params"])
        found = {"step": step, "stopped": stopped, "losses": self.losses}
        found |= {"params": params, "best": self.checkpoints.best}
        if stopped:
            return found | {"evaluation": None, "shown": ""}

        def show(f):
            replicated = NamedSharding(run.mesh, P())
            made = jax.jit(f, out_shardings=replicated)(params)
            return jax.tree.map(lambda a: np.asarray(a.addressable_data(0)), made)

        if evaluation is None and self.evaluate:
            evaluation = self.evaluate(state, lambda: False)
        return found | {"evaluation": evaluation, "shown": run.task.show(show)}

    def profile(self, trace: contextlib.ExitStack, taken: int) -> None:
        """Begins a trace after the first call, which compiles, and ends it."""
        per_call = self.config.steps_per_call
        if taken == per_call:
            folder = str(Path(self.config.directory) / "profile")
            trace.enter_context(jax.profiler.trace(folder))
        elif taken >= per_call + self.config.profile:
            trace.close()

    def read(self) -> None:
        """Reads and logs the metrics of the oldest call; raises if one is not finite."""
        first, found = self.running.popleft()
        values = {name: np.asarray(a).tolist() for name, a in found.items()}
        norm = values.pop("param_norm")
        count, odd = self.watch.read(first, values)
        if not odd and not math.isfinite(norm):
            odd = f"After step {first + count} the parameters are not finite."
        values = self.last = {name: found[:count] for name, found in values.items()}
        if self.metrics:
            self.metrics.write(first, values)
        self.losses += values["loss"]
        self.bar.set_postfix(loss=f"{self.losses[-1]:.4f}", refresh=False)
        self.bar.update(self.config.steps_per_call)
        if odd:
            self.checkpoints.wait()
            folder = self.checkpoints.manager.directory
            complete = self.checkpoints.steps()
            last = f"{folder}/{complete[-1]}" if complete else "none yet"
            remedy = f", and --start-from {last}" if complete else ""
            raise RunError(
                f"{odd} Nothing of it is saved. The last finite checkpoint: {last}.\n"
                "The same line would end at the same step. Add --on-nan skip to leave "
                "such steps out; or choose a lower --peak-lr with a new --directory"
                f"{remedy}."
            )

    def evaluated(self, step: int, state: Any) -> dict | None:
        """Evaluates, and says where the run is; None if it was asked to end meanwhile."""
        self.stalls.enter(step, 1, f"the evaluation after step {step}")
        evaluation = self.evaluate(state, self.ends) if self.evaluate else None
        if evaluation:
            self.checkpoints.compare(step, evaluation["loss"])
        if self.metrics and evaluation:
            self.metrics.evaluation(step, evaluation)
        if self.metrics and not self.is_asked:
            speed = self.metrics.speed
            self.tell(self.watch.line(step, evaluation, speed, self.last))
            self.metrics.draw()
        return evaluation

    def save(self, step: int, state: Any, missing: bool) -> None:
        """Saves; `missing`: an evaluation that was due was interrupted."""
        self.stalls.enter(step, 2, f"the checkpoint of step {step}")
        missing &= self.evaluate is not None
        facts = {
            "position": pipeline_step.written(self.position),
            "evaluation_missing": missing,
        }
        self.checkpoints.save_state(step, state, self.settings | facts)
        if self.metrics:
            self.metrics.since = time.perf_counter()


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
        # The last pass sees those that ended within one interval with all others.
        codes: list[int | None] = [None]
        while None in codes:
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
    parser.add_argument("--directory", help="where the run's files are")
    text = "only plan a step for chips such as h100:2x8 or v5p:4x4x4; train nothing"
    parser.add_argument("--plan", metavar="CHIPS", help=text)
    text = "such as data=4,model=2; default: all devices as data"
    parser.add_argument("--mesh", type=read_mesh, default={}, help=text)
    parser.add_argument("--log", default="json", choices=LOGGERS)
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    text = "write the run's report.html, as far as it is; train nothing"
    parser.add_argument("--report", action="store_true", help=text)
    several = parser.add_mutually_exclusive_group()
    text = "start so many here, on simulated devices"
    several.add_argument("--processes", type=int, help=text)
    several.add_argument("--cluster", action="store_true", help="one of a cluster's")
    parser.add_argument("--process", help=argparse.SUPPRESS)
    for field in dataclasses.fields(Config):
        if field.metadata:
            kind, name = type(field.default), f"--{field.name.replace('_', '-')}"
            text = field.metadata["help"]
            text += "; default: %(default)s" * (field.default != "")
            names = ("--task", "--model") if name == "--task" else (name,)
            parser.add_argument(*names, type=kind, default=field.default, help=text)
    options = parser.parse_args(arguments)
    if not (options.directory or options.plan):
        parser.error("--directory is missing: where the run's files are to be")
    return options


def main() -> int:
    """Runs the command line; returns the exit code."""
    options = parse()
    try:
        if options.plan:
            os.environ["JAX_PLATFORMS"] = "cpu"
            print(pipeline_step.planned(config_of(options), options.plan))
            return 0
        if options.report:
            print(write_report(Path(options.directory)))
            return 0
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


def config_of(options: argparse.Namespace) -> Config:
    names = [field.name for field in dataclasses.fields(Config)]
    return Config(**{name: getattr(options, name) for name in names})


def train(options: argparse.Namespace) -> int:
    """Trains as the one process, or as one of several; returns the exit code."""
    if hasattr(faulthandler, "register"):  # not on Windows
        faulthandler.register(signal.SIGUSR1)
    number, count, port = (options.process or "0/1/").split("/")
    if options.cluster:
        jax.distributed.initialize()
        is_meant = os.environ.get("JAX_PLATFORMS") == "cpu"
        if jax.default_backend() == "cpu" and not is_meant:
            raise RunError(
                "--cluster finds only CPUs: install JAX for the chips that are there, "
                '`pip install "jax[cuda13]"` (or cuda12, tpu). To train on CPUs, set '
                "JAX_PLATFORMS=cpu."
            )
    else:  # simulated devices, for where there are no others
        flag = f"--xla_force_host_platform_device_count={NUM_DEVICES // int(count)}"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}"
        os.environ["NPROC"] = os.environ["PJRT_NPROC"] = "32"
    if options.process:
        jax.config.update("jax_platforms", "cpu")  # two cannot share a GPU's memory
        jax.distributed.initialize(f"localhost:{port}", int(count), int(number))
    if not jax.config.jax_compilation_cache_dir:  # a resumed run need not compile
        cache = Path(options.directory).absolute() / "compiled"
        jax.config.update("jax_compilation_cache_dir", str(cache))
    config = config_of(options)
    result = fit(config, options.log, not options.quiet)
    if jax.process_index():
        return STOPPED * result["stopped"]
    if result["stopped"]:
        saved = f"step {result['step']} is saved"
        done = saved if result["losses"] else "no step was taken"
        print(f"Stopped: {done}. Run the same line again to continue.")
        return STOPPED
    loss = f"loss {result['losses'][-1]:.4f}" if result["losses"] else "was done"
    evaluation = (result["evaluation"] or {}).items()
    means = (f"held-out {name} {value:.4f}" for name, value in evaluation)
    print(f"step {result['step']}: {', '.join((loss, *means))}")
    if result["best"]:
        folder = Path(options.directory).absolute() / "checkpoints"
        print(f"best held-out loss: {folder / str(result['best'])}")
    print(result["shown"], end="\n" if result["shown"] else "")
    return 0


if __name__ == "__main__":
    sys.modules["full_pipeline"] = sys.modules[__name__]  # tasks import it
    sys.exit(main())
