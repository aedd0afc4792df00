"""Plain facts: how values are written, copied and compared."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coursekit.expect import difference
from coursekit.observation import (
    Collective,
    Failure,
    Opaque,
    Shard,
    describe,
    describe_call,
    leaves,
    plain,
    ranges,
    same,
)

EIGHT = np.zeros((8, 2), np.float32)
ROWS = {"": tuple(Shard(d, ((d, d + 1), (0, 2))) for d in range(8))}
COPIES = {"": tuple(Shard(d, ((0, 8), (0, 2))) for d in range(8))}


def headline(value, expected, atol=1e-6, layout=None):
    problem = difference(value, expected, 1e-5, atol, layout or {})
    return problem and problem[0]


def with_ones(array, *rows):
    array = array.copy()
    array[list(rows)] = 1
    return array


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (EIGHT, "f32[8,2]"),
        (np.zeros(3), "f64[3]"),
        (np.int8(3), "i8[]"),
        (np.zeros(2, np.uint16), "u16[2]"),
        (np.zeros(2, np.complex64), "c64[2]"),
        (np.zeros((), bool), "bool[]"),
        (jnp.zeros((0, 4), jnp.bfloat16), "bf16[0,4]"),
        (jax.ShapeDtypeStruct((4,), jnp.float16), "f16[4]"),
        (jax.random.key(0), "key[]"),
        (jax.random.split(jax.random.key(0), 8), "key[8]"),
        ({"x": EIGHT, "y": 1}, '{"x": f32[8,2], "y": 1}'),
        ([EIGHT, {"b": (EIGHT, None)}], '[f32[8,2], {"b": (f32[8,2], None)}]'),
        ((EIGHT,), "(f32[8,2],)"),
        ((1, 2), "(1, 2)"),
        ((), "()"),
        ({}, "{}"),
        (None, "None"),
        (True, "True"),
        (1.5, "1.5"),
        ("text", "'text'"),
        (b"bytes", "b'bytes'"),
        ({1, 2}, "<set>"),
        (Opaque("set"), "an object of type set"),
        (np.float32, "<type>"),
    ],
    ids=repr,
)
def test_a_value_is_described_in_short(value, text):
    assert describe(value) == text


def test_a_long_description_is_cut():
    assert describe("a" * 100, limit=20) == "'" + "a" * 15 + " ..."
    assert len(describe([EIGHT] * 100)) == 120
    assert describe(b"PK" * 100, limit=20) == "<bytes>"


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("one\n  two", "ValueError: one two"),
        ("", "ValueError: "),
        ("a" * 300, f"ValueError: {'a' * 200} ..."),
    ],
)
def test_a_failure_is_written_in_one_line(message, text):
    assert Failure(("ValueError", "Exception"), message).text == text


@pytest.mark.parametrize(
    "array",
    [
        jnp.arange(3),
        jnp.ones(2, jnp.bfloat16),
        np.arange(3.0),
        np.float32(2),
        np.bool_(True),
    ],
    ids=describe,
)
def test_an_array_becomes_a_numpy_array_of_its_dtype(array):
    copied = plain(array)
    assert type(copied) is np.ndarray
    assert (copied.dtype, copied.shape) == (array.dtype, array.shape)
    assert copied.tolist() == array.tolist()


def test_a_numpy_array_is_copied():
    array = np.zeros(2)
    copied = plain(array)
    array[0] = 1
    assert copied.tolist() == [0, 0]


def test_keys_become_their_numbers():
    key = jax.random.key(7)
    assert plain(key).tolist() == jax.random.key_data(key).tolist()


def test_containers_are_kept():
    value = {"a": [1, (2.5, None)], "b": ("text", b"bytes", True, 1j)}
    assert plain(value) == value


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({1, 2}, "set"),
        (describe, "function"),
        (iter([1]), "list_iterator"),
        (np.array([None, "a"]), "object array"),
    ],
    ids=["set", "function", "iterator", "object array"],
)
def test_what_is_no_plain_data_keeps_only_a_name(value, name):
    assert plain({"a": [value]}) == {"a": [Opaque(name)]}


def test_a_deleted_array_keeps_only_a_name():
    array = jnp.zeros(2)
    array.delete()
    assert plain(array) == Opaque("deleted array")


def test_paths_read_like_python():
    value = {"w": [10, (20, None)], "b": 30}
    assert list(leaves(value)) == [
        ('["b"]', 30),
        ('["w"][0]', 10),
        ('["w"][1][0]', 20),
        ('["w"][1][1]', None),
    ]


def test_the_order_of_leaves_is_not_that_of_the_dict():
    assert list(leaves({"b": 1, "a": 2})) == list(leaves({"a": 2, "b": 1}))


def test_a_lone_value_has_an_empty_path():
    assert list(leaves(3)) == [("", 3)]


@pytest.mark.parametrize(
    "value",
    [
        {"a": [np.ones(2), 1], "b": None},
        "text",
        Opaque("set"),
        np.array([1.0, np.nan]),
        float("nan"),
        np.array(["a", "b"]),
    ],
    ids=repr,
)
def test_a_copy_is_the_same(value):
    assert same(plain(value), plain(value))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (np.ones(2), np.zeros(2)),
        (np.ones(2), np.ones(2, np.float32)),
        (np.ones(2), np.ones((2, 1))),
        (np.ones(1), 1.0),
        (1, True),
        ({"a": 1}, {"a": 1, "b": 1}),
        ({"a": 1}, {"b": 1}),
        ([1, 2], [2, 1]),
        ("a", "b"),
    ],
    ids=repr,
)
def test_another_value_is_not_the_same(before, after):
    assert not same(before, after)


@pytest.mark.parametrize(
    "value",
    [
        np.ones(2, np.float32),
        np.ones(2, np.float16),
        plain(jnp.ones(2, jnp.bfloat16)),
        np.ones(2),
    ],
    ids=describe,
)
def test_a_float64_reference_stands_for_every_floating_dtype(value):
    assert headline(value, np.ones(2)) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, 1.0 + 1e-7),
        (3, 3),
        ("text", "text"),
        ([1, EIGHT], [1, EIGHT]),
        (np.array([np.nan, 1.0]), np.array([np.nan, 1.0])),
        (np.zeros((0, 2)), np.zeros((0, 2))),
    ],
    ids=repr,
)
def test_equal_values_have_no_difference(value, expected):
    assert headline(value, expected) is None


@pytest.mark.parametrize(
    ("value", "expected", "text"),
    [
        (None, EIGHT, "The function returned None: is a return missing?"),
        ([EIGHT], EIGHT, "The result has another structure."),
        ({"w": 1}, {"w": 1, "b": 1}, "The result has another structure."),
        (EIGHT[:4], EIGHT, "The result has shape [4, 2], not [8, 2]."),
        (0.0, EIGHT, "The result has shape [], not [8, 2]."),
        (
            {"w": [EIGHT, EIGHT.T]},
            {"w": [EIGHT, EIGHT]},
            'result["w"][1] has shape [2, 8], not [8, 2].',
        ),
        (
            EIGHT.astype(np.float16),
            EIGHT,
            "The result has dtype float16, not float32.",
        ),
        (
            plain(jnp.zeros(2, jnp.bfloat16)),
            EIGHT[0],
            "The result has dtype bfloat16, not float32.",
        ),
        (EIGHT, EIGHT.astype(int), "The result has dtype float32, not int64."),
        ("b", "a", "The result differs from what is expected."),
        (EIGHT, "a", "The result differs from what is expected."),
        ("a", EIGHT, "The result differs from what is expected."),
        (
            {"w": None},
            {"w": EIGHT},
            'result["w"] is None, not f32[8,2].',
        ),
        (
            Opaque("PjitFunction"),
            EIGHT,
            "The result is an object of type PjitFunction, not f32[8,2].",
        ),
        (np.ones(()), 2.0, "The result is wrong."),
        (2, 1, "The result is wrong."),
        (np.ones((1, 1)), np.zeros((1, 1)), "The result is wrong."),
        (np.array([0, np.nan]), np.zeros(2), "The result is wrong in 1 of 2 values."),
        (np.zeros(2), np.array([0, np.nan]), "The result is wrong in 1 of 2 values."),
        (np.ones(5), np.zeros(5), "The result is wrong in 5 of 5 values."),
        (np.ones((1, 3)), np.zeros((1, 3)), "The result is wrong in 3 of 3 values."),
        (
            with_ones(EIGHT, 1, 2, 3, 5),
            EIGHT,
            "The result is wrong in 4 of 8 blocks along axis 0: 1-3, 5.",
        ),
        (EIGHT + 1, EIGHT, "The result is wrong in all 8 blocks along axis 0."),
    ],
)
def test_the_headline_says_what_differs(value, expected, text):
    assert headline(value, expected) == text


def test_an_integer_result_is_not_told_to_be_float64():
    text = headline(np.zeros(2, np.int32), np.zeros(2))
    assert text.startswith("The result has dtype int32, not ")
    assert "64" not in text


def test_an_imaginary_part_counts():
    text = headline(np.array([1 + 1j, 1]), np.array([1 + 2j, 1]))
    assert text == "The result is wrong in 1 of 2 values."


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([3], "The result is wrong on 1 of 8 devices: 3."),
        ([0, 1, 2, 6], "The result is wrong on 4 of 8 devices: 0-2, 6."),
        (range(8), "The result is wrong on all 8 devices."),
    ],
)
def test_wrong_blocks_are_named_by_their_devices(rows, text):
    assert headline(with_ones(EIGHT, *rows), EIGHT, layout=ROWS) == text


def test_replicas_are_not_blamed_one_by_one():
    wrong = with_ones(EIGHT, 3)
    text = "The result is wrong in 1 of 8 blocks along axis 0: 3."
    assert headline(wrong, EIGHT, layout=COPIES) == text


def test_a_lone_device_is_not_blamed():
    lone = {"": (Shard(0, ((0, 8), (0, 2))),)}
    text = "The result is wrong in 1 of 8 blocks along axis 0: 3."
    assert headline(with_ones(EIGHT, 3), EIGHT, layout=lone) == text


def test_the_first_wrong_value_is_shown_with_its_place():
    wrong = np.array([[1, 2], [7, 9]], np.float32)
    found = difference(wrong, np.array([[1, 2], [3, 4.0]]), 0, 0, {})
    assert (found.seen, found.expected) == ("7 at [1, 0]", "3 at [1, 0]")


def test_a_wrong_number_is_shown_without_a_place():
    found = difference(1.25, 2.0, 0, 0, {})
    assert (found.seen, found.expected) == ("1.25", "2")


def test_a_reference_is_shown_in_the_dtype_that_jax_computes_in():
    found = difference(EIGHT[:4], np.zeros((8, 2)), 0, 0, {})
    assert (found.seen, found.expected) == ("f32[4,2]", "f32[8,2]")


def test_without_a_tolerance_values_do_not_count():
    assert headline(EIGHT + 1, EIGHT, atol=None) is None
    assert headline(EIGHT.T, EIGHT, atol=None)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([4], "4"),
        ([0, 1], "0-1"),
        ([0, 1, 2, 3, 6], "0-3, 6"),
        ([0, 2, 4, 5], "0, 2, 4-5"),
    ],
)
def test_ranges_are_written_in_short(numbers, text):
    assert ranges(numbers) == text


def test_a_call_is_written_as_it_was_made():
    assert describe_call("f", [EIGHT, 3, "i"]) == "f(f32[8,2], 3, 'i')"
    seen = describe_call("f", [{"w": EIGHT}, 3, EIGHT[:, 0]], "i")
    assert seen == 'f({"w": f32[2]}, 3, f32[]) on each of 8 devices, axis "i"'


def test_a_whole_number_stands_for_a_float_and_not_the_other_way_round():
    assert difference(3, 3.0, 0, 0, {}) is None
    assert difference(3.0, 3, 0, 0, {}) is not None


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [("f32", 6), ("bool", 6), ("bf16", 6), ("c64", 12), ("f64", 12), ("c128", 24)],
)
def test_packed_numbers_count_each(dtype, numbers):
    assert Collective("all-gather", "", dtype, (2, 3), 8).numbers == numbers
