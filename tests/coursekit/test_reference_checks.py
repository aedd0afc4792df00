"""A function is like the solution in all that its exercise does not leave open."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from observations import problem

from coursekit.context import Context, within
from coursekit.hidden_cases import Case
from coursekit.outcomes import (
    FAILS,
    HOLDS,
    LATER,
    UNTRIED,
    Raised,
    Run,
    carry_out,
    statement,
)
from coursekit.reference_checks import FACTS, expect_like_solution


@pytest.fixture(autouse=True)
def context():
    with within(Context()) as found:
        yield found


@pytest.fixture
def solve(context):
    """Makes the solution known to which answers are compared."""

    def known(function):
        context.solutions, context.known = {function.__name__: function}, {}

    return known


def compared(function, *cases, name="solution", **facts):
    """Compares `function`, under the solution's name, in the facts that are given."""
    function.__name__ = name
    facts = facts or {"value": "the sum"}
    given = {"sent" if fact == "put_in" else fact for fact in facts}
    free = {" ".join(fact for fact in FACTS if fact not in given): "not tested here"}
    facts = {fact: names for fact, names in facts.items() if fact != "compiled"}
    return expect_like_solution(function, lambda rng: cases, free=free, **facts)


def rows(*shape):
    return np.float32(np.random.default_rng(0).normal(size=shape) + 1)


def total(x, axis_name):
    return lax.psum(x, axis_name)


def on(num_devices, *shape, axis="i"):
    return Case(rows(num_devices, *shape), axis, axis=axis)


def test_the_solution_is_like_itself(solve):
    solve(total)
    every = {fact: "s" for fact in FACTS if fact not in ("error",)}
    cases = [on(2, 3), on(8, 5), on(2, 3)]
    expect_like_solution(total, lambda rng: cases, free={"error": "none"}, **every)


def test_another_order_of_the_same_sums_is_like_it(solve):
    solve(total)

    def gathered(x, axis_name):
        return lax.all_gather(x, axis_name)[::-1].sum(0)

    compared(gathered, on(8, 50), name="total")


def test_two_sets_of_cases_of_the_same_shapes_do_not_share_what_is_expected(solve):
    solve(total)
    for x in (rows(2, 3), 2 * rows(2, 3)):
        compared(total, Case(x, "i", axis="i"), name="total")


def test_a_case_that_the_solution_refuses_by_accident_is_a_fault_of_the_check(solve):
    def first(x):
        return x[0]

    solve(first)
    with pytest.raises(ValueError, match="the solution raises IndexError"):
        compared(first, Case(rows(0)), name="first")


def test_another_learning_rate_compiles_nothing(solve):
    kept = jax.jit(lambda x, lr: lr * x)
    static = jax.jit(lambda x, lr: lr * x, static_argnums=1)

    def scaled(x, lr):
        return kept(x, lr)

    def anew(x, lr):
        return static(x, lr)

    solve(scaled)
    cases = Case(rows(3), 0.1), Case(rows(3), 0.2)
    compared(scaled, *cases, compiles="once", name="scaled")
    assert problem(compared, anew, *cases, compiles="once", name="scaled")


def test_a_list_is_no_tuple(solve):
    def pair(x):
        return x, {"a": [x]}

    solve(pair)
    compared(pair, Case(1.5), name="pair")
    wrong = problem(compared, lambda x: [x, {"a": [x]}], Case(1.5), name="pair")
    assert wrong.rows["expected"] == "(., {'a': [.]})"


def test_complex_numbers_are_rounded_too(solve):
    def power(x):
        return x * (1 + 2j)

    solve(power)
    x = Case(np.complex64(rows(5) + 1j))
    compared(lambda x: np.complex64(np.multiply(1 + 2j, x)), x, name="power")
    assert problem(compared, lambda x: np.conj(power(x)), x, name="power")


def test_a_function_without_a_name_has_that_of_the_notebook(solve, context):
    solve(total)
    answer = functools.partial(lambda scale, x, axis_name: scale * x, 1)
    free = " ".join(fact for fact in FACTS if fact != "value")
    context.functions = {"total": answer}
    cases = [on(2, 1)]
    wrong = problem(
        expect_like_solution, answer, lambda _: cases, value="sum", free={free: "open"}
    )
    assert wrong.headline


def test_a_float_that_is_no_array_is_tried_with_another_value(solve):
    def stretched(x, by):
        return x * by

    solve(stretched)
    remembered = {}

    def remembers(x, by):
        return remembered.setdefault(x.tobytes(), x * by)

    case = Case(rows(3), 2.0)
    compared(lambda x, by: x * by, case, name="stretched")
    wrong = problem(compared, remembers, case, name="stretched")
    assert wrong.headline == "The result is wrong in 3 of 3 values."


