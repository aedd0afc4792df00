"""A class keeps its gradebook on a PostgreSQL server instead of in a file."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import tiny
from classes import RIGHT, WRONG, answered, hand_in, make_class, printed
from nbgrader.api import Gradebook
from pretended import pretended

from grader import CourseError
from grader.classroom import gradebook
from grader.classroom.export import export
from grader.classroom.folder import Classroom, Publication, Submission
from grader.classroom.grade import grade, regrade
from grader.classroom.purge import purge

__all__ = ["pretended"]  # a fixture
DRIVER = "postgresql+psycopg"
PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))  # Debian's and Ubuntu's


@pytest.fixture(scope="module")
def server():
    """Runs a server on a socket in a folder; yields the address of a database."""
    path = os.pathsep.join([*map(str, reversed(PROGRAMS)), os.environ["PATH"]])
    if not shutil.which("initdb", path=path):
        pytest.skip("PostgreSQL's initdb is missing: apt install postgresql")
    with tempfile.TemporaryDirectory(prefix="server-") as folder:
        # Not below pytest's folder, which the server's user cannot enter.
        yield from running_server(Path(folder), path)


def running_server(folder, path):
    words = []
    if os.geteuid() == 0:  # which PostgreSQL refuses
        words = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
        shutil.chown(folder, "postgres", "postgres")

    def run(*more):
        done = subprocess.run(
            [*words, *more],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert done.returncode == 0, done.stderr

    data = folder / "data"
    run("initdb", "--auth=trust", "--username=ada", "--no-sync", f"--pgdata={data}")
    options = f"-c listen_addresses= -c unix_socket_directories={folder}"
    log = f"--log={folder / 'log'}"
    run("pg_ctl", "start", "--wait", f"--pgdata={data}", log, f"--options={options}")
    try:
        yield f"{DRIVER}://ada:secret@/postgres?host={folder}"
    finally:
        run("pg_ctl", "stop", "--mode=immediate", f"--pgdata={data}")


def keep_in(folder, address):
    with open(folder / "class" / "nbgrader_config.py", "a", encoding="utf-8") as file:
        file.write(f"\nc.CourseDirectory.db_url = {address!r}\n")


def run(command, folder, *arguments, **options):
    return printed(command, folder / "class", *arguments, **options)


def test_grades_are_those_of_a_file_and_a_persons_marks_stay(
    server, tmp_path, pretended
):
    exports = []
    for name in ("file", "server"):
        folder = tmp_path / name
        lesson = make_class(folder)
        if name == "server":
            keep_in(folder, server)
        for student, answers in {"ada": RIGHT, "bob": WRONG, "cleo": {}}.items():
            hand_in(folder, student, answered(lesson, **answers))
        status, said = run(grade, folder)
        assert status == 0, said
        classroom = Classroom(folder / "class")
        place = (tiny.NAME, tiny.NAME, "bob")
        with Gradebook(classroom.db_url, classroom.course_id) as book:
            mark = book.find_grade("check-double", *place)
            mark.manual_score = 0.5
            book.db.commit()
        assert run(regrade, folder, ["bob"], apply=True)[0] == 0
        export(folder / "class", folder / "grades.csv")
        exports.append((folder / "grades.csv").read_bytes())
    assert exports[0] == exports[1]
    [bob] = [line for line in exports[1].decode().splitlines() if "bob" in line]
    assert "2.5" in bob.split(",")
    assert not (tmp_path / "server" / "class" / "gradebook.db").exists()
    assert (tmp_path / "file" / "class" / "gradebook.db").exists()
    purge(folder / "class", ["bob"], apply=True)
    bob = Submission(tiny.NAME, "bob", folder)
    assert gradebook.entries(classroom, {bob: Publication()}) == {}


@pytest.mark.parametrize(
    ("address", "said"),
    [
        (
            "postgresql+psycopg://ada:secret@/grades?host=/not/here",
            r"ada:\*\*\*@/grades",
        ),
        ("no address", "db_url in nbgrader_config.py"),
    ],
)
def test_a_server_that_cannot_be_had_is_named_without_its_password(
    tmp_path, address, said
):
    lesson = make_class(tmp_path)
    keep_in(tmp_path, address)
    hand_in(tmp_path, "ada", answered(lesson, **RIGHT))
    with pytest.raises(CourseError, match=rf"{said}.* cannot be used") as error:
        run(grade, tmp_path)
    assert "secret" not in str(error.value)
