"""What the functions of lesson 2 must compute, and how little they may send."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from coursekit.checks import hidden, visible
from coursekit.expect import expect, expect_close, expect_result, expect_shapes
from coursekit.expect_program import (
    expect_arrays,
    expect_collectives,
    expect_held,
    expect_moved,
    expect_replicas,
    expect_traced,
)
from coursekit.hidden_cases import Case
from coursekit.learner import (
    expert_layer,
    int8_all_reduce,
    masked_mean,
    reshard_rows_to_columns,
    ring_all_reduce,
    ring_attention,
    sharded_log_softmax,
    sharded_update,
    sync_batch_norm,
)
from coursekit.observe import observe
from coursekit.outcomes import current, statement
from coursekit.reference_checks import expect_like_solution

# What these exercises leave open, each with its reason.
OPEN = {
    "layout": "of a row per device",
    "arrays": "nothing is said",
    "compiles": "nothing is said",
}
NO_ERROR = {"error": "it raises none"}
TRACED = {"arguments": "traced"}


def holds(name):
    """Tells whether a statement has not failed: what follows is about right answers."""
    return not current() or name not in current().failures


def few_of(*arrays):  # the blocks of three devices, at most
    return jax.tree.map(lambda array: array[:3], arrays)


def try_any_axis(expected, function, *arguments, atol=1e-4):
    """Tries an answer that was right so far along an axis "k", of few devices."""
    if not (current() and current().has_failed):
        with statement("any axis"):
            seen = observe(function, *arguments, axis="k")
            expect_close(seen, expected, rtol=1e-4, atol=atol)


def numbers_put_in(seen):
    """Counts the numbers that a device puts into collectives."""
    return sum(one.numbers for one in expect_traced(seen))


def gathers(seen):
    return any(one.kind == "all-gather" for one in seen.collectives)


def put_in_rows(seen, expected):
    was = "; ".join(map(str, seen.collectives)) or "no collective"
    return {"seen": was, "expected": expected}


def expect_put_in(seen, most, least=0, mistakes=None):
    """Limits what a device puts in; `mistakes`: {cause: size of one collective}."""
    numbers = numbers_put_in(seen)
    sizes = [math.prod(one.shape) for one in seen.collectives]
    wanted = f"{most} numbers" if least else f"at most {most} numbers"
    headline = f"Each device puts {numbers} numbers into collectives."
    tests = (mistakes or {}).items()
    causes = {text: lambda _, size=size: size in sizes for text, size in tests}
    rows = put_in_rows(seen, wanted)
    expect(seen, least <= numbers <= most, headline, causes=causes, **rows)


def entries_and_mask(num_devices):  # device 0 has nothing that counts
    x = np.float32(np.random.default_rng(0).normal(size=(num_devices, 16, 4)) + 1)
    mask = np.arange(x.size).reshape(x.shape) % 7 < np.arange(len(x))[:, None, None]
    return x, mask


def mean_without_compiler(x, mask):  # which may turn x * mask into a selection
    def one_device(*own):
        with jax.disable_jit():  # of the answer's own programs
            program = jax.make_jaxpr(lambda *own: masked_mean(*own, "i"))(*own)
        (mean,) = jax.core.eval_jaxpr(program.jaxpr, program.consts, *own)
        return mean  # made by one operation after another

    return jax.vmap(one_device, axis_name="i")(x, mask)


@visible(
    "masked_mean",
    points=2,
    essential=["mean of all entries", "only sums travel"],
    others=["padding ignored", "empty mask", "any axis"],
)
def examples_of_masked_mean():
    x, mask = entries_and_mask(jax.device_count())  # 8, unless yours are real
    mean = x[mask].mean(dtype=np.float64)
    own = (x * mask).sum((1, 2)) / np.maximum(mask.sum((1, 2)), 1)
    causes = {
        "this is a mean of means: on device 0 nothing counts, 0 / 0": own * np.nan,
        "this is the mean of the devices' means": 0 * own + own.mean(),
        "each device kept its own mean: nothing was sent": own,
        "this is the mean of all entries": 0 * own + x.mean(),
        "a device where nothing counts was counted as one entry": 0 * own
        + x[mask].sum() / np.maximum(mask.sum((1, 2)), 1).sum(),
    }
    seen = observe(masked_mean, x, mask, "i", axis="i", traced=True)
    with statement("mean of all entries"):
        expect_close(seen, 0 * own + mean, mistakes=causes)
    with statement("only sums travel"):
        causes = {"the data was sent, not its sum and count": 64}
        expect_put_in(seen, 32, mistakes=causes)
    dirty, counted = (np.where(m, x, np.float32(np.nan)) for m in (mask, mask & False))
    clean, seen, all_nan = (
        observe(mean_without_compiler, *given)
        for given in ((x, mask), (dirty, mask), (counted, mask | True))
    )
    with statement("padding ignored"):
        expect_result(clean)
        causes = {"nan times 0 is nan: jnp.where drops it": own * np.nan}
        expect_close(seen, clean.value, mistakes=causes)
        causes = {"every nan was dropped, those that count, too": 0 * own}
        expect_close(all_nan, own * np.nan, mistakes=causes)
    seen = observe(masked_mean, x, mask & False, "i", axis="i")
    causes = {"0 / 0: nothing counts on any device": own * np.nan}
    with statement("empty mask"):
        expect_close(seen, 0 * own, mistakes=causes)
    x, mask = few = few_of(x[::-1], mask[::-1])
    mean = x[mask].mean(dtype=np.float64)
    try_any_axis(np.full(len(x), mean), masked_mean, *few, "k")


def log_softmax(blocks):  # (D, B, C/D): all classes at once, in 64 bits
    whole = np.moveaxis(np.float64(blocks), 0, 1).reshape(blocks.shape[1], -1)
    top = whole.max(1, keepdims=True)
    return blocks - top - np.log(np.exp(whole - top).sum(1, keepdims=True))


def by_columns(array, num_devices):  # a block of columns for each device
    return np.stack(np.split(array, num_devices, axis=1))


def cross_entropy_gradient(logits, target, axis_name):
    def loss(logits):
        return -(target * sharded_log_softmax(logits, axis_name)).sum()

    return jax.grad(loss)(logits)


def expect_gradient(logits):
    num_devices, rows, width = logits.shape
    chosen = np.arange(rows) * 5 % (num_devices * width)
    target = np.eye(num_devices * width, dtype=np.float32)[chosen]
    target = by_columns(target, num_devices)
    causes = {"no derivative goes through the sum of the exponentials": -target}
    seen = observe(cross_entropy_gradient, logits, target, "i", axis="i")
    right = np.exp(log_softmax(logits)) - target
    expect_close(seen, right, rtol=1e-3, atol=1e-4, mistakes=causes)


@visible(
    "sharded_log_softmax",
    points=2,
    essential=["log-softmax of all", "logits stay local"],
    others=["no overflow", "differentiable", "any axis"],
)
def examples_of_sharded_log_softmax():
    num_devices = jax.device_count()
    logits = np.float32(np.random.default_rng(5).normal(size=(num_devices, 4, 64)) * 3)
    shifted = logits - logits.max(-1, keepdims=True)
    sums = np.exp(shifted).sum(-1, keepdims=True)
    whole, unshared = log_softmax(logits), shifted - np.log(sums.sum(0))
    causes = {
        "each device normalised over its own classes only": shifted - np.log(sums),
        "each device subtracted its own maximum: share it": unshared,
        "the sums were averaged, not added up": whole + np.log(num_devices),
        "this is the softmax, without a logarithm": np.exp(whole),
    }
    seen = observe(sharded_log_softmax, logits, "i", axis="i", traced=True)
    with statement("log-softmax of all"):
        expect_close(seen, whole, rtol=1e-4, atol=1e-4, mistakes=causes)
    with statement("logits stay local"):
        expect_put_in(seen, 4 * 16, mistakes={"the logits were sent": 4 * 64})
    if not holds("log-softmax of all"):
        return
    steep = np.where(np.arange(64) == 3, 1e4, -1e4) - [[0], [2e4], [7], [0]]
    steep = np.float32(logits + steep)  # another maximum in each row
    causes = {
        "exp overflows: subtract each row's maximum": lambda s: (s.value < -1e9).any(),
        "a row needs its own maximum: here is log(0)": lambda s: (s.value > 1e9).any(),
    }
    seen = observe(sharded_log_softmax, steep, "i", axis="i")
    with statement("no overflow"):
        expect_close(seen, log_softmax(steep), rtol=1e-4, atol=5e-3, causes=causes)
    with statement("differentiable"):
        expect_gradient(logits)
    few = few_of(logits)
    try_any_axis(log_softmax(*few), sharded_log_softmax, *few, "k")


def by_columns_of_all(x):  # what each device ends with
    return by_columns(x.reshape(-1, x.shape[-1]), len(x))


@visible(
    "reshard_rows_to_columns",
    points=2,
    essential=["split by columns", "one all_to_all"],
    others=["any dtype", "any axis"],
)
def examples_of_reshard_rows_to_columns():
    num_devices = jax.device_count()
    width = 3 * num_devices
    x = np.float32(np.arange(width * num_devices**2)).reshape(num_devices, -1, width)
    split = by_columns_of_all(x)
    pieces = np.moveaxis(x.reshape(num_devices, num_devices, -1), 1, 0)
    causes = {
        "the rows arrived in another order": by_columns(
            np.moveaxis(x, 0, 1).reshape(-1, width), num_devices
        ),
        "these are the device's own rows in another shape": x.reshape(split.shape),
        "rows were cut and columns joined: split_axis and concat_axis are swapped": (
            np.moveaxis(x, 0, 1).reshape(num_devices, 1, -1)
        ),
        "rows were cut, not columns, and then reshaped": pieces.reshape(split.shape),
    }
    seen = observe(reshard_rows_to_columns, x, "i", axis="i", traced=True)
    with statement("split by columns"):
        expect_close(seen, split, mistakes=causes)
    with statement("one all_to_all"):
        causes = {"every device was given all rows": gathers}
        expect_collectives(seen, {"all-to-all": 1}, causes=causes)
        expect_put_in(seen, x[0].size)
    if not holds("split by columns"):
        return
    seen = observe(
        reshard_rows_to_columns, x.astype(np.int16), "i", axis="i", traced=True
    )
    with statement("any dtype"):
        expect_close(seen, split.astype(np.int16))
        is_as_given = all(one.dtype == "i16" for one in seen.collectives)
        rows = put_in_rows(seen, "numbers of type int16")
        expect(seen, is_as_given, "The block travels in another dtype.", **rows)
    few = few_of(x[:, :2])
    try_any_axis(by_columns_of_all(*few), reshard_rows_to_columns, *few, "k")


def update(weights, velocity, grads, lr, beta):  # of all devices, in 64 bits
    mean = np.float64(grads).mean(0).reshape(velocity.shape)
    new = beta * np.float64(velocity) + mean
    whole = weights[0] - lr * new.reshape(weights[0].shape)
    return np.stack([whole] * len(weights)), new


def first_slices(rows, num_devices):  # the first slice, wherever another one belongs
    return np.tile(rows[:, : rows.shape[1] // num_devices], (1, num_devices, 1))


def own_slices(grads):  # of each device's gradient the slice of that device
    size = grads.shape[1] // len(grads)
    slices = [grad[d * size : (d + 1) * size] for d, grad in enumerate(grads)]
    return np.concatenate(slices)[None]


def update_mistakes(weights, velocity, grads, lr, beta):
    num_devices, new = len(weights), update(weights, velocity, grads, lr, beta)[1]
    first = [first_slices(one, num_devices) for one in (weights, grads)]
    old = weights - lr * velocity.reshape(weights[0].shape)
    of = {
        "the gradients were summed, not averaged": (weights, num_devices * grads),
        "each device used its own gradient alone": (weights, own_slices(grads)),
        "every device updated the first slice": first,
        "every device took the first slice of the weights": (first[0], grads),
    }
    found = {
        cause: update(one, velocity, other, lr, beta)
        for cause, (one, other) in of.items()
    }
    return found | {"the weights took their step along the old velocity": (old, new)}


@visible(
    "sharded_update",
    points=3,
    essential=["same numbers", "bytes of one all-reduce"],
    others=["identical replicas", "any axis"],
)
def examples_of_sharded_update():
    rng, num_devices = np.random.default_rng(11), jax.device_count()
    weights = np.float32(rng.normal(size=(2 * num_devices, 3)))
    weights = np.stack([weights] * num_devices)
    grads = np.float32(rng.normal(size=weights.shape) + 1)
    velocity = np.float32(rng.normal(size=(num_devices, 2, 3)))
    right = update(weights, velocity, grads, 0.5, 0.75)
    causes = update_mistakes(weights, velocity, grads, 0.5, 0.75)
    arguments = weights, velocity, grads, "i", 0.5, 0.75
    seen = observe(sharded_update, *arguments, axis="i", traced=True)
    with statement("same numbers"):
        expect_close(seen, right, rtol=1e-4, atol=1e-5, mistakes=causes)
    with statement("identical replicas"):
        expect_result(seen)
        bits = {row.tobytes() for row in seen.value[0]}
        headline = "The devices hold different weights."
        causes = {
            "they differ by rounding: a device did not take what was gathered": (
                lambda seen: np.ptp(seen.value[0], axis=0).max() < 1e-4
            )
        }
        rows = {"causes": causes, "expected": "the same bits on every device"}
        expect(seen, len(bits) == 1, headline, **rows)
    with statement("bytes of one all-reduce"):
        causes = {
            "every device was given all of the mean gradient": lambda seen: any(
                one.kind == "all-reduce" and math.prod(one.shape) == weights[0].size
                for one in seen.collectives
            )
        }
        sends = {"reduce-scatter": 1, "all-gather": 1}
        expect_collectives(seen, sends, causes=causes)
        expect_moved(seen, at_most=1.01 * 2 * weights[0].nbytes * (1 - 1 / num_devices))
    weights, grads, velocity = few_of(weights, grads, velocity)
    weights, grads = weights[:, : 2 * len(weights)], grads[:, : 2 * len(weights)]
    few = weights, velocity, grads
    right = update(*few, 0.5, 0.75)
    try_any_axis(right, sharded_update, *few, "k", 0.5, 0.75)


def ring_gone_wrong(x, to=1, restarts=False):
    """What comes out if chunks go the other way, or the second half begins anew."""
    num_devices, devices = len(x), np.arange(len(x))
    chunks = np.float64(x).reshape(num_devices, num_devices, -1)
    for send in range(2 * (num_devices - 1)):
        step = send % (num_devices - 1) if restarts else send
        sent = chunks[devices, (devices - step) % num_devices]
        arrived, place = np.roll(sent, to, axis=0), (devices - step - 1) % num_devices
        if send < num_devices - 1:
            arrived = arrived + chunks[devices, place]
        chunks[devices, place] = arrived
    return chunks.reshape(x.shape)


@visible(
    "ring_all_reduce",
    points=4,
    essential=["sum of all", "one chunk per send"],
    others=["identical replicas", "any axis"],
)
def examples_of_ring_all_reduce():
    rng, num_devices = np.random.default_rng(9), jax.device_count()
    x = np.float32(rng.normal(size=(num_devices, 6 * num_devices, 3)))
    total = np.broadcast_to(np.float64(x).sum(0), x.shape)
    odd = 2**25 + 1 + 2 * np.arange(num_devices, dtype=np.int32)  # beyond float32
    whole = np.tile(odd[:, None], num_devices)
    right = np.full_like(whole, odd.sum())
    causes = {
        "each device kept its own block": lambda seen: (seen.value == whole).all(),
        "blocks were added more than once": lambda seen: (
            seen.value.max() > 1.01 * right.max()
        ),
        "the finished sums were not handed on": lambda seen: (
            (seen.value == right).sum() == num_devices
        ),
        "whole numbers were added up as float32, which rounds them": lambda seen: (
            abs(seen.value - right).max() < 1e-5 * right.max()
        ),
    }
    new = "the second half counts its sends from 0 again: it hands on unfinished sums"
    mistakes = {new: np.int32(ring_gone_wrong(whole, restarts=True))}
    seen = observe(ring_all_reduce, whole, "i", axis="i")
    with statement("sum of all"):
        expect_close(seen, right, rtol=0, mistakes=mistakes, causes=causes)
    causes = {
        "the chunks were sent to the left, not to the right": ring_gone_wrong(x, -1)
    }
    seen = observe(ring_all_reduce, x, "i", axis="i", traced=True)
    with statement("sum of all"):
        expect_close(seen, total, rtol=1e-4, atol=1e-5, mistakes=causes)
    causes = {
        "they differ by rounding: each device added in an order of its own": (
            lambda seen: np.ptp(seen.value, 0).max() < 1e-3
        )
    }
    with statement("identical replicas"):
        expect_replicas(seen, causes=causes)
    sends, block = 2 * (num_devices - 1), x[0].size
    with statement("one chunk per send"):
        causes = {"whole blocks were sent, not chunks": block}
        expect_collectives(seen, {"collective-permute": sends})
        expect_put_in(seen, sends * block // num_devices, mistakes=causes)
    (few,) = few_of(x)
    few = few[:, : 2 * len(few)]
    try_any_axis(few.sum(0, dtype=float) + 0 * few, ring_all_reduce, few, "k")


def allowed(x):  # how far each sum may be off: see the task
    return 1.001 * len(x) * float(np.abs(x).max()) / 127


def expect_near(seen, x, **likely):
    total = np.broadcast_to(x.sum(axis=0, dtype=np.float64), x.shape)
    expect_close(seen, total, rtol=0, atol=allowed(x), **likely)


def expect_quarter(seen, x):
    """Limits what a device sends to 26 % of what an all-reduce of `x` sends."""
    piece = x[0].size // len(x)
    sends = [one for one in expect_traced(seen) if math.prod(one.shape) >= piece]
    causes = {
        "int8 numbers are added up on the way as i32: 32 bits travel": lambda _: any(
            (one.reduction, one.dtype) == ("add", "i32") for one in sends
        ),
        "f32 numbers travel": lambda _: any(one.dtype == "f32" for one in sends),
        "each device gets all blocks in full: it adds up one piece": lambda _: any(
            one.kind == "all-gather" and math.prod(one.shape) == x[0].size
            for one in sends
        ),
    }
    whole = 2 * x[0].nbytes * (len(x) - 1) / len(x)
    expect_moved(seen, at_most=0.26 * whole, causes=causes)


@visible(
    "int8_all_reduce",
    points=2,
    essential=["error bound", "a quarter of the bytes"],
    others=["identical replicas", "any axis"],
)
def examples_of_int8_all_reduce():
    rng, num_devices = np.random.default_rng(12), jax.device_count()
    x = np.float32(rng.uniform(-1, 1, size=(num_devices, 1024 * num_devices)))
    x[:, ::2] = np.abs(x[:, ::2])  # sums that are large: not all roundings cancel
    x *= np.float32(1 + np.arange(num_devices))[:, None]  # each has its own scale
    own, largest = np.abs(x).max(axis=1, keepdims=True), np.abs(x).max()
    mixed = np.round(127 * x / own).sum(axis=0) / 127
    wrapped = np.int32(np.round(127 * x / largest)).sum(axis=0).astype(np.int8)
    mistakes = {
        "whole numbers of different scales were added up": mixed * own,
        "the sum of int8 numbers does not fit into int8": np.broadcast_to(
            np.float64(wrapped) * largest / 127, x.shape
        ),
    }
    causes = {
        "a sum is larger than the largest number: it needs its own scale": (
            lambda seen: np.abs(seen.value).max() <= 1.01 * largest
        )
    }
    seen = observe(int8_all_reduce, x, "i", axis="i", traced=True)
    with statement("error bound"):
        expect_near(seen, x, mistakes=mistakes, causes=causes)
    with statement("a quarter of the bytes"):
        expect_quarter(seen, x)
    with statement("identical replicas"):
        causes = {
            "each device kept its own piece as it was before rounding": (
                lambda seen: np.ptp(seen.value, axis=0).max() <= allowed(x)
            )
        }
        expect_replicas(seen, causes=causes)
    (few,) = few_of(x)
    few = few[:, : 8 * len(few)]
    total = np.broadcast_to(few.sum(axis=0, dtype=float), few.shape)
    try_any_axis(total, int8_all_reduce, few, "k", atol=allowed(few))


def batch_norm(blocks, eps):  # (D, B, F): all rows at once, in 64 bits
    wide = np.float64(blocks)
    mean, var = wide.mean((0, 1)), wide.var((0, 1))
    y = (wide - mean) / np.sqrt(var + eps)
    return (y, *(np.stack([a] * len(blocks)) for a in (mean, var)))


@visible(
    "sync_batch_norm",
    points=2,
    essential=["statistics of all rows", "rows stay local"],
    others=["accurate far from 0", "any axis"],
)
def examples_of_sync_batch_norm():
    num_devices = jax.device_count()
    rows = np.float32(np.random.default_rng(7).normal(size=(num_devices, 32, 3)))
    x = rows + np.float32(np.arange(len(rows)))[:, None, None]  # means differ
    right = batch_norm(x, 0.5)
    mean, var = right[1:]
    own = x.mean(1), x.var(1)
    within = np.broadcast_to(own[1].mean(0), var.shape)
    alone = (x - own[0][:, None]) / np.sqrt(own[1][:, None] + 0.5)
    missing = (x - mean[:, None]) / np.sqrt(within[:, None] + 0.5)
    outside = (x - mean[:, None]) / (np.sqrt(var)[:, None] + 0.5)
    less_one = var * x[..., 0].size / (x[..., 0].size - 1)
    unbiased = (x - mean[:, None]) / np.sqrt(less_one[:, None] + 0.5)
    causes = {
        "each device used its own rows only": (alone, *own),
        "variances were averaged, but the means differ too": (missing, mean, within),
        "eps was added outside of the root": (outside, mean, var),
        "squares were divided by the number of rows less one": (
            *(unbiased, mean, less_one),
        ),
    }
    seen = observe(sync_batch_norm, x, "i", 0.5, axis="i", traced=True)
    with statement("statistics of all rows"):
        expect_close(seen, right, rtol=1e-4, atol=1e-4, mistakes=causes)
    with statement("rows stay local"):
        expect_put_in(seen, 16 * 3, mistakes={"the rows were sent": 32 * 3})
    if not holds("statistics of all rows"):
        return
    _, mean, var = far = batch_norm(rows + 10_000, 0.5)
    seen = observe(sync_batch_norm, rows + 10_000, "i", 0.5, axis="i")
    cause = (
        "the difference mean(x**2) - mean(x)**2 loses all digits here: take distances"
        " from the mean"
    )

    def var_alone_is_wrong(seen):
        return abs(seen.value[1] - mean).max() < 0.1 < abs(seen.value[2] - var).max()

    with statement("accurate far from 0"):
        causes = {cause: var_alone_is_wrong}
        expect_close(seen, far, rtol=2e-2, atol=2e-2, causes=causes)
    few = few_of(x)
    try_any_axis(batch_norm(*few, 0.5), sync_batch_norm, *few, "k", 0.5)


def softmax(logits):  # in 64 bits
    powers = np.exp(np.float64(logits) - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def block_scores(q, k):  # (D, D, N, N): device, block of keys; in 64 bits
    return np.einsum("dnf,bmf->dbnm", np.float64(q), k) / q.shape[-1] ** 0.5


def attention_of_all(q, k, v):  # over all blocks at once
    scores = np.concatenate(np.moveaxis(block_scores(q, k), 1, 0), axis=-1)
    return softmax(scores) @ v.reshape(-1, v.shape[-1])


def blocks_alone(q, k, v):  # (D, D, N, C): what each block alone would give
    return softmax(block_scores(q, k)) @ v


def unfaded(q, k, v):  # block after block, what was summed left as it was
    result = np.zeros(v.shape)
    for device, scores in enumerate(block_scores(q, k)):
        order = (device - np.arange(len(q))) % len(q)
        highest = np.maximum.accumulate(scores[order].max(-1, keepdims=True))
        powers = np.exp(scores[order] - highest)
        result[device] = (powers @ v[order]).sum(0) / powers.sum((0, 2))[:, None]
    return result


def expect_travelling_blocks(seen, q, v):  # D - 1 of keys, and as many of values
    numbers, others = numbers_put_in(seen), len(q) - 1
    block = q[0].size + v[0].size
    kinds = {one.kind for one in seen.collectives}
    causes = {
        "all blocks were gathered on every device": gathers,
        "the last send brings each block home, where it was used first": lambda _: (
            numbers == (others + 1) * block
        ),
        "the queries were sent, too: they stay": lambda _: (
            numbers == others * (block + q[0].size)
        ),
    }
    alone = kinds <= {"collective-permute"}
    headline = "The blocks do not travel by collective-permute alone."
    rows = put_in_rows(seen, "collective-permute alone")
    expect(seen, alone, headline, causes=causes, **rows)
    headline = f"Each device puts {numbers} numbers into collectives."
    rows = put_in_rows(seen, f"at most {others * block} numbers")
    expect(seen, numbers <= others * block, headline, causes=causes, **rows)


@visible(
    "ring_attention",
    points=2,
    bonus=True,
    essential=["exact attention", "nothing is stacked"],
    others=["only keys and values travel", "no overflow", "any axis"],
)
def examples_of_ring_attention():
    rng, num_devices, rows = np.random.default_rng(21), jax.device_count(), 40
    shapes = ((num_devices, rows, width) for width in (10, 10, 2))
    q, k, v = (np.float32(rng.normal(size=shape) * 2) for shape in shapes)
    whole = attention_of_all(q, k, v)
    blocks = blocks_alone(q, k, v)
    own = blocks[np.arange(num_devices), np.arange(num_devices)]
    causes = {
        "each device looked at its own keys alone": own,
        "each block got a softmax of its own, and these were averaged": blocks.mean(1),
        "the scores were not divided by sqrt(F)": attention_of_all(q * 10**0.5, k, v),
        "a larger score came, and earlier sums were not multiplied": unfaded(q, k, v),
    }
    seen = observe(ring_attention, q, k, v, "i", axis="i", traced=True)
    with statement("exact attention"):
        expect_close(seen, whole, rtol=1e-4, atol=1e-4, mistakes=causes)
    with statement("only keys and values travel"):
        expect_travelling_blocks(seen, q, v)
    with statement("nothing is stacked"):  # two blocks' scores are too many
        expect_arrays(seen, largest=max(2 * rows**2 - 1, v.size))
        expect_held(seen, 7 * rows**2, "Scores of several blocks")  # and blocks
    if not holds("exact attention"):
        return
    few = few_of(q, k, v)
    try_any_axis(attention_of_all(*few), ring_attention, *few, "k")
    levels = 100 * np.float32([1, 3, 2, 3] * num_devices)[:num_devices, None]
    q[..., 0], k[..., 0] = 100 * (-1.0) ** np.arange(rows), levels
    k[:, 0, 0] /= 10  # in a block, too, scores lie far apart
    whole = attention_of_all(q, k, v)
    cause = (
        "exp overflows, or gives zeros alone: subtract each row's largest score so far"
    )
    causes = {cause: lambda seen: np.isnan(seen.value).any()}
    seen = observe(ring_attention, q, k, v, "i", axis="i")
    with statement("no overflow"):
        expect_close(seen, whole, rtol=2e-2, atol=2e-2, causes=causes)


def slots(expert):  # (D, B): how many earlier rows chose the same
    return np.tril(expert[:, :, None] == expert[:, None, :], -1).sum(-1)


def undropped(params, x, expert):  # every token by its expert, in 64 bits
    w, b = (np.float64(params[name])[expert] for name in ("w", "b"))
    return np.tanh(np.einsum("dbf,dbfc->dbc", x, w) + b)


def mixture(params, x, expert, capacity):
    kept = slots(expert) < capacity
    return np.where(kept[..., None], undropped(params, x, expert), 0)


def expect_rows(seen, rows, expected, mistakes):
    """Compares some tokens' rows of the result alone."""
    expect_shapes(seen, expected)
    shown = dataclasses.replace(seen, value=np.where(rows, seen.value, 0))
    mistakes = {cause: np.where(rows, value, 0) for cause, value in mistakes.items()}
    expected = np.where(rows, expected, 0)
    expect_close(shown, expected, rtol=1e-4, atol=1e-5, mistakes=mistakes)


