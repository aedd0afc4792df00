"""Takes reshard from where newer JAX has it, too."""

move = getattr(jax, "reshard", jax.sharding.reshard)


def explicit_mlp(params, x):
    out = P("data")

    def layer(x, w):
        h = jnp.dot(x, w["w1"])
        h = jnp.where(h > 0, h, 0)
        return jnp.dot(h, w["w2"], out_sharding=out), None

    return jax.lax.scan(layer, move(x, out), params)[0]
