"""Says by a policy that nothing of a layer is saved."""

from functools import partial


def run_layers(layer, params, x):
    policy = jax.checkpoint_policies.nothing_saveable

    @partial(jax.checkpoint, policy=policy)
    def step(h, own):
        return layer(own, h), 0.0

    return jax.lax.scan(step, x, params)[0]
