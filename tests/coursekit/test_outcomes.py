"""A check tries every statement, and says how each stands and what it is worth."""

import pytest

from coursekit.learner import NotDefined
from coursekit.outcomes import (
    BROKEN,
    FAILS,
    HOLDS,
    LATER,
    UNTRIED,
    BrokenCheck,
    NotAttempted,
    NotPassed,
    Raised,
    Run,
    Wrong,
    carry_out,
    statement,
)

ESSENTIAL, OTHERS = ("sum", "split"), ("dtype", "speed")
EVERY = (*ESSENTIAL, *OTHERS)


def run(*parts, essential=ESSENTIAL, others=OTHERS, **options):
    """Runs a check of visible examples, or of these and hidden cases."""
    one = Run("shard", essential, others, **options)
    return carry_out(one, dict(zip((False, True), parts, strict=False)))


def standings(verdict):
    return [one.standing for one in verdict.statements]


def failing(*names, problem=None):
    """Makes a part of a check in which these statements fail, and the others hold."""

    def part():
        for name in EVERY:
            with statement(name):
                if name in names:
                    raise problem or Wrong(f"No {name}.", seen=3)

    return part


def test_all_that_holds_is_right():
    verdict = run(failing(), failing())
    assert (verdict.outcome, verdict.share) == ("right", 1)
    assert standings(verdict) == [HOLDS] * 4
    assert (verdict.headline, verdict.rows) == ("", ())


@pytest.mark.parametrize(
    ("others", "failed", "share"),
    [
        ("d", "d", 0.5),
        ("de", "d", 0.75),
        ("de", "de", 0.5),
        ("defg", "d", 0.875),
        ("", "", 1),
    ],
)
def test_essential_statements_are_worth_half_and_the_others_share_the_rest(
    others, failed, share
):
    def part():
        with statement("a", "b"):
            pass
        for name in others:
            with statement(name):
                if name in failed:
                    raise Wrong("No.")

    verdict = run(part, part, essential="ab", others=others)
    assert verdict.share == pytest.approx(share)
    assert verdict.outcome == ("partly right" if failed else "right")
    assert [one.share for one in verdict.statements if one.is_essential] == [0, 0]
    assert sum(one.share for one in verdict.statements) == (0.5 if others else 0)


@pytest.mark.parametrize("name", ESSENTIAL)
def test_without_an_essential_statement_nothing_is_paid(name):
    verdict = run(failing(name))
    assert (verdict.outcome, verdict.share) == ("wrong", 0)


def test_every_statement_is_tried_whatever_has_failed():
    verdict = run(failing("sum", "speed"))
    assert standings(verdict) == [FAILS, HOLDS, HOLDS, FAILS]
    assert [one.headline for one in verdict.statements] == [
        *("No sum.", "", "", "No speed.")
    ]
    assert verdict.statements[0].rows == (("seen", "3"),)
    assert (verdict.headline, verdict.rows) == ("No sum.", (("seen", "3"),))


def test_a_statement_that_fails_once_fails():
    def part():
        for number in (1, 2, 3):
            with statement("sum"):
                if number > 1:
                    raise Wrong(f"Case {number}.")
        with statement("split", "dtype", "speed"):
            pass

    verdict = run(part)
    assert standings(verdict) == [FAILS, HOLDS, HOLDS, HOLDS]
    assert verdict.statements[0].headline == "Case 2."


def test_what_several_statements_failed_by_is_shown_once():
    def part():
        with statement("split", "speed"):
            raise Wrong("No pieces.", likely="This.")
        with statement("sum", "dtype"):
            pass

    _, split, _, speed = run(part).statements
    assert (split.headline, split.rows) == ("No pieces.", (("likely", "This."),))
    assert (speed.standing, speed.headline, speed.rows) == (FAILS, "see above", ())


def test_a_call_that_raises_for_the_second_time_shows_nothing_new():
    def part():
        for name in EVERY:
            with statement(name):
                raise Raised("ValueError: no", called="shard(3)")

    verdict = run(part)
    assert (verdict.outcome, verdict.share) == ("your code raised", 0)
    assert standings(verdict) == [FAILS, UNTRIED, UNTRIED, UNTRIED]
    words = {one.headline for one in verdict.statements[1:]}
    assert words == {"needs a right result first"}


