"""A learner reads an outcome, its reasons, the points, a scorecard, a checklist."""

import pytest

from coursekit.check import (
    BrokenCheck,
    NotAttempted,
    NotPassed,
    Raised,
    Wrong,
    check,
    checklist,
    scorecard,
)

FLAG = 'XLA_FLAGS="--xla_force_host_platform_device_count=8"'


def run(exercise, error=None, points=2):
    with check(exercise, points=points):
        if error is not None:
            raise error


def card(capsys, **points):
    scorecard(**points)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("points", "total"),
    [(2, "2 of 2 points"), (1, "1 of 1 point"), (0.5, "0.5 of 0.5 points")],
)
def test_a_check_that_holds_says_right(capsys, points, total):
    run("shard", points=points)
    assert capsys.readouterr().out == f"Right: shard does what it should. {total}.\n"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Wrong, "Wrong"),
        (NotAttempted, "Not attempted yet"),
        (Raised, "Your code raised"),
        (BrokenCheck, "The check could not run"),
    ],
)
def test_an_outcome_starts_with_its_words_and_ends_with_the_points(kind, words):
    with pytest.raises(kind) as error:
        run("shard", kind("What went wrong.", called="shard(f32[8,2])", likely="This."))
    assert str(error.value).splitlines() == [
        f"{words}: What went wrong.",
        "  called    shard(f32[8,2])",
        "  likely    This.",
        "shard: 0 of 2 points.",
    ]


def test_one_point_is_a_point():
    with pytest.raises(Wrong) as error:
        run("shard", Wrong("No."), points=1)
    assert str(error.value).splitlines()[-1] == "shard: 0 of 1 point."


def test_a_name_that_is_not_defined_was_not_attempted():
    with pytest.raises(NotAttempted) as error:
        with check("shard", points=2):
            exec("shard(8)")
    assert str(error.value).splitlines() == [
        "Not attempted yet: shard is not defined.",
        "  likely    the cell that defines it was not run, or the name is misspelt.",
        "shard: 0 of 2 points.",
    ]


def test_a_fault_of_the_check_is_not_the_learners():
    with pytest.raises(BrokenCheck) as error:
        with check("shard", points=2):
            1 / 0  # noqa: B018
    assert str(error.value).splitlines() == [
        "The check could not run: ZeroDivisionError: division by zero",
        "  likely    a fault of the course, not of your answer: please report it.",
        "shard: 0 of 2 points.",
    ]


def test_the_original_error_is_not_shown_beside_the_outcome():
    with pytest.raises(BrokenCheck) as error:
        run("shard", ZeroDivisionError())
    assert error.value.__suppress_context__
    assert error.value._render_traceback_() == str(error.value).splitlines()


def test_every_outcome_but_right_is_an_error_without_a_traceback():
    for kind in (Wrong, NotAttempted, Raised, BrokenCheck):
        assert issubclass(kind, NotPassed)
        assert kind("No.")._render_traceback_()


def test_an_empty_reason_has_no_row():
    assert str(Wrong("No.", seen="", likely=None)) == "Wrong: No."


@pytest.mark.parametrize("value", [0, 0.0, False])
def test_a_reason_may_be_a_number(value):
    text = str(Wrong("No.", seen=value, expected=1))
    assert text == f"Wrong: No.\n  seen      {value}\n  expected  1"


def test_long_reasons_wrap_under_their_first_word():
    text = " ".join(["one two three four"] * 12)
    first, *rows = str(Wrong("No.", likely=text)).splitlines()
    assert first == "Wrong: No."
    assert all(len(row) <= 88 for row in rows)
    assert rows[0].startswith("  likely    one")
    assert all(row[:12].isspace() and row[12] != " " for row in rows[1:])
    assert " ".join(row[12:] for row in rows) == text


@pytest.mark.parametrize("words", range(8))
def test_a_flag_is_never_broken_at_its_hyphens(words):
    lead = "word " * words
    text = str(Wrong(f"{lead}{FLAG} no", likely=f"{lead}{FLAG} here, or {lead}{FLAG}"))
    assert text.count(FLAG) == 3


def test_a_headline_wraps_too():
    lines = str(Wrong("word " * 40)).splitlines()
    assert len(lines) > 1
    assert max(map(len, lines)) <= 88


def test_a_reason_of_several_lines_becomes_one_paragraph():
    assert str(Wrong("No.", seen="one\ntwo")) == "Wrong: No.\n  seen      one two"


def test_the_scorecard_lists_the_latest_outcomes(capsys):
    run("first_right")
    with pytest.raises(Wrong):
        run("then_wrong", Wrong("No."), points=3)
    capsys.readouterr()
    assert card(capsys, first_right=2, then_wrong=3, never_run=1) == [
        "first_right  2 of 2  right",
        "then_wrong   0 of 3  wrong",
        "never_run    0 of 1  check not run yet",
        "total        2 of 6",
    ]


def test_the_scorecard_adds_a_bonus_above_the_maximum(capsys):
    run("core")
    run("more")
    capsys.readouterr()
    assert card(capsys, core=2, more=0) == [
        "core   2 of 2  right",
        "more   2 bonus  right",
        "total  4 of 2",
    ]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (NotAttempted("No."), "not attempted yet"),
        (Raised("ValueError: no"), "your code raised"),
        (OSError(), "the check could not run"),
    ],
    ids=repr,
)
def test_the_scorecard_names_every_outcome(capsys, error, words):
    with pytest.raises(NotPassed):
        run("shard_batch", error)
    assert card(capsys, shard_batch=2)[0] == f"shard_batch  0 of 2  {words}"


def test_a_rerun_replaces_the_earlier_outcome(capsys):
    with pytest.raises(Wrong):
        run("again", Wrong("No."))
    run("again")
    capsys.readouterr()
    assert card(capsys, again=2)[0] == "again  2 of 2  right"
    with pytest.raises(Raised):
        run("again", Raised("ValueError"))
    assert card(capsys, again=2)[0] == "again  0 of 2  your code raised"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_stays_one_and_leaves_no_outcome(capsys, kind):
    run("stopped")
    with pytest.raises(kind):
        run("stopped", kind())
    capsys.readouterr()
    assert card(capsys, stopped=2)[0] == "stopped  0 of 2  check not run yet"


def test_an_empty_scorecard_has_a_total(capsys):
    assert card(capsys) == ["total  0 of 0"]


def test_a_checklist_ticks_what_has_passed(capsys):
    run("ticked")
    with pytest.raises(Wrong):
        run("failed", Wrong("No."))
    capsys.readouterr()
    checklist({"one sync": "ticked", "no copy": "failed", "a log": "never run"})
    assert capsys.readouterr().out.splitlines() == [
        "[x] one sync (ticked)",
        "[ ] no copy (failed)",
        "[ ] a log (never run)",
    ]