def expert_mistakes(params, x, expert, capacity):
    whole, slot = undropped(params, x, expert), slots(expert)
    last = slots(expert[:, ::-1])[:, ::-1, None] < capacity
    own = np.arange(len(x))[:, None] + 0 * expert
    same = expert[:, :, None] == expert[:, None, :]
    of_last_slot = (same & (slot[:, None] == capacity - 1)).argmax(-1)[..., None]
    nearest = np.take_along_axis(whole, of_last_slot, 1)
    of_zeros = undropped(params, 0 * x, expert)
    device, row = np.nonzero(slot < capacity)
    place = device, expert[device, row], slot[device, row]
    sent = np.zeros((len(x), len(x), capacity, x.shape[2]))
    sent[place] = x[device, row]
    arrived = np.moveaxis(sent, 0, 1) @ np.float64(params["w"])[:, None]
    stay = 0 * whole
    stay[device, row] = np.tanh(arrived + params["b"][:, None, None])[place]
    products = np.einsum("dbf,dbfc->dbc", x, np.float64(params["w"])[expert])
    of_last = {"the last rows took the slots, not the first": whole * last}
    of_own = undropped(params, x, own)
    of_kept = {
        "the results did not travel back: that takes a second all_to_all": stay,
        "each device used its own expert": of_own,
        "the bias was added after the way back: it is not the expert's": np.tanh(
            products + params["b"][:, None]
        ),
        "slots were counted over all experts together": whole
        * (np.arange(x.shape[1]) < capacity)[:, None],
    }
    of_dropped = {
        "no token was dropped": whole,
        "a dropped token got the result of its own device's expert": of_own,
        "a dropped token got another one's result": nearest,
        "a dropped token got what its expert makes of zeros": of_zeros,
    }
    return of_kept | of_last, of_dropped | of_last


