"""Whatever a notebook is damaged to, the grader gives it a status and a page."""

import copy
import json
import os

import nbformat
import pytest
import tiny
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grader.classroom.publishing import autograded_notebook
from grader.containment.limits import Limits
from grader.judging import grade_submission as grading
from grader.judging.grade_submission import grade_submission
from grader.judging.trial import CheckedExercise, Trial
from grader.lessons.release import dumps, release
from grader.pages.feedback import feedback_page
from grader.results import Outcome, Status, from_json, to_json
from grader.submissions.read_submission import parse_submission

EXAMPLES = int(os.environ.get("MUTATIONS", "600"))
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=40),
    st.sampled_from(["double", "check-double", "code", "markdown", "raw", "solution"]),
    st.lists(st.text(max_size=5), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)


class Judge:
    """Stands for the judge: nothing is run here."""

    material = dict.fromkeys(("setup", "definitions", "functions", "checks"))

    def begin_submission(self):
        pass


def without_running(trial, on_exercise=None):
    return {
        name: CheckedExercise(
            Outcome.NOT_ATTEMPTED if name in trial.stubs else Outcome.FAILED
        )
        for name in trial.exercises
    }


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    return tiny.lesson(tmp_path_factory.mktemp("course") / "course")


def places(document, found=()):
    """Lists the path of every value in a JSON document."""
    yield found
    items = document.items() if isinstance(document, dict) else ()
    items = enumerate(document) if isinstance(document, list) else items
    for key, value in items:
        yield from places(value, (*found, key))


def mutate(document, draw):
    """Changes one place of a notebook: replaced, deleted, doubled or moved."""
    path = draw(st.sampled_from(list(places(document))[1:]))
    owner = document
    for key in path[:-1]:
        owner = owner[key]
    kind = draw(st.sampled_from(["replace", "delete", "copy", "rename", "elsewhere"]))
    if kind == "replace":
        owner[path[-1]] = draw(JUNK)
    elif kind == "delete":
        del owner[path[-1]]
    elif kind == "copy" and isinstance(owner, list):
        place = draw(st.integers(0, len(owner)))
        owner.insert(place, copy.deepcopy(owner[path[-1]]))
    elif kind == "rename" and isinstance(owner, dict):
        owner[draw(st.text(max_size=8))] = owner.pop(path[-1])
    else:
        value = copy.deepcopy(owner[path[-1]])
        other = draw(st.sampled_from(list(places(document))[1:]))
        owner = document
        for key in other[:-1]:
            owner = owner[key]
        owner[other[-1]] = value


@st.composite
def damaged(draw, base):
    """Draws the bytes of a notebook that somebody or something has damaged."""
    document = json.loads(base)
    for _ in range(draw(st.integers(0, 6))):
        if isinstance(document, dict) and document:
            mutate(document, draw)
    data = json.dumps(document).encode()
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 1, 3]))):
        place = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 20))
        data = data[:place] + draw(st.binary(max_size=20)) + data[place + length :]
    if draw(st.integers(0, 9)) == 0:
        data = data[: draw(st.integers(0, len(data)))]
    encoding = draw(st.sampled_from(["", "", "", "utf-16", "utf-8-sig", "crlf"]))
    if encoding == "crlf":
        return data.replace(b"\n", b"\r\n")
    return data.decode("latin-1").encode(encoding) if encoding else data


def test_no_damage_crashes_the_grader_or_leaves_it_without_a_status(
    lesson, monkeypatch
):
    monkeypatch.setattr(Trial, "run", without_running)
    assert grading.Trial is Trial
    bases = [dumps(release(lesson)), dumps(lesson)]
    seen = set()

    @settings(
        max_examples=EXAMPLES,
        derandomize=EXAMPLES == 2000,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(bases).flatmap(damaged))
    def grade(data):
        submitted = parse_submission(data)
        result = grade_submission(submitted, lesson, "01_tiny", Judge(), Limits())
        seen.add(result.status)
        assert result.status in (
            Status.GRADED,
            Status.GRADED_WITH_NOTE,
            Status.STUDENT_ERROR,
            Status.NEEDS_REVIEW,
        )
        assert [one.exercise for one in result.exercises] == ["double", "negate"]
        assert (result.points, result.max_points) == (0, 3)
        has_reason = result.status in (Status.STUDENT_ERROR, Status.NEEDS_REVIEW)
        assert bool(result.reasons) == has_reason
        assert from_json(to_json(result)) == result
        nbformat.validate(autograded_notebook(lesson, result))
        page = feedback_page(result, title="Tiny", student="ada")
        assert len(page.encode()) < 2_000_000

    grade()
    assert {Status.GRADED, Status.GRADED_WITH_NOTE, Status.STUDENT_ERROR} <= seen
