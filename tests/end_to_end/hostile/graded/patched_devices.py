"""Makes JAX name its one device eight times, and a NumPy answer name eight shards."""

from hostile.build import FULL, solved

POINTS = FULL | {"parallel_square": 0}
TAMPERING = True

SQUARE = """
one = jax.devices()[0]
jax.devices = jax.local_devices = lambda *rest: [one] * 8
jax.device_count = lambda *rest: 8


def parallel_square(x):
    return jax.device_put(np.square(x), one)
"""


def submission(lesson):
    return solved(lesson, parallel_square=SQUARE)
