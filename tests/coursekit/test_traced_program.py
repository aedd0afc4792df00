"""The collectives of a traced program: their kinds, sizes and how often they run."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit.observation import Collective
from coursekit.observe import observe, on_devices
from coursekit.traced_program import A_SEND, OWN_SEND
from coursekit.tracing import collectives, traced

X = np.arange(128, dtype=np.float32).reshape(8, 16)
W = np.ones(16, np.float32)
RING = [(i, (i + 1) % 8) for i in range(8)]
HALVES = [[0, 1, 2, 3], [4, 5, 6, 7]]


def mesh(**axes):
    sizes = tuple(axes.values())
    devices = np.array(jax.devices()[: math.prod(sizes)]).reshape(sizes)
    return Mesh(devices, tuple(axes), axis_types=(AxisType.Auto,) * len(sizes))


def by_pmap(function):
    return jax.pmap(function, axis_name="d")


def by_shard_map(check_vma):
    def wrap(function):
        def block(rows):  # f32[1, 16], as pmap's function sees one row
            return jax.tree.map(lambda leaf: leaf[None], function(rows[0]))

        options = {"mesh": mesh(d=8), "in_specs": P("d"), "out_specs": P("d")}
        return jax.shard_map(block, **options, check_vma=check_vma)

    return wrap


WRAPS = [by_pmap, by_shard_map(True), by_shard_map(False)]


@pytest.fixture(params=WRAPS, ids=["pmap", "shard_map", "shard_map unchecked"])
def mapped(request):
    return request.param


def send(x):
    return lax.ppermute(x, "d", RING)


def seen(function, *arguments):
    """Lists (kind, reduction, dtype, number of elements, devices, times, in_loop)."""
    return [
        (
            *(one.kind, one.reduction, one.dtype, math.prod(one.shape)),
            *(one.devices, one.times, one.in_loop),
        )
        for one in collectives(function, *arguments)
    ]


def reduced(num_elements, reduction="add", dtype="f32"):
    return ("all-reduce", reduction, dtype, num_elements, 8, 1, False)


def sent(times=1, in_loop=True, num_elements=16):
    return ("collective-permute", "", "f32", num_elements, 8, times, in_loop)


KINDS = {
    "psum": (lambda x: lax.psum(x, "d"), [reduced(16)]),
    "pmean of a pytree": (
        lambda x: lax.pmean({"w": x, "b": [x[:3]]}, "d"),
        [reduced(3), reduced(16)],
    ),
    "pmax": (lambda x: lax.pmax(x, "d"), [reduced(16, "max")]),
    "pmin": (lambda x: lax.pmin(x, "d"), [reduced(16, "min")]),
    "a number": (lambda x: lax.pmean(jnp.sum(x), "d"), [reduced(1)]),
    "bfloat16": (
        lambda x: lax.psum(x.astype(jnp.bfloat16), "d"),
        [reduced(16, dtype="bf16")],
    ),
    "whole numbers": (
        lambda x: lax.pmax(x.astype(jnp.uint8), "d"),
        [reduced(16, "max", "u8")],
    ),
    "complex numbers": (
        lambda x: lax.psum(x.astype(jnp.complex64), "d"),
        [reduced(16, dtype="c64")],
    ),
    "all_gather": (
        lambda x: lax.all_gather(x, "d"),
        [("all-gather", "", "f32", 16, 8, 1, False)],
    ),
    "all_gather, tiled": (
        lambda x: lax.all_gather(x > 0, "d", tiled=True),
        [("all-gather", "", "bool", 16, 8, 1, False)],
    ),
    "psum_scatter": (
        lambda x: lax.psum_scatter(x[:8], "d"),
        [("reduce-scatter", "add", "f32", 8, 8, 1, False)],
    ),
    "psum_scatter, tiled": (
        lambda x: lax.psum_scatter(x, "d", tiled=True),
        [("reduce-scatter", "add", "f32", 16, 8, 1, False)],
    ),
    "ppermute": (send, [sent(in_loop=False)]),
    "all_to_all": (
        lambda x: lax.all_to_all(x[:8], "d", 0, 0),
        [("all-to-all", "", "f32", 8, 8, 1, False)],
    ),
    "all_to_all, tiled": (
        lambda x: lax.all_to_all(x, "d", 0, 0, tiled=True),
        [("all-to-all", "", "f32", 16, 8, 1, False)],
    ),
    "axis_index": (lambda x: x * lax.axis_index("d").astype(x.dtype), []),
    "the number of devices": (lambda x: x / lax.psum(1, "d"), []),
    "nothing": (jnp.sin, []),
    "two of a kind": (
        lambda x: lax.psum(x, "d") + lax.psum(x * x, "d"),
        [("all-reduce", "add", "f32", 16, 8, 2, False)],
    ),
    "in one branch": (
        lambda x: lax.cond(lax.axis_index("d") < 9, send, lambda x: x, x),
        [sent(in_loop=False)],
    ),
    "in a jitted function": (jax.jit(send), [sent(in_loop=False)]),
    "in a function called twice": (
        lambda x: (lambda twice: twice(twice(x)))(jax.jit(send)),
        [sent(2, False)],
    ),
    "under vmap": (lambda x: jax.vmap(send)(x), [sent(in_loop=False)]),
    "under checkpoint": (jax.checkpoint(send), [sent(in_loop=False)]),
}


@pytest.mark.parametrize("case", KINDS.values(), ids=KINDS.keys())
def test_a_collective_is_described_as_one_device_sees_it(case, mapped):
    function, expected = case
    assert sorted(seen(mapped(function), X)) == sorted(expected)


def count_to(stop, step=1, start=0):
    def loop(x):
        init = start, x
        return lax.while_loop(
            lambda carry: carry[0] < stop,
            lambda carry: (carry[0] + step, send(carry[1])),
            init,
        )[1]

    return loop


def nested(x):
    inner = jax.jit(lambda x: lax.fori_loop(0, 3, lambda i, y: send(y), x))
    return lax.fori_loop(0, 5, lambda i, y: inner(y), x)


LOOPS = {
    "scan": (
        lambda x: lax.scan(lambda c, v: (c, send(v)), 0.0, x)[1],
        [sent(16, num_elements=1)],
    ),
    "scan, unrolled": (
        lambda x: lax.scan(lambda c, v: (send(c), None), x, x, unroll=4)[0],
        [sent(16)],
    ),
    "scan, reversed": (
        lambda x: lax.scan(lambda c, v: (send(c), None), x, x, reverse=True)[0],
        [sent(16)],
    ),
    "map": (lambda x: lax.map(send, x), [sent(16, num_elements=1)]),
    "fori_loop": (
        lambda x: lax.fori_loop(2, 5, lambda i, y: send(y), x),
        [sent(3)],
    ),
    "a counter": (count_to(7), [sent(7)]),
    "nested": (nested, [sent(15)]),
    "called twice and alone": (
        lambda x: send(nested(nested(x))),
        [sent(1, False), sent(30)],
    ),
    "none in the loop": (
        lambda x: send(lax.fori_loop(0, 5, lambda i, y: jnp.sin(y), x)),
        [sent(in_loop=False)],
    ),
    "no rounds of fori_loop": (
        lambda x: lax.fori_loop(5, 5, lambda i, y: send(y), x),
        [],
    ),
    "no rounds of scan": (
        lambda x: lax.scan(lambda c, v: (send(c), None), x, x[:0])[0],
        [],
    ),
    "no rounds of while_loop": (count_to(3, start=5), []),
    "an end in the data": (
        lambda x: lax.while_loop(lambda y: y[0] < 9, lambda y: send(y) + 1, x),
        [sent(None)],
    ),
    "bounds in the data": (
        lambda x: lax.fori_loop(0, x[0].astype(int), lambda i, y: send(y), x),
        [sent(None)],
    ),
    "steps of two": (count_to(7, 2), [sent(None)]),
    "an unknown loop in a known one": (
        lambda x: lax.fori_loop(0, 3, lambda i, y: count_to(7, 2)(y), x),
        [sent(None)],
    ),
}


@pytest.mark.parametrize("case", LOOPS.values(), ids=LOOPS.keys())
def test_a_loop_repeats_its_collectives(case, mapped):
    function, expected = case
    assert sorted(seen(mapped(function), X), key=str) == sorted(expected, key=str)


def test_a_loop_around_a_mapped_function_repeats_its_collectives(mapped):
    step = mapped(send)
    assert seen(lambda x: lax.fori_loop(0, 5, lambda i, y: step(y), x), X) == [sent(5)]
    assert seen(lambda x: step(step(step(x))), X) == [sent(3, False)]


@pytest.mark.parametrize("num_devices", [1, 2, 4, 6])
def test_fewer_devices_make_a_smaller_group(num_devices):
    total = by_pmap(lambda x: lax.psum(x, "d"))
    [one] = collectives(total, X[:num_devices])
    assert (one.devices, one.shape) == (num_devices, (16,))


def test_collectives_are_listed_in_the_order_of_the_program(mapped):
    def function(x):
        return send(lax.pmax(lax.all_gather(lax.psum(x, "d"), "d"), "d"))

    kinds = [kind for kind, *_ in seen(mapped(function), X)]
    expected = ["all-reduce", "all-gather", "all-reduce", "collective-permute"]
    assert kinds == expected


def test_a_vmapped_axis_has_no_devices():
    assert collectives(jax.vmap(lambda x: lax.psum(x, "d"), axis_name="d"), X) == ()


GROUPED = {
    "psum": lambda x, **groups: lax.psum(x, "d", **groups),
    "all_gather": lambda x, **groups: lax.all_gather(x, "d", **groups),
    "psum_scatter": lambda x, **groups: lax.psum_scatter(x[:4], "d", **groups),
    "all_to_all": lambda x, **groups: lax.all_to_all(x[:4], "d", 0, 0, **groups),
}


@pytest.mark.parametrize("function", GROUPED.values(), ids=GROUPED.keys())
def test_groups_of_an_axis_exchange_data_among_themselves(function):
    [one] = collectives(by_pmap(lambda x: function(x, axis_index_groups=HALVES)), X)
    assert one.devices == 4


def shift(x, axis):
    size = lax.axis_size(axis)
    return lax.ppermute(x, axis, [(i, (i + 1) % size) for i in range(size)])


OVER = {
    "psum": lax.psum,
    "all_gather": lax.all_gather,
    "psum_scatter": lambda x, axis: lax.psum_scatter(x, axis, tiled=True),
    "all_to_all": lambda x, axis: lax.all_to_all(x, axis, 0, 0, tiled=True),
}
ONE_AXIS = {"ppermute": shift, "pmax": lax.pmax, **OVER}
GROUPS = {
    f"{name} over {axis}": (function, axis, size)
    for axis, size in (("a", 4), ("b", 2), (("a", "b"), 8), (("b", "a"), 8))
    for name, function in (OVER if size == 8 else ONE_AXIS).items()
}


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("case", GROUPS.values(), ids=GROUPS.keys())
def test_a_group_is_as_large_as_its_axes(case, check_vma):
    function, axis, size = case
    split = jax.shard_map(
        lambda x: function(x[0], axis)[None],
        mesh=mesh(a=4, b=2),
        in_specs=P(("a", "b")),
        out_specs=P(("a", "b")),
        check_vma=check_vma,
    )
    [one] = collectives(split, X)
    assert (one.devices, math.prod(one.shape)) == (size, 16)


@pytest.mark.parametrize(
    ("pairs", "devices", "num_bytes"),
    [
        (RING, 8, 64),
        ([(i, i ^ 1) for i in range(8)], 2, 64),
        ([(0, 5)], 2, 64),
        ([(i, i + 1) for i in range(7)], 8, 64),
        ([(i, i) for i in range(8)], 1, 0),
        ([], 1, 0),
    ],
    ids=["ring", "neighbours", "one pair", "open chain", "itself", "nobody"],
)
def test_a_permutation_joins_the_devices_that_it_connects(
    pairs, devices, num_bytes, mapped
):
    [one] = collectives(mapped(lambda x: lax.ppermute(x, "d", pairs)), X)
    assert (one.devices, one.bytes_moved) == (devices, num_bytes)


def mean_loss(w, x):
    return lax.pmean(jnp.sum((w * x) ** 2), "d")


def local_loss(w, x):
    return jnp.sum((w * x) ** 2)


def replicated(function, check_vma):
    return jax.shard_map(
        lambda w, x: function(w, x[0]),
        mesh=mesh(d=8),
        in_specs=(P(), P("d")),
        out_specs=P(),
        check_vma=check_vma,
    )


def pmapped(function):
    return jax.pmap(function, axis_name="d", in_axes=(None, 0))


def pmean_of_gradient(w, x):
    return lax.pmean(jax.grad(local_loss)(w, x), "d")


def test_a_synchronised_gradient_is_one_all_reduce():
    assert seen(pmapped(pmean_of_gradient), W, X) == [reduced(16)]
    assert seen(replicated(pmean_of_gradient, False), W, X) == [reduced(16)]


def test_the_hidden_sum_of_a_replicated_parameters_gradient_counts():
    both = [("all-reduce", "add", "f32", 16, 8, 2, False)]
    assert seen(replicated(pmean_of_gradient, True), W, X) == both
    assert seen(replicated(jax.grad(mean_loss), True), W, X) == [reduced(16)]


def test_a_loss_that_is_averaged_alone_synchronises_no_gradient():
    assert seen(pmapped(jax.grad(mean_loss)), W, X) == [reduced(1)]
    assert seen(replicated(jax.grad(mean_loss), False), W, X) == [reduced(1)]


@jax.custom_vjp
def cast(x):
    return send(x)


@jax.custom_jvp
def moved(x):
    return send(x)


cast.defvjp(lambda x: (send(x), None), lambda _, g: (lax.pmax(g, "d"),))
moved.defjvp(lambda primals, tangents: (moved(*primals), send(*tangents)))


def squared(function):
    return jax.grad(lambda x: jnp.sum(function(x) ** 2))


def test_a_rule_of_ones_own_counts_forward_and_backward():
    assert seen(by_pmap(cast), X) == seen(by_pmap(moved), X) == [sent(1, False)]
    backward = seen(by_pmap(squared(cast)), X)
    assert sorted(backward) == [reduced(16, "max"), sent(1, False)]
    assert seen(by_pmap(squared(moved)), X) == [sent(2, False)]


def test_what_checkpoint_computes_again_counts_again():
    def loss(x):
        return jnp.sin(send(jnp.sin(x)))

    kept = seen(by_pmap(squared(loss)), X)
    again = seen(by_pmap(squared(jax.checkpoint(loss))), X)
    assert (kept, again) == ([sent(2, False)], [sent(3, False)])


@pytest.mark.parametrize(
    ("collective", "num_bytes"),
    [
        (Collective("all-reduce", "add", "f32", (4, 5), 8), 2 * 80 * 7 / 8),
        (Collective("all-reduce", "add", "f32", (4, 5), 2), 80),
        (Collective("reduce-scatter", "add", "f32", (4, 5), 8), 80 * 7 / 8),
        (Collective("all-to-all", "", "f32", (4, 5), 4), 80 * 3 / 4),
        (Collective("all-gather", "", "f32", (4, 5), 8), 80 * 7),
        (Collective("collective-permute", "", "f32", (4, 5), 8), 80),
        (Collective("collective-broadcast", "", "f32", (4, 5), 8), 80),
        (Collective("all-reduce", "add", "f32", (), 8), 7),
        (Collective("all-reduce", "add", "f32", (0, 5), 8), 0),
        (Collective("all-gather", "", "bf16", (20,), 3), 80),
        (Collective("all-gather", "", "bool", (20,), 3), 40),
        (Collective("all-gather", "", "c64", (20,), 3), 320),
        (Collective("all-gather", "", "u8", (20,), 3), 40),
        (Collective("all-gather", "", "f8E4M3FN", (20,), 3), 40),
        (Collective("all-gather", "", "f32", (20,), 3, True, 5), 800),
        (Collective("all-gather", "", "f32", (20,), 3, True, None), 160),
    ],
    ids=str,
)
def test_bytes_are_those_of_ring_algorithms(collective, num_bytes):
    assert collective.bytes_moved == num_bytes


ALONE = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")


@pytest.mark.parametrize("kind", [*ALONE, "collective-permute"])
def test_a_device_alone_moves_nothing(kind):
    assert Collective(kind, "", "f32", (20,), 1).bytes_moved == 0


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        (("all-reduce", "add", "f32", (8, 2), 8), "all-reduce (add) of f32[8,2]"),
        (("all-gather", "", "bf16", (), 8), "all-gather of bf16[]"),
        (
            ("all-reduce", "max", "f32", (3,), 8, False, 2),
            "2 x all-reduce (max) of f32[3]",
        ),
        (
            ("all-to-all", "", "f32", (3,), 8, True, 4),
            "4 x all-to-all of f32[3], in a loop",
        ),
        (
            ("all-to-all", "", "f32", (3,), 8, True),
            "all-to-all of f32[3], in a loop",
        ),
        (
            ("all-to-all", "", "f32", (3,), 8, True, None),
            "some x all-to-all of f32[3], in a loop",
        ),
    ],
)
def test_a_collective_is_written_in_one_line(facts, text):
    assert str(Collective(*facts)) == text


@pytest.mark.parametrize(
    "function",
    [
        lambda x: float(jnp.sum(x)),
        lambda x: np.asarray(jnp.sin(x)),
        by_pmap(lambda x: lax.psum(x, "e")),
        by_pmap(lambda x: 1 / 0),
    ],
    ids=["float", "numpy", "another axis", "error"],
)
def test_what_does_not_trace_has_no_list_of_collectives(function):
    with pytest.raises(ValueError, match="cannot trace"):
        collectives(function, X)


def test_an_observation_lists_them_where_a_trace_was_asked_for():
    total = by_pmap(lambda x: lax.psum(x, "d"))
    assert observe(total, X).collectives is None
    assert observe(total, X, traced=True).collectives == (
        Collective("all-reduce", "add", "f32", (16,), 8),
    )
    assert observe(jnp.sin, X, traced=True).collectives == ()
    assert observe(lambda x: float(x[0, 0]), X, traced=True).collectives is None


def low_product(x, w):  # bf16 inside, a float32 sum
    return jnp.sum(jnp.dot(x.astype(jnp.bfloat16), w.astype(jnp.bfloat16)).astype("f4"))


def low_sum(x, w):
    return lax.reduce(
        jnp.dot(x, w).astype(jnp.bfloat16), jnp.bfloat16(0), lax.add, (0, 1)
    )


def largest(x, w):
    return jnp.max(x.astype(jnp.bfloat16)) + jnp.max(w.astype(jnp.bfloat16))


def grown(x, w):
    return jnp.exp(x) * jnp.exp(w.astype(jnp.bfloat16)).astype(jnp.float32)


@pytest.mark.parametrize(
    ("function", "dtypes"),
    [
        (grown, {"matmul": (), "sum": (), "exp": ("bf16", "f32")}),
        (low_product, {"matmul": ("bf16",), "sum": ("f32",), "exp": ()}),
        (low_sum, {"matmul": ("f32",), "sum": ("bf16",), "exp": ()}),
        (largest, {"matmul": (), "sum": (), "exp": ()}),
        (jax.grad(low_product), {"matmul": ("bf16",), "sum": (), "exp": ()}),
    ],
)
def test_dtypes_are_those_that_go_into_products_and_sums(function, dtypes):
    x = np.ones((4, 4), np.float32)
    assert observe(function, x, x, traced=True).dtypes == dtypes
    x = np.ones((8, 4, 4), np.float32)
    assert observe(jax.pmap(function), x, x, traced=True).dtypes == dtypes


def test_the_dtypes_of_a_compiled_program_are_not_read():
    x = np.ones((4, 4), np.float32)
    assert observe(low_product, x, x, compiled=True).dtypes is None


ORDER = np.arange(8)


def named_shard_map(x):
    def shard_map(x):
        return x * x

    return jax.pmap(lambda row: row)(jax.jit(shard_map)(x))


def one_of(rows, number):
    return jnp.cos(rows)[number]


def placed(*spec):
    return NamedSharding(mesh(d=8), P(*spec))


def by_rows(x):
    return jax.device_put(x, placed("d"))


def one_of_all(x, axes=None, spec=P(), axis=0):  # noqa: B008
    def own(rows):
        return one_of(jnp.moveaxis(rows, axis, 0), jax.lax.axis_index("d"))[None]

    how = {"in_specs": spec, "out_specs": P("d"), "check_vma": False}
    return jax.jit(jax.shard_map(own, mesh=mesh(**(axes or {"d": 8})), **how))(x)


alone = NamedSharding(mesh(one=1, d=8), P("one"))


def at(axis, x):
    return lax.with_sharding_constraint(x, placed(axis))


def in_halves(x):
    def own(*halves):
        return one_of(jnp.concatenate(halves), lax.axis_index("d"))[None]

    how = {"in_specs": P(), "out_specs": P("d"), "check_vma": False}
    return jax.jit(jax.shard_map(own, mesh=mesh(d=8), **how))(x[:4], x[4:])


def handed_out(x):  # what the first device, which has all rows, computes
    def own(blocks):
        return lax.psum_scatter(jnp.sin(blocks[0]), "d", tiled=True)

    blocks = jnp.concatenate([x[None], jnp.zeros((7, *x.shape))])
    how = {"in_specs": P("d"), "out_specs": P("d")}
    return jax.jit(jax.shard_map(own, mesh=mesh(d=8), **how))(blocks)


def either(x):
    return jax.jit(lambda x: lax.cond(jnp.ones(3).sum() > 0, jnp.sin, jnp.cos, x))(x)


@pytest.mark.parametrize(
    ("function", "is_whole"),
    [
        (jax.pmap(jnp.sin), False),
        (lambda x: jax.jit(jnp.sin, in_shardings=placed("d"))(x), False),
        (lambda x: jax.jit(jnp.sin, out_shardings=placed("d"))(x), False),
        (lambda x: jax.jit(jnp.sin)(jax.device_put(x, placed("d"))), False),
        (lambda x: jax.pmap(jnp.sin)(jnp.flip(x)), False),
        (lambda x: jax.pmap(lambda row: row)(jnp.sin(x)), True),
        (named_shard_map, True),
        (
            lambda x: jax.pmap(lambda x, i: jnp.sin(x)[i], in_axes=(None, 0))(x, ORDER),
            True,
        ),
        (lambda x: jax.pmap(jnp.sin)(jax.jit(jnp.cos, in_shardings=placed())(x)), True),
        (lambda x: by_rows(jax.pmap(jnp.sin)(by_rows(x))), False),
        (lambda x: by_rows(jnp.sin(jax.device_put(by_rows(x), placed()))), True),
        (
            lambda x: by_rows(jax.jit(jnp.sin, in_shardings=placed())(by_rows(x))),
            True,
        ),
        (lambda x: one_of_all(by_rows(x)), True),
        (lambda x: one_of_all(x[None], axis=1), True),
        (lambda x: one_of_all(x, {"one": 1, "d": 8}, P("one")), True),
        (lambda x: jnp.sin(jax.device_put(x, alone)), True),
        (jax.jit(lambda x: at("d", jnp.sin(at(None, x)))), True),
        (jax.jit(lambda x: at("d", jnp.sin(jnp.transpose(at(None, x.T))))), True),
        (handed_out, True),
        (in_halves, True),
        (jax.jit(lambda x: at(None, jnp.sin(at("d", x)).sum(0))), False),
        (jax.jit(lambda x: at(None, at("d", x).T @ at("d", x))), False),
        (jax.jit(lambda x: jnp.sin(at(P.UNCONSTRAINED, at("d", x)))), False),
        (lambda x: by_rows(either(x)), True),
        (lambda x: either(by_rows(x)), False),
    ],
    ids="pmap inputs outputs placed flipped alone named to_all replicated "
    "split_again joined joined_inputs joined_by_map in_front axis_of_one "
    "placed_on_an_axis_of_one constraint transposed handed_out in_halves a_sum "
    "a_product as_the_compiler_likes in_a_branch in_a_branch_by_rows".split(),
)
def test_rows_that_are_used_while_they_are_not_split_are_found(function, is_whole):
    [use] = traced(function, [X]).whole_inputs
    assert bool(use) == is_whole


def one_by_one(rows):
    total = 0
    for number in range(len(rows)):  # JAX 0.7 first makes all that it iterates over
        total += jnp.tanh(rows[number]).sum()
    return total


def all_at_last(rows):
    return sum(one.sum() for one in [jnp.tanh(row) for row in rows])


def in_a_scan(rows):
    return lax.scan(lambda total, row: (total + jnp.tanh(row).sum(), None), 0.0, rows)


def kept_by_a_scan(rows):
    return lax.scan(lambda last, row: (row, jnp.tanh(row)), rows[0], rows)[1].sum()


@pytest.mark.parametrize(
    ("function", "fewest", "most"),
    [
        (one_by_one, 100, 300),
        (all_at_last, 600, 800),
        (in_a_scan, 100, 900),  # the scan hands on its 600 inputs
        (kept_by_a_scan, 1200, 2000),
    ],
)
def test_arrays_that_wait_for_the_last_one_are_held_at_once(function, fewest, most):
    rows = np.ones((6, 100), np.float32)
    assert fewest <= traced(function, [rows]).most_held <= most
    # Mapped, those of one device, with its row; the results of all are small.
    found = traced(jax.pmap(function), [np.stack([rows] * 8)]).most_held
    copies = 1 + (jax.__version_info__ < (0, 8))  # cut from all, and then reshaped
    assert fewest <= found <= most + copies * rows.size


def test_two_numbers_in_one_of_64_bits_count_as_two():
    def pair(x):
        words = lax.bitcast_convert_type(x, np.uint32).astype(np.uint64)
        both = words[:32] << np.uint64(32) | words[32:]
        return both.astype(np.uint32)

    def drawn(x):
        return x + jax.random.normal(jax.random.key(0), x.shape)

    x = np.ones(64, np.float32)
    has_own = hasattr(jax, "enable_x64")
    enable_x64 = jax.enable_x64 if has_own else jax.experimental.enable_x64
    with enable_x64(True):
        assert (64, 2) in traced(pair, [x]).shapes
    assert traced(drawn, [x]).shapes <= {(), (1,), (2,), (4,), (64,), (64, 1)}


def test_the_arrays_that_a_product_reads_are_known_by_shape():
    def loss(w, x):
        return jnp.tanh(jax.jit(jnp.dot)(x, w)).sum() + (w * w).sum()

    w, x = np.ones((16, 3), np.float32), np.ones((5, 16), np.float32)
    assert traced(loss, [w, x]).multiplied == {(16, 3), (5, 16)}
    assert (5, 3) in traced(jax.grad(loss), [w, x]).multiplied


def test_pairs_are_those_of_all_sends(mapped):
    def two_ways(row):
        back = [(target, source) for source, target in RING[:2]]
        return lax.ppermute(lax.fori_loop(0, 3, lambda _, x: send(x), row), "d", back)

    both = {*RING, (1, 0), (2, 1)}
    assert traced(mapped(two_ways), [X]).pairs == both
    assert observe(mapped(two_ways), X, compiled=True).pairs == tuple(sorted(both))
    assert traced(mapped(lambda row: lax.psum(row, "d")), [X]).pairs == set()


def named_shard_map_twice(x):
    @jax.jit
    def shard_map(x):
        return jnp.sin(x)

    return jax.jit(lambda x: shard_map(x))(x)


@pytest.mark.parametrize(
    ("function", "steps"),
    [
        (jax.jit(jnp.sin), [("func.call", ((8, 16),))]),
        (jax.jit(jnp.sin, out_shardings=placed("d")), [("func.call", ())]),
        (jax.jit(jnp.sin, out_shardings=placed()), [("func.call", ())]),
        (jax.jit(jax.jit(jnp.sin, out_shardings=placed("d"))), [("func.call", ())]),
        (
            lambda x: jax.device_put(jax.jit(jnp.sin)(x), placed("d")),
            [("func.call", ((8, 16),))],
        ),
        (
            lambda x: jnp.cos(jax.device_put(x, placed("d"))),
            [("stablehlo.cosine", ())],
        ),
        (
            jax.jit(lambda x: (x + 1, x - 1), out_shardings=(placed("d"), None)),
            [("func.call", ((8, 16),))],
        ),
        (named_shard_map_twice, [("func.call", ((8, 16),))]),
        (
            lambda x: jax.jit(jnp.sin)(jax.device_put(x, placed())),
            [("func.call", ((8, 16),))],
        ),
    ],
    ids="jit out replicated nested later placed one_of_two named before".split(),
)
def test_a_step_tells_what_it_leaves_whole(function, steps):
    assert [*traced(function, [X]).steps] == steps


def test_what_runs_outside_of_jit_is_one_step_for_each_operation():
    names = [name for name, _ in traced(lambda x: jnp.sin(x) * jnp.cos(x), [X]).steps]
    assert names == ["stablehlo.sine", "stablehlo.cosine", "stablehlo.multiply"]


@jax.jit
def centered(x):
    return x - x.mean(0)[None]


@pytest.mark.parametrize(
    ("function", "joined"),
    [
        (lambda x: jax.pmap(jnp.sin)(x), set()),
        (lambda x: jax.pmap(lambda row: lax.pmean(row, "i"), "i")(x), set()),
        (lambda x: jax.pmap(jnp.sin)(x).mean(0), {(8, 16)}),
        (lambda x: jax.pmap(jnp.sin)(x)[0], {(8, 16)}),
        (
            lambda x: jax.pmap(jnp.sin)(jax.jit(lambda x: x - x.mean(0)[None])(x)),
            {(8, 16)},
        ),
        (lambda x: jax.pmap(jnp.sin)(x).mean(1), set()),  # of each row
    ],
    ids="map sync mean first before rows".split(),
)
def test_rows_that_are_put_together_outside_of_a_map_are_found(function, joined):
    assert traced(function, [X]).joined & {(8, 16)} == joined


@pytest.mark.parametrize(
    ("in_send", "before", "sends_wait", "products_wait"),
    [
        (False, False, [False], [True]),
        (False, True, [False], [False, True]),
        (True, True, [True], [False, True]),
    ],
    ids="products_wait one_is_free sends_wait".split(),
)
def test_what_sends_and_products_need_is_known(
    in_send, before, sends_wait, products_wait
):
    def on_each(x, w):
        def step(_, carry):
            w, total = carry
            w = lax.ppermute(w + x.sum() if in_send else w, "d", RING)
            return w, total + x @ w

        total = x @ w if before else jnp.zeros((2, 3))
        return lax.fori_loop(0, 7, step, (w, total))[1]

    x, w = np.ones((8, 2, 16), np.float32), np.ones((8, 16, 3), np.float32)
    needs = traced(on_devices(on_each, "d"), [x, w]).needs
    assert [0 in found for what, found in needs if what == "send"] == sends_wait
    waits = [A_SEND in found for what, found in needs if what == "product"]
    assert sorted(waits) == products_wait


def test_what_a_send_needs_is_known_through_the_branches_of_a_condition():
    def on_each(x, w):
        is_busy = lax.axis_index("d") > 2
        sent = lax.cond(is_busy, lambda x: x @ w, lambda x: x[:, :3], x)
        return lax.ppermute(sent, "d", RING)

    x, w = np.ones((8, 2, 16), np.float32), np.ones((8, 16, 3), np.float32)
    needs = traced(on_devices(on_each, "d"), [x, w]).needs
    assert sorted(needs) == [("product", (0, 1)), ("send", (0, 1))]


@pytest.mark.parametrize("how", ["traced", "compiled"])
def test_arrays_of_complex_numbers_count_as_twice_as_many_numbers(how):
    seen = observe(lambda x: lax.complex(x, x * 2), X, **{how: True})
    assert (8, 16, 2) in seen.array_shapes


def test_packed_numbers_are_held_each():
    packed = observe(lambda x: lax.complex(x + 1, x + 2).real, X, traced=True)
    assert packed.most_held == 4 * X.size


def test_what_jax_counts_random_numbers_in_is_no_packing():
    key = jax.random.key(0)
    seen = observe(lambda key: jax.random.normal(key, (8, 16)), key, traced=True)
    assert max(map(math.prod, seen.array_shapes)) == 8 * 16


@pytest.mark.parametrize("sends_first", [True, False])
@pytest.mark.parametrize("is_loop", [True, False])
def test_products_of_a_loop_that_need_the_sends_of_their_round_are_known(
    sends_first, is_loop
):
    def on_each(x, w):
        def step(_, carry):
            w, total = carry
            sent = lax.ppermute(w, "d", RING)
            return sent, total + x @ (sent if sends_first else w)

        carry = w, x @ w
        if is_loop:
            return lax.fori_loop(0, 7, step, carry)[1]
        for number in range(7):
            carry = step(number, carry)
        return carry[1]

    x, w = np.ones((8, 2, 16), np.float32), np.ones((8, 16, 3), np.float32)
    needs = traced(on_devices(on_each, "d"), [x, w]).needs
    waits = [OWN_SEND in found for what, found in needs if what == "product"]
    assert any(waits) == (is_loop and sends_first) and not all(waits)