def test_a_case_that_the_page_does_not_show_finds_the_wrong_answer(solve):
    solve(total)

    def for_eight(x, axis_name):
        return 8 * lax.pmean(x, axis_name)

    compared(for_eight, on(8, 3), name="total")
    wrong = problem(compared, for_eight, on(8, 3), on(6, 3), name="total")
    assert wrong.headline.startswith("The result is wrong on all 6 devices")
    # A number would be written into an answer.
    assert wrong.rows["expected"] == "what the solution gives here, up to rounding"


def test_the_smallest_case_that_fails_is_told(solve):
    solve(total)
    wrong = problem(compared, lambda x, axis_name: x, on(8, 7), on(2, 1), name="total")
    assert wrong.rows["called"].startswith("total(f32[1], ")


def test_rounding_decides_the_tolerance(solve):
    def variance(x):
        return ((x - x.mean()) ** 2).mean()

    solve(variance)
    far = Case(np.float32(rows(1000) + 1e4))
    compared(lambda x: jnp.var(jnp.asarray(x)), far, name="variance")

    def cancels(x):
        return np.float32((x**2).mean() - x.mean() ** 2)

    assert problem(compared, cancels, far, name="variance")


def test_each_difference_is_named(solve):
    solve(total)

    def useless(x, axis_name):
        return lax.psum(x, axis_name) + 0 * lax.pmax(x, axis_name)

    wrong = problem(compared, useless, on(4, 3), name="total", collectives="one sum")
    assert "all-reduce (max) of f32[3]" in wrong.rows["seen"]
    assert wrong.rows["expected"] == "1 x all-reduce"
    wrong = problem(compared, useless, on(4, 3), name="total", sent="one sum")
    assert wrong.rows["expected"] == "at most 18 bytes"


def test_a_collective_in_a_loop_is_another(solve):
    def twice(x, axis_name):
        return lax.psum(2 * lax.psum(x, axis_name), axis_name)

    def loop(x, axis_name):
        def step(total, _):
            return lax.psum(total * (1 + (total is not x)), axis_name), None

        return lax.scan(step, x, None, length=2)[0]

    solve(twice)
    wrong = problem(compared, loop, on(2, 3), name="twice", collectives="two sums")
    assert "in a loop" in wrong.rows["seen"]


def test_the_largest_array_counts(solve):
    def norms(x):
        return jnp.abs(x).sum(1)

    def pairs(x):
        return jnp.diag(jnp.abs(x) @ jnp.sign(x).T)

    solve(norms)
    wrong = problem(compared, pairs, Case(rows(9, 2)), name="norms", arrays="small")
    assert wrong.headline == "The program builds an array of shape [9, 9]."


def test_the_devices_are_compared_by_number(solve):
    def first(x):
        return jax.device_put(x, jax.devices()[0])

    def last(x):
        return jax.device_put(x, jax.devices()[-1])

    solve(first)
    wrong = problem(compared, last, Case(rows(3)), name="first", layout="the first")
    assert wrong.headline == "Device 0 holds nothing of the result."


def test_an_array_of_the_host_is_on_no_device(solve):
    def doubled(x):
        return {"x": 2 * x}

    solve(doubled)
    facts = {"value": "it", "layout": "on the host", "name": "doubled"}
    wrong = problem(compared, lambda x: {"x": jnp.add(x, x)}, Case(rows(3)), **facts)
    assert wrong.headline == 'result["x"] is on a device.'
    assert wrong.rows["expected"] == "a NumPy array on the host"


def test_a_text_that_differs_is_shown_without_ours(solve):
    def named(n):
        return f"{n} rows"

    solve(named)
    wrong = problem(compared, lambda n: "3 rows", Case(3), Case(4), name="named")
    assert wrong.rows["seen"] == "'3 rows'"
    assert "4 rows" not in str(wrong.rows)


def test_later_calls_of_the_same_shapes_compile_nothing(solve):
    kept = jax.jit(lambda x: x + 1)

    def once(x):
        return kept(x)

    def anew(x):
        return jax.jit(lambda x: x + 1)(x)

    solve(once)
    cases = Case(rows(3)), Case(2 * rows(3))
    compared(once, *cases, compiles="once", name="once")
    wrong = problem(compared, anew, *cases, compiles="once", name="once")
    assert wrong.headline == "The call compiled 1 program again."