@pytest.mark.parametrize(("again", "standing"), [(True, HOLDS), (False, FAILS)])
def test_a_call_that_raised_is_one_failure_and_another_call_a_second(again, standing):
    def part():
        calls = [], []
        with statement("sum", "split"):
            pass
        tried = (("speed", calls[1]), ("speed", calls[0]), ("split", calls[0]))
        for name, call in tried if again else tried[::2]:
            with statement(name):
                raise Raised("ValueError: no", seen_in=call)

    _, split, _, speed = run(part).statements
    assert (split.standing, speed.standing) == (standing, FAILS)


def test_what_was_not_tried_is_not_paid():
    def part():
        with statement("sum", "split"):
            pass
        for name in OTHERS:
            with statement(name):
                raise Raised("ValueError: no")

    verdict = run(part)
    assert (verdict.outcome, verdict.share) == ("partly right", 0.5)
    assert standings(verdict) == [HOLDS, HOLDS, FAILS, UNTRIED]


def test_the_outcome_is_that_of_the_first_essential_failure():
    def part():
        with statement("speed"):
            raise Wrong("Slow.")
        with statement("sum"):
            raise Raised("ValueError: no")

    assert run(part).outcome == "your code raised"


def test_a_check_that_stumbles_over_what_has_failed_is_not_broken():
    def inside():
        with statement("sum"):
            raise Wrong("No.")
        with statement("split"):
            raise KeyError("w")
        with statement(*OTHERS):
            pass

    def outside():
        with statement("sum"):
            raise Wrong("No.")
        raise KeyError("w")

    assert standings(run(inside)) == [FAILS, UNTRIED, HOLDS, HOLDS]
    assert standings(run(outside)) == [FAILS, UNTRIED, UNTRIED, UNTRIED]


FAULT = ("likely", "a fault of the course, not of your answer: please report it.")


@pytest.mark.parametrize("others_fail", [False, True])
def test_a_fault_of_the_check_outside_of_statements_is_not_the_learners(others_fail):
    def part():
        with statement(*EVERY):
            pass
        with statement("speed"):
            if others_fail:
                raise Wrong("Slow.")
        1 / 0  # noqa: B018

    verdict = run(part)
    assert (verdict.outcome, verdict.share) == ("the check could not run", 0)
    assert verdict.statements == ()
    assert verdict.headline == "ZeroDivisionError: division by zero"
    assert verdict.rows == (FAULT,)


@pytest.mark.parametrize(
    ("name", "outcome", "share"),
    [("split", "the check could not run", 0), ("speed", "partly right", 0.75)],
)
def test_a_fault_of_the_check_in_a_statement_costs_that_one_alone(name, outcome, share):
    def part():
        for one in EVERY:
            with statement(one):
                if one == name:
                    raise IndexError("tuple index out of range")

    verdict = run(part)
    assert (verdict.outcome, verdict.share) == (outcome, share)
    others = {one.name: one for one in verdict.statements}
    broken = others.pop(name)
    assert {one.standing for one in others.values()} == {HOLDS}
    assert (broken.standing, broken.rows) == (BROKEN, (FAULT,))
    assert broken.headline == "IndexError: tuple index out of range"


@pytest.mark.parametrize("problem", [Raised("ValueError: no"), KeyError("w")])
def test_a_card_without_points_says_which_essential_statement_failed(problem):
    def part():
        with statement("dtype"):
            raise Raised("ValueError: no", called="shard(3)")
        for _ in range(2):
            with statement("split"):
                raise problem
        with statement("sum"):
            pass

    verdict = run(part)
    _, split, _, _ = verdict.statements
    assert verdict.share == 0
    assert split.standing == (FAILS if isinstance(problem, Raised) else BROKEN)
    assert split.headline in ("ValueError: no", "KeyError: 'w'", "see above")


def test_a_statement_that_the_exercise_does_not_make_is_a_fault_of_the_check():
    def part():
        with statement("size"):
            pass

    verdict = run(part)
    assert verdict.outcome == "the check could not run"
    assert verdict.headline == 'ValueError: shard does not state "size"'


def test_a_name_that_is_not_defined_was_not_attempted():
    def part():
        raise NotDefined("name 'helper' is not defined", name="helper")

    verdict = run(part)
    assert (verdict.outcome, verdict.share) == ("not attempted yet", 0)
    assert verdict.headline == "helper is not defined."
    assert verdict.rows == (
        (
            "likely",
            "the cell that defines it was not run, or the name is misspelt.",
        ),
    )


@pytest.mark.parametrize("kind", [NotAttempted, BrokenCheck])
@pytest.mark.parametrize("part", [0, 1], ids=["example", "hidden case"])
def test_what_is_no_answer_has_no_statements(kind, part):
    parts = [failing(), failing()]
    parts[part] = failing("speed", problem=kind("No.", likely="This."))
    verdict = run(*parts)
    assert (verdict.outcome, verdict.share) == (kind.outcome, 0)
    assert (verdict.headline, verdict.rows) == ("No.", (("likely", "This."),))
    assert verdict.statements == ()


