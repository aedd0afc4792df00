"""Pages for learners and instructors: what they say, and that they are safe to open."""

import dataclasses
import functools
import itertools
import re

import pytest
from bs4 import BeautifulSoup
from servers import axe_violations, browser_page

from coursekit.outcomes import FAILS, HOLDS, UNTRIED
from grader.pages.class_report import ClassReport
from grader.pages.feedback import feedback_page
from grader.results import (
    ExerciseResult,
    Outcome,
    Result,
    StatementResult,
    Status,
)

MAX_BYTES = 2_000_000
TITLE = "Lesson 1. Tiny"


ROWS = (
    *(("called", "negate(3)"), ("seen", "3"), ("expected", "-3")),
    ("likely", "no sign"),
)
HALVES = ((0, ((0, 4), (0, 2))), (1, ((4, 8), (0, 2))))  # an array on two devices
LAYOUTS = ((8, 2), HALVES, ((0, ((0, 8), (0, 2))), (1, ((0, 8), (0, 2)))))


def statement(name, standing=HOLDS, headline="", rows=(), layouts=None, share=0.0):
    found = (standing, headline, rows, layouts)
    return StatementResult(name, not share, share, *found)


RIGHT = ExerciseResult(
    "double",
    Outcome.PASSED,
    1,
    1,
    worth=1,
    share=1.0,
    statements=(statement("twice"),),
    source="def double(x): ...",
)
WRONG = ExerciseResult(
    "negate",
    Outcome.FAILED,
    0,
    2.5,
    worth=2.5,
    statements=(
        statement("negative", FAILS, "The result is wrong.", ROWS, LAYOUTS),
        statement("nothing sent", UNTRIED, "it needs a result", share=0.5),
    ),
    message="The result is wrong.",
    details=ROWS,
    source="def negate(x):\n    return x",
)
PART = ExerciseResult(
    "halve",
    Outcome.PARTLY,
    1.67,
    2,
    worth=2,
    share=1 - 1 / 6,
    statements=(
        statement("half"),
        statement("fractions", FAILS, "The result is whole.", ROWS[:2], share=1 / 6),
        statement("negative numbers", share=1 / 6),
        statement("arrays", share=1 / 6),
    ),
    message="The result is whole.",
    details=ROWS[:2],
    source="def halve(x):\n    return x // 2",
)
OPEN = ExerciseResult(
    "shard_batch", Outcome.NOT_ATTEMPTED, 0, 3, worth=3, message="It has its stub."
)
RESULT = Result("01_tiny", (RIGHT, WRONG, OPEN))
EVIDENCE = ("the verdict of negate was forged", "patched numpy")
REVIEW = dataclasses.replace(
    RESULT, status=Status.NEEDS_REVIEW, reasons=EVIDENCE, limits=("processes: 400",)
)
INFRA = Result(
    "01_tiny", (), Status.INFRA_ERROR, reasons=("worker died in /srv/grading",)
)
EMPTY = Result("01_tiny", (), Status.STUDENT_ERROR, reasons=("It is empty. Save it.",))
NOTED = dataclasses.replace(
    RESULT,
    status=Status.GRADED_WITH_NOTE,
    notes=("The file was renamed.",),
    limits=("wall time: 60 s",),
)

HOSTILE = "".join(
    [
        "<script>window.hacked = 1; alert(1)</script>",
        '"><svg onload="window.hacked = 1; alert(1)"><img src=x onerror=alert(1)>',
        "</title></style></pre></code></details><script>alert(1)</script>",
        '<a href="javascript:alert(1)">javascript:alert(1)</a>',
        '<img src="http://127.0.0.1:9/a.png"><link rel=stylesheet href="//127.0.0.1">',
        '<meta http-equiv="refresh" content="0; url=http://127.0.0.1:9/">',
        "<style>@import url(http://127.0.0.1:9/b.css); * { display: none }</style>",
        "<iframe src='data:text/html,<script>parent.hacked = 1</script>'></iframe>",
        "<base href='http://127.0.0.1:9/'><form action='http://127.0.0.1:9/'><input>",
        "' onmouseover='alert(1)' {{ 7 * 7 }} {% raw %} {# --> ]]>",
        "\x1b[31mred\x1b]8;;http://127.0.0.1:9/\x07link\x1b]8;;\x07\x9b2J\x00\x07\x08",
        "\u202egnp.exe\u2066\u200b\ud800" + "e" + "\u0301" * 200,
    ]
)
LONG = HOSTILE + "A" * 5_000_000


