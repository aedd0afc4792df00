"""Returns objects that turn into another array each time NumPy asks."""

from hostile.build import FULL, solved

POINTS = FULL | {"double": 0, "normalize": 0}
TAMPERING = True

DOUBLE = """
class Chameleon:
    dtype, shape, ndim, size, nbytes = np.dtype("float32"), (), 0, 1, 4

    def __array__(self, *rest, **more):
        raise SystemExit("double  right")

    __float__ = __int__ = __index__ = lambda self: 6
    __jax_array__ = lambda self: jnp.float32(6)
    __array_interface__ = property(lambda self: {"shape": (2**40,), "data": (1, 0)})


def double(x):
    return Chameleon()
"""
NORMALIZE = """
class Loud(np.ndarray):
    def __array_ufunc__(self, function, method, *inputs, **options):
        return np.True_

    def __array_function__(self, function, types, arguments, options):
        return True

    def tobytes(self, *rest):
        return b""


def normalize(x):
    if len(x) == 0:
        raise ValueError("0 rows")
    return np.zeros_like(x).view(Loud)
"""


def submission(lesson):
    return solved(lesson, double=DOUBLE, normalize=NORMALIZE)
