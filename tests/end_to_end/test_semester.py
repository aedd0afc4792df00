"""A class of twelve goes from its roster to its grades, as the handbook tells it.

The tables below say what each learner must have, added up by hand.
"""

import os
import re

import nbformat
import pytest
import several
from classes import RIGHT, generate_assignment
from exchange import COURSE, learn, nbgrader, release_lesson
from hostile.build import ANSWER
from pretended import decide, page, set_due
from submitted import FRIDAY, zipped
from term import CANVAS, NAME, Term, counts, table

from grader import ROOT
from grader.__main__ import main
from grader.classroom import gradebook
from grader.lessons.release import exercises

pytestmark = pytest.mark.slow
DUE = "2024-05-08 20:00"  # a Wednesday; FRIDAY is one day and 13 hours later
# The points for double (of 2) + negate (of 2) + halve (a bonus of 1) - the penalty.
FIRST = {
    "101": 2 + 2 + 1,  # Ada: by Canvas, in time
    "102": 2 + 2 + 0 - 1,  # Bob: Canvas marked it as late, so one day has begun
    "103": 1.67 + 2 + 0,  # Cleo: extended; one lesser statement of double fails
    "104": 0,  # Dan: a web page instead of a notebook
    "105": None,  # Jan: double sends forged messages to the grader
    "21": 1.33 + 0 + 0,  # Eve: by Moodle, in time; two lesser statements of double fail
    "22": 2 + 2 + 1 - 2,  # Finn: by Moodle, on Friday
    "gus": 0 + 2 + 0,  # by nbgrader's exchange, years late, but extended
    "hal": 0,  # by the exchange, years late; no penalty takes more than was earned
    "108": 2 + 2 + 0,  # ivy's clone, in time; `return -3` in negate passes at first
}
FIRST_LATE = {"102": 1, "22": 2, "hal": 2 + 2}
REVIEWED = FIRST | {"21": 1.33 + 1.5 + 0}  # a person read Eve's negate
# From here on double has 4 points, and the check of negate tries a second number.
MENDED = {
    "101": 4 + 2 + 1,
    "102": 4 + 2 + 0 - 1,
    "103": 3.33 + 2 + 0,
    "104": 0,
    "105": None,
    "21": 2.67 + 1.5 + 0,
    "22": 4 + 2 + 1 - 2,
    "gus": 0 + 2 + 0,
    "hal": 0,
    "108": 4 + 0 + 0,
}
LATE = {"102": 1, "22": 2, "hal": 4 + 2}
# Then the check of halve tries an odd number, which Finn's rounds down.
REGRADED = MENDED | {"22": 4 + 2 + 0 - 2}
FINAL = REGRADED | {"105": 2 + 1 + 0}  # a person read Jan's work
# By the numbers of Canvas, which knows 6 points possible; Kim (109) did not submit.
IN_CANVAS = {"101": "6", "102": "5", "103": "5.33", "104": "0", "105": "3"}
IN_CANVAS |= {"106": "2", "107": "0", "108": "4", "109": "", "199": "", "": "6.00"}
COMMENT = "Only the sign is missing."

ALL = {"double": several.RIGHT, "negate": RIGHT["negate"]}
NO_FRACTIONS = ALL | {"double": several.NO_FRACTIONS}
TWO_FAIL = {"double": several.TWO_FAIL, "negate": "def negate(x):\n    return x"}
CONSTANT = ALL | {"negate": "def negate(x):\n    return -3"}
FORGED = ALL | {
    "double": f"def double(x):\n    display({{{ANSWER!r}: None}}, raw=True)\n"
    "    return 2 * x"
}
# The private exercise as `new` writes it, and the sibling that the class gets.
CENTER = "return x - jax.lax.pmean(x.mean(), axis_name)"
SIBLING = """
[[center]]
name = "share of the mean"
replace = [
  ["returns `x` minus the mean", "returns `x` divided by the mean"],
  ["# [-3, -1] and [1, 3]", "# [0.25, 0.75] and [1.25, 1.75]"],
  ["that is subtracted is", "by which `x` is divided is"],
  ["Subtracts the mean over", "Divides by the mean over"],
  ["x - jax.lax.pmean(", "x / jax.lax.pmean("],
  ["own = x - x.mean(", "own = x / x.mean("],
  ["expect_close(seen, x - x.mean()", "expect_close(seen, x / x.mean()"],
  ["expect_close(seen, x[:2] - x", "expect_close(seen, x[:2] / x"],
]
"""
HALF, ROUNDED = (f"def halve(x):\n    return x {sign} 2" for sign in ("/", "//"))


