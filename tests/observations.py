"""Made-up observations, and what an expectation says of them."""

import numpy as np
import pytest

from coursekit.observation import Observation, Shard, plain
from coursekit.outcomes import NOT_WRITTEN, Wrong

X = np.arange(16, dtype=np.float32).reshape(8, 2)
ROWS = tuple(Shard(d, ((d, d + 1), (0, 2))) for d in range(8))


def returned(value=None, **facts):
    return Observation("f", "f(f32[8,2])", value=plain(value), **facts)


def on_devices(pieces, value=X):
    return returned(value, layout={"": tuple(pieces)})


def problem(function, *arguments, kind=Wrong, **options):
    with pytest.raises(kind) as error:
        function(*arguments, **options)
    return error.value


def stub():
    raise NotImplementedError(NOT_WRITTEN)
