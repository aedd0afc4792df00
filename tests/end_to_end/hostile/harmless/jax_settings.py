"""Changes settings of JAX at run time, in a cell and inside an exercise."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL

SETTINGS = """
jax.config.update("jax_default_matmul_precision", "bfloat16")
jax.config.update("jax_debug_nans", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_log_compiles", True)
jax.config.update("jax_default_device", jax.devices()[3])
jax.config.update("jax_traceback_filtering", "off")
"""
DOUBLE = """
def double(x):
    jax.config.update("jax_check_tracer_leaks", True)
    return x + x
"""


def submission(lesson):
    return add_cell(solved(lesson, double=DOUBLE), SETTINGS)