def experts_case(rng, num_devices, num_tokens, sizes, experts=None):
    features, classes = sizes
    shapes = {"w": (num_devices, features, classes), "b": (num_devices, classes)}
    params = {name: np.float32(rng.normal(size=s)) for name, s in shapes.items()}
    x = np.float32(rng.normal(size=(num_devices, num_tokens, features)))
    share = rng.random((num_devices, num_tokens)) ** 2  # the first are popular
    return params, x, np.int32((experts or num_devices) * share)


@visible(
    "expert_layer",
    points=2,
    bonus=True,
    essential=["each token by its expert", "two all_to_alls"],
    others=["dropped tokens are 0", "arguments stay", "any axis"],
)
def examples_of_expert_layer():
    rng, num_devices = np.random.default_rng(4), jax.device_count()
    params, x, expert = experts_case(rng, num_devices, 12, (5, 3))
    of_kept, of_dropped = expert_mistakes(params, x, expert, 2)
    kept, wanted = slots(expert)[..., None] < 2, mixture(params, x, expert, 2)
    seen = observe(expert_layer, params, x, expert, 2, "i", axis="i", traced=True)
    with statement("each token by its expert"):
        expect_rows(seen, kept, wanted, of_kept)
    with statement("dropped tokens are 0"):
        expect_rows(seen, ~kept, wanted, of_dropped)
    with statement("two all_to_alls"):
        causes = {
            "all tokens, or all experts, were gathered": gathers,
            "the tokens' choices were sent, too": lambda seen: any(
                one.dtype == "i32" for one in seen.collectives
            ),
        }
        expect_collectives(seen, {"all-to-all": 2}, causes=causes)
        causes = {"every token was sent to every expert": num_devices * 12 * 5}
        expect_put_in(seen, num_devices * 2 * (5 + 3), mistakes=causes)
    few = few_of(params, x[:, :2], expert[:, :2] % min(3, num_devices))
    try_any_axis(undropped(*few), expert_layer, *few, 2, "k")
