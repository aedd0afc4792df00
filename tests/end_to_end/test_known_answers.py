"""The grader gives known wrong answers nothing and other right ones full marks.

Each submission holds one answer per exercise, our own where there is no other, so that
a lesson takes a few of them; by default one of wrong answers and one of right ones, and
with `ANSWERS=all` every one.
"""

import contextlib
import itertools
import os
from pathlib import Path

import nbformat
import pytest

from coursekit.i18n import pattern_of, translated
from grader.authoring.lesson import read_lesson
from grader.authoring.notebook import checks, exercises, release
from grader.authoring.translatable_text import messages as said
from grader.authoring.translation import languages
from grader.containment.limits import Limits
from grader.results import Outcome, Status
from grader.workers.executor import grade_jobs
from grader.workers.jobs import job_of
from grader.workers.local_executor import LocalExecutor
from grader.workers.result_key import lesson_hashes

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "solutions").glob("[0-9][0-9]_*.py"))
# Several lessons are graded at once here, and `fit` calls a step that compiles anew in
# each call: the usual minute may end it before its check can say what is wrong.
LIMITS = Limits(wall_s=240, cpu_s=1200)
CALLS_OTHERS = ("fit",)  # it uses other exercises' functions, wrong ones too


def submissions(source, lesson):
    """Lists (name, exercise's answers): the k-th wrong ones together, the right too."""
    for verdict, most in (("wrong", 1), ("right", 1)):
        columns = [
            [(name, path) for path in known(source, name, verdict)]
            for name in exercises(lesson)
        ]
        rows = list(itertools.zip_longest(*columns))
        if os.environ.get("ANSWERS") != "all":
            rows = rows[:most]
        for number, row in enumerate(rows):
            yield f"{verdict}-{number}", dict(filter(None, row))


def known(source, exercise, verdict):
    folder = source.parent / "answers" / source.stem
    return sorted(folder.glob(f"{exercise}__{verdict}__*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_every_known_answer_gets_what_it_deserves(source, contained_here, tmp_path):
    lesson = read_lesson(source, "https://example.org/ada/course")
    hashes = lesson_hashes(lesson, LIMITS)
    answers = {"solved": {}} | dict(submissions(source, lesson))
    jobs = []
    for student, given in {**answers, "untouched": {}}.items():
        notebook = release(lesson)
        for name, cell in exercises(notebook).items():
            if student != "untouched":
                cell.source = exercises(lesson)[name].source
            if name in given:
                cell.source = f"# exercise: {name}\n{given[name].read_text()}"
        place = tmp_path / student / source.stem
        place.mkdir(parents=True)
        nbformat.write(notebook, place / f"{source.stem}.ipynb")
        jobs.append(job_of(student, source.stem, place, hashes))
    executor = LocalExecutor({source.stem: lesson}, LIMITS, workers=2)
    with contextlib.closing(executor):
        graded = grade_jobs(executor, jobs)
        done = {one.job.student: one.record.result for one in graded}

    assert done["untouched"].status is Status.GRADED
    assert done["untouched"].score == 0
    for student, given in answers.items():
        result = done[student]
        assert result.status is Status.GRADED, (student, result.reasons)
        for one in result.exercises:
            told = (student, given.get(one.exercise), one.message, one.details)
            if one.exercise in given and student.startswith("wrong"):
                assert one.outcome in (Outcome.FAILED, Outcome.RAISED), told
                assert one.points == 0
                assert not untranslated(one, lesson), told
            elif student[:5] != "wrong" or one.exercise not in CALLS_OTHERS:
                assert one.outcome is Outcome.PASSED, told
                assert one.points == one.max_points


def untranslated(one, lesson):
    """Lists what a learner who reads another language is told in English.

    What hidden tests say is told in feedback alone, and in no learner's module.
    """
    shown = [m for cell in checks(release(lesson)).values() for m in said(cell.source)]
    every = [m for cell in checks(lesson).values() for m in said(cell.source)]
    hidden = [pattern_of(text) for text in {*every} - {*shown}]
    told = [text for name, text in one.details if name == "likely"]
    if one.outcome is Outcome.FAILED:  # else it is what the learner's code raised
        told.append(one.message)
    told = [text for text in told if not any(one.fullmatch(text) for one in hidden)]
    return [text for text in told for name in languages() if in_english(text, name)]


def in_english(text, language):
    return " " in text and translated(text, language) == text  # code stays