def test_what_belongs_to_no_statement_fails_those_that_were_not_tried():
    def part():
        with statement("sum"):
            pass
        raise Wrong("No.")

    assert standings(run(part)) == [HOLDS, FAILS, FAILS, FAILS]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("inside", [True, False])
def test_an_interrupt_stays_one_and_ends_the_check(kind, inside):
    def part():
        with statement("sum"):
            if inside:
                raise kind
        raise kind

    with pytest.raises(kind):
        run(part)
    with pytest.raises(Wrong), statement("of no check"):  # that runs any more
        raise Wrong("No.")


def test_outside_of_a_check_an_expectation_raises():
    for kind in (Wrong, NotAttempted, Raised, BrokenCheck):
        assert issubclass(kind, NotPassed)
        with pytest.raises(kind), statement("sum"):
            raise kind("No.")
    with pytest.raises(ZeroDivisionError), statement("sum"):
        1 / 0  # noqa: B018


def test_without_hidden_cases_right_is_right_on_the_examples():
    def part():
        with statement("sum", "split", "dtype"):
            pass

    verdict = run(part)
    assert (verdict.outcome, verdict.share) == ("right on the examples", 1)
    assert standings(verdict) == [HOLDS, HOLDS, HOLDS, LATER]


def test_what_is_tried_later_is_not_taken_away_now():
    def part():
        with statement("sum"):
            pass
        with statement("dtype"):
            raise Wrong("No.")

    verdict = run(part)
    assert (verdict.outcome, verdict.share) == ("partly right", 0.75)
    assert standings(verdict) == [HOLDS, LATER, FAILS, LATER]


def test_hidden_cases_may_prove_what_the_examples_do_not_show():
    def example():
        with statement("sum"):
            pass

    def hidden():
        with statement("split", *OTHERS):
            pass

    assert standings(run(example, hidden)) == [HOLDS] * 4


def test_no_hidden_case_is_tried_where_no_points_are_left():
    tried = []

    def part():
        with statement("sum"):
            raise Wrong("No.")
        with statement("split"):
            tried.append("example")

    def hidden():
        tried.append("hidden case")

    verdict = run(part, hidden)
    assert tried == ["example"]
    assert standings(verdict) == [FAILS, HOLDS, UNTRIED, UNTRIED]
    words = {one.headline for one in verdict.statements[2:]}
    assert words == {"tried once the essential ones hold"}


def test_hidden_cases_end_with_the_first_essential_failure():
    tried = []

    def hidden():
        for name in ("speed", "split", "dtype"):
            tried.append(name)
            with statement(name):
                raise Wrong(f"No {name}.")

    verdict = run(failing(), hidden)
    assert tried == ["speed", "split"]
    assert standings(verdict) == [HOLDS, FAILS, HOLDS, FAILS]
    assert (verdict.outcome, verdict.share) == ("wrong", 0)


def test_a_failure_may_get_more_rows_as_it_happens():
    def more(problem):
        problem.rows["again"] = "observe(shard, 3)"

    [_, split, _, _] = run(failing("split"), on_failure=more).statements
    assert split.rows == (("seen", "3"), ("again", "observe(shard, 3)"))


def test_an_empty_reason_has_no_row():
    assert Wrong("No.", seen="", likely=None).rows == {}


@pytest.mark.parametrize("value", [0, 0.0, False])
def test_a_reason_may_be_a_number(value):
    rows = Wrong("No.", seen=value, expected=1).rows
    assert rows == {"seen": str(value), "expected": "1"}


@pytest.mark.parametrize(
    ("failed", "to_beat", "tried", "share"),
    [
        ("sum", 0.0, "a", 0),  # it can earn nothing any more
        ("dtype", 0.0, "abc", 0.75),
        ("dtype", 0.75, "a", 0),
        ("dtype", 0.5, "abc", 0.75),
    ],
)
def test_a_run_with_a_share_to_beat_ends_when_it_cannot(failed, to_beat, tried, share):
    parts = []

    def fails():
        parts.append("a")
        with statement(failed):
            raise Wrong("No.")
        parts.append("b")

    def holds():
        parts.append("c")
        with statement(*EVERY):
            pass

    verdict = run(fails, holds, to_beat=to_beat)
    assert ("".join(parts), verdict.share) == (tried, share)
    assert LATER not in standings(verdict)
