"""An untrusted exported program gives what a plain call gives, or it does not run."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import coursekit.tracing
import grader.judging.exported_program
from coursekit.observation import Opaque, leaves, same
from coursekit.observe import observe, on_devices, shards
from coursekit.tracing import flattened, tracing
from grader.judging.exported_program import Program, ProgramError, ProgramRunner
from grader.kernel.inside.wire import encode

X = np.arange(64, dtype=np.float32).reshape(8, 8)
KEYS = jax.random.split(jax.random.key(0), 8)


def exported(function, *arguments, **options):
    """Exports a function with all its inputs; returns text and template."""
    flat, kinds, result = flattened(function, arguments)
    with tracing(function):
        run = jax.jit(flat, keep_unused=True)
        program = jax.export.export(run, platforms=["cpu"], **options)(*kinds)
    return program.mlir_module(), result[0]


def mesh(**axes):
    sizes = tuple(axes.values())
    devices = np.array(jax.devices()[: int(np.prod(sizes))]).reshape(sizes)
    return Mesh(devices, tuple(axes), axis_types=(AxisType.Auto,) * len(sizes))


def mapped(function, spec, **axes):
    return jax.jit(
        jax.shard_map(function, mesh=mesh(**axes), in_specs=spec, out_specs=spec)
    )


def constrained(x):
    return lax.with_sharding_constraint(x + 1, NamedSharding(mesh(a=4, b=2), P("b")))


def put_tree(x):
    rows, columns = (
        NamedSharding(mesh(a=8), P(*spec)) for spec in (["a"], [None, "a"])
    )
    return jax.device_put({"r": jnp.sin(x), "c": [x]}, {"r": rows, "c": [columns]})


def put(x):
    return jax.device_put(jnp.sin(x), NamedSharding(mesh(a=8), P(None, "a")))


def nested(x, scale, names):
    y = jax.pmap(lambda row: scale * row)(x)
    return {
        "y": [y, (jnp.sum(y, axis=1), None)],
        "n": scale,
        "e": {},
        "t": tuple(names),
    }


def two_meshes(x):
    rows = jax.pmap(jnp.sin)(x)
    return rows, mapped(jnp.cos, P("a", "b"), a=2, b=4)(rows)


def over_all(x):
    whole = lax.all_gather(x, "d") + lax.psum(x, "d")[None]
    ring = lax.ppermute(x, "d", [(i, (i + 1) % 8) for i in range(8)])
    return whole, ring * lax.axis_index("d").astype(x.dtype)


def in_loops(x):  # f32[8] on each device
    def send(y):
        return lax.ppermute(y, "d", [(i, (i + 1) % 8) for i in range(8)])

    def rounds(y):
        return lax.fori_loop(0, 2, lambda _, z: twice(z), y)

    twice = jax.jit(lambda y: send(send(y)))
    y = lax.fori_loop(0, 3, lambda _, z: rounds(z), x)
    y = lax.while_loop(lambda z: z[0] < 0, lambda z: lax.pmax(z, "d"), y)
    return lax.cond(lax.axis_index("d") < 9, twice, lambda z: z, y)


def on_two_axes(x):  # f32[2, 4] on each device
    total = lax.psum(x, "a") + lax.pmin(x, "b") + lax.pmean(x, ("a", "b"))
    parts = lax.psum_scatter(total[0], "a", tiled=True)[None]
    return lax.all_to_all(total, "b", 1, 0, tiled=True), parts


def averaged(x):
    return lax.pmean(jax.grad(lambda row: jnp.sum(row**3))(x), "d")


def dropout(key, x):
    return jnp.where(jax.random.bernoulli(key, 0.5, x.shape), x, 0)


PROGRAMS = {
    "jit": (jax.jit(jnp.sin), X),
    "vmap": (jax.vmap(jnp.sort), jnp.asarray(X)),
    "pmap": (jax.pmap(lambda row: row * 2), X),
    "pmap on 2": (jax.pmap(jnp.sum), X[:2]),
    "pmap on 4": (jax.pmap(jnp.cumsum), X[:4]),
    "pmap on 6": (jax.pmap(jnp.sin), X[:6]),
    "collectives": (jax.pmap(over_all, axis_name="d"), X),
    "collectives in loops": (jax.pmap(in_loops, axis_name="d"), X),
    "collectives on two axes": (mapped(on_two_axes, P("a", "b"), a=4, b=2), X),
    "averaged gradient": (jax.pmap(averaged, axis_name="d"), X),
    "averaged gradient on 4": (jax.pmap(averaged, axis_name="d"), X[:4]),
    "broadcast": (jax.pmap(jnp.matmul, in_axes=(None, 0)), X, X),
    "shard_map": (mapped(jnp.sin, P("a"), a=8), X),
    "shard_map on 2": (mapped(jnp.sin, P("a"), a=2), X),
    "columns": (mapped(jnp.sin, P(None, "a"), a=4), X),
    "4 by 2": (mapped(jnp.sin, P("a", "b"), a=4, b=2), X),
    "2 by 4, turned": (mapped(jnp.sin, P("b", "a"), a=2, b=4), X),
    "both on one": (mapped(jnp.sin, P(("b", "a")), a=2, b=4), X),
    "second axis": (mapped(jnp.sin, P("b"), a=2, b=4), X),
    "2 by 2 by 2": (mapped(jnp.sin, P(("c", "a")), a=2, b=2, c=2), X),
    "3 by 2": (mapped(jnp.sin, P("a", "b"), a=3, b=2), X[:6]),
    "2 by 3": (mapped(jnp.sin, P("b", "a"), a=2, b=3), X[:6]),
    "two meshes": (two_meshes, X),
    "replicated": (mapped(jnp.sin, P(), a=8), X),
    "constrained": (jax.jit(constrained), X),
    "placed": (put, X),
    "placed as a tree": (put_tree, X),
    "nested": (nested, X, 3, ["a", "b"]),
    "keys": (jax.pmap(dropout), KEYS, X),
    "keys out": (jax.pmap(lambda key: jax.random.fold_in(key, 1)), KEYS),
    "a dict of arguments": (
        lambda p: p["w"] + p["b"][0],
        {"b": X, "w": jnp.ones(8)},
    ),
    "no array in it": (lambda x: {"rows": len(x), "t": ("a", 1.5, None)}, X),
    "no input": (lambda n: jnp.arange(n), 5),
    "an input without use": (lambda x, y: jnp.sin(y), X, X[:3]),
    "whole numbers": (jax.pmap(lambda x: x % 3), np.arange(8)),
    "numbers of 64 bits": (jax.pmap(jnp.sin), X.astype(np.float64)),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, y: jnp.sin(y), x), X),
    "scan": (lambda x: lax.scan(lambda c, r: (c + r, c), x[0], x), jnp.asarray(X)),
    "branch": (lambda x: lax.cond(x[0, 0] > 1, jnp.sin, jnp.cos, x), X),
    "gradient": (jax.pmap(jax.grad(lambda r: jnp.sum(r**3))), X),
    "gelu": (lambda x: jax.nn.gelu(x, approximate=False), X),
    "top": (lambda x: lax.top_k(x, 2), jnp.asarray(X)),
    "half": (jax.pmap(lambda x: x.astype(jnp.bfloat16)), X),
    "waiting": (lambda x: jax.pmap(jnp.sin)(x).block_until_ready(), X),
}


@pytest.mark.parametrize("case", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_program_gives_what_the_plain_call_gives(case):
    function, *arguments = case
    seen = observe(function, *arguments, traced=True)
    assert seen.error is None
    found, template = coursekit.tracing.exported(function, arguments)
    program = Program(found.mlir_module(), arguments)
    value, layout = program.run(template)
    assert [path for path, _ in leaves(value)] == [
        path for path, _ in leaves(seen.value)
    ]
    for (_, ours), (_, theirs) in zip(leaves(value), leaves(seen.value), strict=True):
        if isinstance(ours, np.ndarray) and ours.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
            ours = theirs
        assert same(ours, theirs)
    assert layout == seen.layout
    assert program.facts == {fact: getattr(seen, fact) for fact in program.facts}


def test_the_collectives_of_a_program_are_those_of_its_loops_and_groups():
    text, _ = exported(*PROGRAMS["collectives in loops"])
    found = Program(text, [X]).facts["collectives"]
    assert list(map(str, found)) == [
        "12 x collective-permute of f32[8], in a loop",
        "some x all-reduce (max) of f32[8], in a loop",
        "2 x collective-permute of f32[8]",
    ]
    text, _ = exported(*PROGRAMS["collectives on two axes"])
    found = Program(text, [X]).facts["collectives"]
    assert [one.devices for one in found] == [4, 2, 8, 4, 2]


def test_the_shapes_are_those_of_one_devices_block():
    def outer(row):  # f32[3, 3] on each device
        return jnp.sum(row[:, None] * row[None, :])

    text, _ = exported(jax.pmap(outer), X[:, :3])
    shapes = Program(text, [X[:, :3]]).facts["array_shapes"]
    assert (3, 3) in shapes and (8, 3, 3) not in shapes
    text, _ = exported(jax.vmap(outer), X[:, :3])
    assert (8, 3, 3) in Program(text, [X[:, :3]]).facts["array_shapes"]


def test_shapes_that_nothing_has_do_not_count():
    def padded(x):  # the text names tensor<2x2xi64>, an attribute
        return lax.conv(x[None, None], x[None, None, :3, :3], (1, 1), "SAME")

    text, _ = exported(padded, jnp.asarray(X))
    assert (2, 2) not in Program(text, [X]).facts["array_shapes"]


def test_a_program_runs_on_inputs_that_its_author_never_saw():
    text, template = exported(jax.pmap(lambda row: row * 2), X)
    other = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    value, _ = Program(text, [other]).run(template)
    np.testing.assert_allclose(value, 2 * other)


def test_a_program_takes_the_inputs_that_it_does_not_use_and_lists_them():
    program, template = coursekit.tracing.exported(lambda x, y: jnp.sin(y), [X, X])
    found = Program(program.mlir_module(), [0 * X, X])
    np.testing.assert_allclose(found.run(template)[0], np.sin(X), atol=1e-6)
    assert found.facts["whole_inputs"] == ("", "one device")


@pytest.mark.parametrize("count", [1, 3])
def test_a_program_of_fewer_or_more_inputs_is_refused(count):
    text, template = exported(lambda x, y: x + y, X, X)
    with pytest.raises(ProgramError, match="inputs"):
        Program(text, [X] * count).run(template)


# What must not run.


def double(x):
    return 2 * jnp.asarray(x)


TEXT, TEMPLATE = exported(double, X)


def refused(text, arguments=(X,), template=None):
    with pytest.raises(ProgramError) as error:
        Program(text, list(arguments)).run(TEMPLATE if template is None else template)
    return str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0" * 100,
        "garbage",
        "\ud800",
        "module",
        "module {}",
        TEXT[: len(TEXT) // 2],
        TEXT[len(TEXT) // 2 :],
        TEXT[::-1],
        TEXT.replace("@main", "@other"),
        TEXT.replace("mhlo.num_partitions", "mhlo.no_partitions"),
        TEXT.replace("f32", "f99"),
        b"module {}",
        None,
        3,
    ],
    ids="empty zeros word surrogate module nothing head tail reversed renamed counted "
    "typed bytes none number".split(),
)
def test_a_damaged_program_is_refused(text):
    assert "cannot be read" in refused(text)


@pytest.mark.parametrize(
    "arguments",
    [
        [X[:4]],
        [X.ravel()],
        [X.astype(np.float16)],
        [X.astype(np.int32)],
        [X, X],
        [],
        [3.0],
        [{"a": X, "b": X}],
        [jax.random.split(jax.random.key(0), 8)],
    ],
    ids="rows rank half int two none number dict keys".split(),
)
def test_a_program_for_other_inputs_is_refused(arguments):
    assert "other inputs" in refused(TEXT, arguments)


def test_a_program_of_unknown_sizes_is_refused():
    kind = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, n"), np.float32)
    text = jax.export.export(jax.jit(lambda x: (x + 1,)))(kind).mlir_module()
    assert "which no lesson needs" in refused(text)


@pytest.mark.parametrize("number", [0, 9, -1, 2**31 - 1])
def test_a_program_for_no_devices_or_too_many_is_refused(number):
    text = TEXT.replace("num_partitions = 1", f"num_partitions = {number}")
    assert f"{number} devices" in refused(text)


CALLBACK = "xla_ffi_python_cpu_callback"


def call_out(x):
    kind = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.ffi.ffi_call(CALLBACK, kind, has_side_effect=True)(x, index=np.uint64(0))


def calling_out():
    allowed = [jax.export.DisabledSafetyCheck.custom_call(CALLBACK)]
    return exported(call_out, X, disabled_checks=allowed)


def with_body(body, more=""):
    """Writes a program whose module's text somebody made up.

    In `body`, %x is the input and %y the result.
    """
    return f"""