def test_arguments_stay(solve):
    def copied(x):
        return x + 1

    def in_place(x):
        x += 1
        return x

    def donating(x):
        return jax.jit(lambda x: x + 1, donate_argnums=0)(x)

    solve(copied)
    compared(copied, Case(rows(3)), arguments="stay", name="copied")
    assert problem(compared, in_place, Case(rows(3)), arguments="s", name="copied")
    placed = Case(jnp.asarray(rows(3)))
    assert problem(compared, donating, placed, arguments="s", name="copied")


def test_an_error_names_what_the_case_says(solve):
    def strict(n):
        if n < 1:
            raise ValueError(f"{n} is below 1")
        return n

    def fixed(n):
        if n < 1:
            raise ValueError("-2 is below 1")
        return n

    solve(strict)
    facts = {"value": "n", "error": "below 1", "name": "strict"}
    cases = Case(-2, mentions=[-2]), Case(-5, mentions=[-5]), Case(3)
    compared(strict, *cases, **facts)
    wrong = problem(compared, fixed, *cases, **facts)
    assert wrong.headline == "The ValueError does not name -5."
    wrong = problem(compared, lambda n: n, *cases, **facts)
    assert wrong.headline == "No ValueError was raised."

    def strictest(n):
        raise ValueError(f"{n}")

    assert problem(compared, strictest, *cases, kind=Raised, **facts)


def standings(part, essential, others=()):
    """Runs hidden cases as a check does: how each statement stands afterwards."""
    verdict = carry_out(Run("exercise", essential, others), {True: part})
    return {one.name: one.standing for one in verdict.statements}


def test_what_failed_names_its_statement_and_the_others_are_tried(solve):
    solve(total)
    facts = {"value": "the sum", "sent": "one number is sent", "error": "no error"}

    def gathered(x, axis_name):
        return lax.all_gather(x, axis_name).sum(0)

    def part():
        with statement("first"):
            pass
        compared(gathered, on(8, 4), name="total", **facts)

    others = ["one number is sent", "no error", "later"]
    assert standings(part, ["first", "the sum"], others) == {
        "first": HOLDS,
        "the sum": HOLDS,
        "one number is sent": FAILS,
        "no error": HOLDS,  # none of these cases has shown one
        "later": LATER,
    }


def test_rows_of_other_devices_are_no_own_rows(solve):
    def gathered(x):
        return jax.pmap(lambda x: lax.all_gather(x, "d")[lax.axis_index("d")], "d")(x)

    function = jax.pmap(lambda x: x)
    solve(function)
    facts = {"value": "the rows", "own_rows": "own rows", "name": function.__name__}
    compared(lambda x: jax.pmap(lambda x: x)(x), Case(rows(2, 3)), **facts)
    [headline] = problem(compared, gathered, Case(rows(2, 3)), **facts).args
    assert headline == "The devices communicate: 1 x all-gather, none is needed."


def test_a_call_that_raises_leaves_what_its_program_shows_untried(solve):
    solve(total)

    def raises(x, axis_name):
        return lax.psum(x, "no such axis")

    def part():
        facts = {"value": "the sum", "sent": "one number is sent"}
        compared(raises, on(2, 3), name="total", **facts)

    assert standings(part, ["the sum"], ["one number is sent"]) == {
        "the sum": FAILS,
        "one number is sent": UNTRIED,
    }


def test_no_case_is_tried_once_everything_is_decided(solve, monkeypatch):
    solve(total)
    calls = []

    def alone(x, axis_name):
        calls.append(x.shape)
        return x

    def part():
        compared(alone, on(2, 1), on(2, 3), on(8, 3), name="total", value="the sum")

    assert standings(part, [], ["the sum"]) == {"the sum": FAILS}
    assert {*calls} == {(1,)}


@pytest.mark.parametrize(
    "wrong", [lambda x: jnp.clip(x, -100, 100), lambda x: x * (jnp.sum(x) / jnp.sum(x))]
)
def test_numbers_are_tried_at_other_scales(wrong, solve):
    def solution(x):
        return x

    solve(solution)
    compared(lambda x: x + 0, Case(rows(3)))
    assert "wrong in 3 of 3 values" in problem(compared, wrong, Case(rows(3))).headline


def test_a_case_that_raises_is_not_the_one_that_is_scaled(solve):
    def solution(x):
        if len(x) != 3:
            raise ValueError(f"{len(x)} numbers")
        return x

    def clipped(x):
        return jnp.clip(solution(x), -100, 100)

    solve(solution)
    cases = [Case(rows(3)), *(Case(rows(n), mentions=[n]) for n in (4, 5, 6))]
    facts = {"value": "the numbers", "error": "three numbers"}
    found = problem(compared, clipped, *cases, **facts)
    assert "wrong in 3 of 3 values" in found.headline


