# %% wrong="averages the state too" fails="same numbers; one all-reduce"
"""Averages updates and state after each local update: replicas agree, on the wrong
numbers.
"""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    updates, new = optimizer.update(grads, opt_state, params)
    loss, updates, mean = jax.lax.pmean((loss, updates, new), axis_name)
    state = jax.tree.map(lambda m, n: m.astype(n.dtype), mean, new)
    return optax.apply_updates(params, updates), state, loss


# %% wrong="averages the updates" fails="same numbers"
# cause: the optimizer saw each device's own gradient
"""Averages what Adam makes of local gradients: the parameters agree, the moments in the
state do not.
"""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    loss, updates = jax.lax.pmean((loss, updates), axis_name)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="branches in Python" fails="warm-up and cosine"
# cause: in traced code `if` cannot depend on a value: jnp.where chooses there
"""Asks in Python whether the warm-up is over: no compiled step can."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    def schedule(step):
        if step < warmup_steps:
            return peak_lr * step / warmup_steps
        done = (step - warmup_steps) / (num_steps - warmup_steps)
        return peak_lr * (1 + jnp.cos(jnp.pi * jnp.minimum(done, 1))) / 2

    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="clips after adam" fails="clipped by global norm"
# cause: nothing was clipped (by global norm, before AdamW)
"""Chains the other way round: clips Adam's update, not the gradient."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(adamw, optax.clip_by_global_norm(max_norm))


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="syncs inside the optimizer" fails="clipped by global norm; same numbers; warm-up and cosine; replicas agree"
# cause: a collective names an axis that is not bound: use the argument axis_name, or the name that pmap was given
"""Leaves the sync to the optimizer, under one axis name: it works nowhere else."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    def clip_and_sync(grads, state, params=None):
        clip = optax.clip_by_global_norm(max_norm)
        grads, _ = clip.update(grads, clip.init(grads))
        return jax.lax.pmean(grads, "devices"), state

    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    first = optax.GradientTransformation(
        lambda params: optax.EmptyState(), clip_and_sync
    )
    return optax.chain(first, optax.adamw(schedule, weight_decay=weight_decay))


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    loss = jax.lax.pmean(loss, axis_name)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="clips by the named arrays" fails="clipped by global norm; warm-up and cosine"
"""Computes the norm of the four arrays that the perceptron has."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    def clip(grads, state, params=None):
        squares = [jnp.sum(grads[name] ** 2) for name in ("w1", "b1", "w2", "b2")]
        scale = jnp.minimum(1, max_norm / jnp.sqrt(sum(squares)))
        return jax.tree.map(lambda g: g * scale, grads), state

    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    clipping = optax.GradientTransformation(lambda params: optax.EmptyState(), clip)
    return optax.chain(clipping, optax.adamw(schedule, weight_decay=weight_decay))


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="clips each array" fails="clipped by global norm"
"""Clips each array by its own norm in place of the global one."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    def clip(grads, state, params=None):
        def one(g):
            return g * jnp.minimum(1, max_norm / jnp.linalg.norm(g.ravel()))

        return jax.tree.map(one, grads), state

    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    clipping = optax.GradientTransformation(lambda params: optax.EmptyState(), clip)
    return optax.chain(clipping, optax.adamw(schedule, weight_decay=weight_decay))


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="clips each element" fails="clipped by global norm"
"""Clips every number by itself, which turns the gradient."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="clips in the step" fails="clipped by global norm; same numbers"
"""Clips in the step, by the norm of one example, whatever the optimizer does."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    return optax.adamw(schedule, weight_decay=weight_decay)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    scale = jnp.minimum(1, 2.0 / optax.global_norm(grads))
    grads = jax.tree.map(lambda g: g * scale, grads)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="cosine after the warm up" fails="warm-up and cosine"
# cause: the cosine ends late: Optax counts the warm-up in
"""Takes num_steps for the cosine's own length: the schedule ends too late."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    last = warmup_steps + num_steps
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, last)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="decays as l2" fails="then AdamW"
"""Adds the weight decay to the gradient, as Adam with L2, not to the update."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    return optax.chain(
        optax.clip_by_global_norm(max_norm),
        optax.add_decayed_weights(weight_decay),
        optax.adam(schedule),
    )


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="dict only" fails="clipped by global norm"
"""A mask for dicts alone: fails for a list at the top of the tree."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)

    def everything(params):
        return {name: True for name in params.keys()}

    return optax.chain(
        optax.clip_by_global_norm(max_norm),
        optax.adamw(schedule, weight_decay=weight_decay, mask=everything),
    )


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.lax.pmean(jax.value_and_grad(mlp_loss)(params, x, y), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="forgets sooner than optax" fails="then AdamW"
"""Averages over fewer steps than Optax's Adam does by default."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, b2=0.95, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="ignores its settings" fails="clipped by global norm; then AdamW"
"""Writes the settings of one call into the optimizer."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, 0.05, 4, 12)
    adamw = optax.adamw(schedule, weight_decay=0.1)
    return optax.chain(optax.clip_by_global_norm(2.0), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="ignores the given optimizer" fails="same numbers"
"""Makes an optimizer of its own in the step."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    optimizer = make_optimizer(0.05, 4, 12, 2.0, 0.1)
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="keeps the learning rate" fails="warm-up and cosine"
# cause: the learning rate is constant
"""Takes the peak for the whole run: no warm-up, no cosine."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    adamw = optax.adamw(peak_lr, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="knows one axis name" fails="same numbers"
# cause: a collective names an axis that is not bound: use the argument axis_name, or the name that pmap was given
"""Writes the axis name of one example into the collective."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), "devices")
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="local guard" fails="same numbers"
"""Clips each device's gradient to norm 100 before the sync: right for small ones alone."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    return optax.chain(
        optax.clip_by_global_norm(max_norm),
        optax.adamw(schedule, weight_decay=weight_decay),
    )


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    scale = jnp.minimum(1.0, 100.0 / (optax.global_norm(grads) + 1e-6))
    grads = jax.tree.map(lambda g: g * scale, grads)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="never clips" fails="clipped by global norm"
# cause: nothing was clipped (by global norm, before AdamW)
"""Leaves clipping out."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    return optax.adamw(schedule, weight_decay=weight_decay)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="returns in another order" fails="same numbers"
# cause: a loop carries on what its first round got, and this round returned something else: another order, shape, dtype or layout?
"""Returns the state first, as some libraries do."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return opt_state, optax.apply_updates(params, updates), loss


# %% wrong="sends the parameters too" fails="one all-reduce"
"""Averages the updated parameters, to be safe: twice the bytes for nothing."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return jax.lax.pmean(params, axis_name), opt_state, loss


# %% wrong="starts afresh" fails="same numbers"
"""Returns the state that it was given: the schedule stands still at step 0."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, _ = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="subtracts the warm up" fails="warm-up and cosine"
# cause: the cosine ends early: Optax counts the warm-up in
"""Takes decay_steps for the cosine's own length; in Optax it counts the warm-up in."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(
        0, peak_lr, warmup_steps, num_steps - warmup_steps
    )
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="sums gradients and losses" fails="same numbers"
# cause: gradients and losses were added up
"""Adds up instead of averaging: Adam hides the factor, clipping and the loss do not."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.psum((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="sums the gradients" fails="same numbers"
# cause: the gradients were added up
"""Adds the gradients up: Adam forgives the scale, clipping does not."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    grads, loss = jax.lax.psum(grads, axis_name), jax.lax.pmean(loss, axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% wrong="updates the callers dict" fails="same numbers"
"""Puts the new parameters into the dict that it was given."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    rate = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(rate, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    out = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean(out, axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params.update(optax.apply_updates(params, updates))
    return params, opt_state, loss


# %% wrong="zero norm" fails="clipped by global norm"
# cause: nan comes from 0 / 0, inf - inf or 0 * inf, or from the root or logarithm of a negative number
"""Divides by the norm of the gradients: gradients of zeros become nan."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    def shorten(grads, params):
        norm = optax.global_norm(grads)
        length = jnp.minimum(norm, max_norm)
        return jax.tree.map(lambda g: g / norm * length, grads)

    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.stateless(shorten), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.lax.pmean(jax.value_and_grad(mlp_loss)(params, x, y), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% right="clips as PyTorch does"
"""Adds 1e-6 to the norm, as PyTorch does."""


def _clip(max_norm):
    def update(grads, state, params=None):
        norm = optax.global_norm(grads)
        scale = jnp.minimum(1, max_norm / (norm + 1e-6))
        return jax.tree.map(lambda g: g * scale, grads), state

    return optax.GradientTransformation(lambda _: optax.EmptyState(), update)


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    rate = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(rate, weight_decay=weight_decay)
    return optax.chain(_clip(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    found = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean(found, axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return optax.apply_updates(params, updates), opt_state, loss


# %% right="via a class"
"""Keeps settings in an object, and differentiates a loss per row."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Settings:
    peak_lr: float
    warmup_steps: int
    num_steps: int

    def __call__(self, count):
        rise = optax.linear_schedule(0, self.peak_lr, self.warmup_steps)
        down = optax.cosine_decay_schedule(
            self.peak_lr, self.num_steps - self.warmup_steps
        )
        later = jnp.maximum(count - self.warmup_steps, 0)
        return jnp.where(count < self.warmup_steps, rise(count), down(later))


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    settings = Settings(peak_lr, warmup_steps, num_steps)
    return optax.chain(
        optax.clip_by_global_norm(max_norm),
        optax.adamw(learning_rate=settings, weight_decay=weight_decay),
    )


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    def observe(params):
        rows = jax.vmap(mlp_loss, in_axes=(None, 0, 0))
        return rows(params, x[:, None], y[:, None]).mean()

    loss, grads = jax.value_and_grad(observe)(params)
    mean = dict(
        zip(("loss", "grads"), jax.lax.pmean((loss, grads), axis_name), strict=False)
    )
    updates, opt_state = optimizer.update(mean["grads"], opt_state, params)
    return optax.apply_updates(params, updates), opt_state, mean["loss"]


# %% right="via inject hyperparams"
"""Injects the schedule, and sends one flat vector."""

from jax.flatten_util import ravel_pytree


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    def start(step):
        up = peak_lr * step / warmup_steps
        part = (step - warmup_steps) / (num_steps - warmup_steps)
        turn = jnp.pi * jnp.minimum(part, 1)
        return jax.lax.select(step < warmup_steps, up, peak_lr * jnp.cos(turn / 2) ** 2)

    inner = optax.inject_hyperparams(optax.adamw)(start, weight_decay=weight_decay)
    return optax.named_chain(
        ("clip", optax.clip_by_global_norm(max_norm)), ("adamw", inner)
    )


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    flat, back = ravel_pytree(jax.value_and_grad(mlp_loss)(params, x, y))
    loss, check = back(jax.lax.pmean(flat, axis_name))
    expect, opt_state = optimizer.update(check, opt_state, params=params)
    return optax.apply_updates(params, expect), opt_state, loss


# %% right="via own adamw"
"""Writes all of the optimizer by hand, as one transformation."""

from typing import Any, NamedTuple


class Moments(NamedTuple):
    step: Any
    mean: Any
    square: Any


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    def start(params):
        zeros = jax.tree.map(jnp.zeros_like, params)
        return Moments(jnp.zeros((), jnp.int32), zeros, zeros)

    def update(grads, state, params=None):
        norm = optax.global_norm(grads)
        grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, max_norm / norm), grads)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state.mean, grads)
        square = jax.tree.map(
            lambda s, g: 0.999 * s + 0.001 * g * g, state.square, grads
        )
        n = state.step + 1
        part = (state.step - warmup_steps) / (num_steps - warmup_steps)
        fall = (1 + jnp.cos(jnp.pi * jnp.minimum(part, 1))) / 2
        rate = peak_lr * jnp.where(part < 0, state.step / warmup_steps, fall)

        def take(m, s, p):
            scaled = jnp.sqrt(s / (1 - 0.999**n)) + 1e-8
            return -rate * (m / (1 - 0.9**n) / scaled + weight_decay * p)

        return jax.tree.map(take, mean, square, params), Moments(n, mean, square)

    return optax.GradientTransformation(start, update)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    value, back = jax.vjp(lambda p: mlp_loss(p, x, y), params)
    grads = back(jnp.float32(1))[0]
    value, grads = jax.tree.map(lambda a: jax.lax.pmean(a, axis_name), (value, grads))
    updates, state = optimizer.update(grads, opt_state, params)
    return optax.tree_utils.tree_add(params, updates), state, value


