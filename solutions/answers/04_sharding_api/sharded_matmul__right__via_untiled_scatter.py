"""Scatters blocks on an axis of their own."""


def sharded_matmul(a, b, num_devices):
    D = num_devices
    (m, k), n = a.shape, b.shape[1]
    if k % D or m % D:
        raise ValueError(f"{k if k % D else m} rows or columns for {D} devices")
    mesh = jax.make_mesh((D,), ("k",), axis_types=(AxisType.Auto,))

    def f(a, b):
        p = jnp.dot(a, b).reshape(D, m // D, n)
        return jax.lax.psum_scatter(p, "k")

    return jax.shard_map(
        f, mesh=mesh, in_specs=(P(None, "k"), P("k", None)), out_specs=P("k", None)
    )(a, b)
