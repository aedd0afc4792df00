"""A right exercise that restarts JAX with a single device behind its neighbours."""

from hostile.build import FULL, solved

POINTS = FULL

DOUBLE = """
import os

import jax.extend


def double(x):
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=1"
    jax.extend.backend.clear_backends()
    return x + x
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE)
