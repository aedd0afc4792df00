"""A compiled program is read for what the compiler put in, on every supported JAX."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit.compiled_program import CompiledProgram
from coursekit.observe import observe

X = np.arange(128, dtype=np.float32).reshape(16, 8)


def mesh(**axes):
    names = tuple(axes)
    types = (AxisType.Auto,) * len(names)
    return jax.make_mesh(tuple(axes.values()), names, axis_types=types)


def placed(x, spec, **axes):
    return lax.with_sharding_constraint(x, NamedSharding(mesh(**axes), spec))


def mapped(function, **options):
    """Maps over eight devices, so that each collective is in the program as written."""
    sizes = {"mesh": mesh(i=8), "in_specs": P("i"), "out_specs": P("i")}
    return jax.shard_map(function, **sizes, check_vma=False, **options)


def seen(function, *arguments):
    return observe(function, *(arguments or (X,)), compiled=True)


def said(function, *arguments):
    return sorted(map(str, seen(function, *arguments).collectives))


def data_parallel(w, x):
    x = placed(x, P("data"), data=8)
    return placed(jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w), P(), data=8)


def test_the_compilers_own_all_reduce_is_found():
    w = np.ones((8, 4), np.float32)
    [one] = seen(data_parallel, w, X).collectives
    assert (one.kind, one.reduction, sorted(one.shape)) == ("all-reduce", "add", [4, 8])
    assert observe(data_parallel, w, X, traced=True).collectives == ()


def test_gathered_parameters_are_found_by_what_a_device_puts_in():
    def gathered(w):
        return placed(placed(w, P("data"), data=8), P(), data=8) * 2

    assert said(gathered, X) == ["all-gather of f32[2,8]"]


@pytest.mark.parametrize(
    ("function", "collective", "num_bytes"),
    [
        (lambda x: lax.psum(x, "i"), "all-reduce (add) of f32[2,8]", 112),
        (lambda x: lax.pmax(x, "i"), "all-reduce (max) of f32[2,8]", 112),
        (lambda x: lax.all_gather(x, "i", tiled=True), "all-gather of f32[2,8]", 448),
        (
            lambda x: lax.psum_scatter(x.T, "i", tiled=True),
            "reduce-scatter (add) of f32[8,2]",
            56,
        ),
        (
            lambda x: lax.ppermute(x, "i", [(d, (d + 1) % 8) for d in range(8)]),
            "collective-permute of f32[2,8]",
            64,
        ),
    ],
    ids=["psum", "pmax", "all_gather", "psum_scatter", "ppermute"],
)
def test_a_collective_of_ones_own_is_found_again(function, collective, num_bytes):
    [one] = seen(mapped(function)).collectives
    assert str(one) == collective
    assert (one.devices, one.bytes_moved) == (8, num_bytes)


def test_an_exchange_counts_as_one_operand():
    exchange = functools.partial(lax.all_to_all, axis_name="i", tiled=True)
    [one] = seen(
        mapped(lambda x: exchange(x.T, split_axis=0, concat_axis=0))
    ).collectives
    assert one.kind == "all-to-all" and one.bytes_moved == 56


def test_a_collective_in_a_loop_counts_as_often_as_it_runs():
    def loop(x):
        return lax.fori_loop(0, 5, lambda _, c: jnp.sin(lax.psum(c, "i")), x)

    assert said(mapped(loop)) == ["5 x all-reduce (add) of f32[2,8], in a loop"]


def test_groups_have_the_size_of_their_axis():
    def summed(x):
        x = placed(x, P("data", "model"), data=4, model=2)
        return placed(jnp.sum(x, axis=1), P("data"), data=4, model=2)

    [one] = seen(summed).collectives
    assert (one.devices, one.shape) == (2, (4,))


def test_arrays_and_work_are_those_of_one_device():
    def product(x, w):
        return placed(x, P("data"), data=8) @ w

    w = np.ones((8, 32), np.float32)
    split, whole = seen(product, X, w), seen(lambda x, w: x @ w, X, w)
    assert (2, 32) in split.array_shapes and (16, 32) not in split.array_shapes
    assert (16, 32) in whole.array_shapes
    assert whole.flops == pytest.approx(8 * split.flops, rel=0.1)


def test_a_program_on_one_device_sends_nothing():
    executable = jax.jit(lambda x: x + 1).lower(X).compile()
    assert CompiledProgram(executable).collectives == ()


def test_what_does_not_trace_is_not_compiled():
    found = seen(lambda x: float(np.sum(x)))
    assert (found.collectives, found.array_shapes, found.flops) == (None, None, None)


class Text:
    """Stands for an executable of another backend, by its text alone."""

    def __init__(self, x, operation):
        self.x, self.operation = x, operation

    def as_text(self):
        lines = ("HloModule m, num_partitions=8", "%add (a: f32[]) -> f32[] {")
        lines += (
            "  ROOT %s = f32[] add(%a, %a)",
            "}",
            "ENTRY %main (x: f32[4]) -> x {",
            f"  %x = {self.x} parameter(0)",
        )
        return "\n".join((*lines, f"  ROOT %r = {self.operation}", "}"))

    def cost_analysis(self):
        return None


@pytest.mark.parametrize(
    ("x", "operation", "devices", "said"),
    [
        (
            "f32[4]{0}",
            "f32[4]{0} all-reduce(%x), replica_groups={}, to_apply=%add",
            8,
            "all-reduce (add) of f32[4]",
        ),
        (
            "f32[4]{0:T(128)}",
            "f32[4]{0:T(128)} all-reduce-start(%x), replica_groups=[2,4]<=[8],"
            " to_apply=%add",
            4,
            "all-reduce (add) of f32[4]",
        ),
        (
            "bf16[2,4]{1,0}",
            "bf16[8,4]{1,0} all-gather(%x), dimensions={0},"
            " replica_groups=mesh['data'=4,'model'=2] {'data':(2)2,'model'}",
            4,
            "all-gather of bf16[2,4]",
        ),
        (
            "f32[2,4]{1,0}",
            "f32[8,4]{1,0} all-gather(%x), dimensions={0}, replica_groups=mesh['a'=4,"
            "'b'=2], device_ids=([2,4]T(1,0)) {'a'}, use_global_device_ids=true",
            4,
            "all-gather of f32[2,4]",
        ),
        (
            "s32[4]{0}",
            "s32[4]{0} collective-permute(%x), source_target_pairs={{0,1},{1,0}}",
            2,
            "collective-permute of i32[4]",
        ),
        (
            "bf16[1,8]{1,0:T(8,128)(2,1)}",
            "(bf16[1,8]{1,0:T(8,128)(2,1)}, bf16[1,8]{1,0:T(8,128)(2,1)}, u32[]{:S(2)},"
            " u32[]{:S(2)}) collective-permute-start(%x), source_target_pairs={{0,1}}",
            1,
            "collective-permute of bf16[1,8]",
        ),
    ],
)
def test_other_ways_of_writing_a_program_are_understood(x, operation, devices, said):
    found = CompiledProgram(Text(x, operation))
    [one] = found.collectives
    assert (one.devices, str(one)) == (devices, said)
    assert found.flops == 0


@pytest.mark.parametrize(
    ("written", "groups"),
    [
        ("{{0,1},{2,3}}", [[0, 1], [2, 3]]),
        ("[2,2]<=[4]", [[0, 1], [2, 3]]),
        ("[2,2]<=[2,2]T(1,0)", [[0, 2], [1, 3]]),
        ("mesh['a'=2,'b'=2] {'b'}", [[0, 1], [2, 3]]),
        ("mesh['a'=2,'b'=2] {'a'}", [[0, 2], [1, 3]]),
        ("mesh['a'=4] {'a':(1)2}", [[0, 2], [1, 3]]),
        ("mesh['a'=4] {'a':(2)2}", [[0, 1], [2, 3]]),
        ("mesh['a'=2,'b'=2], device_ids=([2,2]T(1,0)) {'a'}", [[0, 1], [2, 3]]),
    ],
)
def test_groups_of_devices_are_read_as_they_are_written(written, groups):
    operation = f"f32[4]{{0}} all-reduce(%x), replica_groups={written}, to_apply=%add"
    found = CompiledProgram(Text("f32[4]{0}", operation))
    assert found.groups(found.computations["main"][-1]) == groups


def test_a_tpus_loop_counts_up_to_a_constant():
    class Program(Text):
        def as_text(self):
            return """HloModule m, num_partitions=8
