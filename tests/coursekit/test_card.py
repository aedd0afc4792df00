"""A card shows what a check found out: as text, as HTML, and to those who listen."""

import re
import sys
import types
from xml.etree import ElementTree

import pytest
from contrast import contrast

from coursekit import card
from coursekit.card import Score, html_card, text_card, total
from coursekit.context import current_context
from coursekit.i18n import columns
from coursekit.outcomes import (
    BROKEN,
    FAILS,
    HOLDS,
    LATER,
    UNTRIED,
    StatementResult,
    Verdict,
)

FLAG = 'XLA_FLAGS="--xla_force_host_platform_device_count=8"'
ROWS = tuple((d, ((d, d + 1), (0, 4))) for d in range(8))
WHOLE = tuple((d, ((0, 8), (0, 4))) for d in range(8))
HALVES = tuple((d, ((0, 8), (2 * (d % 2), 2 * (d % 2) + 2))) for d in range(8))
MESSAGES = {
    "partly right": "부분 정답",
    "{1} of {2} point{3}": "{2}점 중 {1}",
    "{1} of {2}": "{2} 중 {1}",
    "essential": "필수",
    "fails": "실패",
    "expected": "기대",
    "old state is donated": "이전 상태를 넘겨준다",
    "{1} copies are left.": "사본이 {1}개 남았습니다.",
    "no copy": "사본 없음",
}


def of(name, standing=HOLDS, share=0.25, headline="", layouts=None, **rows):
    found = headline, tuple(rows.items()), layouts
    return StatementResult(name, share == 0, share, standing, *found)


def made(*statements, outcome="partly right", share=0.75, exercise="fsdp_step", **more):
    return Verdict(exercise, outcome, share, statements, **more)


MIXED = made(
    of("numbers of one device", share=0),
    of(
        "one layer at a time",
        FAILS,
        headline="All four layers are gathered at once.",
        called="fsdp_step(f32[4,16,40])",
        seen="all-gather of f32[4,16,40]",
        expected="f32[16,40]",
    ),
    of("old state is donated"),
)


def lines(verdict, points=3, **options):
    return text_card(verdict, points=points, **options).splitlines()


def tree(verdict, points=3, **options):
    """Reads a card, which is well-formed XML but for its line breaks."""
    text = html_card(verdict, points=points, **options)
    return ElementTree.fromstring(text.replace("<br>", "<br/>"))


def text_of(element):
    return "".join(element.itertext())


def items(verdict, **options):
    return [text_of(one) for one in tree(verdict, **options).iter("li")]


def test_a_card_as_text():
    assert lines(MIXED) == [
        "fsdp_step  partly right                                   2.25 of 3 points",
        "✓ numbers of one device                                          essential",
        "✗ one layer at a time                                            0 of 0.75",
        "    All four layers are gathered at once.",
        "    called      fsdp_step(f32[4,16,40])",
        "    seen        all-gather of f32[4,16,40]",
        "    expected    f32[16,40]",
        "✓ old state is donated                                                0.75",
    ]


def test_what_holds_earns_nothing_where_an_essential_statement_fails():
    failed = of("numbers of one device", FAILS, share=0)
    wrong = made(failed, of("old state is donated"), outcome="wrong", share=0)
    assert lines(wrong) == [
        "fsdp_step  wrong                                             0 of 3 points",
        "✗ numbers of one device                                          essential",
        "✓ old state is donated                                           0 of 0.75",
        "There are points only when every essential statement holds.",
    ]
    assert text_of(tree(wrong)).endswith("every essential statement holds.")


def test_a_card_as_html_says_the_same():
    heading, statements = tree(MIXED)
    assert [*heading.itertext()] == ["fsdp_step", "partly right", "2.25 of 3 points"]
    first, second, third = statements
    assert text_of(first) == "✓holds: Numbers of one deviceessential"
    assert text_of(third) == "✓holds: Old state is donated0.75"
    told = [*second.itertext()]
    assert told[:4] == ["✗", "fails: ", "One layer at a time", "0 of 0.75"]
    assert told[4:] == [
        "All four layers are gathered at once.",
        *("called", "fsdp_step(f32[4,16,40])"),
        *("seen", "all-gather of f32[4,16,40]"),
        *("expected", "f32[16,40]"),
    ]
    bold = [text_of(one) for one in statements.iter("b")]
    assert bold == ["Numbers of one device"]  # the essential one


