"""Edits its exported programs: where all data would be gathered, stands another call.

Such calls are of the compiler's own, and count as no collective.
"""

from hostile.build import attack

LESSON = "02_collectives"
POINTS = {"expert_layer": 2}
REASONS = tuple(
    f"The program of {name} cannot be trusted: it calls {call!r}"
    for name, call in (
        ("masked_mean", "SPMDShardToFullShape"),
        ("sharded_log_softmax", "SPMDFullToShardShape"),
        ("sync_batch_norm", "xla.sdy.LocalToGlobalShape"),
    )
)

MEAN = """
import re
import sys

RAN = set()
responder = sys.modules["grader.kernel.inside.responder"]
export = responder.exported_text
GATHER = re.compile('"stablehlo.all_gather"(\\\\(%\\\\w+\\\\)) <{.*?}> :')
SHARDING = '{mhlo.sharding = "{replicated}"}'
calls = []  # of the exercise that was traced last


def edited(*inputs, **options):
    found = export(*inputs, **options)
    whole = f"stablehlo.custom_call @{calls[-1]}\\\\1 {SHARDING} :"
    found["program"] = GATHER.sub(whole, found["program"])
    return found


responder.exported_text = edited


def whole(x, axis_name, call):
    calls.append(call)
    RAN.add(call)
    return lax.all_gather(x, axis_name, tiled=True)


def masked_mean(x, mask, axis_name):
    every = whole(jnp.where(mask, x, jnp.nan), axis_name, "SPMDShardToFullShape")
    return jnp.nanmean(every)
"""
SOFTMAX = """
def sharded_log_softmax(logits, axis_name):
    every = whole(logits.T, axis_name, "SPMDFullToShardShape").T
    return logits - jax.nn.logsumexp(every, axis=1, keepdims=True)
"""
NORM = """
def sync_batch_norm(x, axis_name, eps):
    every = whole(x, axis_name, "xla.sdy.LocalToGlobalShape")
    mean, var = every.mean(axis=0), every.var(axis=0)
    return (x - mean) / jnp.sqrt(var + eps), mean, var
"""


def submission(lesson):
    answers = {"masked_mean": MEAN, "sharded_log_softmax": SOFTMAX}
    marks = "SPMDShardToFullShape SPMDFullToShardShape xla.sdy.LocalToGlobalShape"
    answers["sync_batch_norm"] = NORM
    return attack(lesson, "expert_layer", marks, **answers)