module @forged attributes {{mhlo.num_partitions = 1 : i32}} {{
  func.func public @main(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>) {{
    {body}
    return %y : tensor<8x8xf32>
  }}
  {more}
}}"""


KIND = "(tensor<8x8xf32>) -> tensor<8x8xf32>"


def test_a_module_of_ones_own_runs_where_it_is_harmless():
    text = with_body(f'%y = "stablehlo.sine"(%x) : {KIND}')
    value, layout = Program(text, [X]).run(TEMPLATE)
    np.testing.assert_allclose(value, np.sin(X), atol=1e-6)
    assert list(layout) == [""]


CALLS = {
    "callback": f"%y = stablehlo.custom_call @{CALLBACK}(%x) : {KIND}",
    "callback, typed": f"%y = stablehlo.custom_call @{CALLBACK}(%x) "
    f"{{api_version = 4 : i32, backend_config = {{index = 0 : ui64}}}} : {KIND}",
    "callback, spelled out": f'%y = "stablehlo.custom_call"(%x) '
    f'<{{call_target_name = "{CALLBACK}"}}> : {KIND}',
    "callback, escaped": '%y = "stablehlo.custom_call"(%x) '
    f'<{{call_target_name = "\\78la_ffi_python_cpu_callback"}}> : {KIND}',
    "unknown": f"%y = stablehlo.custom_call @no_such_target(%x) : {KIND}",
    "safe beginning": f'%y = stablehlo.custom_call @"Sharding x"(%x) : {KIND}',
    "safe beginning, null": f'%y = stablehlo.custom_call @"Sharding\\00"(%x) : {KIND}',
    "safe end": f'%y = stablehlo.custom_call @"x Sharding"(%x) : {KIND}',
    "safe line": f'%y = stablehlo.custom_call @"TopK\\0ATopK"(%x) : {KIND}',
    "quotes in it": f'%y = stablehlo.custom_call @"\\22TopK\\22"(%x) : {KIND}',
    "old LAPACK": f"%y = stablehlo.custom_call @lapack_spotrf(%x) : {KIND}",
    "call in a call": f"%y = stablehlo.custom_call @mhlo.custom_call(%x) {{"
    f'mhlo.attributes = {{call_target_name = "{CALLBACK}"}}}} : {KIND}',
    "allocation": f"%y = stablehlo.custom_call @AllocateBuffer(%x) : {KIND}",
    "older dialect": f'%y = "mhlo.custom_call"(%x) '
    f'{{call_target_name = "{CALLBACK}", api_version = 1 : i32}} : {KIND}',
    "empty name": f'%y = stablehlo.custom_call @""(%x) : {KIND}',
    "older dialect, harmless": "%y = mhlo.add %x, %x : tensor<8x8xf32>",
    "another dialect": "%y = arith.addf %x, %x : tensor<8x8xf32>",
    "in a branch": """%i = stablehlo.constant dense<0> : tensor<i32>
    %y = "stablehlo.case"(%i) ({
      %z = stablehlo.custom_call @evil(%x) : (tensor<8x8xf32>) -> tensor<8x8xf32>
      stablehlo.return %z : tensor<8x8xf32>
    }) : (tensor<i32>) -> tensor<8x8xf32>""",
}


@pytest.mark.parametrize("body", CALLS.values(), ids=CALLS.keys())
def test_a_call_out_of_the_program_is_refused(body):
    assert "which no lesson needs" in refused(with_body(body))


CALLING = f"%y = func.call @g(%x) : {KIND}"
HELPERS = {
    "a function": "func.func private @g(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {"
    f"%y = stablehlo.custom_call @evil(%x) : {KIND} "
    "func.return %y : tensor<8x8xf32> }",
    "a function that is not here": f"func.func private @g{KIND}",
}


@pytest.mark.parametrize("helper", HELPERS.values(), ids=HELPERS.keys())
def test_a_call_by_way_of_a_function_is_refused(helper):
    assert "which no lesson needs" in refused(with_body(CALLING, helper))


def test_a_call_in_a_function_that_nobody_calls_is_refused():
    body = f'%y = "stablehlo.sine"(%x) : {KIND}'
    text = with_body(body, HELPERS["a function"].replace("private", "public"))
    assert "calls 'evil'" in refused(text)


def composite(name):
    body = f'%y = stablehlo.composite "{name}" %x {{decomposition = @g}} : {KIND}'
    helper = (
        "func.func private @g(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {"
        f'%y = "stablehlo.sine"(%x) : {KIND} func.return %y : tensor<8x8xf32> }}'
    )
    return with_body(body, helper)


def test_a_composite_of_an_unknown_name_is_refused():
    assert "calls 'tpu.secret'" in refused(composite("tpu.secret"))
    assert "calls 'xchlo.erf'" in refused(composite("xchlo.erf"))


GROUP = "dense<[[0, 1, 2, 3, 4, 5, 6, 7]]> : tensor<1x8xi64>"
HANDLE = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"


def all_reduce(groups=GROUP, result="%y", operand="%x"):
    return f"""{result} = "stablehlo.all_reduce"({operand}) <{{
      replica_groups = {groups}, {HANDLE}, use_global_device_ids}}> ({{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %c = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %c : tensor<f32>
      }}) : {KIND}"""


def permute(pairs):
    return f"""%y = "stablehlo.collective_permute"(%x) <{{
      source_target_pairs = {pairs}, {HANDLE}}}> : {KIND}"""


def on_eight(body, more=""):
    text = with_body(body, more)
    return text.replace("num_partitions = 1 ", "num_partitions = 8 ")


def function(name, *lines):
    body = "\n".join(lines)
    return (
        f"func.func private @{name}(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {{\n"
        f"{body}\nfunc.return %y : tensor<8x8xf32> }}"
    )


def call(name, result="%y", operand="%x"):
    return f"{result} = func.call @{name}({operand}) : {KIND}"


def counted(text):
    found = Program(text, [X]).facts["collectives"]
    return [(one.kind, one.devices, one.times) for one in found]


CIRCLES = {
    "itself": function("g", call("g")),
    "each other": function("g", call("h")) + function("h", call("g")),
    "the whole": function("g", call("main")),
}


@pytest.mark.parametrize("helpers", CIRCLES.values(), ids=CIRCLES.keys())
def test_functions_that_call_in_a_circle_are_refused(helpers):
    assert "cannot be read" in refused(on_eight(call("g"), helpers))


def chain(length, calls, first):
    """Writes functions of which each calls the one before it several times."""
    found = [function("f0", first)]
    for place in range(1, length):
        steps = ["%v0 = stablehlo.negate %x : tensor<8x8xf32>"]
        steps += [
            call(f"f{place - 1}", f"%v{step + 1}", f"%v{step}") for step in range(calls)
        ]
        last = f"%y = stablehlo.negate %v{calls} : tensor<8x8xf32>"
        found.append(function(f"f{place}", *steps, last))
    return on_eight(call(f"f{length - 1}"), "\n".join(found))


def test_calls_of_calls_multiply_and_are_counted_at_once():
    assert counted(chain(61, 2, all_reduce())) == [("all-reduce", 8, 2**60)]
    assert counted(chain(61, 2, "%y = stablehlo.negate %x : tensor<8x8xf32>")) == []


@pytest.mark.parametrize("length", [70, 300, 2000])
def test_a_program_that_would_never_end_is_refused(length):
    refused(chain(length, 10, all_reduce()))


FORGED_GROUPS = [
    "dense<> : tensor<0x0xi64>",
    "dense<> : tensor<1x0xi64>",
    "dense<> : tensor<0x8xi64>",
    "dense<0> : tensor<1x8xi64>",
    "dense<-1> : tensor<1x8xi64>",
    "dense<[[0, 99]]> : tensor<1x2xi64>",
    "dense<[[0, 1, 2, 3], [4, 5, 6, -1]]> : tensor<2x4xi64>",
    "dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>",
    "dense<[0, 1]> : tensor<2xi64>",
    "dense<[[0, 1]]> : tensor<1x2xi32>",
    "dense_resource<no_such> : tensor<1x8xi64>",
    "sparse<[[0, 1]], [1]> : tensor<1x8xi64>",
    "array<i64: 1>",
    '"tensor<1x8xi64>"',
    "@main",
]


@pytest.mark.parametrize("groups", FORGED_GROUPS)
def test_forged_groups_are_refused(groups):
    refused(on_eight(all_reduce(groups)))


@pytest.mark.parametrize(
    ("pairs", "devices", "num_bytes"),
    [
        ("dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>", 2, 256),
        ("dense<[[0, 1], [1, 2], [5, 4]]> : tensor<3x2xi64>", 3, 256),
        ("dense<0> : tensor<1x2xi64>", 1, 0),
        ("dense<> : tensor<0x2xi64>", 1, 0),
    ],
)
def test_odd_pairs_have_an_answer(pairs, devices, num_bytes):
    [one] = Program(on_eight(permute(pairs)), [X]).facts["collectives"]
    assert (one.devices, one.bytes_moved) == (devices, num_bytes)


@pytest.mark.parametrize(
    "pairs",
    [
        "dense<[[0, 99]]> : tensor<1x2xi64>",
        "dense<[[0, 1, 2]]> : tensor<1x3xi64>",
        "dense<> : tensor<0x0xi64>",
        "dense<[0, 1]> : tensor<2xi64>",
        "dense_resource<no_such> : tensor<1x2xi64>",
        "array<i64: 0, 1>",
    ],
)
def test_forged_pairs_are_refused(pairs):
    refused(on_eight(permute(pairs)))


def test_a_collective_behind_a_composite_counts():
    body = f'%y = stablehlo.composite "chlo.erf" %x {{decomposition = @g}} : {KIND}'
    text = on_eight(body, function("g", all_reduce()))
    assert counted(text) == [("all-reduce", 8, 1)]


def loop(stop, step="stablehlo.add %i, %one : tensor<i32>", outside=""):
    return on_eight(f"""%zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    {outside}
    %r:2 = stablehlo.while(%i = %zero, %v = %x) : tensor<i32>, tensor<8x8xf32>
      cond {{
        %n = {stop}
        %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %t : tensor<i1>
      }} do {{
        {all_reduce(result="%w", operand="%v")}
        %j = {step}
        stablehlo.return %j, %w : tensor<i32>, tensor<8x8xf32>
      }}
    %y = stablehlo.negate %r#1 : tensor<8x8xf32>""")


