"""Several people of one group can grade a class in turn."""

import os
import stat

import pytest
from classes import RIGHT, make_class
from pretended import grade, pretended, submit

pytestmark = pytest.mark.usefixtures("pretended")
__all__ = ["pretended"]  # a fixture


def test_what_one_of_a_group_writes_the_others_can_replace(tmp_path):
    """As the handbook says: `umask 002`, and a gradebook made before it is used."""
    before = os.umask(0o002)
    try:
        make_class(tmp_path)
        folder = tmp_path / "class"
        folder.chmod(0o2770)
        (folder / "gradebook.db").touch()
        submit(tmp_path, "ada", **RIGHT)
        grade(tmp_path)
    finally:
        os.umask(before)
    folders = [path for path in folder.rglob("*") if path.is_dir()]
    assert all(path.stat().st_mode & stat.S_IWGRP for path in folders)
    in_place = ["gradebook.db", "grading/lock", "grading/audit.jsonl"]
    for name in in_place:  # all other files are replaced
        assert (folder / name).stat().st_mode & stat.S_IWGRP, name