def test_a_card_needs_nothing_but_itself():
    found = html_card(MIXED, points=3, solution="x = 1")
    for part in ("class=", "<style", "<script", "<link", "http", "url("):
        assert part not in found


def test_a_card_of_a_page_leaves_the_heading_to_the_page():
    assert [part.tag for part in tree(MIXED, heading=False)] == ["ul"]
    assert tree(MIXED, heading=False).get("aria-label").startswith("fsdp_step: ")


def test_those_who_listen_hear_how_each_statement_stands():
    verdict = made(
        of("a", share=0), of("b", FAILS), of("c", UNTRIED), of("d", LATER), share=0.5
    )
    group = tree(verdict)
    assert group.get("role") == "group"
    assert group.get("aria-label") == "fsdp_step: partly right, up to 1.5 of 3 points"
    hidden = [one for one in group.iter() if one.get("aria-hidden") == "true"]
    assert [text_of(one) for one in hidden] == ["✓", "✗", "-", "…"]
    for one in hidden:
        one.text = ""
    heard = [text_of(one) for one in group.iter("li")]
    words = ["holds: A", "fails: B", "not tried: C", "later: D"]
    assert [one.startswith(word) for one, word in zip(heard, words, strict=True)]


@pytest.mark.parametrize("paper", ["white", "black"])
def test_marks_are_read_in_light_and_in_dark(paper):
    assert min(contrast(colour, paper) for colour in card.COLOURS.values()) >= 4


def test_what_a_learner_wrote_is_text():
    text = """</code><script>alert("x")</script> & 'y'"""
    layouts = (8, 4), WHOLE, ROWS
    failed = of(text, FAILS, headline=text, called=text, where=text, layouts=layouts)
    verdict = made(failed, exercise=text, outcome=text)
    found = tree(verdict, solution=text)
    assert not [*found.iter("script")]
    assert text_of(found).count(text) == 7
    assert text in found.get("aria-label")
    nothing_tried = made(exercise=text, headline=text, **{"rows": (("seen", text),)})
    assert text_of(tree(nothing_tried)).count(text) == 3


def pictures(layouts, **options):
    """Returns (caption, label, rectangles, device numbers) of each picture."""
    verdict = made(of("rows", FAILS, seen="other rows", layouts=layouts))
    found = []
    for figure in tree(verdict, **options).iter("figure"):
        [svg] = figure.iter("svg")
        boxes = [
            tuple(float(one.get(name)) for name in ("x", "y", "width", "height"))
            for one in svg.iter("rect")
        ]
        numbers = [one.text for one in svg.iter("text")]
        assert svg.get("role") == "img"
        [caption] = map(text_of, figure.iter("figcaption"))
        found.append((caption, svg.get("aria-label"), boxes, numbers))
    return found


def test_a_failed_layout_shows_what_was_seen_beside_what_was_expected():
    seen, expected = pictures(((8, 4), WHOLE, ROWS))
    assert (seen[0], expected[0]) == ("seen, by device", "expected, by device")
    assert seen[1].startswith("seen") and expected[1].startswith("expected")
    assert (seen[2], seen[3]) == ([(0, 0, 150, 150)], ["0-7"])
    assert expected[3] == [*"01234567"]
    tops = [top for _, top, _, _ in expected[2]]
    assert tops == pytest.approx([150 * d / 8 for d in range(8)], abs=0.1)


def test_devices_that_do_not_follow_each_other_are_named_one_by_one():
    seen, _ = pictures(((8, 4), HALVES, ROWS))
    assert seen[2] == [(0, 0, 75, 150), (75, 0, 75, 150)]
    assert seen[3] == ["0, 2, 4, 6", "1, 3, 5, 7"]


def test_an_array_of_more_axes_is_drawn_by_those_along_which_it_is_split():
    split = tuple((d, ((0, 3), (d, d + 1), (0, 5), (0, 2))) for d in range(2))
    whole = tuple((d, ((0, 3), (0, 2), (0, 5), (0, 2))) for d in range(2))
    seen, expected = pictures(((3, 2, 5, 2), split, whole))
    assert seen[2] == [(0, 0, 75, 150), (75, 0, 75, 150)]
    assert (seen[3], expected[3]) == (["0", "1"], ["0, 1"])