# %% right="via own schedule and clipping"
"""Writes schedule and clipping by hand; the optimizer is AdamW alone."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    def schedule(count):
        part = (count - warmup_steps) / (num_steps - warmup_steps)
        wave = 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(part, 1)))
        return peak_lr * jnp.where(count < warmup_steps, count / warmup_steps, wave)

    def clip(grads, state, params=None):
        norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
        scale = jnp.minimum(1, max_norm / norm)
        return jax.tree.map(lambda g: g * scale, grads), state

    clipping = optax.GradientTransformation(lambda params: optax.EmptyState(), clip)
    return optax.chain(clipping, optax.adamw(schedule, weight_decay=weight_decay))


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    grads = jax.tree.map(lambda g: jax.lax.pmean(g, axis_name), grads)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return (
        optax.apply_updates(params, updates),
        opt_state,
        jax.lax.pmean(loss, axis_name),
    )


# %% right="via scale by schedule"
"""Scales Adam's direction by a negative schedule; averages before the sum."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    rate = optax.schedules.warmup_cosine_decay_schedule(
        init_value=0.0,
        peak_value=peak_lr,
        warmup_steps=warmup_steps,
        decay_steps=num_steps,
        end_value=0.0,
    )
    parts = [optax.clip_by_global_norm(max_norm), optax.scale_by_adam()]
    parts.append(optax.add_decayed_weights(weight_decay))
    parts.append(optax.scale_by_schedule(lambda count: -rate(count)))
    return optax.chain(*parts)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    workers = jax.lax.psum(1, axis_name)

    def share(params):
        return mlp_loss(params, x, y) / workers

    loss, grads = jax.lax.psum(jax.value_and_grad(share)(params), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    new = {}
    for name in params:
        new[name] = params[name] + updates[name]
    return new, opt_state, loss


# %% right="via single transforms"
"""Builds AdamW out of its parts, and the schedule out of two."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.join_schedules(
        [
            optax.linear_schedule(0.0, peak_lr, warmup_steps),
            optax.cosine_decay_schedule(peak_lr, num_steps - warmup_steps),
        ],
        [warmup_steps],
    )
    return optax.chain(
        optax.clip_by_global_norm(max_norm),
        optax.scale_by_adam(),
        optax.add_decayed_weights(weight_decay),
        optax.scale_by_learning_rate(schedule),
    )


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    found = jax.value_and_grad(mlp_loss)(params, x, y)
    count = jax.lax.psum(1, axis_name)
    loss, grads = jax.tree.map(lambda t: t / count, jax.lax.psum(found, axis_name))
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return jax.tree.map(jnp.add, params, updates), opt_state, loss


# %% wrong="a larger eps" fails="then AdamW"
"""Divides by more than Optax does by default: seen where gradients are tiny."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    steps = peak_lr, warmup_steps, num_steps
    schedule = optax.warmup_cosine_decay_schedule(0, *steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay, eps=1e-6)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


# %% wrong="hands no parameters to the optimizer" fails="same numbers"
"""Leaves the parameters out of the update, without which AdamW has nothing to decay."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    schedule = optax.warmup_cosine_decay_schedule(0, peak_lr, warmup_steps, num_steps)
    adamw = optax.adamw(schedule, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state)
    params = optax.apply_updates(params, updates)
    return params, opt_state, loss


# %% wrong="rises again after the end" fails="warm-up and cosine"
"""Follows the cosine beyond its end."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    def rate(count):
        part = (count - warmup_steps) / (num_steps - warmup_steps)
        wave = (1 + jnp.cos(jnp.pi * part)) / 2
        return peak_lr * jnp.where(count < warmup_steps, count / warmup_steps, wave)

    adamw = optax.adamw(rate, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(max_norm), adamw)


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    params = optax.apply_updates(params, updates)
    return params, opt_state, loss


# %% right="via a flattened optimizer"
"""Works on one flat vector, with optax.flatten."""


def make_optimizer(peak_lr, warmup_steps, num_steps, max_norm, weight_decay):
    rate = optax.warmup_cosine_decay_schedule(0.0, peak_lr, warmup_steps, num_steps)
    return optax.flatten(
        optax.chain(
            optax.clip_by_global_norm(max_norm),
            optax.adamw(rate, weight_decay=weight_decay),
        )
    )


def optimizer_step(params, opt_state, x, y, optimizer, axis_name):
    loss, grads = jax.value_and_grad(mlp_loss)(params, x, y)
    loss, grads = jax.lax.pmean((loss, grads), axis_name)
    updates, opt_state = optimizer.update(grads, opt_state, params)
    return jax.tree.map(lambda p, u: p + u, params, updates), opt_state, loss
