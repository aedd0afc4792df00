# %% wrong="clips" fails="no overflow"
"""Clips logits so that nothing overflows."""


def sharded_log_softmax(logits, axis_name):
    logits = jnp.clip(logits, -60, 60)
    return logits - jnp.log(lax.psum(jnp.exp(logits).sum(-1, keepdims=True), axis_name))


# %% wrong="differentiates pmax" fails="differentiable"
# cause: pmax and pmin have no derivative: put lax.stop_gradient around what goes in
"""Is right, and no loss can be made of it: JAX has no derivative of pmax."""


def sharded_log_softmax(logits, axis_name):
    shifted = logits - lax.pmax(logits.max(-1, keepdims=True), axis_name)
    total = lax.psum(jnp.exp(shifted).sum(-1, keepdims=True), axis_name)
    return shifted - jnp.log(total)


# %% wrong="eight devices" fails="differentiable; any axis"
"""Makes the sum from the mean over eight devices."""


def sharded_log_softmax(logits, axis_name):
    shifted = logits - lax.pmax(logits.max(-1, keepdims=True), axis_name)
    total = 8 * lax.pmean(jnp.exp(shifted).sum(-1, keepdims=True), axis_name)
    return shifted - jnp.log(total)


# %% wrong="fixed axis name" fails="differentiable; any axis"
# cause: a collective names an axis that is not bound: use the argument axis_name, or the name that pmap was given
"""Writes the axis name of the lesson's examples into the function."""


def sharded_log_softmax(logits, axis_name):
    shifted = logits - lax.pmax(logits.max(-1, keepdims=True), "i")
    return shifted - jnp.log(lax.psum(jnp.exp(shifted).sum(-1, keepdims=True), "i"))


# %% wrong="gathers all classes" fails="logits stay local"
# cause: the logits were sent
"""Builds the whole row on every device."""


def sharded_log_softmax(logits, axis_name):
    whole = lax.all_gather(logits, axis_name, axis=1, tiled=True)
    own = lax.axis_index(axis_name) * logits.shape[1]
    return lax.dynamic_slice_in_dim(jax.nn.log_softmax(whole), own, logits.shape[1], 1)


# %% wrong="gathers where it is small" fails="logits stay local; differentiable"
"""Gathers all classes where they are few."""


def sharded_log_softmax(logits, axis_name):
    if logits.shape[0] < 3:
        whole = lax.all_gather(logits, axis_name, axis=1, tiled=True)
        return logits - jax.nn.logsumexp(whole, axis=1, keepdims=True)
    shifted = logits - lax.pmax(logits.max(-1, keepdims=True), axis_name)
    return shifted - jnp.log(
        lax.psum(jnp.exp(shifted).sum(-1, keepdims=True), axis_name)
    )


# %% wrong="means in place of sums" fails="log-softmax of all"
# cause: the sums were averaged, not added up
"""Averages the sums over the devices: right on one device only."""


def sharded_log_softmax(logits, axis_name):
    shifted = logits - lax.pmax(logits.max(-1, keepdims=True), axis_name)
    return shifted - jnp.log(
        lax.pmean(jnp.exp(shifted).sum(-1, keepdims=True), axis_name)
    )


# %% wrong="one maximum for all rows" fails="no overflow; differentiable"
# cause: a row needs its own maximum: here is log(0)
"""Subtracts the largest logit of all rows: rows far below it become infinite."""


def sharded_log_softmax(logits, axis_name):
    shifted = logits - lax.pmax(logits.max(), axis_name)
    total = lax.psum(jnp.exp(shifted).sum(-1, keepdims=True), axis_name)
    return shifted - jnp.log(total)


# %% wrong="overflows" fails="no overflow"
# cause: exp overflows: subtract each row's maximum
"""Leaves the maximum out."""


def sharded_log_softmax(logits, axis_name):
    return logits - jnp.log(lax.psum(jnp.exp(logits).sum(-1, keepdims=True), axis_name))


# %% wrong="own classes" fails="log-softmax of all"
# cause: each device normalised over its own classes only
"""Normalises over the classes of its own device."""


def sharded_log_softmax(logits, axis_name):
    return jax.nn.log_softmax(logits)


# %% wrong="own maximum" fails="log-softmax of all"
# cause: each device subtracted its own maximum: share it
"""Subtracts another maximum on each device, so that the sums do not fit together."""


def sharded_log_softmax(logits, axis_name):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - jnp.log(
        lax.psum(jnp.exp(shifted).sum(-1, keepdims=True), axis_name)
    )


# %% wrong="returns the softmax" fails="log-softmax of all"
# cause: this is the softmax, without a logarithm
"""Divides by the sum and takes no logarithm."""


def sharded_log_softmax(logits, axis_name):
    shifted = logits - lax.pmax(logits.max(-1, keepdims=True), axis_name)
    powers = jnp.exp(shifted)
    return powers / lax.psum(powers.sum(-1, keepdims=True), axis_name)


# %% wrong="stops all gradients" fails="differentiable"
# cause: no derivative goes through the sum of the exponentials
"""Lets no gradient through the sum of the exponentials either."""


