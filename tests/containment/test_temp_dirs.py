"""What a killed run left in the folder for temporary files goes with a later one."""

import os
import subprocess
import sys
import tempfile

import pytest

from grader.containment import temp_dirs

LONG_AGO = 1_000_000_000  # seconds since 1970


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def ended():
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def made(folder, name, old=True):
    path = folder / name
    path.mkdir()
    (path / "kernel.json").write_text("{}")
    if old:
        os.utime(path, (LONG_AGO, LONG_AGO))
    return path


def test_old_folders_of_ended_runs_go(temporary, ended):
    names = [f"{kind}-{ended}-ab_cd012" for kind in temp_dirs.KINDS]
    left = {made(temporary, name) for name in names}
    assert {*temp_dirs.remove_left_folders()} == left
    assert [*temporary.iterdir()] == []
    assert temp_dirs.remove_left_folders() == []


def test_all_else_stays(temporary, ended):
    running = tempfile.mkdtemp(prefix=temp_dirs.prefix("box"))
    os.utime(running, (LONG_AGO, LONG_AGO))
    made(temporary, f"box-{ended}-ab_cd012", old=False)
    made(temporary, f"box-{ended}-notes")
    made(temporary, f"letters-{ended}-ab_cd012")
    made(temporary, f"box-{10**30}-ab_cd012")
    elsewhere = made(temporary, "a thesis")
    (temporary / f"learner-{ended}-ab_cd012").symlink_to(elsewhere)
    before = sorted(temporary.rglob("*"))
    assert temp_dirs.remove_left_folders() == []
    assert sorted(temporary.rglob("*")) == before