@pytest.mark.filterwarnings("ignore:unclosed file")  # nbgrader leaves one open
def test_a_semester(tmp_path):
    term = Term(tmp_path)
    enroll_and_release(term)
    set_the_due_date(term)
    learners_submit_by_the_exchange(term)
    grade_what_came_in(term)
    give_points_by_hand(term)
    mend_a_check_and_change_points(term)
    regrade_one_exercise(term)
    decide_what_was_left(term)
    lose_the_gradebook(term)
    export_a_section(term)
    export_to_canvas(term)
    export_to_moodle(term)
    return_feedback(term)
    teach_a_private_exercise(term)


def enroll_and_release(term):
    lines = term.run("roster", *term.rosters())
    assert lines[0].endswith(": 12 learners are on the roster")
    assert lines[1:] == [f"{NAME}: 0 of 12 submitted"]
    term.configure(f'c.Exchange.root = "{term.folder / "exchange"}"\n')
    release_lesson(term.folder)


def set_the_due_date(term):
    """The plug-in is the handbook's: one point for each day that has begun."""
    handbook = (ROOT / "docs" / "handbook" / "late.md").read_text()
    [plugin] = re.findall(r"(?s)```python\n(from nbgrader.*?)```", handbook)
    term.configure(plugin)
    term.configure('c.Classroom.timezone = "Europe/Berlin"\n')
    set_due(term.folder, DUE)
    lines = "student,lesson,until\n103,01,2024-05-12\ngus,01,2099-12-31\n"
    term.write("class/grading/extensions.csv", lines)


def learners_submit_by_the_exchange(term):
    learn(term.folder, "gus", **ALL | {"double": several.WRONG})
    learn(term.folder, "hal", **ALL)
    nbgrader(term.place, "collect", NAME)


def grade_what_came_in(term):
    canvas = {
        f"ada_101_9001_{NAME}.ipynb": term.notebook(**ALL, halve=HALF),
        f"bob_LATE_102_9002_{NAME}.ipynb": term.notebook(**ALL),
        f"cleo_LATE_103_9003_{NAME}.ipynb": term.notebook(**NO_FRACTIONS),
        f"dan_104_9004_{NAME}.ipynb": b"<html>Log in</html>",
        f"jan_105_9005_{NAME}.ipynb": term.notebook(**FORGED),
    }
    eve, finn = term.notebook(**TWO_FAIL), term.notebook(**ALL, halve=ROUNDED)
    moodle = {
        f"Eve Eaves_21_assignsubmission_file/{NAME}.ipynb": eve,
        f"Finn Fox_22_assignsubmission_file/{NAME}.ipynb": (finn, FRIDAY),
    }
    solution = (term.place / "source" / NAME / f"{NAME}.ipynb").read_bytes()
    ivy = {"lessons": term.notebook(**CONSTANT), "solutions": solution}
    for place, data in ivy.items():
        path = term.write(f"clones/ivy/{place}/{NAME}.ipynb", data)
        os.utime(path, (1715000000, 1715000000))  # on the Monday before
    lines = term.run(
        "grade",
        term.write("canvas.zip", zipped(canvas)),
        term.write("moodle.zip", zipped(moodle)),
        term.folder / "clones",
    )
    assert lines[0] == "9 files: 8 count, 1 is the course's own."
    assert f"due: {NAME} 2024-05-08 22:00 Europe/Berlin" in lines
    late = [line.split()[1] for line in lines if line.startswith("late: ")]
    assert late == [*FIRST_LATE]
    assert counts(lines) == {"GRADED": 8, "STUDENT_ERROR": 1, "NEEDS_REVIEW": 1}
    assert (term.scores(), term.penalties()) == (FIRST, FIRST_LATE)
    assert "A person will look at it" in term.words("105")
    assert term.run("roster", *term.rosters())[1:] == [
        '"106" is filed under another id: gus',
        '"107" is filed under another id: hal',
        f"{NAME}: 10 of 12 submitted",
        "    not submitted: Kim, A. (109)",
        "    not submitted: Lee Low (23)",
    ]


