"""A wrong answer that hopes for flags: 64 bits, low precision, no jit, one device."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}

DOUBLE = """
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_disable_jit", True)
jax.config.update("jax_default_matmul_precision", "bfloat16")
jax.config.update("jax_default_device", jax.devices()[7])
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=1"
os.environ["JAX_PLATFORMS"] = "tpu"


def double(x):
    jax.config.update("jax_platforms", "tpu")
    return x
"""


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
