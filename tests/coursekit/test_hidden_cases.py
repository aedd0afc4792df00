"""Cases are tried again with other numbers: scaled, one by one, halved."""

import jax
import numpy as np

from coursekit.hidden_cases import Case, altered, rounded


def rows(*numbers):
    return np.float32(numbers)


def numbers_of(cases):
    return [jax.tree.map(np.asarray, one.arguments) for one in cases]


def test_the_case_in_the_middle_is_scaled_whole_and_array_by_array():
    small, middle, large = (Case(rows(k, k), {"w": rows(3)}, "i") for k in (1, 2, 7))
    made = numbers_of(altered([small, middle, large], (0, 10), -1))
    wanted = [
        (rows(0, 0), {"w": rows(0)}),
        (rows(20, 20), {"w": rows(30)}),
        (rows(-2, -2), {"w": rows(3)}),
        (rows(2, 2), {"w": rows(-3)}),
    ]
    assert len(made) == len(wanted)
    for (x, params, name), (other_x, other_params) in zip(made, wanted, strict=True):
        np.testing.assert_array_equal(x, other_x)
        np.testing.assert_array_equal(params["w"], other_params["w"])
        assert name == "i"


def test_many_arrays_are_changed_by_the_argument():
    params = {name: rows(1) for name in "abcde"}
    made = numbers_of(altered([Case(params, rows(2))], (), 0))
    assert made == []  # nothing is scaled where the contract bounds the numbers
    _, first, second = numbers_of(altered([Case(params, rows(2))], (0,), 0))
    assert {float(leaf[0]) for leaf in first[0].values()} == {0}
    assert first[1] == 2
    assert {float(leaf[0]) for leaf in second[0].values()} == {1}
    assert second[1] == 0


def test_floats_that_are_no_arrays_are_halved_and_made_0_one_by_one():
    made = [one.arguments for one in altered([Case(3, 0.5, [8.0, True])], (0,), 0)]
    assert made[:2] == [(3, 0.25, [8.0, True]), (3, 0.0, [8.0, True])]
    assert made[2:] == [(3, 0.5, [4.0, True]), (3, 0.5, [0.0, True])]


def test_keys_are_tried_with_other_words():
    key = jax.random.key(3)
    [one] = altered([Case(key, 3)], (0,), 0)
    [many] = altered([Case({"a": jax.random.split(key, 3)}, 3)], (0,), 0)
    assert jax.random.key_data(one.arguments[0]).min() > 3
    assert many.arguments[0]["a"].shape == (3,)
    assert many.arguments[1] == 3
    assert list(altered([Case(key, 3)], (), 0)) == []


def test_whole_numbers_and_texts_are_tried_once():
    assert list(altered([Case(3, "i", np.arange(3))], (0, 10), 0)) == []


def test_the_tolerance_grows_with_the_numbers():
    case = Case(rows(1), rtol=0.1, atol=0.5)
    case.statements = ("s",)
    zero, large = altered([case], (0, 10), 0)
    assert (zero.atol, large.atol, large.rtol) == (0.5, 5, 0.1)
    assert large.statements == ("s",) and large.is_altered and not case.is_altered


def test_rounding_moves_each_number_by_one_step():
    given = rows(*range(1, 65))
    [one], [other] = (rounded([given], pattern) for pattern in range(2))
    for moved in (one, other):
        assert (moved != given).all() and {*np.sign(moved - given)} == {-1, 1}
        np.testing.assert_allclose(moved, given, rtol=2**-22)
    # Neither the same signs nor their mirror, whose effects cancel in the same way.
    assert 0 < ((one > given) == (other > given)).sum() < 64