LABEL = "{value = dense<3> : tensor<i32>} : tensor<i32>"
LOOPS = {
    "counts up": (loop("stablehlo.constant dense<5> : tensor<i32>"), 5),
    "computed end": (loop("stablehlo.add %one, %one : tensor<i32>"), None),
    "labelled end": (loop(f"stablehlo.add %one, %one {LABEL}"), None),
    "labelled step": (
        loop(
            "stablehlo.constant dense<5> : tensor<i32>",
            "stablehlo.add %i, %two : tensor<i32>",
            f"%two = stablehlo.add %one, %one {LABEL.replace('<3>', '<1>')}",
        ),
        None,
    ),
    "another counter": (
        loop(
            "stablehlo.constant dense<5> : tensor<i32>",
            "stablehlo.add %one, %i : tensor<i32>",
        ),
        None,
    ),
    "for ever": (
        loop(
            "stablehlo.constant dense<5> : tensor<i32>",
            "stablehlo.negate %i : tensor<i32>",
        ),
        None,
    ),
}


@pytest.mark.parametrize(("text", "times"), LOOPS.values(), ids=LOOPS.keys())
def test_a_loop_is_believed_only_what_it_shows(text, times):
    assert counted(text) == [("all-reduce", 8, times)]


WAITING = {
    "infeed": "%t = stablehlo.create_token : !stablehlo.token\n"
    '%y, %u = "stablehlo.infeed"(%t) : (!stablehlo.token) -> '
    "(tensor<8x8xf32>, !stablehlo.token)",
    "outfeed": "%t = stablehlo.create_token : !stablehlo.token\n"
    '%u = "stablehlo.outfeed"(%x, %t) : (tensor<8x8xf32>, !stablehlo.token) -> '
    f'!stablehlo.token\n%y = "stablehlo.sine"(%x) : {KIND}',
    "token": "%t = stablehlo.create_token : !stablehlo.token\n"
    f'%y = "stablehlo.sine"(%x) : {KIND}',
    "tuple": "%t = stablehlo.tuple %x, %x : tuple<tensor<8x8xf32>, tensor<8x8xf32>>\n"
    "%y = stablehlo.get_tuple_element %t[0] : "
    "(tuple<tensor<8x8xf32>, tensor<8x8xf32>>) -> tensor<8x8xf32>",
    "hidden size": '%d = "stablehlo.sine"(%x) : (tensor<8x8xf32>) -> tensor<?x8xf32>\n'
    '%y = "stablehlo.sine"(%d) : (tensor<?x8xf32>) -> tensor<8x8xf32>',
    "bounded size": '%d = "stablehlo.sine"(%x) : (tensor<8x8xf32>) -> '
    "tensor<?x8xf32, #stablehlo.bounds<8, ?>>\n"
    '%y = "stablehlo.sine"(%d) : (tensor<?x8xf32, #stablehlo.bounds<8, ?>>) -> '
    "tensor<8x8xf32>",
}


