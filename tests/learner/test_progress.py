"""A page shows a learner what is done in all lessons, and what to do next."""

import dataclasses
import datetime
import functools
import hashlib
import re

import nbformat
import pytest
import tiny
from bs4 import BeautifulSoup
from servers import axe_violations, browser_page

from coursekit.context import current_context
from coursekit.outcomes import FAILS
from grader.__main__ import main
from grader.learner import progress
from grader.learner.progress import save, write_pages
from grader.lessons.release import release
from grader.results import ExerciseResult, Outcome, Result, StatementResult

RIGHT = ExerciseResult("double", Outcome.PASSED, 1, 1, worth=1, share=1.0)
OFF = "It is <b>off</b> by one."
FAILED = StatementResult("negative", True, 0.0, FAILS, OFF, (("seen", "3"),))
WRONG = ExerciseResult(
    *("negate", Outcome.FAILED, 0, 2), worth=2, statements=(FAILED,), message=OFF
)
PART = dataclasses.replace(WRONG, outcome=Outcome.PARTLY, points=1.67, share=5 / 6)


@pytest.fixture
def root(tmp_path):
    """A course of one lesson, with the learner's notebook."""
    folder = tmp_path / "course"
    notebook = release(tiny.lesson(folder))
    nbformat.write(notebook, folder / "lessons" / f"{tiny.NAME}.ipynb")
    return folder


def words(root):
    """What the page says, tags left out."""
    page = write_pages(root)[0].read_text()
    body = re.sub(r"<[^>]*>", " ", page.partition("<body>")[2])
    return " ".join(body.split()), page


def test_before_anything_was_checked_it_sends_to_the_first_lesson(root):
    text, _ = words(root)
    assert "0 of 3 points in 1 lesson" in text
    assert f"Open lessons/{tiny.NAME}.ipynb : Lesson 1. Tiny." in text
    assert "Not checked yet." in text


def test_the_first_exercise_that_is_not_right_comes_next_with_what_went_wrong(root):
    save(Result(tiny.NAME, (RIGHT, WRONG)), root)
    text, page = words(root)
    assert "1 of 3 points, 1 of 2 exercises right." in text
    assert f"Exercise 1.2, negate , in lessons/{tiny.NAME}.ipynb : wrong." in text
    assert "It is &lt;b&gt;off&lt;/b&gt; by one." in text
    assert "<b>off" not in page and "<script" not in page


def test_an_exercise_that_is_partly_right_has_its_fraction_and_comes_next(root):
    save(Result(tiny.NAME, (dataclasses.replace(RIGHT, points=0.1), PART)), root)
    text, _ = words(root)
    assert "1.77 of 3 points, 1 of 2 exercises right." in text
    assert (
        f"Exercise 1.2, negate , in lessons/{tiny.NAME}.ipynb : partly right." in text
    )
    assert "Partly right 1.67 of 2" in text


def test_a_notebook_that_changed_since_is_marked(root):
    save(Result(tiny.NAME, (RIGHT, WRONG)), root)
    assert "has changed since" not in words(root)[0]
    path = root / "lessons" / f"{tiny.NAME}.ipynb"
    path.write_text(path.read_text() + "\n")
    assert "The notebook has changed since it was checked." in words(root)[0]


def test_where_all_is_right_the_course_is_finished(root):
    solved = dataclasses.replace(WRONG, outcome=Outcome.PASSED, points=2, message="")
    save(Result(tiny.NAME, (RIGHT, solved)), root)
    text, _ = words(root)
    assert "3 of 3 points in 1 lesson" in text
    assert "you have finished the course" in text


def certificate(root, **options):
    text = write_pages(root, **options)[1].read_text()
    return " ".join(BeautifulSoup(text, "html.parser").main.get_text(" ").split())


def test_the_certificate_says_who_did_what_when_and_what_that_is_worth(root):
    save(Result(tiny.NAME, (RIGHT, WRONG)), root)
    text = certificate(root, name="Ada <b>Lovelace")
    today = datetime.date.today().isoformat()
    assert f"{tiny.REPOSITORY} Name Ada <b>Lovelace" in text
    assert f"1 of 2 exercises right, 1 of 3 points. Last checked on {today}." in text
    notebook = (root / "lessons" / f"{tiny.NAME}.ipynb").read_bytes()
    digits = hashlib.sha256(notebook).hexdigest()[:12]
    assert f"Lesson 1. Tiny 1 of 2 1 of 3 {today} double [{digits}] What" in text
    assert "negate" not in text and OFF not in text
    assert "Nobody supervised the work, and the course's solutions are public." in text


def test_the_certificate_names_bonus_points_apart(root):
    bonus = dataclasses.replace(RIGHT, exercise="negate", points=2, max_points=0)
    source = root / "solutions" / "checks" / f"{tiny.NAME}.py"
    text = source.read_text().replace("points=2", "points=2, bonus=True")
    source.write_text(text)
    save(Result(tiny.NAME, (RIGHT, bonus)), root)
    page = write_pages(root)[0].read_text()
    text = " ".join(BeautifulSoup(page, "html.parser").main.get_text(" ").split())
    assert "1 of 1 points in 1 lesson. 2 bonus points." in text
    text = certificate(root, name="Ada")
    assert "2 of 2 exercises right, 1 of 1 points. 2 bonus points." in text
    assert "2 of 2 1 of 1, 2 bonus" in text


def test_the_certificate_leaves_room_for_a_name(root):
    assert "Name 0 of 2 exercises right" in certificate(root)


def test_both_pages_speak_the_language_of_the_notebook(root, monkeypatch):
    save(Result(tiny.NAME, (RIGHT, WRONG)), root)
    monkeypatch.setattr(current_context(), "language", "ko")
    for path in write_pages(root, name="김하늘"):
        html = BeautifulSoup(path.read_text(), "html.parser")
        assert html.html["lang"] == "ko"
        for tag in [*html("code"), *html(class_="code")]:
            tag.decompose()
        text = html.main.get_text(" ")
        for ours in (tiny.REPOSITORY, "Lesson 1. Tiny", OFF, "SHA"):
            text = text.replace(ours, "")
        assert re.findall("[A-Za-z]{3,}", text.replace("JAX", "")) == []


def test_a_damaged_file_counts_as_not_checked(root):
    save(Result(tiny.NAME, (RIGHT, WRONG)), root)
    [path] = (root / ".progress").iterdir()
    path.write_text("{")
    assert "Not checked yet." in words(root)[0]


def test_the_command_writes_it_and_says_where(root, monkeypatch, capsys):
    results = [Result(tiny.NAME, (RIGHT, WRONG))]
    monkeypatch.setattr("grader.learner.own_work.check_own", lambda names: results)
    for name in ("save", "write_pages"):
        here = functools.partial(getattr(progress, name), root=root)
        monkeypatch.setattr(progress, name, here)
    assert main(["check"]) == 0
    said = capsys.readouterr().out
    table, card = said.split("\n\n")[:2]
    assert table.splitlines()[3].startswith("negate    wrong    0 of 2")
    assert card.splitlines()[0].startswith("negate  wrong")
    assert "✗ negative" in card and OFF in card
    assert f"what to do next: {root / 'progress.html'}\n" in said
    assert said.endswith(f"to show to others: {root / 'certificate.html'}\n")
    assert "Exercise 1.2" in (root / "progress.html").read_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(root, scheme):
    save(Result(tiny.NAME, (RIGHT, WRONG)), root)
    with browser_page() as page:
        page.emulate_media(color_scheme=scheme)
        for path in write_pages(root):
            page.set_content(path.read_text())
            assert axe_violations(page) == []
