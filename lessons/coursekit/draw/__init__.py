"""Draws what sits on which device: one module for each kind of picture."""

from .array import draw_array
from .collectives import draw_collective, draw_steps
from .devices import draw_devices, draw_mesh, draw_pmap
from .memory import draw_memory
from .pipeline import draw_profile, draw_schedule
from .training import draw_losses, draw_replicas

__all__ = [
    "draw_array",
    "draw_collective",
    "draw_devices",
    "draw_losses",
    "draw_memory",
    "draw_mesh",
    "draw_pmap",
    "draw_profile",
    "draw_replicas",
    "draw_schedule",
    "draw_steps",
]
