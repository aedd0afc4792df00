"""A learner reads their page in the language of the notebook that they submitted."""

import dataclasses
import re

import nbformat
import pytest
from bs4 import BeautifulSoup

from coursekit.outcomes import FAILS, HOLDS, UNTRIED
from grader import ROOT
from grader.judging.grade_submission import grade_submission
from grader.lessons.release import title
from grader.pages.class_report import ClassReport
from grader.pages.feedback import feedback_page
from grader.results import (
    ExerciseResult,
    Outcome,
    Result,
    StatementResult,
    Status,
    from_json,
    to_json,
)
from grader.submissions.read_submission import language_of, parse_submission

LESSON = "02_collectives"
ROWS = (("called", "f(3)"), ("seen", "3"), ("expected", "6"))


def released(folder, lesson=LESSON):
    return nbformat.read(ROOT / "lessons" / folder / f"{lesson}.ipynb", as_version=4)


def statement(name, standing, headline="", rows=()):
    return StatementResult(name, True, 0.0, standing, headline, rows)


WRONG = ExerciseResult(
    "masked_mean",
    Outcome.FAILED,
    0,
    2,
    worth=2,
    statements=(
        statement("arguments stay", HOLDS),
        statement(
            "padding ignored",
            FAILS,
            "The result is wrong on 4 of 8 devices: 0-3.",
            ROWS,
        ),
        statement("nothing is remembered", UNTRIED, "needs a right result first"),
    ),
    message="The result is wrong on 4 of 8 devices: 0-3.",
    source="def masked_mean(x): ...",
)
KOREAN = Result(LESSON, (WRONG,), language="ko")


def page(result, student="김하늘", heading="Lesson 2. Collectives"):
    return feedback_page(result, title=heading, student=student)


def words(html):
    """What a page says in prose: no code, no exercises' names."""
    body = BeautifulSoup(html, "html.parser").main
    for tag in [*body(["code", "pre", "svg"]), *body(class_="code")]:
        tag.decompose()
    return " ".join(body.get_text(" ").split())


@pytest.mark.parametrize("lesson", ["01_pmap_spmd", "05_full_pipeline"])
def test_a_korean_lesson_is_known_by_its_first_cell(lesson):
    assert language_of(released("ko", lesson)) == "ko"
    assert language_of(released(".", lesson)) == "en"


@pytest.mark.parametrize(
    ("cell", "language"),
    [
        ("%env COURSE_LANGUAGE=ko", "ko"),
        ("os.environ['COURSE_LANGUAGE'] = 'ko'", "ko"),
        ("%env COURSE_LANGUAGE=xx", "en"),
    ],
)
def test_a_learners_own_choice_of_language_counts(cell, language):
    notebook = released(".")
    notebook.cells.insert(0, nbformat.v4.new_code_cell(cell))
    assert language_of(notebook) == language


def test_a_page_in_korean_has_the_card_with_its_statements_and_messages():
    html = page(KOREAN)
    assert '<html lang="ko">' in html
    text = words(html)
    assert "김하늘님의 피드백 2점 중 0점 채점 완료 모든 연습을 확인했습니다." in text
    assert "1개 중 0개가 맞았습니다." in text
    assert "틀림 2점 중 0점" in text
    assert "장치 8개 중 4개" in text
    assert "제출한 코드, 1줄" in text


@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("outcome", Outcome)
def test_no_english_word_is_left_on_a_korean_page(status, outcome):
    one = dataclasses.replace(WRONG, outcome=outcome)
    without = dataclasses.replace(
        one, statements=(), message="", max_points=0, points=1
    )
    reasons = (
        "The file is empty. Open the lesson in JupyterLab or Colab, save it, "
        "and submit that .ipynb file.",
    )
    result = Result(
        LESSON,
        (one, without),
        status,
        notes=("The notebook was converted to format 4.",),
        reasons=reasons,
        limits=("memory: more than 3000 MiB",),
        language="ko",
    )
    text = words(page(result, heading=title(released("."), LESSON)))
    names = "JupyterLab|Colab|ipynb|MiB"
    assert re.findall("[A-Za-z]{3,}", re.sub(names, "", text)) == []


def test_pages_in_english_stay_english_after_one_in_korean(monkeypatch):
    english = dataclasses.replace(KOREAN, language="en")
    before = page(english)
    page(KOREAN)
    assert page(english) == before
    monkeypatch.setenv("COURSE_LANGUAGE", "ko")  # the instructor's own
    assert page(english) == before
    assert "0 of 2 points Graded" in words(before)


def test_a_page_of_work_under_review_hides_in_korean_what_it_hides_in_english():
    secret = "It replaces jnp."
    review = dataclasses.replace(
        KOREAN, status=Status.NEEDS_REVIEW, reasons=(secret,), notes=()
    )
    text = words(page(review))
    assert "사람이 직접 확인할 예정" in text
    assert "틀림" not in text and "장치" not in text and "jnp" not in page(review)


def test_a_wrong_notebook_in_korean_gets_its_reason_in_korean():
    submitted = parse_submission(
        nbformat.writes(released("ko", "01_pmap_spmd")).encode()
    )
    lesson = nbformat.read(ROOT / f"solutions/{LESSON}.ipynb", as_version=4)
    result = grade_submission(submitted, lesson, LESSON, None, None)
    assert result.reasons[0].startswith("This is not lesson 02_collectives")
    assert from_json(to_json(result)) == result
    assert "02_collectives 강의가 아닙니다." in words(page(result))


def test_each_sentence_of_a_note_is_translated():
    notes = (
        '"a.ipynb" was graded, as there is no 02_x.ipynb. Left out: "b.ipynb".',
        "Cells without a unique id: 3. They got new ids.",
        "No catalogue has this sentence. The file is empty.",
    )
    text = words(page(dataclasses.replace(KOREAN, notes=notes)))
    assert '파일을 채점했습니다. 채점하지 않은 파일: "b.ipynb".' in text
    assert "고유한 id가 없는 셀 3개에 새 id를 주었습니다." in text
    assert "No catalogue has this sentence. 빈 파일입니다." in text


def test_the_class_report_stays_in_english():
    report = ClassReport(LESSON, title="Lesson 2", solutions={}, names={})
    report.add("kim", KOREAN)
    html = report.page()
    assert '<html lang="en">' in html
    assert "The result is wrong on 4 of 8 devices: 0-3. (kim)" in words(html)