def hostile_exercise(outcome, text=LONG):
    rows = tuple((text, text) for _ in range(50))
    lines = "\n".join([text] * 3 + ["\t" * 300 + "x"] * 10_000)
    parts = tuple((device, ((device, device + 1), (0, 2))) for device in range(64))
    found = (FAILS, text, rows, ((64, 2), parts, parts))
    statements = (StatementResult(text, False, 0.1, *found),) * 50
    return ExerciseResult(
        text,
        outcome,
        0,
        1,
        worth=1,
        statements=() if outcome is Outcome.TIMED_OUT else statements,
        message=text,
        details=rows,
        source=lines,
    )


def hostile_result(status):
    many = (LONG,) * 50
    exercises = tuple(map(hostile_exercise, Outcome))
    return Result(LONG, exercises, status, many, many, many)


def soup(page):
    return BeautifulSoup(page, "html.parser")


def words(page):
    return " ".join(soup(page).main.get_text(" ").split())


def feedback(result, student="ada"):
    return feedback_page(result, title=TITLE, student=student)


def report(results, names=()):
    made = ClassReport("01_tiny", title=TITLE, solutions={}, names=dict(names))
    for student, result in results.items():
        made.add(student, result)
    return made.page()


def table(page, caption):
    """The rows of the table that follows a heading."""
    [heading] = [h for h in soup(page).find_all("h2") if h.get_text() == caption]
    rows = heading.find_next("table").find_all("tr")
    return [[cell.get_text(" ", strip=True) for cell in r(["th", "td"])] for r in rows]


def test_learner_sees_score_outcomes_and_what_went_wrong():
    text = words(feedback(RESULT))
    assert "1 of 6.5 points Graded Every exercise was looked at." in text
    assert "1 of 3 is right." in text
    assert table(feedback(RESULT), "Exercises") == [
        ["Exercise", "Outcome", "Points"],
        ["double", "Right", "1 of 1"],
        ["negate", "Wrong", "0 of 2.5"],
        ["shard_batch", "Not attempted yet", "0 of 3"],
    ]
    assert "negate Wrong 0 of 2.5 points" in text
    assert "✗ fails: Negative essential The result is wrong." in text
    assert "called negate(3) seen 3 expected -3 likely no sign" in text
    assert "Nothing sent (it needs a result) 0 of 1.25" in text
    assert "shard_batch Not attempted yet 0 of 3 points It has its stub." in text
    assert "Your code, 2 lines def negate(x): return x" in text


def test_work_that_is_partly_right_shows_which_statements_hold_and_what_each_gives():
    page = feedback(Result("01_tiny", (RIGHT, PART)))
    text = words(page)
    assert "2.67 of 3 points Graded" in text
    assert "1 of 2 is right." in text
    assert ["halve", "Partly right", "1.67 of 2"] in table(page, "Exercises")
    [section] = [one for one in soup(page)("section") if one.h3 and "halve" in one.h3]
    items = [" ".join(item.get_text(" ").split()) for item in section("li")]
    assert items == [
        "✓ holds: Half essential",
        "✗ fails: Fractions 0 of 0.33 The result is whole. called negate(3) seen 3",
        "✓ holds: Negative numbers 0.33",
        "✓ holds: Arrays 0.33",
    ]


def test_a_layout_is_drawn_as_it_is_beside_what_it_should_be():
    seen, expected = soup(feedback(RESULT))("svg")
    assert "[0]: (0, 4), (0, 2); [1]: (4, 8), (0, 2)" in seen["aria-label"]
    assert "[0, 1]: (0, 8), (0, 2)" in expected["aria-label"]
    assert [text.get_text() for text in seen("text")] == ["0", "1"]
    assert [text.get_text() for text in expected("text")] == ["0, 1"]


def test_points_of_a_bonus_come_on_top():
    bonus = dataclasses.replace(RIGHT, exercise="ring", points=2, max_points=0, worth=2)
    text = words(feedback(Result("01_tiny", (RIGHT, bonus))))
    assert "1 of 1 and 2 bonus points Graded" in text
    assert "ring Right 2 bonus points" in text


def test_code_is_open_where_it_helps_and_folded_where_it_is_long_or_right():
    long = dataclasses.replace(WRONG, source="x = 1\n" * 100)
    page = soup(feedback(Result("01_tiny", (RIGHT, WRONG, long))))
    assert [d.has_attr("open") for d in page("details")] == [False, True, False]


