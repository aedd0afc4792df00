"""The tiny lesson, and a submission that answers it."""

import json

import pytest
import tiny
from submitted import ANSWERS

from grader.lessons.release import dumps, exercises, release


@pytest.fixture(scope="session")
def lesson(tmp_path_factory):
    return tiny.lesson(tmp_path_factory.mktemp("course") / "course")


@pytest.fixture(scope="session")
def answered(lesson):
    """The released lesson with both exercises answered, as JupyterLab writes it."""
    notebook = release(lesson)
    for name, source in ANSWERS.items():
        exercises(notebook)[name].source = source
    return dumps(notebook)


@pytest.fixture
def facts(answered):
    """The same as plain JSON, for tests to damage."""
    return json.loads(answered)
