"""What crosses the line arrives as it was; what is forged is refused, and no more."""

import base64
import copy
import json
import math
import os
import tempfile
import tracemalloc

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

# Hypothesis keeps files; not in the course's folder.
os.environ.setdefault(
    "HYPOTHESIS_STORAGE_DIRECTORY", os.path.join(tempfile.gettempdir(), "hypothesis")
)
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from coursekit.observation import Failure, Observation, Opaque, Shard, plain, same
from coursekit.observe import observe
from grader.judging.observation_reader import (
    MAX_BRACKETS,
    MAX_LINE,
    decode_observation,
    loads,
)
from grader.kernel.inside import wire
from grader.kernel.inside.wire import WireError, decode, encode, encode_observation

fuzz = settings(deadline=None, database=None, derandomize=True, max_examples=200)
PRECISE = [name for name in wire.DTYPES if name not in ("int4", "uint4")]
NUMBERS = {name: jnp.dtype(name) for name in wire.DTYPES}


def sent(value, **options):
    return json.loads(json.dumps(encode(value, **options)))


def round_trip(value, **options):
    return decode(sent(value, **options))


def alike(a, b):
    """Tells whether two values are equal in every bit and every type."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        pairs = zip(a.items(), b.items(), strict=True)
        return len(a) == len(b) and all(
            alike(k, m) and alike(v, n) for (k, v), (m, n) in pairs
        )
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, np.ndarray | np.generic | jax.Array):
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return False
        if jax.dtypes.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        return np.asarray(a).tobytes() == np.asarray(b).tobytes()
    return repr(a) == repr(b)


VALUES = [
    None,
    True,
    False,
    0,
    -7,
    2**63,
    -(10**400),
    2**10_000 - 1,
    0.0,
    -0.0,
    1e-320,
    math.pi,
    math.inf,
    -math.inf,
    math.nan,
    "",
    "text",
    'quotes " \\ and \n lines',
    "\0 ￿ 🙂",
    "\ud800",
    "\udcff\ud83d",
    b"",
    b"\0\xff" * 50,
    1j,
    complex(-0.0, math.nan),
    complex(math.inf, -1.5),
    [],
    (),
    {},
    [[], (), {}, [None]],
    ((1,), [2.0, ("a",)]),
    {"a": [1, {"b": (2, None)}], "": {}},
    {0: "int", (1, "a", (None, b"x")): "tuple", None: 1, True: 2, 2.5: 3, b"k": 4},
    {"1": 1, 1: "one"},
    {math.inf: 1, -0.0: 2},
    Opaque("set"),
    [Opaque("a"), {"b": Opaque("")}],
    {"w": [np.ones((2, 3), np.float32), (jnp.zeros(3), 4)]},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:30])
def test_a_value_arrives_as_it_was(value):
    assert alike(round_trip(value), value)


@pytest.mark.parametrize("name", wire.DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4), (0,), (4, 0, 2)], ids=str)
def test_an_array_arrives_as_it_was(name, shape):
    numbers = np.arange(math.prod(shape)) % 7
    array = numbers.astype(NUMBERS[name]).reshape(shape)
    back = round_trip(array)
    assert type(back) is np.ndarray
    assert alike(back, array)
    assert back.flags.writeable


@pytest.mark.parametrize("name", PRECISE)
def test_special_numbers_of_an_array_arrive(name):
    kind = NUMBERS[name]
    if jnp.issubdtype(kind, jnp.integer):
        array = np.array([jnp.iinfo(kind).min, jnp.iinfo(kind).max], kind)
    else:
        array = np.array([0, 1]).astype(kind)
    if jnp.issubdtype(kind, jnp.inexact):
        array = np.array([np.nan, np.inf, -np.inf, -0.0], np.float32).astype(kind)
    assert alike(round_trip(array), array)


@pytest.mark.parametrize("kind", [ml_dtypes.int4, ml_dtypes.uint4])
def test_four_bit_numbers_arrive(kind):
    array = np.arange(-8, 16).astype(np.int8).astype(kind)
    assert round_trip(array).astype(int).tolist() == array.astype(int).tolist()


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12)[::-2],
        np.broadcast_to(np.float32(3), (2, 2)),
        np.asfortranarray(np.eye(3)),
    ],
    ids=["transposed", "strided", "broadcast", "Fortran"],
)
def test_an_array_of_any_layout_in_memory_arrives(array):
    assert np.array_equal(round_trip(array), array)


@pytest.mark.parametrize("number", [np.float32(1.5), np.int64(-3), np.bool_(True)])
@pytest.mark.parametrize("shapes_only", [False, True])
def test_a_number_of_numpys_stays_a_number(number, shapes_only):
    [back] = round_trip([number], shapes_only=shapes_only)
    assert alike(back, number)


def test_a_float_of_numpys_does_not_become_pythons():
    assert type(round_trip(np.float64(0.5))) is np.float64


@pytest.mark.parametrize(
    "array",
    [
        jnp.arange(6.0).reshape(2, 3),
        jnp.zeros((), jnp.int4),
        jnp.ones((0, 2), jnp.bfloat16),
        jnp.array([True]),
    ],
    ids=lambda array: str(array.dtype),
)
def test_an_array_on_a_device_arrives_on_a_device(array):
    back = round_trip({"x": [array]})["x"][0]
    assert isinstance(back, jax.Array)
    assert alike(back, array)


def test_an_array_on_several_devices_arrives_whole():
    array = jax.pmap(lambda x: x + 1)(np.arange(8.0, dtype=np.float32))
    assert round_trip(array).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize("name", ["threefry2x32", "rbg", "unsafe_rbg"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 0)], ids=str)
def test_a_key_arrives_as_a_key(name, shape):
    key = jax.random.split(jax.random.key(7, impl=name), shape)
    back = round_trip(key)
    assert back.dtype == key.dtype
    assert alike(back, key)
    alone = round_trip(key, shapes_only=True)
    assert (alone.shape, alone.dtype) == (key.shape, key.dtype)


def test_shapes_alone_tell_no_numbers():
    value = {"w": [np.ones((2, 3), np.float16), jnp.ones(4)], "n": 7, "t": ("a", 1.5)}
    back = round_trip(value, shapes_only=True)
    assert back["w"] == [
        jax.ShapeDtypeStruct((2, 3), np.float16),
        jax.ShapeDtypeStruct((4,), np.float32),
    ]
    assert (back["n"], back["t"]) == (7, ("a", 1.5))
    assert "data" not in json.dumps(sent(value, shapes_only=True))


@pytest.mark.parametrize(
    "value",
    [
        {1, 2},
        object(),
        print,
        np.array([None]),
        np.array(["a"]),
        np.zeros(2, ">f4"),
        np.zeros(2, [("a", int)]),
        np.datetime64("2020-01-01"),
        jnp.zeros(2, jnp.float8_e4m3fn),
        10**4000,
        b"x" * (wire.MAX_BYTES + 1),
        np.broadcast_to(np.float64(0), (2**20, 2**20)),
        slice(1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values_are_not_sent(value):
    with pytest.raises(WireError):
        encode([value])


plain_keys = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.binary(max_size=5)
)
keys = st.one_of(plain_keys, st.floats(), st.tuples(plain_keys, plain_keys))
numbers = st.one_of(st.integers(), st.floats(), st.complex_numbers())
arrays = st.builds(
    lambda name, shape, data: np.resize(
        np.frombuffer(data, np.uint8) % 2, shape
    ).astype(NUMBERS[name]),
    st.sampled_from(wire.DTYPES),
    st.lists(st.integers(0, 3), max_size=3),
    st.binary(min_size=1, max_size=20),
)
leaves = st.one_of(st.none(), st.booleans(), numbers, st.text(), st.binary(), arrays)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
    ),
    max_leaves=12,
)


@fuzz
@given(trees)
def test_any_plain_value_arrives_as_it_was(value):
    assert alike(round_trip(value), value)
    assert alike(decode(sent(value), plain=True), value)


# What a learner's function returns is sent without a refusal, whatever it is.

ODD = {
    "set": {1, 2},
    "object": object(),
    "array of objects": np.array([None]),
    "array of text": np.array(["a"]),
    "number of NumPy's": np.float32(2),
    "array of other byte order": np.zeros(2, ">i4"),
    "huge number": 10**5000,
    "long text": "x" * (wire.MAX_TEXT + 1),
    "long list": [0] * (wire.MAX_ITEMS + 1),
    "large dict": dict.fromkeys(range(wire.MAX_KEYS + 1)),
    "long key": {"k" * 1000: 1},
    "odd keys": {np.int64(3): 1, 1j: 2, frozenset(): 3},
    "odd keys in a tuple": {(1, frozenset()): 2},
    "array": jnp.ones((8, 2)),
    "array of rare numbers": jnp.ones(3, jnp.float8_e5m2),
    "random key": jax.random.key(3),
}
odd_leaves = st.one_of(leaves, st.sampled_from(sorted(ODD)).map(lambda name: ODD[name]))
odd_trees = st.recursive(
    odd_leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner)
    ),
    max_leaves=6,
)


def delivered(seen):
    line = json.dumps({"seen": encode_observation(seen)})
    return decode_observation(loads(line)["seen"], seen.function, seen.call)


@fuzz
@given(st.data())
def test_whatever_a_function_returns_is_delivered_or_named(data):
    value = data.draw(odd_trees)
    seen = observe(lambda: value)
    back = delivered(seen)
    if isinstance(back.value, Opaque) and not isinstance(seen.value, Opaque):
        assert back.layout == {}
        assert back.value.type_name.startswith(type(seen.value).__name__)
    else:
        assert same(back.value, seen.value)
        assert back.layout == seen.layout


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(("depth", "kind"), [(39, list), (60, Opaque), (400, Opaque)])
def test_a_deep_value_is_delivered_or_named(depth, kind):
    back = delivered(Observation("f", "f()", value=nested(depth)))
    assert isinstance(back.value, kind)


def test_a_large_value_is_named():
    seen = Observation("f", "f()", value=[np.zeros(2**23, np.int8)] * 3)
    assert delivered(seen).value == Opaque(
        "list (The answer holds more than 16777216 bytes.)"
    )


def test_the_largest_array_is_delivered():
    whole = np.zeros(wire.MAX_BYTES, np.int8)
    assert delivered(Observation("f", "f()", value=whole)).value.nbytes == whole.nbytes


def on_mesh(x, spec, **axes):
    devices = np.array(jax.devices()[: math.prod(axes.values())])
    mesh = Mesh(
        devices.reshape(tuple(axes.values())),
        tuple(axes),
        axis_types=(AxisType.Auto,) * len(axes),
    )
    return jax.device_put(x, NamedSharding(mesh, spec))


X = np.arange(64, dtype=np.float32).reshape(8, 8)
LAYOUTS = {
    "host": lambda: X,
    "one device": lambda: jnp.asarray(X),
    "last device": lambda: jax.device_put(X, jax.devices()[-1]),
    "rows": lambda: jax.pmap(lambda x: x)(X),
    "scalars": lambda: jax.pmap(jnp.sum)(X),
    "some devices": lambda: jax.pmap(jnp.sum)(X[:3]),
    "replicated": lambda: on_mesh(X, P(), a=8),
    "both ways": lambda: on_mesh(X, P("a", "b"), a=2, b=4),
    "partly replicated": lambda: on_mesh(X, P(None, "b"), a=2, b=2),
    "empty": lambda: on_mesh(np.zeros((8, 0)), P("a"), a=8),
    "number": lambda: on_mesh(np.float32(3), P(), a=4),
    "keys": lambda: jax.pmap(lambda k: k)(jax.random.split(jax.random.key(0), 8)),
    "tree": lambda: {"a": [jnp.ones(2), X, 3], 0: {"b": jax.pmap(jnp.sin)(X)}},
}


@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_every_layout_of_jax_is_delivered(make):
    seen = observe(make)
    back = delivered(seen)
    assert back.layout == seen.layout
    assert same(back.value, seen.value)


def failing():
    raise ValueError("\ud800 told" + "!" * 10_000)


def test_an_error_is_delivered_shortened():
    seen, back = observe(failing), delivered(observe(failing))
    assert back.error.kinds == seen.error.kinds
    assert back.error.message == seen.error.message[:4000]
    assert back.error.function == seen.error.function == "failing"
    assert back.error.trace == seen.error.trace
    [line] = back.error.trace
    assert line.startswith("in failing, line ") and "raise ValueError(" in line


def test_what_else_a_call_did_is_delivered():
    seen = Observation("f", "f([0])", printed="\ud800" * 5000, changed=(0, 2))
    back = delivered(seen)
    assert (back.function, back.call) == ("f", "f([0])")
    assert (back.printed, back.changed) == ("\ud800" * 4000, (0, 2))
    assert back.array_shapes is None


def test_an_error_of_a_deep_and_lying_class_is_delivered():
    kinds = tuple("name" * 100 for _ in range(50))
    lines = tuple(f"{number}: {'x' * 1000}" for number in range(9))
    seen = Observation("f", "f()", error=Failure(kinds, "", "f" * 1000, lines))
    error = delivered(seen).error
    assert (len(error.kinds), len(error.kinds[0])) == (20, 200)
    assert (len(error.function), [*map(len, error.trace)]) == (200, [400] * 4)
    assert error.trace[-1] == lines[-1][:400]  # the last ones are the learner's own


# What is forged is refused.


def forged_array(**changes):
    document = {"array": "float32", "shape": [2], "data": "AAAAAAAAAAA="}
    document |= {key: value for key, value in changes.items() if value != "none"}
    return {k: v for k, v in document.items() if changes.get(k) != "none"}


def wrapped(kind, depth, value=None):
    for _ in range(depth):
        value = {kind: [value]}
    return value


FORGED = {
    "bare list": [1],
    "nothing": {},
    "unknown kind": {"set": []},
    "two kinds": {"list": [], "tuple": []},
    "more fields": {"opaque": "a", "data": ""},
    "kind not first": {"shape": [], "array": "bool", "data": "AA=="},
    "list of no list": {"list": {"0": 1}},
    "list of text": {"list": "ab"},
    "tuple of number": {"tuple": 3},
    "dict of dict": {"dict": {"a": 1}},
    "dict of triples": {"dict": [[1, 2, 3]]},
    "dict of text": {"dict": ["ab"]},
    "key that is a list": {"dict": [[{"list": []}, 1]]},
    "key that holds a list": {"dict": [[{"tuple": [{"list": []}]}, 1]]},
    "key that is an array": {"dict": [[forged_array(), 1]]},
    "key that is a name": {"dict": [[{"opaque": "a"}, 1]]},
    "long key": {"dict": [["k" * 201, 1]]},
    "long tuple as key": {"dict": [[{"tuple": [0] * 100}, 1]]},
    "many keys": {"dict": [[number, 1] for number in range(1001)]},
    "name that is a number": {"opaque": 3},
    "complex of ints": {"complex": [1, 2]},
    "complex of three": {"complex": [1.0, 2.0, 3.0]},
    "complex of text": {"complex": "1j"},
    "bytes of number": {"bytes": 3},
    "bytes of other letters": {"bytes": "*AAA"},
    "bytes of wrong length": {"bytes": "AAA"},
    "bytes of umlauts": {"bytes": "ä"},
    "huge number": 2**10_001,
    "huge negative number": -(2**10_001),
    "long text": "a" * 100_001,
    "much text": {"list": ["a" * 60_000, "b" * 60_000]},
    "deep": wrapped("list", 41),
    "very deep": wrapped("tuple", 900),
    "deep dict": {"dict": [[1, wrapped("list", 40)]]},
    "many items": {"list": [None] * 20_000},
    "millions of items": {"list": [0] * 10**6},
    "no shape": forged_array(shape="none"),
    "shape of number": forged_array(shape=2),
    "negative size": forged_array(shape=[-2]),
    "truth as size": forged_array(shape=[True, 2]),
    "fraction as size": forged_array(shape=[2.0]),
    "huge size": forged_array(shape=[2**31]),
    "huge empty size": forged_array(shape=[0, 2**70], data=""),
    "empty array beyond bounds": forged_array(shape=[0] + [2**31 - 1] * 15, data=""),
    "on a device beyond bounds": {
        "array": "int8",
        "shape": [0] + [2**31 - 1] * 9,
        "data": "",
        "on_device": True,
    },
    "many axes": forged_array(shape=[1] * 17),
    "too few bytes": forged_array(data="AAAA"),
    "too many bytes": forged_array(data="AAAAAAAAAAAAAAAA"),
    "huge shape, few bytes": forged_array(shape=[2**31 - 1] * 16),
    "bytes that are a number": forged_array(data=0),
    "bytes that are nothing": forged_array(data=None),
    "unknown dtype": forged_array(array="object"),
    "dtype of text": forged_array(array="<U4"),
    "dtype with a time": forged_array(array="datetime64[s]"),
    "dtype that is a list": forged_array(array=["float32"]),
    "truth above one": forged_array(array="bool", data="AAI="),
    "device that is a number": forged_array(on_device=1),
    "device denied": forged_array(on_device=False),
    "scalar with a shape": forged_array(scalar=True),
    "scalar without data": {"array": "int8", "shape": [], "scalar": True},
    "key of unknown kind": {"key": "dice", "data": forged_array()},
    "key that is a list too": {"key": ["rbg"], "data": forged_array()},
    "key without data": {"key": "rbg"},
    "key of a number": {"key": "rbg", "data": 3},
    "key of text": {"key": "rbg", "data": "AAAA"},
    "key of floats": {"key": "threefry2x32", "data": forged_array()},
    "key of other length": {"key": "rbg", "data": forged_array(array="uint32")},
    "key of a shape of floats": {"key": "rbg", "data": forged_array(data="none")},
    "key of a number on a device": {
        "key": "rbg",
        "data": {"array": "uint32", "shape": [], "data": "AAAAAA=="},
    },
}


@pytest.mark.parametrize("document", FORGED.values(), ids=FORGED.keys())
@pytest.mark.parametrize("plainly", [False, True], ids=["any", "plain"])
def test_a_forged_value_is_refused(document, plainly):
    with pytest.raises(WireError):
        decode(document, plain=plainly)
    with pytest.raises(WireError):
        decode({"list": [1, {"dict": [["a", document]]}]}, plain=plainly)


@pytest.mark.parametrize(
    "value",
    [jnp.ones(2), jax.random.key(0), np.float32(1)],
    ids=["on a device", "key", "number of NumPy's"],
)
def test_no_plain_value_holds_what_only_arguments_are(value):
    with pytest.raises(WireError):
        decode(sent([value]), plain=True)


def test_no_plain_value_holds_a_shape_alone():
    document = sent(np.ones(2), shapes_only=True)
    with pytest.raises(WireError):
        decode(document, plain=True)


COSTLY = ["millions of items", "many items", "huge shape, few bytes", "very deep"]
COSTLY += ["many axes", "empty array beyond bounds", "many keys"]


@pytest.mark.parametrize("name", COSTLY)
def test_a_refusal_takes_little_memory(name):
    document = FORGED[name]
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            decode(document)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_shape_without_data_takes_no_memory():
    alone = decode({"array": "float64", "shape": [2**31 - 1] * 3})
    assert alone.shape == (2**31 - 1,) * 3


def test_bytes_are_counted_over_a_whole_message():
    part = {"bytes": base64.b64encode(bytes(wire.MAX_BYTES // 2)).decode()}
    assert len(decode({"list": [part, part]})) == 2
    with pytest.raises(WireError):
        decode({"list": [part, part, {"bytes": "AAAA"}]})


def observation(make=LAYOUTS["both ways"], **changes):
    facts = json.loads(json.dumps(encode_observation(observe(make))))
    return facts | {k: v for k, v in changes.items()}


ERROR = {"kinds": ["ValueError", "Exception"], "message": "m", "function": "f"}
ERROR |= {"trace": ["in f, line 3: x"]}
WHOLE = [[0, [[0, 8], [0, 8]]]]  # on one device
ROWS = [[device, [[device, device + 1], [0, 8]]] for device in range(8)]
FORGED_FACTS = {
    "fewer facts": lambda f: f.pop("printed"),
    "more facts": lambda f: f.update(array_shapes=[]),
    "value of another form": lambda f: f.update(value=[1]),
    "array on a device": lambda f: f["value"].update(on_device=True),
    "error that is empty": lambda f: f.update(error={}),
    "error that is false": lambda f: f.update(error=False),
    "error that is text": lambda f: f.update(error="ValueError"),
    "error beside a value": lambda f: f.update(error=ERROR, layout={}),
    "error beside a layout": lambda f: f.update(error=ERROR, value=None),
    "printed number": lambda f: f.update(printed=3),
    "printed nothing": lambda f: f.update(printed=None),
    "printed much": lambda f: f.update(printed="a" * 4001),
    "changed a number": lambda f: f.update(changed=3),
    "changed text": lambda f: f.update(changed="12"),
    "changed a text": lambda f: f.update(changed=["1"]),
    "changed -1": lambda f: f.update(changed=[-1]),
    "changed true": lambda f: f.update(changed=[True]),
    "changed a fraction": lambda f: f.update(changed=[1.0]),
    "changed NaN": lambda f: f.update(changed=[math.nan]),
    "changed twice": lambda f: f.update(changed=[1, 1]),
    "changed in disorder": lambda f: f.update(changed=[2, 1]),
    "changed the thousandth": lambda f: f.update(changed=[1000]),
    "changed a million": lambda f: f.update(changed=[0] * 10**6),
    "layout that is a list": lambda f: f.update(layout=[]),
    "layout that is nothing": lambda f: f.update(layout=None),
    "layout of another place": lambda f: f.update(layout={"[0]": WHOLE}),
    "layout of a number": lambda f: f.update(value=3),
    "layout of a name": lambda f: f.update(value={"opaque": "a"}),
    "layout without shards": lambda f: f.update(layout={"": []}),
    "shards that are a number": lambda f: f.update(layout={"": 3}),
    "shards that are a dict": lambda f: f.update(layout={"": {"0": [[0, 8], [0, 8]]}}),
    "shard that is a number": lambda f: f.update(layout={"": [0]}),
    "shard of three": lambda f: f.update(layout={"": [[0, [[0, 8], [0, 8]], 1]]}),
    "shard of text": lambda f: f.update(layout={"": ["ab"]}),
    "too many shards": lambda f: f.update(layout={"": WHOLE * 20_001}),
    "device 8": lambda f: f.update(layout={"": [[8, [[0, 8], [0, 8]]]]}),
    "device -1": lambda f: f.update(layout={"": [[-1, [[0, 8], [0, 8]]]]}),
    "device true": lambda f: f.update(layout={"": [[True, [[0, 8], [0, 8]]]]}),
    "device as text": lambda f: f.update(layout={"": [["0", [[0, 8], [0, 8]]]]}),
    "device as NaN": lambda f: f.update(layout={"": [[math.nan, [[0, 8], [0, 8]]]]}),
    "device named twice": lambda f: f.update(layout={"": [*ROWS, ROWS[0]]}),
    "too few axes": lambda f: f.update(layout={"": [[0, [[0, 8]]]]}),
    "too many axes": lambda f: f.update(layout={"": [[0, [[0, 8], [0, 8], [0, 1]]]]}),
    "axes as text": lambda f: f.update(layout={"": [[0, "ab"]]}),
    "bounds as text": lambda f: f.update(layout={"": [[0, ["08", "08"]]]}),
    "bounds as numbers": lambda f: f.update(layout={"": [[0, [8, 8]]]}),
    "bounds of three": lambda f: f.update(layout={"": [[0, [[0, 8, 1], [0, 8]]]]}),
    "bounds as fractions": lambda f: f.update(layout={"": [[0, [[0.0, 8], [0, 8]]]]}),
    "bounds as truth": lambda f: f.update(layout={"": [[0, [[False, 8], [0, 8]]]]}),
    "negative bounds": lambda f: f.update(layout={"": [[0, [[-8, 8], [0, 8]]]]}),
    "bounds too far": lambda f: f.update(layout={"": [[0, [[0, 9], [0, 8]]]]}),
    "bounds turned round": lambda f: f.update(layout={"": [[0, [[8, 0], [0, 8]]]]}),
    "a row without a device": lambda f: f.update(layout={"": ROWS[1:]}),
    "a row twice": lambda f: f.update(layout={"": [*ROWS[:7], [7, ROWS[0][1]]]}),
    "overlapping rows": lambda f: f.update(
        layout={"": [[0, [[0, 5], [0, 8]]], [1, [[4, 7], [0, 8]]]]}
    ),
}
FORGED_ERRORS = {
    "no kinds": {"kinds": []},
    "kinds as text": {"kinds": "ValueError"},
    "kinds as numbers": {"kinds": [1]},
    "kinds as dict": {"kinds": {"ValueError": 1}},
    "many kinds": {"kinds": ["a"] * 21},
    "long kind": {"kinds": ["a" * 201]},
    "no message": {"message": None},
    "long message": {"message": "a" * 4001},
    "no trace": {"trace": None},
    "trace as text": {"trace": "in f, line 3: x"},
    "trace as dict": {"trace": {"in f, line 3: x": 1}},
    "trace of numbers": {"trace": [3]},
    "trace of nothing": {"trace": [None]},
    "trace of lists": {"trace": [["in f, line 3: x"]]},
    "long trace": {"trace": ["a"] * 5},
    "long line": {"trace": ["a" * 401]},
    "line of an earlier form": {"line": 3},
    "function as number": {"function": 3},
    "long function": {"function": "a" * 201},
    "more": {"traceback": ""},
}


def refused(facts):
    with pytest.raises(WireError):
        decode_observation(facts, "f", "f()")


@pytest.mark.parametrize("change", FORGED_FACTS.values(), ids=FORGED_FACTS.keys())
def test_forged_facts_are_refused(change):
    facts = observation()
    change(facts)
    refused(facts)


@pytest.mark.parametrize("change", FORGED_ERRORS.values(), ids=FORGED_ERRORS.keys())
def test_a_forged_error_is_refused(change):
    facts = observation(failing)
    assert decode_observation(facts, "f", "f()").error.kinds[0] == "ValueError"
    refused(facts | {"error": facts["error"] | change})


@pytest.mark.parametrize("facts", [None, 3, "text", [], {}, [{}]], ids=repr)
def test_what_is_no_observation_is_refused(facts):
    refused(facts)


def test_a_self_reported_layout_is_kept_where_it_fits():
    seen = decode_observation(observation(layout={"": ROWS}), "f", "f()")
    assert seen.layout[""][3] == Shard(3, ((3, 4), (0, 8)))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        "3",
        "null",
        "several",
        '"text"',
        "{} {}",
        "{'a': 1}",
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"a": ' + "9" * 5000 + "}",
        "\ud800",
        "{}" + "\0",
        '{"a": "' + "x" * MAX_LINE + '"}',
        '{"a": [' + "[]," * MAX_BRACKETS + "1]}",
        None,
        3,
        b"{}",
    ],
    ids=lambda line: repr(line)[:12],
)
def test_what_is_no_message_is_refused(line):
    with pytest.raises(WireError):
        loads(line)


def test_a_message_is_an_object():
    assert loads('{"id": "a", "x": [NaN, Infinity, "\\ud800"]}')["id"] == "a"


# And whatever else somebody thinks of.

json_values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from([*wire.DTYPES, *wire.KEYS, "AAAA", "", 2**63, 10**400, -1]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(
                [
                    *wire.KINDS,
                    *wire.FIELDS["array"],
                    "kinds",
                    "message",
                    "trace",
                    "function",
                ]
            ),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=10,
)
VALID = [
    *map(sent, VALUES),
    sent({"a": np.ones((2, 3)), "b": jnp.ones(3)}),
    sent([jax.random.key(0), np.float32(3)]),
    sent((np.ones(3), jax.random.key(0)), shapes_only=True),
]
VALID_FACTS = [
    *(observation(make) for make in LAYOUTS.values()),
    observation(failing),
    observation(lambda: {"a": 1, "b": (None, [b"x"])}),
]


def places(document, path=()):
    yield path
    if isinstance(document, dict | list):
        keys = document if isinstance(document, dict) else range(len(document))
        for key in keys:
            yield from places(document[key], (*path, key))


@st.composite
def mutated(draw, documents):
    """Draws a valid document with up to three of its parts changed."""
    document = {"root": copy.deepcopy(draw(st.sampled_from(documents)))}
    for _ in range(draw(st.integers(1, 3))):
        found = [path for path in places(document) if path]
        *path, last = draw(st.sampled_from(found))
        parent = document
        for key in path:
            parent = parent[key]
        how = draw(st.sampled_from(["replace", "remove", "repeat", "swap"]))
        if how == "remove" and len(path) > 1:
            del parent[last]
        elif how == "repeat" and isinstance(parent, list):
            parent.insert(last, parent[last])
        elif how == "swap":
            other = draw(st.sampled_from(found))
            part = document
            for key in other:
                part = part.get(key) if isinstance(part, dict) else None
            parent[last] = copy.deepcopy(part)
        else:
            parent[last] = draw(json_values)
    return document["root"]


def reads_or_refuses(read, *arguments):
    try:
        return read(*arguments)
    except WireError:
        return None


@fuzz
@given(st.one_of(json_values, mutated(VALID)), st.booleans())
def test_no_document_does_more_than_to_be_refused(document, plainly):
    value = reads_or_refuses(lambda: decode(document, plain=plainly))
    if plainly and value is not None:
        assert same(plain(value), value) or "opaque" in json.dumps(document)


@fuzz
@given(st.one_of(json_values, mutated(VALID_FACTS)))
def test_no_facts_do_more_than_to_be_refused(facts):
    seen = reads_or_refuses(decode_observation, facts, "f", "f()")
    if seen is not None:
        again = decode_observation(encode_observation(seen), "f", "f()")
        assert again.layout == seen.layout
        assert again.changed == seen.changed


@fuzz
@given(st.one_of(st.text(), json_values.map(json.dumps)))
def test_no_line_does_more_than_to_be_refused(line):
    assert isinstance(reads_or_refuses(loads, line), dict | None)
