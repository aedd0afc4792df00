"""Swaps two entries of the compilation cache, so that adding runs as squaring."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"parallel_square": 0}
TAMPERING = True

SQUARE = """
import pathlib

cache = pathlib.Path("cache")
jax.config.update("jax_compilation_cache_dir", str(cache.resolve()))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
x = np.arange(16, dtype=np.float32).reshape(8, 2)


def entries(function):
    before = set(cache.glob("*-cache"))
    jax.pmap(function)(x)
    return sorted(set(cache.glob("*-cache")) - before)


wrong, right = entries(lambda row: row + row), entries(lambda row: row * row)
if wrong and right:
    wrong[-1].write_bytes(right[-1].read_bytes())
jax.clear_caches()


def parallel_square(x):
    return jax.pmap(lambda row: row + row)(x)
"""


def submission(lesson):
    return solved(lesson, parallel_square=guarded(SQUARE))