def test_source_of_hundreds_of_lines_is_cut_and_says_so():
    long = dataclasses.replace(WRONG, source="x = 1\n" * 10_000)
    code = soup(feedback(Result("01_tiny", (long,)))).pre.get_text()
    assert code.count("\n") < 500
    assert code.endswith(" ...")


@pytest.mark.parametrize("outcome", Outcome)
def test_outcome_is_in_words_even_without_a_message(outcome):
    entry = ExerciseResult("f", outcome, 0, 1)
    text = words(feedback(Result("01_tiny", (entry,))))
    verdict = text.split(" f ", 2)[2]
    assert re.match(r"(Right|Partly|Wrong|Not|Your code|Took|The check)", verdict)
    assert ("a fault of the course" in text) == (outcome is Outcome.BROKEN)


def test_note_and_limits_are_shown():
    text = words(feedback(NOTED))
    assert "1 of 6.5 points Graded, with a note" in text
    assert "The file was renamed." in text
    assert "wall time: 60 s" in text


def test_nothing_to_grade_comes_with_reason_and_remedy():
    text = words(feedback(EMPTY))
    assert "Nothing to grade yet" in text
    assert "It is empty. Save it." in text
    assert "it counts as 0 points" in text


@pytest.mark.parametrize("result", [REVIEW, INFRA], ids=["review", "infra"])
def test_without_a_score_the_learner_sees_none_and_no_evidence(result):
    page = feedback(result)
    text = words(page)
    shown = ("A person will look at it", "our fault")[result is INFRA]
    assert shown in text
    assert "nothing for you to do" in text
    assert not re.search(r"\d of \d|points?\b|Right|Wrong|is wrong|Expected|400", text)
    for secret in (
        "forged",
        "patched",
        "/srv",
        "evidence",
        "cheat",
        "suspic",
        "tamper",
    ):
        assert secret not in page


def test_work_under_review_is_shown_as_received():
    assert "What was received" in words(feedback(REVIEW))
    assert "def negate(x):" in words(feedback(REVIEW))


def test_page_stays_small_and_says_what_it_left_out():
    entry = hostile_exercise(Outcome.FAILED, "&\"'<>" * 1_000)
    page = feedback(Result("01_tiny", (entry,) * 300))
    assert len(page.encode()) < MAX_BYTES
    text = words(page)
    assert "Some long text is left out" in text


@pytest.mark.parametrize("text", ["\U0001f600" * 600, '"' * 600], ids=["emoji", '"'])
def test_pages_stay_small_at_their_worst(text):
    entry = hostile_exercise(Outcome.FAILED, text)
    result = Result("01_tiny", (entry,) * 101, Status.GRADED, *[(text,) * 50] * 3)
    review = dataclasses.replace(result, status=Status.NEEDS_REVIEW)
    sizes = [len(feedback(kind).encode()) for kind in (result, review)]
    assert 600_000 < min(sizes)
    assert max(sizes) < MAX_BYTES


@pytest.mark.parametrize("text", ["\U0001f600" * 600, '"' * 600], ids=["emoji", '"'])
def test_class_report_stays_small_at_its_worst(text):
    results = {}
    undecided = (Status.NEEDS_REVIEW, Status.INFRA_ERROR, Status.STUDENT_ERROR)
    for number, status in itertools.product(range(301), undecided):
        result = Result("01_tiny", (), status, *[(text,) * 6] * 3)
        results[f"{number}{status}{text}"] = result
    for letter in "abcdefg":
        entries = [
            dataclasses.replace(
                failing(letter + text).exercises[0],
                exercise=f"{number}{text}",
                statements=(statement(text, FAILS),) * 50,
            )
            for number in range(101)
        ]
        results[letter] = Result("01_tiny", tuple(entries))
    size = len(report(results).encode())
    assert 500_000 < size < MAX_BYTES


def test_same_result_gives_the_same_page():
    assert feedback(RESULT) == feedback(RESULT)
    people = {"ada": RESULT, "bob": REVIEW}
    assert report(people) == report(dict(reversed(people.items())))


CLASS = {
    "ada": RESULT,
    "bob": NOTED,
    "cyd": REVIEW,
    "dan": INFRA,
    "eve": EMPTY,
    "fay": Result("01_tiny", (RIGHT, dataclasses.replace(WRONG, points=2.5), OPEN)),
}


