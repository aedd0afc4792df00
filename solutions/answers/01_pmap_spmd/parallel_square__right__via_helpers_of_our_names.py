"""Has helpers that are called as the course calls its own, and a class."""


def check(x):
    assert x.shape[0] <= jax.device_count()
    return x


def observe(row):
    return jnp.multiply(row, row)


class Case:
    def __call__(self, row):
        return observe(row)


def parallel_square(x):
    expect = jax.pmap(Case(), axis_name="rows")
    return expect(check(x))
