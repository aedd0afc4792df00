"""Edits its exported programs: each sorts by another comparator, and none is an order.

With such a comparator a sort may never end, or leave its memory.
"""

from hostile.build import attack

LESSON = "02_collectives"
POINTS = {"expert_layer": 2}
REASONS = tuple(
    f"The program of {name} cannot be trusted: it sorts by what may be no order"
    for name in ("masked_mean", "sharded_log_softmax", "sync_batch_norm")
)

MEAN = """
import re
import sys

RAN = set()
responder = sys.modules["grader.kernel.inside.responder"]
export = responder.exported_text
VALUE = "(%\\\\w+)"
LESS = f"{VALUE} = stablehlo.compare LT, {VALUE}, {VALUE}, TOTALORDER.*"
edits = []  # of the exercise that was traced last


def edited(*inputs, **options):
    found = export(*inputs, **options)
    found["program"] = re.sub(LESS, edits[-1], found["program"])
    return found


responder.exported_text = edited


def sorted_by(x, name, line):
    RAN.add(name)
    edits.append(line)
    return jnp.sort(x)


def masked_mean(x, mask, axis_name):
    compare = "\\\\1 = stablehlo.compare LE, \\\\2, \\\\3, TOTALORDER"
    kind = " : (tensor<f32>, tensor<f32>) -> tensor<i1>"
    x = sorted_by(jnp.where(mask, x, 0).ravel(), "or_equal", compare + kind)
    return lax.psum(x.sum(), axis_name) / lax.psum(mask.sum(), axis_name)
"""
SOFTMAX = """
def sharded_log_softmax(logits, axis_name):
    always = "\\\\1 = stablehlo.constant dense<true> : tensor<i1>"
    logits = logits + 0 * sorted_by(logits, "always", always)
    top = lax.pmax(lax.stop_gradient(logits).max(1, keepdims=True), axis_name)
    sums = lax.psum(jnp.exp(logits - top).sum(1, keepdims=True), axis_name)
    return logits - top - jnp.log(sums)
"""
NORM = """
def sync_batch_norm(x, axis_name, eps):
    unordered = "\\\\1 = stablehlo.compare LT, %arg1, %arg2, FLOAT"
    kind = " : (tensor<f32>, tensor<f32>) -> tensor<i1>"
    x = x + 0 * sorted_by(x, "without_nan", unordered + kind)
    mean = lax.pmean(x.mean(axis=0), axis_name)
    var = lax.pmean(((x - mean) ** 2).mean(axis=0), axis_name)
    return (x - mean) / jnp.sqrt(var + eps), mean, var
"""


def submission(lesson):
    answers = {"masked_mean": MEAN, "sharded_log_softmax": SOFTMAX}
    answers["sync_batch_norm"] = NORM
    return attack(lesson, "expert_layer", "or_equal always without_nan", **answers)
