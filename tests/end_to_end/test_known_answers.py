"""The grader gives known answers the points they deserve, in boxes and kernels.

`tests/lessons/test_answers.py` checks them in one process. Here a submission holds
wrong answers, right ones and our solutions by turns, the first of every other pair of
exercises; with `ANSWERS=all` submissions hold every one.
"""

import contextlib
import itertools
import os
from pathlib import Path

import nbformat
import pytest
from known_answers import known_answers

from coursekit.outcomes import FAILS
from grader.authoring.lesson import read_lesson
from grader.containment.limits import Limits
from grader.kernel import compile_cache
from grader.lessons.release import checks, exercises, points_for, release
from grader.results import Outcome, Status
from grader.workers.cache_key import lesson_hashes
from grader.workers.executor import grade_jobs
from grader.workers.jobs import job_of
from grader.workers.local_executor import LocalExecutor

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "solutions").glob("[0-9][0-9]_*.py"))
# `fit` calls a step that compiles anew in each call: the usual minute may end it before
# its check can say what is wrong.
LIMITS = Limits(wall_s=240, cpu_s=1200)
CALLS_OTHERS = ("fit",)  # it uses other exercises' functions, wrong ones too


def submissions(source, lesson):
    """Lists (name, exercise's answers): the k-th of each exercise together."""
    turns = itertools.cycle([("right", "wrong"), ("wrong", "right")])
    columns = [
        by_turns(source.stem, exercise, kinds)
        for exercise, kinds in zip(exercises(lesson), turns, strict=False)
    ]
    rows = list(itertools.zip_longest(*columns))
    if os.environ.get("ANSWERS") == "all":
        yield "solved", {}
    else:  # as many wrong ones as right ones; not `fit`, whose check takes longest
        rows = [[one for number, one in enumerate(rows[0]) if number % 4 in (2, 3)]]
    for number, row in enumerate(rows):
        yield f"mixed-{number}", {one.exercise: one for one in filter(None, row)}


def by_turns(lesson, exercise, kinds):
    """Lists an exercise's answers, of the two kinds by turns."""
    pairs = itertools.zip_longest(*(known_answers(lesson, exercise, k) for k in kinds))
    return [answer for pair in pairs for answer in pair if answer]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_every_known_answer_gets_what_it_deserves(
    source, contained_here, tmp_path, programs, monkeypatch
):
    # Programs that test_answers.py has compiled in this run are not compiled again.
    folder = Path(programs(source.stem)["JAX_COMPILATION_CACHE_DIR"])
    monkeypatch.setattr(compile_cache, "find", lambda hashes: folder)
    lesson = read_lesson(source, "https://example.org/ada/course")
    hashes = lesson_hashes(lesson, LIMITS)
    answers = dict(submissions(source, lesson))
    jobs = []
    for student, given in {**answers, "untouched": {}}.items():
        notebook = release(lesson)
        for name, cell in exercises(notebook).items():
            if student != "untouched":
                cell.source = exercises(lesson)[name].source
            if name in given:
                cell.source = f"# exercise: {name}\n{given[name].source}"
        place = tmp_path / student / source.stem
        place.mkdir(parents=True)
        nbformat.write(notebook, place / f"{source.stem}.ipynb")
        jobs.append(job_of(student, source.stem, place, hashes))
    # One worker: each has a judge of its own, which computes what the solution does.
    executor = LocalExecutor({source.stem: lesson}, LIMITS, workers=1)
    with contextlib.closing(executor):
        graded = grade_jobs(executor, jobs)
        done = {one.job.student: one.record.result for one in graded}

    assert done["untouched"].status is Status.GRADED
    assert done["untouched"].score == 0
    for student, given in answers.items():
        result = done[student]
        assert result.status is Status.GRADED, (student, result.reasons)
        wrong = {name for name, answer in given.items() if answer.kind == "wrong"}
        for one in result.exercises:
            answer = given.get(one.exercise)
            found = student, str(answer), one.message, one.details
            worth = points_for(checks(lesson)[one.exercise])
            if one.exercise in wrong:
                failed = [s.name for s in one.statements if s.standing == FAILS]
                assert tuple(failed) == answer.fails, found
                costs_all = any(
                    s.is_essential for s in one.statements if s.name in failed
                )
                assert (one.outcome is Outcome.PARTLY) != costs_all, found
                assert (one.points == 0) == costs_all and one.points < worth, found
            elif not (one.exercise in CALLS_OTHERS and wrong):
                assert one.outcome is Outcome.PASSED, found
                assert one.points == worth
