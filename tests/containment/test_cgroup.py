"""Each box has a control group, where the kernel lets this process make it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from grader.containment import cgroup
from grader.containment.cgroup import LEAF, Group, Tree, own_group, prepared
from grader.containment.limits import Limits
from grader.kernel import session as sessions
from grader.kernel.learner_box import fork_server
from grader.kernel.session import Session

LIMITS = Limits(memory_mib=1000, disk_mib=200, processes=300)


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Stands for a delegated tree; removing a group removes its files, as in Linux."""
    write(tmp_path / "cgroup.controllers", "cpuset cpu io memory pids")
    write(tmp_path / "cgroup.type", "domain")
    write(tmp_path / "cgroup.procs", "")
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)
    return tmp_path


def write(path, text):
    path.write_text(f"{text}\n")


def test_a_tree_of_ones_own_is_made_ready(fake):
    write(fake / "cgroup.procs", "4321")
    found = prepared(fake, True)
    assert (found.folder, found.controllers) == (fake, ("cpu", "memory", "pids"))
    assert (fake / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert (fake / LEAF / "cgroup.procs").read_text() == "4321"
    assert str(found) == "control groups share out: cpu, memory, pids"
    # A second run, from the shell that the first one has moved.
    assert prepared(fake / LEAF, False) == found


def test_a_group_that_nobody_delegated_is_left_alone(fake):
    with pytest.raises(OSError, match="not delegated"):
        prepared(fake, False)
    assert not (fake / LEAF).exists()


def test_without_controllers_groups_only_count(fake):
    write(fake / "cgroup.controllers", "hugetlb")
    found = prepared(fake, True)
    text = "control groups count CPU time: the controllers belong to cgroup v1"
    assert (found.folder, str(found)) == (fake, text)


def test_a_box_gets_its_limits_and_its_workers_cores(fake):
    group = Group(Tree("", fake, ("cpu", "memory", "pids")), LIMITS, cores=2)
    written = {path.name: path.read_text() for path in group.folder.iterdir()}
    assert written == {
        "cpu.weight": "100",
        "cpu.max": "200000 100000",
        "memory.max": str(1300 * 2**20),
        "memory.oom.group": "1",
        "pids.max": "300",
    }
    group.remove()
    assert not group.folder.exists()


def test_what_a_group_lacks_is_not_written(fake):
    group = Group(Tree("", fake, ("pids",)), LIMITS, cores=2)
    assert [path.name for path in group.folder.iterdir()] == ["pids.max"]


def test_what_a_group_has_counted_is_known_when_it_is_gone(fake):
    group = Group(Tree("", fake), LIMITS, cores=1)
    assert (group.cpu_s, group.ran_out_of_memory) == (0, False)
    write(group.folder / "cpu.stat", "usage_usec 2500000\nuser_usec 7")
    write(group.folder / "memory.events", "low 0\noom_kill 2")
    group.remove()
    assert (group.cpu_s, group.ran_out_of_memory) == (2.5, True)


def test_a_command_starts_in_its_group(fake):
    group = Group(Tree("", fake), LIMITS, cores=1)
    words = group.starting(["/bin/echo", "a b"])
    subprocess.run(words, check=True)
    assert (group.folder / "cgroup.procs").read_text() == "0\n"


MOUNTS = """\
31 24 0:27 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw
32 24 0:30 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids"""


@pytest.mark.parametrize(
    ("groups", "found"),
    [
        ("0::/", (Path("/sys/fs/cgroup/"), True)),
        ("1:pids:/x\n0::/run-7.scope", (Path("/sys/fs/cgroup/run-7.scope"), False)),
    ],
)
def test_the_own_group_is_found(tmp_path, groups, found):
    write(tmp_path / "cgroup", groups)
    write(tmp_path / "mountinfo", MOUNTS)
    assert own_group(tmp_path) == found


def test_without_cgroup_v2_there_is_none(tmp_path):
    write(tmp_path / "cgroup", "8:pids:/")
    write(tmp_path / "mountinfo", MOUNTS)
    with pytest.raises(OSError, match="no cgroup v2"):
        own_group(tmp_path)


@pytest.mark.parametrize("forked", [False, True], ids=["as usual", "forked"])
def test_all_that_a_box_computes_is_counted_and_its_group_removed(
    contained_here, forked, monkeypatch
):
    if cgroup.tree().folder is None:
        pytest.skip(f"no control groups here: {cgroup.tree()}")
    server = fork_server(start=True) if forked else None
    monkeypatch.setattr(sessions, "fork_server", lambda: server)
    with Session(Limits()) as session:
        folder = session.group.folder
        session.run(
            "import subprocess, sys, time\n"
            "busy = 'import time\\nwhile time.process_time() < 1: pass'\n"
            "subprocess.run([sys.executable, '-c', busy])"
        )
        assert folder.exists()
    assert session.group.cpu_s > 1
    assert not folder.exists()