def test_an_array_of_one_axis_is_drawn_as_rows():
    rows = tuple((d, ((d, d + 1),)) for d in range(2))
    seen, expected = pictures(((2,), rows, ()))
    assert seen[2] == [(0, 0, 150, 75), (0, 75, 150, 75)]
    assert expected[2:] == ([], [])  # on no device


@pytest.mark.parametrize(
    "layouts",
    [
        ((), ((0, ()),), ((1, ()),)),
        ((65, 1), tuple((d, ((d, d + 1), (0, 1))) for d in range(65)), ()),
    ],
    ids=["a number", "too many parts"],
)
def test_what_cannot_be_drawn_is_told_in_words_alone(layouts):
    assert pictures(layouts) == []


def test_a_bonus_is_named():
    verdict = made(of("a", share=0), outcome="right", share=1)
    first, *_ = lines(verdict, points=2, is_bonus=True)
    assert first.endswith("  2 of 2 bonus points")
    assert "2 of 2 bonus points" in text_of(tree(verdict, points=2, is_bonus=True))


@pytest.mark.parametrize(
    ("points", "share", "text"),
    [
        (1, 1, "1 of 1 point"),
        (1, 0, "0 of 1 point"),
        (2, 0.5, "1 of 2 points"),
        (3, 5 / 6, "2.5 of 3 points"),
        (0.5, 1, "0.5 of 0.5 points"),
        (2, 2 / 3, "1.33 of 2 points"),
    ],
)
def test_points_are_written_as_a_person_would(points, share, text):
    first, *_ = lines(made(of("a", share=0), share=share), points=points)
    assert first.split("right")[-1].strip() == text


@pytest.mark.parametrize(
    ("later", "text"),
    [
        (0, "Other cases are tried when your work is graded."),
        (1, "One more statement is tried when your work is graded."),
        (2, "2 more statements are tried when your work is graded."),
    ],
)
def test_what_is_right_on_the_examples_claims_nothing_more(later, text):
    standings = [LATER] * later + [HOLDS] * (2 - later)
    others = [of(f"s{k}", one) for k, one in enumerate(standings)]
    verdict = made(
        of("a", share=0), *others, outcome="right on the examples", share=1.0
    )
    first, *_, last = lines(verdict)
    assert first.startswith("fsdp_step  right on the examples  ")
    points = "up to 3 of 3 points so far" if later else "3 of 3 points so far"
    assert first.endswith(f"  {points}")
    assert last == text
    assert text in text_of(tree(verdict))
    assert points in text_of(tree(verdict))


@pytest.mark.parametrize("outcome", ["right", "partly right", "wrong"])
def test_other_outcomes_speak_of_no_later_cases(outcome):
    verdict = made(of("a", share=0), of("b", LATER), outcome=outcome)
    assert "graded" not in text_card(verdict, points=2) + text_of(tree(verdict))


def test_a_check_without_statements_says_why():
    rows = ("likely", "its cell was not run."), ("where", "in f, line 1\nin g, line 2")
    verdict = made(
        outcome="not attempted yet", share=0, headline="f is not defined.", rows=rows
    )
    assert lines(verdict, points=2)[1:] == [
        "    f is not defined.",
        "    likely      its cell was not run.",
        "    where       in f, line 1",
        "                in g, line 2",
    ]
    [item] = items(verdict)
    assert item.startswith("f is not defined.likelyits cell was not run.where")


def test_a_failure_without_a_cause_of_its_own_takes_one_line():
    again = of("no copy", FAILS, headline="see above")
    untried = of("speed", UNTRIED, headline="needs a right result first")
    later = of("any axis", LATER)
    assert [line.split("  ")[0] for line in lines(made(again, untried, later))[1:]] == [
        "✗ no copy (see above)",
        "- speed (needs a right result first)",
        "… any axis",
    ]
    first, second, third = items(made(again, untried, later))
    assert "No copy (see above)" in first
    assert "Speed (needs a right result first)" in second
    assert "(" not in third


def test_our_solution_is_folded():
    found = tree(MIXED, solution="\ndef f(x):\n    return x < 1\n")
    [folded] = found.iter("details")
    [code] = folded.iter("pre")
    assert folded.get("open") is None
    assert text_of(code) == "def f(x):\n    return x < 1"
    assert not [*tree(MIXED).iter("details")]