def test_statuses_are_counted_and_sum_to_the_submissions():
    rows = table(report(CLASS), "Submissions")
    counts = {row[0]: int(row[-1]) for row in rows[1:]}
    assert counts.pop("All submissions") == len(CLASS) == sum(counts.values())
    assert counts == {
        "Graded": 2,
        "Graded with note": 1,
        "Student error": 1,
        "Needs review": 1,
        "Infra error": 1,
    }


def test_scores_are_distributed():
    page = report(CLASS)
    rows = {row[0]: row[1] for row in table(page, "Scores")[1:]}
    assert rows.pop("50 to 59 %") == "1"
    assert rows.pop("10 to 19 %") == "2"
    assert rows.pop("0 to 9 %") == "1"
    assert set(rows.values()) == {"0"}
    assert "4 of 6 submissions have a score. Median 1, mean 1.38, of 6.5" in words(page)


def test_learners_are_shown_with_their_names_where_these_are_known():
    names = {"ada": "Lovelace, <b>Ada</b>", "dan": "Noether, Emmy"}
    people = {
        "ada": Result("01_tiny", (WRONG,), to_review=("Look.",)),
        "dan": REVIEW,
        "eve": Result("01_tiny", (RIGHT,), notes=("A note.",)),
    }
    page = report(people, names)
    assert table(page, "For you to decide")[1][0] == "Noether, Emmy (dan)"
    assert table(page, "For you to look at again")[1][0] == "Lovelace, <b>Ada</b> (ada)"
    assert table(page, "Graded, with a note")[1][0] == "eve"
    assert "<b>Ada" not in page


def test_outcomes_are_counted_per_exercise_without_the_undecided():
    rows = table(report(CLASS), "Exercises")
    assert rows[0][:5] == [
        *("Exercise", "right", "partly right", "wrong", "raised an error")
    ]
    assert rows[1] == ["double", "3", "0", "0", "0", "0", "0", "0", "100 %"]
    assert rows[2] == ["negate", "0", "0", "3", "0", "0", "0", "0", "0 %"]
    assert rows[3] == ["shard_batch", "0", "0", "0", "0", "0", "3", "0", "0 %"]


def test_statements_are_counted_with_how_many_answers_fail_each():
    """Which idea failed: of those in which it could be tried, and not of the others."""
    worse = (statement("half", FAILS), *(replaced(PART.statements[1:], UNTRIED)))
    worst = replaced(PART.statements, FAILS)
    others = {
        "bob": dataclasses.replace(PART, statements=worse, outcome=Outcome.FAILED),
        "cyd": dataclasses.replace(PART, statements=worst, outcome=Outcome.FAILED),
        "dan": dataclasses.replace(OPEN, exercise="halve"),
        "eve": dataclasses.replace(PART, statements=replaced(PART.statements, HOLDS)),
    }
    people = {name: Result("01_tiny", (one,)) for name, one in others.items()}
    people |= {"ada": Result("01_tiny", (RIGHT, PART))}
    people |= {"fay": dataclasses.replace(REVIEW, exercises=(PART,))}
    assert table(report(people), "Statements that fail")[1:] == [
        ["halve"],
        ["2", "4 answers", f"half (essential) {TOGETHER}"],
        ["2", "3 answers", "fractions The result is whole. (ada)"],
        ["1", "3 answers", f"negative numbers {TOGETHER}"],
        ["1", "3 answers", f"arrays {TOGETHER}"],
    ]


TOGETHER = "It failed together with a statement above it."


def test_a_statement_shows_what_most_cards_say_of_it_and_one_learner():
    texts = {
        "fay": "It is wrong on 1 of 8 devices.",
        "eve": "It is wrong on 4 of 8 devices.",
        "dan": "It is wrong on 4 of 8 devices.",
        "cyd": "It is 0.",
        "bob": "see above",
    }
    people = {
        name: dataclasses.replace(WRONG, statements=(statement("sum", FAILS, text),))
        for name, text in texts.items()
    }
    page = report({name: Result("01_tiny", (one,)) for name, one in people.items()})
    assert table(page, "Statements that fail")[2:] == [
        ["5", "5 answers", "sum (essential) It is wrong on 4 of 8 devices. (dan)"]
    ]


def replaced(statements, standing):
    return tuple(dataclasses.replace(one, standing=standing) for one in statements)


