"""Plans a step for chips that are not there: from shapes, without running it."""

from .chips import CHIPS, Chip, Cluster, PlanError
from .step_plan import Plan, devices, plan

__all__ = ["CHIPS", "Chip", "Cluster", "Plan", "PlanError", "devices", "plan"]
