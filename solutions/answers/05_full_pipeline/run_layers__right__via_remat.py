"""Uses JAX's older name, and tells it that scan needs no barrier."""


def run_layers(layer, params, x):
    kept = jax.remat(layer, prevent_cse=False)
    return jax.lax.scan(lambda h, own: (kept(own, h), ()), x, xs=params)[0]