def give_points_by_hand(term):
    decide(term.folder, "21", "negate", 1.5, COMMENT)
    assert "10 graded before, 0 to grade" in term.run("grade").text
    assert (term.scores(), term.penalties()) == (REVIEWED, FIRST_LATE)
    assert COMMENT in term.words("21")


def mend_a_check_and_change_points(term):
    """No learner is told that something was changed: an instructor did that."""
    term.mend_check(
        "expect_close(observe(negate, 3), -3)", "expect_close(observe(negate, -5), 5)"
    )
    points = '"grade_id": "check-double",\n     "locked": true,\n     "points": '
    line = 'check(\\"double\\"'
    changes = (f"{points}2", f"{points}4"), (f"{line})", f"{line}, points=4)")
    term.edit_source(f"{NAME}.ipynb", *changes)
    lines = term.run("grade")
    assert "10 submissions: 0 graded before, 10 to grade" in lines.text
    assert counts(lines) == {"GRADED": 8, "STUDENT_ERROR": 1, "NEEDS_REVIEW": 1}
    assert (term.scores(), term.penalties()) == (MENDED, LATE)
    assert not [one for one in MENDED if "changed" in term.words(one).lower()]


def regrade_one_exercise(term):
    term.mend_check(
        "expect_close(observe(halve, 6.0), 3.0)",
        "expect_close(observe(halve, 5.0), 2.5)",
    )
    only = "--lesson", "01", "--exercise", "halve"
    lines = term.run("regrade", *only)
    assert lines[0] == "2 submissions to grade again."
    assert [line for line in lines if "->" in line] == [
        f"22 {NAME}: halve: right, 1 -> wrong, 0"
    ]
    assert term.scores() == MENDED
    term.run("regrade", *only, "--apply")
    assert term.scores() == REGRADED
    assert "2 graded before, 8 to grade" in term.run("grade").text
    assert (term.scores(), term.penalties()) == (REGRADED, LATE)


def decide_what_was_left(term):
    for exercise, points in (("double", 2), ("negate", 1), ("halve", 0)):
        decide(term.folder, "105", exercise, points)
    lines = term.run("grade")
    assert counts(lines) == {"GRADED": 8, "GRADED_WITH_NOTE": 1, "STUDENT_ERROR": 1}
    assert (term.scores(), term.penalties()) == (FINAL, LATE)


def lose_the_gradebook(term):
    (term.place / "gradebook.db").unlink()
    gradebook.create_tables.cache_clear()  # as in another process
    lines = term.run("grade")
    assert "The gradebook had lost 10 graded submissions." in lines.text
    assert "10 graded before, 0 to grade" in lines.text
    assert (term.scores(), term.penalties()) == (FINAL, LATE)
    assert COMMENT in term.words("21")


def export_a_section(term):
    reports = (term.place / "grading" / "report").iterdir()
    names = {f"{NAME}{one}.html" for one in ("", "-Friday", "-Monday")}
    assert {path.name for path in reports} == names
    term.run("export", "--section", "Monday")
    rows = table(term.place / "grading" / "grades.csv")
    missing = [row["student"] for row in rows if row["status"] == "not submitted"]
    assert [row["student"] for row in rows] == ["101", "103", "105", "hal", *missing]
    assert missing == ["109"]