@pytest.mark.parametrize("body", WAITING.values(), ids=WAITING.keys())
def test_a_program_of_more_than_arrays_is_refused(body):
    assert "which no lesson needs" in refused(with_body(body))


def test_a_call_by_jaxs_own_means_is_refused():
    text, template = calling_out()
    assert CALLBACK in refused(text, template=template)


@pytest.mark.parametrize(
    "callback",
    [
        lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x),
        lambda x: jax.experimental.io_callback(
            np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x
        ),
    ],
    ids=["pure", "io"],
)
def test_a_callback_is_never_exported_in_the_first_place(callback):
    with pytest.raises(NotImplementedError):
        exported(callback, X)


ONE = Opaque("leaf 0")


@pytest.mark.parametrize(
    "template",
    [
        None,
        3,
        [],
        Opaque("leaf 1"),
        Opaque("leaf -1"),
        Opaque("leaf 00"),
        Opaque("leaf"),
        Opaque("set"),
        [ONE, ONE],
        [ONE, Opaque("leaf 1")],
        {"a": ONE, "b": [Opaque("leaf 7")]},
        {"a": ONE, "b": [Opaque("leaf 99999999999999999999")]},
        {1: ONE, "1": ONE},
    ],
    ids=repr,
)
def test_a_structure_that_does_not_fit_the_outputs_is_refused(template):
    with pytest.raises(ProgramError):
        Program(TEXT, [X]).run(template)


