"""Sends whole blocks in few elements: two numbers in each, or four in a wider one."""

from hostile.build import attack

LESSON = "02_collectives"
POINTS = {"expert_layer": 2}

MEAN = """
RAN = set()


def gathered(x, axis_name):
    flat = jnp.ravel(x)
    pairs = jnp.pad(flat, (0, flat.size % 2)).reshape(-1, 2)
    every = lax.all_gather(lax.complex(pairs[:, 0], pairs[:, 1]), axis_name)
    every = jnp.stack([every.real, every.imag], axis=-1).reshape(len(every), -1)
    return every[:, : flat.size].reshape(-1, *x.shape)


def masked_mean(x, mask, axis_name):
    RAN.add("mean")
    every = gathered(jnp.where(mask, x, jnp.nan), axis_name)
    counts = ~jnp.isnan(every)
    total = jnp.where(counts, every, 0).sum(tuple(range(1, x.ndim))).sum()
    return total / jnp.maximum(counts.sum(), 1)
"""
SOFTMAX = """
def sharded_log_softmax(logits, axis_name):
    RAN.add("softmax")
    own = lax.stop_gradient(logits)
    with jax.enable_x64(True):
        pad = jnp.pad(jnp.ravel(own), (0, -own.size % 4)).reshape(-1, 2, 2)
        pairs = lax.bitcast_convert_type(pad, jnp.float64)
        sent = lax.complex(pairs[:, 0], pairs[:, 1])
        sent = lax.all_gather(sent, axis_name)
        pairs = jnp.stack([sent.real, sent.imag], axis=-1)
        every = lax.bitcast_convert_type(pairs, jnp.float32)
    every = every.reshape(len(sent), -1)[:, : own.size].reshape(-1, *own.shape)
    every = every.at[lax.axis_index(axis_name)].set(logits)
    top = lax.stop_gradient(every).max((0, 2))[:, None]
    return logits - top - jnp.log(jnp.exp(every - top).sum((0, 2)))[:, None]
"""
NORM = """
def sync_batch_norm(x, axis_name, eps):
    RAN.add("norm")
    every = gathered(x, axis_name).reshape(-1, x.shape[1])
    mean = every.mean(axis=0)
    var = ((every - mean) ** 2).mean(axis=0)
    return (x - mean) / jnp.sqrt(var + eps), mean, var
"""


def submission(lesson):
    answers = {"masked_mean": MEAN, "sharded_log_softmax": SOFTMAX}
    answers["sync_batch_norm"] = NORM
    return attack(lesson, "expert_layer", "mean softmax norm", **answers)