def test_a_scale_at_which_the_solution_has_no_finite_result_is_not_tried(solve):
    def solution(x):
        return jnp.exp(x) / x.sum()

    solve(solution)
    compared(lambda x: jnp.exp(jnp.minimum(x, 80)) / x.sum(), Case(rows(3)))


def test_a_contract_may_bound_its_numbers(solve):
    def solution(x):
        return x

    solve(solution)
    compared(lambda x: jnp.clip(x, -100, 100), Case(rows(3)), value="it", scales=())


def test_what_is_put_in_may_be_gathered(solve):
    def gathered(x, axis_name):
        return lax.all_gather(x.sum(), axis_name).sum()

    def all_sent(x, axis_name):
        return lax.psum(x, axis_name).sum()

    def solution(x, axis_name):
        return lax.psum(x.sum(), axis_name)

    solve(solution)
    facts = {"value": "the sum", "put_in": "one number is sent"}
    compared(gathered, on(8, 3), on(2, 3), **facts)
    found = problem(compared, all_sent, on(8, 3), on(2, 3), **facts)
    assert found.headline == "Each device puts 3 numbers into collectives."


def test_a_fact_is_compared_or_free(solve):
    solve(total)
    with pytest.raises(ValueError, match="either compared or free"):
        expect_like_solution(total, lambda rng: [], value="the sum")


def test_cases_are_drawn_from_the_seed(solve, context):
    solve(total)
    drawn = []

    def cases(rng):
        drawn.append(rng.random())
        return []

    free = {" ".join(FACTS): "open"}
    for seed in (1, 1, 2):
        context.seed = seed
        expect_like_solution(total, cases, free=free)
    assert drawn[0] == drawn[1] != drawn[2]


def test_without_the_solution_nothing_passes():
    def unknown(x):
        return x

    with pytest.raises(ValueError, match="known to the grader only"):
        compared(unknown, Case(1.0), name="unknown")


def test_parts_of_a_value_prove_statements_of_their_own(solve):
    def solution(x):
        return x, x.sum()

    def part():
        parts = {"[0]": "the rows", "[1]": "the sum"}
        compared(lambda x: (x, x.sum() + 1), Case(rows(3)), value=parts)

    solve(solution)
    expected = {"the rows": HOLDS, "the sum": FAILS}
    assert standings(part, [], ["the rows", "the sum"]) == expected


@pytest.mark.parametrize("remembers", [True, False])
def test_a_wrong_result_is_remembered_only_if_it_is_that_of_an_earlier_call(
    remembers, solve
):
    def solution(x):
        return x

    kept = []

    def answer(x):
        kept.append(x)
        return kept[0] if remembers else x * (len(kept) < 2)

    def part():
        cases = Case(rows(3)), Case(2 * rows(3))
        compared(answer, *cases, value="same", memory="fresh")

    solve(solution)
    standing = FAILS if remembers else UNTRIED
    assert standings(part, ["same"], ["fresh"]) == {"same": FAILS, "fresh": standing}


@pytest.mark.parametrize("is_split", [True, False])
@pytest.mark.parametrize("in_loop", [True, False])
def test_flops_show_who_works_for_others_and_arrays_may_have_any_size(
    is_split, in_loop, solve
):
    mesh = Mesh(jax.devices(), ("i",))

    def squares(spec):
        def square(block):
            if in_loop:
                return lax.map(lambda row: row @ block.T, block[:, None])[:, 0]
            if is_split:  # by another way
                return (block[:, None] * block[None]).sum(2)
            return block @ block.T

        def run(x):
            found = jax.shard_map(square, mesh=mesh, in_specs=spec, out_specs=spec)(x)
            return lax.with_sharding_constraint(found.sum(1), NamedSharding(mesh, P()))

        return jax.jit(run)

    def solution(x):
        return squares(P("i"))(x)

    solve(solution)
    free = {" ".join(FACTS): "not tested here"}
    how = {"free": free, "compiled": True, "flops": "own", "scales": ()}
    answer = squares(P("i") if is_split else P())
    answer.__name__ = "solution"
    cases = [Case(rows(16, 50))]
    if is_split:
        expect_like_solution(answer, lambda rng: cases, **how)
    else:
        wrong = problem(expect_like_solution, answer, lambda rng: cases, **how)
        assert "floating-point operations" in wrong.headline
