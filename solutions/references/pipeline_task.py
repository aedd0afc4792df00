"""What the full pipeline asks of a task: its data, model, layout and optimizer."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import optax
from pipeline_run import Config


@dataclasses.dataclass(frozen=True)
class Task:
    """A task; to train something of your own, write one and name it in `TASKS`.

    It also has `load()`, `init(key)`, `loss(params, *rows)` and `score(params, *rows)`,
    as `pipeline_model.Digits` has them. `loss` runs on one device of the axis "data".
    """

    config: Config
    # How parameters lie on the mesh; those not named are whole on every device. What is
    # split over "data" reaches `loss` in parts, for it to gather.
    specs: ClassVar[dict[str, Any]] = {}

    def optimizer(self) -> Any:
        """Makes AdamW after clipping, on a warm-up cosine schedule."""
        config = self.config
        schedule = optax.warmup_cosine_decay_schedule(
            0, config.peak_lr, config.warmup_steps, max(config.num_steps, 1000)
        )
        adamw = optax.adamw(schedule, weight_decay=config.weight_decay)
        return optax.chain(optax.clip_by_global_norm(config.max_norm), adamw)

    def show(self, params: dict[str, Any]) -> str:
        """Writes what the trained model makes, if that is worth a look."""
        return ""