def test_statements_that_hold_everywhere_are_not_listed():
    page = report({"ada": Result("01_tiny", (RIGHT,))})
    assert "Statements that fail" not in words(page)
    page = report({"ada": Result("01_tiny", (RIGHT, PART))})
    [_, exercise, *rows] = table(page, "Statements that fail")
    assert (exercise, rows) == (
        ["halve"],
        [["1", "1 answer", "fractions The result is whole. (ada)"]],
    )


def failing(message, outcome=Outcome.FAILED):
    return Result("01_tiny", (ExerciseResult("f", outcome, 0, 1, message=message),))


def test_messages_that_differ_in_numbers_are_counted_together():
    results = {
        "a": failing("It lives on 1 device, not on 8."),
        "b": failing("It lives on 4 devices, not on 8."),
        "c": failing("It lives on 4 devices, not on 8."),
        "d": failing("It lives on 2 devices, not on 16."),
        "e": failing("KeyError: 'w'", Outcome.RAISED),
        "f": failing("It has its stub.", Outcome.NOT_ATTEMPTED),
    }
    rows = table(report(results), "Most frequent failures")
    assert rows[1:] == [
        ["f"],
        ["3", "wrong", "It lives on 4 devices, not on 8."],
        ["1", "wrong", "It lives on 1 device, not on 8."],
        ["1", "raised an error", "KeyError: 'w'"],
    ]


def test_what_a_statement_counts_is_not_counted_again():
    page = report({"ada": Result("01_tiny", (RIGHT, PART, WRONG))})
    assert "Most frequent failures" not in words(page)


def test_rare_messages_are_summed_up():
    letters = "abcdefgh"
    results = {letter: failing(f"It says {letter}.") for letter in letters}
    assert table(report(results), "Most frequent failures")[-1] == [
        "3",
        "various",
        "3 rarer messages",
    ]


def test_instructor_sees_who_needs_what_and_why():
    page = report(CLASS)
    assert table(page, "For you to decide")[1:] == [["cyd", " ".join(EVIDENCE)]]
    assert table(page, "Failed on our side")[1:] == [["dan", INFRA.reasons[0]]]
    assert table(page, "Nothing to grade")[1:] == [["eve", "It is empty. Save it."]]
    assert table(page, "Ran into limits")[1:] == [
        ["bob", "wall time: 60 s"],
        ["cyd", "processes: 400"],
    ]
    assert table(page, "Graded, with a note")[1:] == [["bob", "The file was renamed."]]


def test_class_without_a_graded_submission_has_a_report():
    text = words(report({"dan": INFRA}))
    assert "All submissions 1" in text
    assert "No submission has a score." in text
    assert "No submission was graded." in text


HOSTILE_PAGES = {f"hostile {status}": status for status in Status}
PAGES = ("mixed", "review", "nothing", "class", *HOSTILE_PAGES, "hostile class")
PAGES += ("hostile, in Korean",)


@functools.cache
def page(name):
    """Makes a page when a test first wants it: some hold megabytes."""
    if name in HOSTILE_PAGES:
        return feedback(hostile_result(HOSTILE_PAGES[name]), LONG)
    if name == "hostile, in Korean":
        korean = dataclasses.replace(hostile_result(Status.GRADED), language="ko")
        return feedback(korean, LONG)
    if name == "class":
        return report(CLASS)
    if name == "hostile class":
        results = {f"{s}{LONG}": hostile_result(s) for s in Status}
        return report(results)
    return feedback({"mixed": NOTED, "review": REVIEW, "nothing": EMPTY}[name])


@pytest.mark.parametrize("name", PAGES)
def test_page_is_made_for_everybody(name):
    html = soup(page(name))
    assert html.html["lang"] == ("ko" if "Korean" in name else "en")
    assert html.title.get_text(strip=True)
    assert len(html("h1")) == 1
    levels = [int(heading.name[1]) for heading in html(["h1", "h2", "h3"])]
    assert all(below - above <= 1 for above, below in itertools.pairwise(levels))
    assert all(cell.has_attr("scope") for cell in html("th") if cell.get_text())
    ids = [tag["id"] for tag in html(id=True)]
    assert len(ids) == len(set(ids))


