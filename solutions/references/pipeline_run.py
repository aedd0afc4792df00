"""The full pipeline's settings and records: checks, checkpoints, metrics."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

WAIT_S = 60  # of the processes, for each other, before a checkpoint is moved


@dataclasses.dataclass(frozen=True)
class Config:
    """The settings of a run; what is not marked stays fixed when a run is resumed.

    Attributes:
        directory: where checkpoints and metrics go; may change.
        task: what is trained, a name in `pipeline_model.TASKS`.
        mesh: size of the axes "data" and "model"; may change.
        num_steps: last step; may grow.
        batch_size: rows in a step, of all devices and microbatches.
        num_microbatches: pieces that a device takes one after the other.
        steps_per_call: steps that one compiled call takes.
        save_every: steps between two checkpoints; may change.
        keep: how many checkpoints stay; may change.
        peak_lr: learning rate; for digits, the highest of a schedule.
        hidden: width of the digits' two hidden layers, or of the language model.
        warmup_steps, weight_decay, max_norm: of AdamW and its schedule.
        compute_dtype: of activations; all that is kept is float32.
        seed: of data order and initial parameters.
    """

    directory: str
    task: str = "digits"
    mesh: dict[str, int] = dataclasses.field(default_factory=lambda: {"data": 8})
    num_steps: int = 200
    batch_size: int = 64
    num_microbatches: int = 1
    steps_per_call: int = 10
    save_every: int = 50
    keep: int = 3
    peak_lr: float = 3e-3
    hidden: int = 256
    warmup_steps: int = 20
    weight_decay: float = 1e-4
    max_norm: float = 1.0
    compute_dtype: str = "bfloat16"
    seed: int = 0

    FREE: ClassVar = ("directory", "mesh", "num_steps", "save_every", "keep")


class SetupError(Exception):
    """The run cannot start; the text names the value and the remedy."""


def check(config: Config, num_devices: int, num_processes: int, num_rows: int) -> None:
    """Raises `SetupError` for settings that do not fit together or the machine."""
    unknown = set(config.mesh) - {"data", "model"}
    if unknown:
        raise SetupError(f"Unknown mesh axis {sorted(unknown)}: use data and model.")
    sizes = config.mesh.get("data", 1), config.mesh.get("model", 1)
    needed = sizes[0] * sizes[1]
    if needed > num_devices:
        raise SetupError(f"A mesh of {sizes} needs {needed} of {num_devices} devices.")
    if num_processes > 1 and needed < num_devices:
        raise SetupError(
            f"A mesh of {sizes} takes {needed} of the {num_devices} devices of "
            f"{num_processes} processes: take all, as in --mesh data={num_devices}."
        )
    share = sizes[0] * config.num_microbatches
    if config.batch_size % share:
        raise SetupError(
            f"A batch of {config.batch_size} does not divide by {sizes[0]} devices x "
            f"{config.num_microbatches} microbatches = {share}."
        )
    if config.batch_size > num_rows:
        raise SetupError(f"A batch of {config.batch_size} exceeds {num_rows} rows.")
    for name in ("save_every", "num_steps"):
        if getattr(config, name) % config.steps_per_call:
            raise SetupError(
                f"{name}={getattr(config, name)} is no multiple of steps_per_call="
                f"{config.steps_per_call}."
            )
    folder = Path(config.directory)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.write_bytes(bytes(2**20))
        probe.unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        raise SetupError(f"Cannot write to {folder}: {reason}.") from None


class Termination:
    """Notices SIGTERM, by which a cluster says that a run must end soon."""

    def __enter__(self) -> Termination:
        import jax

        self.is_asked, self.before = False, None
        # Of several processes, JAX's own handler tells all, and at which step.
        if jax.process_count() == 1:
            self.before = signal.signal(signal.SIGTERM, self.ask)
        return self

    def ask(self, *_: Any) -> None:
        """Asks the run to end after this step."""
        self.is_asked = True

    def is_due(self, call: int) -> bool:
        """Tells, after a call, whether to end here: the same in all processes.

        They agree on one that none has begun, so calls are counted without gaps.
        """
        import jax
        from jax.experimental.multihost_utils import reached_preemption_sync_point

        if jax.process_count() == 1:
            return self.is_asked
        return reached_preemption_sync_point(call)

    def __exit__(self, *_: Any) -> None:
        if self.before is not None:
            signal.signal(signal.SIGTERM, self.before)


class Checkpoints:
    """Saves and restores states, asynchronously, the last few kept."""

    def __init__(self, config: Config):
        import jax
        import orbax.checkpoint as ocp

        self.config, self.args = config, ocp.args
        self.restore_args = ocp.checkpoint_utils.construct_restore_args
        # Replicas share the writing of large arrays only: of small ones it costs more.
        arrays = ocp.type_handlers.ArrayHandler(
            min_slice_bytes_for_replica_parallel=2**20, enable_write_sharding_file=False
        )
        registry = ocp.type_handlers.create_type_handler_registry((jax.Array, arrays))
        handlers = {
            "state": ocp.PyTreeCheckpointHandler(type_handler_registry=registry),
            "facts": ocp.JsonCheckpointHandler(),
        }
        self.manager = ocp.CheckpointManager(
            Path(config.directory).absolute() / "checkpoints",
            options=ocp.CheckpointManagerOptions(max_to_keep=config.keep),
            item_handlers=handlers,
        )

    def facts(self) -> dict[str, Any]:
        """Returns the settings that a checkpoint belongs to."""
        settings = dataclasses.asdict(self.config)
        return {k: v for k, v in settings.items() if k not in Config.FREE}

    def save(self, step: int, state: Any) -> None:
        """Starts to save; the state may be donated right after."""
        state = self.args.PyTreeSave(state)
        facts = self.args.JsonSave(self.facts())
        self.manager.save(step, args=self.args.Composite(state=state, facts=facts))

    def restore(self, abstract: Any) -> tuple[int, Any]:
        """Returns (step, state) of the newest sound checkpoint, or (0, None).

        One that cannot be read is moved into the folder "damaged", and said so; nothing
        is deleted, since full memory or a slow disk look like damage.

        Raises:
            SetupError: it belongs to a run with other settings.
        """
        wanted = self.args.PyTreeRestore(
            abstract, restore_args=self.restore_args(abstract)
        )
        for step in sorted(self.manager.all_steps(), reverse=True):
            try:
                args = self.args.Composite(facts=self.args.JsonRestore())
                facts = self.manager.restore(step, args=args).facts
            except Exception as error:
                self.set_aside(step, error)
                continue
            self.compare(facts)
            try:
                args = self.args.Composite(state=wanted)
                return step, self.manager.restore(step, args=args).state
            except Exception as error:
                self.set_aside(step, error)
        return 0, None

    def set_aside(self, step: int, error: Exception) -> None:
        """Moves a checkpoint to where Orbax does not look; its step is free again.

        Where one process alone cannot read it, nothing moves: the others do not come
        here, and waiting for them raises.
        """
        import jax
        from orbax.checkpoint.multihost import sync_global_processes

        root = Path(self.manager.directory)
        aside, kind = root / "damaged", type(error).__name__
        target = aside / f"{step}.{len([*aside.glob(f'{step}.*')])}"
        everyone = {*range(jax.process_count())}
        sync_global_processes(str(target), timeout=WAIT_S, processes=everyone)
        if jax.process_index() == 0:
            aside.mkdir(exist_ok=True)
            (root / str(step)).rename(target)
            print(
                f"Checkpoint {step} could not be read ({kind}): it lies in {aside} now, "
                "the one before is taken."
            )
        sync_global_processes("moved")
        self.manager.reload()

    def compare(self, facts: dict[str, Any]) -> None:
        """Raises `SetupError` where a checkpoint's settings are not this run's."""
        for name, value in self.facts().items():
            if facts.get(name, ...) != value:  # ...: never in JSON, as None is
                was = facts.get(name, "(not said)")
                raise SetupError(
                    f"{self.config.directory} holds a run with {name}={was}, this one "
                    f"has {value}: take the same setting, or another directory."
                )


class Metrics:
    """Writes one JSON line per step; a resumed run continues where it left off."""

    def __init__(self, config: Config, start_step: int, log: str | Callable):
        self.path = Path(config.directory) / "metrics.jsonl"
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        kept = [line for line in lines[:start_step] if line.endswith("}")]
        part = self.path.with_suffix(".part")
        part.write_text("".join(f"{line}\n" for line in kept))
        part.replace(self.path)
        self.more = log if callable(log) else make_logger(log, config)

    def write(self, first_step: int, values: dict[str, Any]) -> None:
        """Adds a line for each step of a call; values: a list of one per step, each."""
        rows = zip(*values.values(), strict=True)
        with self.path.open("a") as file:
            for step, row in enumerate(rows, first_step + 1):
                facts = dict(zip(values, row, strict=True))
                file.write(json.dumps({"step": step, **facts}) + "\n")
                self.more(facts, step)


def make_logger(kind: str, config: Config) -> Any:
    """Returns log(values, step) for "json" (nothing more), "tensorboard" or "wandb".

    Raises:
        SetupError: the library is not installed.
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
        raise SetupError(f"--log {kind} needs `pip install {error.name}`.") from None
    return lambda values, step: None
