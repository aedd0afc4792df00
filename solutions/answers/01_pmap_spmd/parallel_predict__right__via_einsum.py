"""Places the rows, and multiplies all of them in one compiled product."""

from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def parallel_predict(params, x):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[: len(x)]), ("d",))
    rows, whole = NamedSharding(mesh, P("d")), NamedSharding(mesh, P())

    @jax.jit
    def run(params, x):
        return jnp.einsum("dbf,fc->dbc", x, params["w"]) + params["b"]

    return run(jax.device_put(params, whole), jax.device_put(x, rows))