def export_to_canvas(term):
    """Ada's bonus is cut off; those of Moodle are named."""
    template, _ = term.rosters(points=6)
    lines = term.run("export", "--template", template, status=1)
    assert f"101 {NAME}: 7 capped at the 6 points possible" in lines.text
    absent = [line for line in lines if line.startswith("not in")]
    assert absent == [f"not in gradebook.csv: {one} {NAME}" for one in ("21", "22")]
    rows = table(term.place / "grading" / "grades-canvas.csv")
    assert {row["ID"]: row["Lesson 1 (77)"] for row in rows} == IN_CANVAS


def export_to_moodle(term):
    _, template = term.rosters(points=6)
    term.run("export", "--template", template, status=1)
    eve, finn, lee = table(term.place / "grading" / f"grades-moodle-{NAME}.csv")
    assert [one["Grade"] for one in (eve, finn, lee)] == ["4.17", "4", ""]
    assert COMMENT in eve["Feedback comments"]
    assert "a penalty of 2 points" in finn["Feedback comments"]


def return_feedback(term):
    """Each system gets the feedback for the work that came from it."""
    found = term.returned("canvas")
    logins = {name.partition("_")[0] for name in found}
    assert logins == {"ada", "bob", "cleo", "dan", "jan"} < {*CANVAS.values()}
    assert "6 of 6 and 1 bonus point" in found[f"ada_101_9001_{NAME}.ipynb"]
    assert term.returned("moodle") == {
        f"{name}_assignsubmission_file_/{NAME}.html": page(term.folder, student)
        for student, name in (("21", "Eve Eaves_21"), ("22", "Finn Fox_22"))
    }
    pages = {f"{one}/{NAME}.html": page(term.folder, one) for one in FINAL}
    assert term.returned("zip", status=0) == pages
    lines = term.run("return", "01", "--format", "exchange", status=1)
    assert "released to the exchange: feedback for 2 learners" in lines
    home = term.folder / "gus"
    nbgrader(home, "fetch_feedback", NAME, "--course", COURSE)
    [fetched] = home.glob(f"{NAME}/feedback/*/{NAME}.html")
    assert fetched.read_text() == page(term.folder, "gus")


def teach_a_private_exercise(term):
    """What `new` writes is worth 2 points; the class gets a sibling of it.

    Ada solves that. Bob submits the solution of the exercise itself.
    """
    own, name = term.folder / "my-course", "06_norms"
    for words in ("lesson", "norms"), ("exercise", "06", "center"):
        assert main(["new", *words, "--folder", str(own)]) == 0
    assert main(["build", "--folder", str(own)]) == 0
    term.write(f"my-course/solutions/siblings/{name}.toml", SIBLING)
    words = "--update", "--with", own, "--siblings", "--lessons", "06"
    assert f"{name}: written, with a sibling of center" in term.run("course", *words)
    generate_assignment(term.place, name)
    released = nbformat.read(term.place / "release" / name / f"{name}.ipynb", 4)
    right = CENTER.replace("x - ", "x / ")
    answers = {"ada_101_9101": right, "bob_102_9102": CENTER}
    work = {}
    for learner, answer in answers.items():
        source = f"def center(x, axis_name):\n    {answer}"
        exercises(released)["center"].source = source
        work[f"{learner}_{name}.ipynb"] = nbformat.writes(released).encode()
    term.run("grade", term.write("private.zip", zipped(work)))
    term.run("export")
    rows = table(term.place / "grading" / "grades.csv")
    rows = [row for row in rows if row["status"] != "not submitted"]
    scores = {row["student"]: row["score"] for row in rows if row["lesson"] == name}
    assert scores == {"101": "2", "102": "0"}
    scores = {row["student"]: row["score"] for row in rows if row["lesson"] == NAME}
    assert scores["101"] == "7" and len(scores) == len(FINAL)