def test_other_names_in_a_structure_stay_what_they_are():
    value, layout = Program(TEXT, [X]).run([Opaque("leafs"), {"a": ONE}, Opaque("set")])
    assert (value[0], value[2]) == (Opaque("leafs"), Opaque("set"))
    assert list(layout) == ['[1]["a"]']


def test_a_programs_error_when_it_runs_is_told(monkeypatch):
    monkeypatch.setattr(grader.judging.exported_program, "MAX_MEMORY_MIB", 2**60)
    text, template = exported(lambda: jnp.zeros((2**20, 2**20, 2**10)))
    assert "does not run" in refused(text, (), template)


def test_a_program_that_needs_too_much_memory_does_not_run():
    for large in (2**50, 2**30):
        text, template = exported(lambda n=large: jnp.zeros((n // 2**10, 2**10)))
        assert "MiB of memory" in refused(text, (), template)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.linalg.solve(x, x[0]),
        lambda x: jnp.linalg.svd(x)[1],
        lambda x: lax.approx_max_k(x[0], 2)[0],
    ],
    ids=["lu", "svd", "approximate top"],
)
def test_calls_that_trust_the_shapes_they_are_told_are_refused(function):
    x = jnp.eye(8)
    text, template = exported(function, x)
    assert "calls '" in refused(text, (x,), template)


def test_a_refusal_leaves_the_next_program_alone():
    refused(with_body(CALLS["callback"]))
    refused("garbage")
    value, layout = Program(TEXT, [X]).run(TEMPLATE)
    np.testing.assert_array_equal(value, 2 * X)
    assert layout == {"": shards(double(X))}


def test_a_program_is_the_same_function_each_time():
    program = Program(TEXT, [X])
    first, second = (functools.partial(program.run, TEMPLATE)()[0] for _ in range(2))
    assert np.array_equal(first, second)


def test_a_program_takes_other_numbers_but_no_other_kinds_of_arrays():
    program = Program(TEXT, [X])
    program.run(TEMPLATE)
    compiled = program.compiled
    assert program.takes([X + 1])
    np.testing.assert_array_equal(program.run(TEMPLATE)[0], 2 * (X + 1))
    assert program.compiled is compiled
    for others in ([X[:4]], [X.astype(np.int32)], [X, X], []):
        assert not program.takes(others)
    np.testing.assert_array_equal(program.run(TEMPLATE)[0], 2 * (X + 1))


@pytest.mark.parametrize("spec", [P("a"), P(None, "a"), P("a", "b")], ids=str)
def test_a_compiled_form_is_the_notebooks(spec):
    def product(x):
        return mapped(lambda block: block @ block.T, spec, a=4, b=2)(x)

    x = np.ones((8, 16), np.float32)
    text, _ = exported(product, x)
    ours = Program(text, [x]).compiled_facts()
    seen = observe(product, x, compiled=True)
    assert ours["array_shapes"] == seen.array_shapes
    assert ours["collectives"] == seen.collectives
    assert ours["flops"] == seen.flops
    # No device holds the whole of what each takes a block of.
    assert x.shape not in ours["array_shapes"]


def test_a_compiled_form_that_cannot_be_read_is_left_to_a_person(monkeypatch):
    question = {"program": TEXT, "arguments": encode([X]), "result": encode(TEMPLATE)}
    question |= {"axis": None, "compiled": True}
    assert ProgramRunner().outcome(question)["facts"]["collectives"] == []
    monkeypatch.setattr(
        grader.judging.exported_program, "compiled_facts", lambda *_: 1 / 0
    )
    broken = {"broken": "ZeroDivisionError: division by zero"}
    assert ProgramRunner().outcome(question) == broken


# What is mapped over an axis, and nothing beside.


def averaged_row(row):
    return row - lax.pmean(row, "i")


def with_axis(function, *arguments):
    text, template = exported(function, *arguments)
    return Program(text, list(arguments), axis="i").run(template)[0]


@pytest.mark.parametrize("jitted", [False, True])
def test_a_mapped_program_is_the_map_alone(jitted):
    function = jax.jit(averaged_row) if jitted else averaged_row
    value = with_axis(on_devices(function, "i"), X)
    np.testing.assert_allclose(value, X - X.mean(axis=0), rtol=1e-5)


def test_a_mapped_program_may_hold_constants_and_be_of_one_device():
    more = np.arange(8, dtype=np.float32)
    value = with_axis(on_devices(lambda row: averaged_row(row) + more, "i"), X)
    np.testing.assert_allclose(value, X - X.mean(axis=0) + more, rtol=1e-5)
    value = with_axis(on_devices(averaged_row, "i"), X[:1])
    np.testing.assert_array_equal(value, 0 * X[:1])


BRANCHES = np.bool_(True), lambda x: x.mean(axis=0, keepdims=True), lambda x: x[:1]
DECOYS = {
    "before": lambda x: on_devices(lambda r: r + 0 * lax.psum(r, "i"), "i")(
        x - x.mean(axis=0, keepdims=True)
    ),
    "after": lambda x: (
        on_devices(lambda r: r + 0 * lax.psum(r, "i"), "i")(x)
        - jnp.mean(x, axis=0, keepdims=True)
    ),
    "instead": lambda x: x - jnp.mean(x, axis=0, keepdims=True),
    "by a branch": lambda x: on_devices(lambda r, m: r - m, "i")(
        x, jnp.broadcast_to(lax.cond(*BRANCHES, x), x.shape)
    ),
    "of another axis": lambda x: on_devices(lambda r: r - lax.pmean(r, "j"), "j")(x),
    "of all rows": mapped(lambda x: x - x.mean(axis=0, keepdims=True), P(), i=8),
    "of columns": mapped(
        lambda x: x - x.mean(axis=0, keepdims=True), P(None, "i"), i=8
    ),
    "of two axes": mapped(averaged_row, P("i", "b"), i=4, b=2),
}


@pytest.mark.parametrize("decoy", DECOYS.values(), ids=DECOYS.keys())
def test_what_has_all_rows_at_hand_is_no_mapped_program(decoy):
    with pytest.raises(ProgramError, match="no lesson needs"):
        with_axis(decoy, X)


SORTS = {
    "by one key": lambda x: lax.sort((x, -x), num_keys=1),
    "by two keys": lambda x: lax.sort((jnp.round(x), x, -x), num_keys=2),
    "integers": lambda x: jnp.argsort(x.astype(jnp.int32), descending=True),
    "complex": lambda x: jnp.sort(lax.complex(x, -x)),
    "mapped": jax.pmap(jnp.sort),
    "a permutation": lambda x: jax.random.permutation(jax.random.key(0), x),
    "a median": lambda x: jnp.median(x, axis=0),
    "the largest": lambda x: lax.top_k(x, 2)[0],
    "of many": lambda x: jnp.unique(x, size=3),
}


@pytest.mark.parametrize("function", SORTS.values(), ids=SORTS.keys())
def test_an_order_that_jax_writes_sorts(function):
    text, template = exported(function, X)
    value, _ = Program(text, [X]).run(template)
    wanted = jax.tree.leaves(observe(function, X).value)
    for found, right in zip(jax.tree.leaves(value), wanted, strict=True):
        np.testing.assert_allclose(found, right)


@pytest.mark.parametrize("does", ["always", "or equal"])
def test_a_comparator_that_is_no_order_is_refused(does):
    text, template = exported(lambda x: jnp.sort(x.astype(jnp.int32)), X)
    less = next(
        line for line in text.splitlines() if "compare" in line and "LT" in line
    )
    other = less.replace("LT", "LE")
    if does == "always":
        name, kind = less.split("=")[0], "tensor<i1>"
        other = f"{name} = stablehlo.constant dense<true> : {kind}"
    changed = text.replace(less, other)
    assert "sorts by what may be no order" in refused(changed, template=template)


def test_a_shard_is_no_whole_array_by_a_call_inside_of_a_map():
    calls = "SPMDShardToFullShape SPMDFullToShardShape xla.sdy.LocalToGlobalShape"
    for name in calls.split():
        body = f"%y = stablehlo.custom_call @{name}(%x) : {KIND}"
        assert f"calls '{name}'" in refused(with_body(body))