%body (s: (s32[], f32[4])) -> (s32[], f32[4]) {
  %s = (s32[]{:T(128)}, f32[4]{0:T(128)}) parameter(0)
  %i = s32[]{:T(128)} get-tuple-element(%s), index=0
  %x = f32[4]{0:T(128)} get-tuple-element(%s), index=1
  %two = s32[]{:T(128)} constant(2)
  %next = s32[]{:T(128)} add(%i, %two)
  %p = f32[4]{0:T(128)} collective-permute(%x), source_target_pairs={{0,1},{1,0}}
  ROOT %t = (s32[]{:T(128)}, f32[4]{0:T(128)}) tuple(%next, %p)
}
%condition (s: (s32[], f32[4])) -> pred[] {
  %s = (s32[]{:T(128)}, f32[4]{0:T(128)}) parameter(0)
  %stop = s32[]{:T(128)} constant(9)
  %i = s32[]{:T(128)} get-tuple-element(%s), index=0
  ROOT %lt = pred[]{:T(512)} compare(%i, %stop), direction=LT
}
ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0:T(128)} parameter(0)
  %first = s32[]{:T(128)} constant(1)
  %copy = s32[]{:T(128)} copy(%first)
  %t = (s32[]{:T(128)}, f32[4]{0:T(128)}) tuple(%copy, %x)
  %w = (s32[]{:T(128)}, f32[4]{0:T(128)}) while(%t), condition=%condition, body=%body
  ROOT %r = f32[4]{0:T(128)} get-tuple-element(%w), index=1
}
"""

    [one] = CompiledProgram(Program("", "")).collectives
    assert one.times == 4