def sharded_log_softmax(logits, axis_name):
    fixed = lax.stop_gradient(logits)
    top = lax.pmax(fixed.max(-1, keepdims=True), axis_name)
    total = lax.psum(jnp.exp(fixed - top).sum(-1, keepdims=True), axis_name)
    return logits - top - jnp.log(total)


# %% wrong="stops the gradient too late" fails="differentiable"
# cause: pmax and pmin have no derivative: put lax.stop_gradient around what goes in
"""Puts stop_gradient around the maximum of all devices."""


def sharded_log_softmax(logits, axis_name):
    top = lax.pmax(logits.max(-1, keepdims=True), axis_name)
    shifted = logits - lax.stop_gradient(top)
    total = lax.psum(jnp.exp(shifted).sum(-1, keepdims=True), axis_name)
    return shifted - jnp.log(total)


# %% right="via gathered maxima"
"""Gathers the devices' maxima and sums exponentials."""


def sharded_log_softmax(logits, axis_name):
    top = lax.all_gather(jnp.max(logits, axis=1), axis_name).max(axis=0)
    total = lax.psum(jnp.exp(logits - top[:, None]).sum(axis=1), axis_name)
    return logits - top[:, None] - jnp.log(total)[:, None]


# %% right="via gathered sums"
"""Gathers one number per row and device and combines them there."""


def sharded_log_softmax(logits, axis_name):
    own = jax.nn.logsumexp(logits, axis=-1)
    everyone = lax.all_gather(own, axis_name)  # f32[D, B]
    return logits - jax.nn.logsumexp(everyone, axis=0)[:, None]


# %% right="via jit and partial"
"""Compiles, and reduces by a helper of its own."""

from functools import partial


def of_all(combine, reduce, axis_name, x):
    return combine(reduce(x, axis=1, keepdims=True), axis_name)


@partial(jax.jit, static_argnums=1)
def sharded_log_softmax(logits, axis_name):
    largest = partial(of_all, lax.pmax, jnp.max, axis_name)
    total = partial(of_all, lax.psum, jnp.sum, axis_name)
    shifted = jnp.subtract(logits, largest(lax.stop_gradient(logits)))
    return shifted - jnp.log(total(jnp.exp(shifted)))


# %% right="via log sum exp"
"""Combines the devices' own log-sum-exps."""


def sharded_log_softmax(logits, axis_name):
    own = jax.nn.logsumexp(logits, axis=-1, keepdims=True)
    largest = lax.pmax(lax.stop_gradient(own), axis_name)
    total = lax.psum(jnp.exp(own - largest), axis_name)
    return logits - (largest + jnp.log(total))


# %% right="via one gather"
"""Gathers maximum and sum together."""


def sharded_log_softmax(logits, axis_name):
    top = logits.max(-1)
    own = jnp.stack([top, jnp.exp(logits - top[:, None]).sum(-1)])
    tops, sums = jnp.moveaxis(lax.all_gather(own, axis_name), 1, 0)
    highest = tops.max(0)
    total = (sums * jnp.exp(tops - highest)).sum(0)
    return logits - (highest + jnp.log(total)).reshape(-1, 1)


# %% right="via three numbers per row"
"""Sums the numbers of classes, too."""


def sharded_log_softmax(logits, axis_name):
    top = lax.stop_gradient(logits).max(-1, keepdims=True)
    shifted = logits - lax.pmax(top, axis_name)
    powers = jnp.exp(shifted)
    sums = jnp.stack([powers.sum(-1), jnp.ones_like(powers).sum(-1)])
    total, _ = lax.psum(sums, axis_name)
    return shifted - jnp.log(total)[:, None]


# %% right="via vmap"
"""Works on one row, mapped over the rows."""


def sharded_log_softmax(logits, axis_name):
    def of_row(row):
        shifted = row - lax.pmax(lax.stop_gradient(jnp.max(row)), axis_name)
        return shifted - jnp.log(lax.psum(jnp.sum(jnp.exp(shifted)), axis_name))

    return jax.vmap(of_row)(logits)


# %% wrong="sends a sum of every 16 classes" fails="logits stay local"
"""Sends partial sums, of 16 classes each."""


def sharded_log_softmax(logits, axis_name):
    top = lax.pmax(lax.stop_gradient(logits).max(1, keepdims=True), axis_name)
    powers = jnp.exp(logits - top)
    rows, width = powers.shape
    parts = jnp.pad(powers, ((0, 0), (0, -width % 16))).reshape(rows, -1, 16).sum(2)
    total = lax.psum(parts, axis_name).sum(1, keepdims=True)
    return logits - top - jnp.log(total)


# %% right="via custom vjp"
"""Writes the derivative by hand."""

import functools


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def sharded_log_softmax(logits, axis_name):
    m = lax.pmax(jnp.max(logits, axis=-1, keepdims=True), axis_name)
    lse = m + jnp.log(
        lax.psum(jnp.sum(jnp.exp(logits - m), axis=-1, keepdims=True), axis_name)
    )
    return logits - lse


def _fwd(logits, axis_name):
    out = sharded_log_softmax(logits, axis_name)
    return out, out


def _bwd(axis_name, out, g):
    total = lax.psum(g.sum(axis=-1, keepdims=True), axis_name)
    return (g - jnp.exp(out) * total,)


sharded_log_softmax.defvjp(_fwd, _bwd)
