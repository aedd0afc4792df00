"""Keeps the results of matrix products, which are the largest arrays.

Told: none
Fails: inputs alone are kept
"""


def run_layers(layer, params, x):
    policy = jax.checkpoint_policies.dots_saveable
    kept = jax.checkpoint(layer, policy=policy)
    return jax.lax.scan(lambda h, own: (kept(own, h), None), x, params)[0]