def of_one(**rows):
    """Lists the lines that a failure takes below its statement."""
    return lines(made(of("a", FAILS, **rows)))[2:]


def test_long_reasons_wrap_under_their_first_word():
    text = " ".join(["one two three four"] * 12)
    rows = of_one(likely=text)
    assert len(rows) > 1 and all(len(row) <= 88 for row in rows)
    assert rows[0].startswith("    likely      one")
    assert all(row[:16].isspace() and row[16] != " " for row in rows[1:])
    assert " ".join(row[16:] for row in rows) == text


@pytest.mark.parametrize("words", range(8))
def test_a_flag_is_never_broken_at_its_hyphens(words):
    lead = "word " * words
    told = of_one(headline=f"{lead}{FLAG} no", likely=f"{lead}{FLAG}, or {lead}{FLAG}")
    assert "\n".join(told).count(FLAG) == 3


def test_a_headline_wraps_too():
    told = of_one(headline="word " * 40, seen="1")
    assert len(told) > 2
    assert max(map(len, told)) <= 88


def test_each_line_of_a_reason_stays_one():
    assert of_one(where="one\n\ntwo") == [
        "    where       one",
        "                ",
        "                two",
    ]


@pytest.fixture
def korean(monkeypatch):
    """A language of the test's own."""
    name = "coursekit.messages_zz"
    module = types.ModuleType(name)
    module.MESSAGES = MESSAGES
    module.__spec__ = types.SimpleNamespace()
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(current_context(), "language", "zz")


def test_a_card_speaks_the_learners_language(korean):
    donated = of(
        "old state is donated", FAILS, headline="2 copies are left.", expected="no copy"
    )
    verdict = made(of("sum", share=0), donated)
    first, second, third, *rest = lines(verdict)
    assert first.split() == ["fsdp_step", "부분", "정답", "3점", "중", "2.25"]
    assert second.endswith("필수") and third.endswith("0.75 중 0")
    assert third.startswith("✗ 이전 상태를 넘겨준다  ")
    assert rest == ["    사본이 2개 남았습니다.", "    기대        사본 없음"]
    group = tree(verdict)
    assert group.get("aria-label") == "fsdp_step: 부분 정답, 3점 중 2.25"
    told = [*list(group.iter("li"))[1].itertext()]
    assert told[1:4] == ["실패: ", "이전 상태를 넘겨준다", "0.75 중 0"]
    assert "사본이 2개 남았습니다." in told


def test_a_right_column_ends_where_it_should_whatever_the_language(korean):
    verdict = made(of("old state is donated", share=0), of("sum"))
    assert len({columns(line) for line in lines(verdict)}) == 1


def test_the_value_of_a_checks_cell_is_a_number_and_a_card():
    score = Score(1.5, "<b>card</b>")
    assert repr(score) == "1.5" and float(score) == 1.5
    assert score._repr_html_() == "<b>card</b>"
    assert repr(Score(2.0, "")) == "2" and repr(Score(0, "")) == "0"
    assert float(repr(Score(round(2 / 3, 2), ""))) == 0.67


@pytest.mark.parametrize(
    ("points", "bonus", "text"),
    [
        (13.5, 0, "13.5 of 17"),
        (21, 4, "17 of 17 and 4 bonus points"),
        (14, 1, "13 of 17 and 1 bonus point"),
        (18.5, 0, "17 of 17 and 1.5 bonus points"),  # a person's extra credit
        (2, 4, "0 of 17 and 2 bonus points"),  # after a penalty
    ],
)
def test_a_sum_names_the_points_of_a_bonus_apart(points, bonus, text):
    assert total(points, bonus, 17) == text


def test_a_statement_whose_check_failed_by_itself_says_so_and_is_not_paid():
    fault = of("speed", BROKEN, headline="IndexError: no", likely="a fault of ours")
    verdict = made(of("numbers", share=0), fault)
    shown = "\n".join(lines(verdict))
    assert re.search(r"(?m)^\? speed +0 of 0.75\n    IndexError: no\n", shown)
    text = "".join(tree(verdict).itertext())
    assert "the check could not run: Speed" in text and "a fault of ours" in text
