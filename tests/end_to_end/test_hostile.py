"""Each submission of the corpus ends as it should, with the points that it deserves.

By default half of the cases that start a kernel run, and three hogs beside honest work;
`CORPUS=all` runs every one.
"""

import contextlib
import dataclasses
import os
import random
import shutil
import tempfile
import time
from pathlib import Path

import psutil
import pytest
from hostile.build import FULL, MARKER, SECRET, cases, write
from hostile.corpus_lesson import NAME, NEEDLE, write_course

from grader.authoring.lesson import read_lesson
from grader.classroom.export import write_csv
from grader.classroom.folder import Submission
from grader.containment import cgroup
from grader.containment.deadline import LONGEST
from grader.containment.limits import Limits
from grader.results import Status, to_json
from grader.workers.cache_key import lesson_hashes
from grader.workers.executor import grade_jobs
from grader.workers.jobs import job_of
from grader.workers.local_executor import LocalExecutor

SOLUTIONS = Path(__file__).resolve().parents[2] / "solutions"
ALL = {case.name: case for case in cases()}
KERNELS = ("graded/", "harmless/")  # the folders whose cases take most of the time
CASES = {
    name: case
    for number, (name, case) in enumerate(ALL.items())
    if os.environ.get("CORPUS") == "all"
    or not name.startswith(KERNELS)
    or (number % 2 and not case.slow)
    or name in ("graded/endless_loop_ignores_interrupt", "graded/fork_bomb")
}
QUIET = ("harmless/", "graded_with_note/")
OTHERS = [name for name in CASES if name.startswith(QUIET)][-24:]
LIMITS = Limits(wall_s=6, memory_mib=1500, output_mib=10)
OF_LESSONS = Limits(wall_s=60)  # of the course's own lessons
# One for each thing that can be spent.
HOGS = {
    "memory in steps": "graded/memory_in_steps",
    "empty frames": "graded/empty_frames",
    "deep source": "graded/deep_source",
    "processor": "graded/busy_processes",
    "threads": "graded/thousand_threads",
    "disk": "graded/disk",
    "inodes": "graded/inodes",
    "frames": "graded/endless_frames",
    "long source": "graded_with_note/long_source",
    "compiler": "graded/compile_bomb",
    "program without an end": "graded/endless_program",
    "abort": "graded/program_that_aborts",
}
DEFAULT_HOGS = 3
HONEST = ["harmless/decorators", "harmless/callable_object"]
HOGS_LIMITS = dataclasses.replace(LIMITS, total_s=120)


@pytest.fixture(scope="module")
def grade(contained_here, tmp_path_factory):
    """Grades cases as a class is graded; returns what became of each."""
    folder = tmp_path_factory.mktemp("class")
    sources = {NAME: write_course(folder / "course")}
    sources |= {path.stem: path for path in SOLUTIONS.glob("[0-9][0-9]_*.py")}
    lessons = {}

    def run(names, workers, limits=LIMITS):
        jobs = []
        for name in names:
            of = ALL[name].lesson
            if of not in lessons:
                lessons[of] = read_lesson(sources[of], "https://example.org/a/b")
            place = folder / "submitted" / name.replace("/", "-") / of
            if not place.exists():
                write(ALL[name], lessons[of], place)
            hashes = lesson_hashes(lessons[of], limits)
            jobs.append(job_of(name, of, place, hashes))
        executor = LocalExecutor(lessons, limits, workers=workers)
        with contextlib.closing(executor):
            return {done.job.student: done for done in grade_jobs(executor, jobs)}

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET, NEEDLE)
        yield run
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def outcomes(grade, request):
    """All cases that were chosen, shuffled, four side by side; of a lesson, one."""
    own = [item for item in request.session.items if item.path == request.path]
    params = [item.callspec.params for item in own if hasattr(item, "callspec")]
    chosen = {found["name"] for found in params if "name" in found}
    names = sorted(chosen | (set(OTHERS) if len(own) > len(params) else set()))
    random.Random(3).shuffle(names)
    tiny = [name for name in names if ALL[name].lesson == NAME]
    others = sorted({*names} - {*tiny}, key=lambda name: ALL[name].lesson)
    return grade(tiny, workers=4) | grade(others, workers=1, limits=OF_LESSONS)


