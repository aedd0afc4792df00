"""Leaves the parameters whole: each device computes all stages, and nothing is sent.

Told: none
Fails: its own stage alone; ticks
"""


def pipeline_forward(stage_params, microbatches):
    def run(params, xs):
        x, _ = jax.lax.scan(lambda x, one: (stage(one, x), None), xs, params)
        return x

    mesh = make_mesh(len(stage_params["w"]))
    specs = {"in_specs": (P(), P()), "out_specs": P(), "check_vma": False}
    return jax.shard_map(run, mesh=mesh, **specs)(stage_params, microbatches)
