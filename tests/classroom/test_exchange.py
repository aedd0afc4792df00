"""A class uses nbgrader's exchange on one machine: each learner has a folder there."""

import pytest
from bs4 import BeautifulSoup
from classes import RIGHT, WRONG, make_class
from exchange import COURSE, learn, nbgrader, release_lesson
from pretended import NAME, decide, grade, gradebook_of, page, pretended, submit
from submitted import zipped

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("pretended")]
__all__ = ["pretended"]  # a fixture


@pytest.fixture
def folder(tmp_path):
    """A class whose lesson is in the exchange."""
    make_class(tmp_path)
    release_lesson(tmp_path)
    return tmp_path


def test_work_goes_to_the_class_and_its_page_back_to_the_learner(folder):
    learn(folder, "ada", **RIGHT)
    learn(folder, "bob", **WRONG)
    nbgrader(folder / "class", "collect", NAME)
    assert "GRADED                2" in grade(folder).text
    decide(folder, "bob", "double", 0.5, "Nearly.")
    grade(folder)
    nbgrader(folder / "class", "release_feedback", NAME)
    for student in ("ada", "bob"):
        home = folder / student
        nbgrader(home, "fetch_feedback", NAME, "--course", COURSE)
        [fetched] = home.glob(f"{NAME}/feedback/*/{NAME}.html")
        assert fetched.read_text() == page(folder, student)
    assert "2.5 of 3 points" in fetched.read_text() and "Nearly." in fetched.read_text()
    with gradebook_of(folder) as book:
        submitted = book.find_submission(NAME, "ada").timestamp
    assert f"{submitted:%Y-%m-%d %H:%M:%S}" in "".join(
        path.name for path in (folder / "exchange" / COURSE / "inbound").iterdir()
    )


def test_nbgraders_own_command_writes_our_page_and_a_download_needs_no_exchange(folder):
    submit(folder, "ada", **RIGHT)
    archive = folder / "moodle.zip"
    source = (folder / "class/submitted/ada" / NAME / f"{NAME}.ipynb").read_bytes()
    name = f"Cyd_77_assignsubmission_file/{NAME}.ipynb"
    archive.write_bytes(zipped({name: source}))
    grade(folder, archive)
    before = {student: page(folder, student) for student in ("ada", "77")}
    nbgrader(folder / "class", "generate_feedback", NAME, "--force")
    assert {student: page(folder, student) for student in before} == before
    assert "3 of 3 points" in BeautifulSoup(before["77"], "html.parser").get_text()
    nbgrader(folder / "class", "release_feedback", NAME)