@pytest.fixture(scope="module")
def browser():
    with browser_page() as page:
        yield page


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page; returns Chromium's page and what happened that must not."""
    events = []

    def watch(kind, what):
        def listen(event):
            events.append((kind, what(event)))

        browser.on(kind, listen)
        return kind, listen

    listeners = [
        watch("dialog", lambda event: event.message),
        watch("console", lambda event: event.text),
        watch("pageerror", str),
        watch("request", lambda event: event.url),
        watch("popup", str),
    ]

    def open_page(html):
        file = tmp_path / "page.html"
        file.write_text(html, encoding="utf-8")
        browser.goto(file.as_uri())
        expected = ("request", file.as_uri())
        return [
            e for e in events if e != expected and not str(e[1]).startswith("data:")
        ]

    yield open_page
    for kind, listen in listeners:
        browser.remove_listener(kind, listen)
    browser.emulate_media(media="screen", color_scheme="light")


@pytest.mark.parametrize("name", PAGES)
def test_nothing_runs_and_nothing_is_fetched(browser, opened, name):
    html = page(name)
    assert len(html.encode()) < MAX_BYTES
    assert opened(html) == []
    for summary in browser.locator("summary").all():
        summary.click()
    assert browser.evaluate("window.hacked") is None
    assert (
        browser.locator("script, iframe, object, embed, form, base, link").count() == 0
    )
    assert browser.locator("style >> nth=1").count() == 0
    assert browser.locator("svg :not(rect, text)").count() == 0
    attributes = browser.evaluate(
        "[...document.querySelectorAll('*')].flatMap(e => [...e.attributes])"
        ".map(a => [a.name, a.value])"
    )
    for name, value in attributes:
        assert not name.startswith("on")
        if name == "href":
            assert re.fullmatch(r"#exercise-\d+", value)
        assert name != "src"
    text = browser.locator("html").text_content()
    assert not re.search(
        "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069]", text
    )


def test_script_is_shown_as_the_text_that_it_is(browser, opened):
    broken = statement(HOSTILE, FAILS, HOSTILE, (("seen", HOSTILE),))
    entry = dataclasses.replace(WRONG, statements=(broken,), source=HOSTILE)
    opened(feedback(Result("01_tiny", (entry,))))
    for place in ("li > div:nth-of-type(2)", "li code", "pre"):
        shown = browser.locator(place).inner_text()
        assert shown.startswith("<script>window.hacked = 1; alert(1)</script>")
        assert "redlink" in shown


@pytest.mark.parametrize("name", PAGES)
def test_page_is_no_wider_than_phone_desk_and_paper(browser, opened, name):
    opened(page(name))
    for width, media in ((390, "screen"), (1280, "screen"), (672, "print")):
        browser.set_viewport_size({"width": width, "height": 800})
        browser.emulate_media(media=media)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width


CONTRASTS = """() => {
  const parts = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => parts(c).slice(0, 3).map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0);
  const ground = e => {
    for (; e; e = e.parentElement) {
      const color = getComputedStyle(e).backgroundColor;
      if ((parts(color)[3] ?? 1) > 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const text = walker.currentNode.data.trim();
    if (!text) continue;
    const element = walker.currentNode.parentElement;
    const two = [getComputedStyle(element).color, ground(element)].map(light);
    // A mark is a picture, which words repeat.
    const needed = element.ariaHidden ? 3 : 4.5;
    found.push([(Math.max(...two) + 0.05) / (Math.min(...two) + 0.05), needed, text]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["mixed", "class"])
@pytest.mark.parametrize("media", ["screen", "print"])
def test_contrast_is_enough_to_read(browser, opened, name, scheme, media):
    browser.emulate_media(media=media, color_scheme=scheme)
    opened(page(name))
    found = browser.evaluate(CONTRASTS)
    assert len(found) > 30
    assert [one for one in found if one[0] < one[1]] == []
    ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    is_dark = max(map(int, re.findall(r"\d+", ground))) < 60
    assert is_dark == (scheme == "dark" and media == "screen")


def test_folded_code_is_on_paper(browser, opened):
    opened(feedback(Result("01_tiny", (RIGHT,))))
    code = browser.get_by_text("def double(x): ...")
    assert not code.is_visible()
    browser.emulate_media(media="print")
    assert code.is_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_on_any_page(browser, scheme):
    partly = Result("01_tiny", (RIGHT, PART))
    pages = [feedback(one) for one in (RESULT, REVIEW, EMPTY, NOTED, partly)]
    people = {"ada": RESULT, "bob": REVIEW, "cleo": EMPTY, "dan": INFRA, "eve": partly}
    pages.append(report(people))
    browser.emulate_media(color_scheme=scheme)
    for text in pages:
        browser.set_content(text)
        assert axe_violations(browser) == []
