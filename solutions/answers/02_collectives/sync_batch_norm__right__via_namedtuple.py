"""Returns a named tuple, and averages by a helper of its own."""

from collections import namedtuple

Normed = namedtuple("Normed", ["y", "mean", "var"])


def sync_batch_norm(x, axis_name, eps):
    def average(rows):
        own = {"rows": rows.mean(axis=0, keepdims=True)}
        return lax.pmean(own, axis_name)["rows"]

    mean = average(x)
    var = average(jnp.abs(x - mean) ** 2)
    y = (x - mean) / jnp.sqrt(var + eps)
    return Normed(y, mean[0], jnp.squeeze(var, axis=0))
