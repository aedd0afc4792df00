"""A class goes the stock nbgrader way: release, collect, grade, feedback, export."""

import copy
import csv
import json
import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import nbformat
import pytest
from classes import printed
from nbgrader.api import Gradebook
from servers import free_port, jupyter_env, server

from grader.classroom.course import make_course
from grader.classroom.folder import Classroom
from grader.classroom.grade import grade
from grader.containment.backend import backend
from grader.containment.limits import ContainmentError, Limits
from grader.kernel import compile_cache
from grader.workers.cache_key import lesson_hashes

ROOT = Path(__file__).resolve().parents[2]
LESSON = "01_pmap_spmd"
# ada solves all exercises, bob the first two, cleo hands in what she downloaded,
# dan a page that asked him to log in
SOLVED = {"ada": 6, "bob": 2, "cleo": 0}
SCORES = {"ada": 15.0, "bob": 3.0, "cleo": 0.0, "dan": 0.0}


def nbgrader(folder, *arguments):
    command = [sys.executable, "-m", "nbgrader", *arguments]
    env = jupyter_env(folder / "jupyter")
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stderr


def submission(num_solved, *names):
    released = nbformat.read(ROOT / "lessons" / f"{LESSON}.ipynb", as_version=4)
    solved = nbformat.read(ROOT / "solutions" / f"{LESSON}.ipynb", as_version=4)
    sources = {cell.id: cell.source for cell in solved.cells}
    exercises = [
        c for c in released.cells if c.metadata.get("nbgrader", {}).get("solution")
    ]
    for cell in exercises:
        if cell in exercises[:num_solved] or cell.id in names:
            cell.source = sources[cell.id]
    return released


@pytest.fixture(scope="module")
def course(tmp_path_factory, programs):
    try:
        backend()
    except ContainmentError as error:
        pytest.skip(f"nbgrader autograde refuses to run untrusted code here. {error}")
    folder = tmp_path_factory.mktemp("class") / "course"
    make_course(folder)
    # What this run has compiled of the lesson's programs need not be compiled again.
    lesson = Classroom(folder).lessons[LESSON]
    place = compile_cache.find(lesson_hashes(lesson, Limits()))
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(programs(LESSON)["JAX_COMPILATION_CACHE_DIR"])
    nbgrader(folder, "generate_assignment", LESSON)
    archive = folder / "downloaded" / LESSON / "archive"
    archive.mkdir(parents=True)
    for learner, num_solved in SOLVED.items():
        notebook = copy.deepcopy(submission(num_solved))
        nbformat.write(notebook, archive / f"{learner}_{LESSON}.ipynb")
    (archive / f"dan_{LESSON}.ipynb").write_text("<html>Please log in</html>")
    nbgrader(folder, "zip_collect", LESSON)
    nbgrader(folder, "autograde", LESSON)
    nbgrader(folder, "generate_feedback", LESSON)
    nbgrader(folder, "export")
    return folder


def test_release_is_the_lesson_that_learners_open(course):
    released = course / "release" / LESSON / f"{LESSON}.ipynb"
    ours = ROOT / "lessons" / f"{LESSON}.ipynb"
    assert nbformat.read(released, as_version=4) == nbformat.read(ours, as_version=4)


def test_export_has_each_learners_score(course):
    with open(course / "grades.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    own = [row for row in rows if row["assignment"] == LESSON]
    assert {row["student_id"]: float(row["score"]) for row in own} == SCORES
    assert {float(row["max_score"]) for row in own} == {15.0}


def test_gradebook_has_each_exercise_by_name_and_points(course):
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "distributed-jax") as book:
        notebook = book.find_submission_notebook(LESSON, LESSON, "bob")
        grades = {
            g.cell.name: (g.auto_score, g.cell.max_score) for g in notebook.grades
        }
    assert grades == {
        "check-launch_env": (1, 1),
        "check-shard_batch": (2, 2),
        "check-make_parallel_predict": (0, 3),
        "check-pairwise_distances": (0, 3),
        "check-init_ensemble": (0, 3),
        "check-local_sgd_steps": (0, 3),
    }


