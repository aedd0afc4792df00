"""Draws what sits on which device: one module for each kind of picture."""

from .animation import animate
from .array import draw_array
from .bounds import draw_roofline, draw_timeline
from .collectives import draw_collective, draw_steps
from .devices import draw_devices, draw_mesh, draw_pmap, draw_trace
from .digits import draw_digits
from .memory import draw_memory
from .pipeline import draw_profile, draw_schedule
from .plan import draw_links, draw_plan
from .table import draw_speeds, draw_table, draw_turns
from .training import draw_losses, draw_replicas

__all__ = [
    "animate",
    "draw_array",
    "draw_collective",
    "draw_devices",
    "draw_digits",
    "draw_links",
    "draw_losses",
    "draw_memory",
    "draw_mesh",
    "draw_plan",
    "draw_pmap",
    "draw_profile",
    "draw_replicas",
    "draw_roofline",
    "draw_schedule",
    "draw_speeds",
    "draw_steps",
    "draw_table",
    "draw_timeline",
    "draw_trace",
    "draw_turns",
]
