"""Asks for a GPU after JAX has started, as a forum advised."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

PLATFORM = """
import os

os.environ["JAX_PLATFORMS"] = "cuda"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ["CUDA_VISIBLE_DEVICES"] = "7"
jax.config.update("jax_platforms", "cuda")
"""


def submission(lesson):
    return add_cell(solved(lesson), PLATFORM)