@pytest.mark.parametrize("learner", SCORES)
def test_feedback_shows_score_and_messages_without_a_traceback(course, learner):
    page = course / "feedback" / learner / LESSON / f"{LESSON}.html"
    text = re.sub(r"<[^>]*>", "", page.read_text(encoding="utf-8"))
    assert f"{SCORES[learner]:g} of 15 points" in " ".join(text.split())
    assert ("still holds its stub" in text) == (learner in ("bob", "cleo"))
    assert "HIDDEN TESTS" not in text
    assert "Traceback (most recent call last)" not in text


def test_grade_command_finds_all_of_it_done(course):
    status, lines = printed(grade, course)
    assert status == 0
    assert lines[0].startswith("4 submissions: 4 graded before, 0 to grade")
    assert "STUDENT_ERROR         1" in lines


def test_formgrader_lists_the_submissions_and_its_button_grades(course):
    command = [sys.executable, "-m", "jupyterlab", "--no-browser"]
    command += [f"--port={free_port()}"]
    command += ["--allow-root"] if os.name == "posix" and os.geteuid() == 0 else []
    with server(command, cwd=course, env=jupyter_env(course / "jupyter")) as address:
        base, token = re.fullmatch(r"(http://[^/]+)/.*token=(\w+)", address).groups()

        def get(path, data=None):
            headers = {"Authorization": f"token {token}"}
            request = urllib.request.Request(
                f"{base}/formgrader{path}", data=data, headers=headers
            )
            with urllib.request.urlopen(request, timeout=180) as answer:
                return answer.read().decode()

        assignments = json.loads(get("/api/assignments"))
        [assignment] = (one for one in assignments if one["name"] == LESSON)
        submissions = json.loads(get(f"/api/submissions/{LESSON}"))
        page = get("/gradebook")
        place = course / "submitted" / "eve" / LESSON
        place.mkdir(parents=True)
        nbformat.write(submission(0, "shard_batch"), place / f"{LESSON}.ipynb")
        # What the button "Autograde" sends.
        pressed = json.loads(get(f"/api/submission/{LESSON}/eve/autograde", b""))
        [eve] = (
            one
            for one in json.loads(get(f"/api/submissions/{LESSON}"))
            if one["student"] == "eve"
        )
    assert (assignment["name"], assignment["max_score"]) == (LESSON, 15.0)
    assert {s["student"]: s["score"] for s in submissions} == SCORES
    assert "gradebook" in page.lower()
    assert pressed["success"], pressed
    assert (eve["autograded"], eve["score"], eve["max_score"]) == (True, 2.0, 15.0)


def test_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"is not empty.*--update"):
        make_course(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_update_renews_the_lessons_and_nothing_else(tmp_path):
    folder = tmp_path / "course"
    make_course(folder)
    source = folder / "source" / LESSON / f"{LESSON}.ipynb"
    fresh = source.read_bytes()
    for place in (source, folder / "grading" / "source" / LESSON / source.name):
        place.write_bytes(fresh.replace(b"device", b"old device"))  # an older version
    (folder / "nbgrader_config.py").write_text("mine")
    make_course(folder, update=True)
    assert source.read_bytes() == fresh
    assert (folder / "nbgrader_config.py").read_text() == "mine"


def test_update_of_no_course_folder_says_so(tmp_path):
    with pytest.raises(ValueError, match="no course folder yet"):
        make_course(tmp_path, update=True)


def test_class_data_never_lives_in_the_repository():
    with pytest.raises(ValueError, match="inside the course's repository"):
        make_course(ROOT / "class")
    assert not (ROOT / "class").exists()


def test_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="is a file"):
        make_course(tmp_path / "file")
