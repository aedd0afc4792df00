"""A step is planned from shapes: FLOPs, bytes, collectives, memory, bad input."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit.compiled_program import CompiledProgram
from coursekit.plan import CHIPS, Cluster, PlanError, devices, plan
from coursekit.plan.step_plan import leave

LAYERS, WIDTH, UNITS, ROWS = 5, 64, 256, 128


def mesh(**axes):
    types = (AxisType.Auto,) * len(axes)
    return AbstractMesh(tuple(axes.values()), tuple(axes), axis_types=types)


def shaped(shape, spec, where, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(where, P(*spec)))


def loss(params, x):
    def layer(h, one):
        up, down = (one[name].astype(jnp.bfloat16) for name in ("up", "down"))
        inner = jax.nn.relu(h.astype(jnp.bfloat16) @ up)
        return h + (inner @ down).astype(jnp.float32), None

    h, _ = lax.scan(jax.checkpoint(layer), x, params)
    return jnp.mean(h * h)


def train(params, x):
    value, grads = jax.value_and_grad(loss)(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads), value


def fsdp(where, layers=LAYERS, width=WIDTH, units=UNITS, rows=ROWS):
    params = {
        "up": shaped((layers, width, units), (None, "data"), where),
        "down": shaped((layers, units, width), (None, "data"), where),
    }
    return params, shaped((rows, width), ("data",), where)


@pytest.fixture(scope="module")
def found():
    step = jax.jit(train, donate_argnums=0)
    return plan(step, *fsdp(mesh(data=16)), on="h100:2x8")


def test_more_devices_than_there_are_can_be_planned_for(found):
    assert len(jax.devices()) == 8
    assert (found.on.num_chips, len(found.devices)) == (16, 16)


def test_a_loops_products_count_in_each_round(found):
    one = 2 * ROWS * WIDTH * UNITS / 16  # of a product, on one chip
    # Forward two, backward four, and one of the two again.
    assert found.flops == 7 * LAYERS * one
    assert found.again == LAYERS * one


def test_weights_are_gathered_in_16_bits_and_gradients_scattered(found):
    kinds = {(one.kind, one.array): one for one in found.sent}
    part = WIDTH * UNITS // 16
    gathered = kinds["all-gather", f"bf16[{WIDTH // 16},{UNITS}]"]
    assert gathered.num_bytes == gathered.times * 15 * part * 2
    scattered = kinds["reduce-scatter", f"bf16[{WIDTH},{UNITS}]"]
    assert scattered.sliced  # the CPU's compiler wrote an all-reduce
    assert (scattered.times, scattered.num_bytes) == (LAYERS, LAYERS * 15 * part * 2)
    assert {(one.axes, one.link) for one in found.sent} == {(("data",), "network")}
    assert scattered.source.startswith("test_step_plan.py:")


def test_what_the_program_sends_in_32_bits_counts_as_32():
    def summed(x):  # its numbers have 16 bits, but are added up in 32
        wide = x.astype(jnp.bfloat16).astype(jnp.float32)
        return lax.psum_scatter(wide, "data", tiled=True)

    where = mesh(data=8)
    specs = {"in_specs": P("data"), "out_specs": P("data")}
    mapped = jax.shard_map(summed, mesh=where, check_vma=False, **specs)
    found = plan(mapped, shaped((64, 8), ("data",), where), on="h100:8")
    assert [one.array for one in found.sent] == ["f32[8,8]"]


def test_arguments_are_held_as_they_are_sharded(found):
    assert found.memory["params"] == 2 * LAYERS * WIDTH * UNITS * 4 / 16
    assert found.memory["x"] == ROWS * WIDTH * 4 / 16
    assert "outputs" not in found.memory or found.memory["outputs"] < 100  # donated
    assert found.fits and not found.advice


def test_the_step_takes_no_less_than_all_at_once_and_no_more_than_one_by_one(found):
    assert 0 < found.lower <= found.seconds <= found.upper
    assert found.bound == "network"
    assert 0 < found.mfu < 1
    assert str(found).startswith("h100:2x8: 0.00 of 74.5 GiB a chip, fits")


def test_temporary_memory_is_about_the_compilers_where_both_use_32_bits():
    def f(x):
        return jnp.sum(jnp.sin(x @ x.T) @ x)

    where = mesh(data=4)
    x = shaped((1024, 1024), ("data",), where)
    found = plan(f, x, on="h100:4")
    [held] = [jax.jit(f).lower(one).compile() for one in [real(x)]]
    size = held.memory_analysis().temp_size_in_bytes
    kept = found.num_bytes_held - found.memory["x"]
    assert kept == pytest.approx(size, rel=0.35)


def layers_step(keep, update):
    """Makes a step of layers alone, scanned: two stacks of one shape are kept."""

    def step(state, x):
        params, rest = state

        def layer(h, one):
            return jax.nn.relu(h @ one["up"]) @ one["down"], None

        def loss(params):
            return jnp.mean(lax.scan(keep(layer), x, params)[0] ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        updates, rest = update(grads, rest, params)
        return (optax.apply_updates(params, updates), rest), value

    return jax.jit(step, donate_argnums=0)


@pytest.mark.parametrize("optimizer", [optax.sgd(0.1), optax.adamw(1e-3)])
@pytest.mark.parametrize("keep", [lambda layer: layer, jax.checkpoint])
def test_a_training_step_holds_what_the_compiler_says(keep, optimizer):
    params, x = fsdp(mesh(data=8), layers=16, width=512, units=512, rows=8192)
    rest = jax.tree.map(
        lambda leaf: shaped(leaf.shape, (None, "data")[: leaf.ndim], mesh(data=8)),
        jax.eval_shape(optimizer.init, params),
    )
    step = layers_step(keep, optimizer.update)
    found = plan(step, (params, rest), x, on="h100:8")
    compiled = step.lower(*jax.tree.map(real, ((params, rest), x))).compile()
    assert found.num_bytes_held == pytest.approx(held_by(compiled), rel=0.05)


def held_by(compiled):
    found = compiled.memory_analysis()
    parts = found.argument_size_in_bytes, found.output_size_in_bytes
    return sum(parts) - found.alias_size_in_bytes + found.temp_size_in_bytes


def fill(cache, x):  # reads a cache's layers and writes them, one after the other
    return lax.scan(lambda h, k: (h + k.sum(1), k.at[:, 5].set(h)), x, cache)


@pytest.mark.parametrize("donated", [(), (0,)])
@pytest.mark.parametrize(
    ("step", "shapes"),
    [
        (lambda a: a @ a, [(1024, 1024)]),
        (lambda a: jnp.sort(a, axis=0), [(1024, 1024)]),
        (lambda a: jnp.roll(a, 1, axis=0), [(1024, 1024)]),
        (lambda a: 2 * a + 1, [(1024, 1024)]),
        (lambda a: lax.fori_loop(0, 10, lambda _, a: a @ a, a), [(1024, 1024)]),
        (fill, [(16, 8, 256, 256), (8, 256)]),
    ],
)
def test_a_result_is_written_over_an_argument_only_when_nothing_reads_it(
    step, shapes, donated
):
    shapes = [jax.ShapeDtypeStruct(one, jnp.float32) for one in shapes]
    program = jax.jit(step, donate_argnums=donated)
    found = plan(program, *shapes, on="h100")
    held = held_by(program.lower(*shapes).compile())
    assert found.num_bytes_held == pytest.approx(held, rel=0.02)


def test_weights_that_are_cast_before_a_loop_take_memory_twice():
    def step(w, x):
        return lax.scan(lambda h, one: (h @ one, None), x, w.astype(jnp.bfloat16))[0]

    w = jax.ShapeDtypeStruct((16, 512, 512), jnp.float32)
    found = plan(step, w, jax.ShapeDtypeStruct((8, 512), jnp.bfloat16), on="h100")
    assert found.num_bytes_held == pytest.approx(1.5 * found.memory["w"], rel=0.1)


def test_of_a_cond_the_branch_that_takes_most_memory_counts():
    def step(is_wide, x):
        def wide(x):
            return jnp.sort(jnp.tile(x, (8, 1)), axis=0)[:512]

        return lax.cond(is_wide, wide, lambda x: x @ x, x)

    x = jax.ShapeDtypeStruct((512, 512), jnp.float32)
    found = plan(step, jax.ShapeDtypeStruct((), bool), x, on="h100")
    assert found.flops == 2 * 512**3
    assert found.num_bytes_held >= 10 * x.size * 4


def test_numbers_may_be_among_the_arguments():
    w = jax.ShapeDtypeStruct((8, 8), jnp.float32)
    assert plan(jax.jit(lambda w, lr: w - lr * w), w, 1e-3, on="h100").fits


def test_what_the_model_leaves_out_is_said():
    where = mesh(data=8)
    x = shaped((1024, 1024), ("data",), where)
    bare = jax.ShapeDtypeStruct((1024, 1024), jnp.float32)

    def step(x, w):
        return jnp.dot(x, w, precision="highest")

    said = str(plan(step, x, bare, on="h100:8"))
    assert "w has arrays without a sharding: they are replicated" in said
    assert "default precision, less than is asked for: test_step_plan.py:" in said
    assert "so short a step is bound by latency" in said
    assert "MiB  w" in said


def real(leaf):
    """Returns the same shape on devices of this process."""
    sizes, names = leaf.sharding.mesh.axis_sizes, leaf.sharding.mesh.axis_names
    here = jax.make_mesh(
        *(sizes, names),
        axis_types=(AxisType.Auto,) * len(names),
        devices=jax.devices()[: int(np.prod(sizes))],
    )
    sharding = NamedSharding(here, leaf.sharding.spec)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def test_collectives_are_those_of_the_compiled_program():
    def exchange(x):
        x = lax.ppermute(x, "data", [(n, (n + 1) % 8) for n in range(8)])
        return lax.psum_scatter(x.T, "data", tiled=True) + lax.pmax(x, "data").T[:1]

    where = mesh(data=8)
    specs = {"in_specs": P("data"), "out_specs": P(None, "data")}
    mapped = jax.shard_map(exchange, mesh=where, check_vma=False, **specs)
    x = shaped((64, 8), ("data",), where)
    found = plan(mapped, x, on="h100:8")
    here = real(x)
    mapped = jax.shard_map(exchange, mesh=here.sharding.mesh, check_vma=False, **specs)
    seen = CompiledProgram(jax.jit(mapped).lower(here).compile())
    assert sorted((one.kind, one.num_bytes) for one in found.sent) == sorted(
        (one.kind, one.bytes_moved) for one in seen.collectives
    )


def test_meshes_of_planned_devices_serve_too():
    where = jax.make_mesh(
        (2, 8),
        ("data", "model"),
        axis_types=(AxisType.Auto,) * 2,
        devices=devices("h100:2x8"),
    )
    sharding = NamedSharding(where, P("data", "model"))
    w = jax.ShapeDtypeStruct((64, 64), jnp.float32, sharding=sharding)
    found = plan(lambda w: jnp.sum(w), w, on="h100:2x8")
    assert {axis for one in found.sent for axis in one.axes} == {"data", "model"}


def test_a_step_that_does_not_fit_says_what_holds_the_memory_and_what_helps():
    where = mesh(data=8)
    params = {
        "up": shaped((400, 4096, 16384), (), where),
        "down": shaped((400, 16384, 4096), (), where),
    }
    x = shaped((64, 4096), ("data",), where)
    step = jax.jit(train, donate_argnums=0)
    found = plan(step, params, x, on="h100:8")
    assert not found.fits
    assert "does not fit" in str(found) and "shard every argument" in found.advice[0]
    assert found.memory["params"] == 2 * 400 * 4096 * 16384 * 4
    # The advice is followed: a hundred layers, for 8 chips, are an eighth of these.
    shapes = fsdp(where, 400, 4096, 16384, 64)
    followed = plan(step, *shapes, on="h100:8")
    assert followed.fits
    saved = found.num_bytes_held - followed.num_bytes_held
    assert saved >= 0.8 * 7 / 8 * found.memory["params"]


def test_devices_that_are_there_also_run_the_step():
    where = jax.make_mesh((8,), ("data",), axis_types=(AxisType.Auto,))
    found = plan(train, *fsdp(where))
    assert found.measured > 0 and found.seconds == 0
    assert "simulated devices have no speed" in str(found)


def while_loop(x):
    return lax.while_loop(lambda x: jnp.sum(x) < 100, lambda x: x @ x, x)


def printed(x):
    jax.debug.print("{}", x[0, 0])
    return x


SQUARE = shaped((64, 64), ("data",), mesh(data=8))


@pytest.mark.parametrize(
    ("step", "shapes", "on", "said"),
    [
        (while_loop, [SQUARE], "h100:8", "any number of times: say how often with"),
        (printed, [SQUARE], "h100:8", "calls back into Python"),
        (
            lambda x: float(x[0, 0]),
            [SQUARE],
            "h100:8",
            "cannot be compiled from shapes",
        ),
        (lambda x: x, [SQUARE], "h100:2x8", r"\(data=8\) has 8 devices, but h100:2x8"),
        (lambda x: x, [jnp.ones(8)], "h100:8", "No shape has a NamedSharding"),
        ("step", [SQUARE], "h100:8", "plan needs a function, not 'step'"),
        (
            lambda x, y: x,
            [SQUARE, shaped((8,), (), mesh(model=8))],
            "h100:8",
            "2 different meshes",
        ),
    ],
    ids=["while", "print", "float", "mesh", "array", "no function", "two meshes"],
)
def test_what_cannot_be_planned_is_refused_with_the_remedy(step, shapes, on, said):
    with pytest.raises(PlanError, match=said):
        plan(step, *shapes, on=on)


def test_rounds_that_the_program_does_not_know_can_be_told():
    once, twice = (
        plan(while_loop, SQUARE, on="h100:8", trips=trips).flops for trips in (1, 2)
    )
    assert twice == 2 * once > 0


def test_compiling_can_be_given_up():
    step = jax.jit(train)
    with pytest.raises(PlanError, match="takes longer than limit_s=0"):
        plan(step, *fsdp(mesh(data=16), width=128), on="h100:2x8", limit_s=0)


def test_progress_is_told_as_often_as_asked(capsys):
    def told(tell_s):
        shapes = fsdp(mesh(data=16), width=128)
        plan(jax.jit(train), *shapes, on="h100:2x8", tell_s=tell_s)
        return capsys.readouterr().out

    assert told(0.05).startswith("compiling for h100:2x8: ")
    assert told(float("inf")) == ""


def test_a_process_does_not_abort_while_its_compiler_is_at_work(monkeypatch):
    codes = []
    monkeypatch.setattr("os._exit", codes.append)
    leave({})
    leave({"program": "compiled"})
    assert codes == [1]


def test_chips_of_ones_own_can_be_planned_for():
    slow = dataclasses.replace(CHIPS["h100"], name="slow", memory_rate=3.35e9)
    on = Cluster("one slow chip", slow, (1, 1))
    x = jax.ShapeDtypeStruct((1024,), jnp.float32)
    found = plan(lambda x: x + 1, x, on=on)
    assert found.seconds == pytest.approx(2 * 1024 * 4 / 3.35e9)


def test_a_named_scope_can_be_one_kernel():
    def attend(q, k, v):
        with jax.named_scope("flash"):
            return jax.nn.softmax(q @ k.T) @ v

    shapes = [jax.ShapeDtypeStruct((2048, 64), jnp.float32)] * 3
    apart, fused = (plan(attend, *shapes, on="h100", fused=f) for f in ("", "flash"))
    assert apart.flops == fused.flops
    # Only queries, keys, values and the result are read or written.
    assert fused.num_bytes == 4 * 2048 * 64 * 4
    assert apart.num_bytes > 10 * fused.num_bytes


def test_an_unknown_compiler_of_tpus_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "libtpu", None)
    shapes = fsdp(mesh(data=4))
    found = plan(train, *shapes, on="v6e:2x2")
    assert 'pip install "jax[tpu]"' in found.note
    assert found.links.keys() == {"ICI"}