@pytest.mark.parametrize("name", CASES)
def test_submission_ends_as_it_should(name, outcomes):
    case, done = CASES[name], outcomes[name]
    assert not done.error
    result = done.record.result
    found = {one.exercise: one.points for one in result.exercises}
    messages = [one.message for one in result.exercises]
    told = f"{result.status} {found} {result.notes} {result.reasons} {messages}"
    assert result.status in case.statuses, told
    assert NEEDLE not in to_json(result)
    deserved = dict.fromkeys(found, 0) | case.points
    if result.status is Status.NEEDS_REVIEW:
        assert result.score is None and result.reasons
        assert all(found[name] <= most for name, most in deserved.items()), told
        assert all(text in " ".join(result.reasons) for text in case.reasons), told
    else:
        assert found == deserved | case.believed, told
        assert bool(result.notes) == (result.status is Status.GRADED_WITH_NOTE)


def exported(path, outcomes):
    """Returns the bytes of an export of these results."""
    grades = {
        Submission(NAME, name.replace("/", "-"), path): done.record.result
        for name, done in outcomes.items()
    }
    write_csv(path, grades, {})
    return path.read_bytes()


def test_others_get_exactly_what_they_get_alone(grade, outcomes, tmp_path):
    alone = grade(OTHERS, workers=1)
    assert len(CASES) >= 80 and len(alone) == 24 and len(outcomes) - len(alone) >= 15
    for name, done in alone.items():
        assert to_json(outcomes[name].record.result) == to_json(done.record.result)
    among = {name: outcomes[name] for name in alone}
    exports = exported(tmp_path / "a.csv", alone), exported(tmp_path / "b.csv", among)
    assert exports[0] == exports[1]
    assert not Path(MARKER).exists()  # nothing ran outside of its box


def left_behind():
    """Lists what grading leaves on this machine: processes, mounts, groups, folders."""
    gone = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    own = psutil.Process().children(recursive=True)
    found = {f"process {one.pid}" for one in own if status(one) not in gone}
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    found |= {line for line in mounts if "/pytest-of-" not in line}  # another test's
    if groups := cgroup.tree().folder:
        found |= set(map(str, groups.glob(f"box-{os.getpid()}-*")))
    return found | set(map(str, Path(tempfile.gettempdir()).glob(f"*-{os.getpid()}-*")))


def status(process):
    with contextlib.suppress(psutil.Error):
        return process.status()
    return psutil.STATUS_DEAD


@pytest.fixture(scope="module")
def alone(grade):
    """What the honest get alone, how long it takes, and what there is after it."""
    grade(HONEST, workers=2)  # starts the fork server
    begun = time.monotonic()
    done = grade(HONEST, workers=2)
    return done, time.monotonic() - begun, left_behind()


CHOSEN_HOGS = [*HOGS][
    : len(HOGS) if os.environ.get("CORPUS") == "all" else DEFAULT_HOGS
]


@pytest.mark.parametrize("spends", CHOSEN_HOGS)
def test_a_hog_costs_honest_work_beside_it_nothing(spends, grade, alone):
    done, seconds, there = alone
    begun = time.monotonic()
    found = grade([HOGS[spends], *HONEST], workers=2, limits=HOGS_LIMITS)
    took = time.monotonic() - begun
    for name in HONEST:
        assert done[name].record.result.score == sum(FULL.values())
        assert to_json(found[name].record.result) == to_json(done[name].record.result)
    case, hog = ALL[HOGS[spends]], found[HOGS[spends]]
    assert not hog.error and hog.record.result.status in case.statuses
    # The last cell that begins within the hog's time may take as long as any.
    own_limit = HOGS_LIMITS.total_s + LONGEST * HOGS_LIMITS.wall_s
    assert took <= 2 * seconds + own_limit
    assert left_behind() <= there
