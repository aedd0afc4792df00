"""A class is graded by the workers of a Dask cluster, of which some die."""

import contextlib
import dataclasses
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading

import dask
import pytest
import tiny
import yaml
from classes import RIGHT, WRONG, answered, hand_in, make_class
from distributed.cli.dask_worker import main as dask_worker

from grader import ROOT
from grader.classroom.export import export
from grader.containment.limits import Limits
from grader.lessons.release import release
from grader.submissions.read_submission import SubmittedFile
from grader.workers import dask_executor
from grader.workers.cache_key import lesson_hashes
from grader.workers.dask_executor import ClusterError, DaskExecutor
from grader.workers.executor import grade_jobs
from grader.workers.jobs import Job, job_of
from grader.workers.local_executor import LocalExecutor

NAME = tiny.NAME
QUICK = {  # so that a worker that is gone is soon missed
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
}


class Cluster:
    """A scheduler and workers, each in a folder of its own."""

    def __init__(self, folder, stack):
        self.folder, self.stack, self.workers = folder, stack, []
        words = ["dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
        self.scheduler = self.start(folder, [*words, "--no-dashboard"])
        found = self.said(self.scheduler, r"Scheduler at:\s+(tcp://\S+)")
        self.address = found.group(1)

    def start(self, place, words):
        # `make` has told this Python where the course is; on another machine it is only
        # in the worker's own folder.
        run = (
            f"import sys; sys.path[:] = [p for p in sys.path if p != {str(ROOT)!r}]\n"
            f"from distributed.cli.{words[0]} import main; main()"
        )
        process = subprocess.Popen(
            [sys.executable, "-c", run, *words[1:]],
            cwd=place,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | QUICK,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.stack.callback(self.end, process)
        return process

    @staticmethod
    def said(process, pattern):
        for line in process.stderr:
            if found := re.search(pattern, line):
                return found
        pytest.fail(f"Nothing like {pattern} was said.")

    @staticmethod
    def end(process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stderr.close()

    def add(self, *, course=True, change=None, restarts=False):
        """Starts a worker, in a copy of the course where it needs one.

        With `restarts`, a process beside it starts another where it has died.
        """
        place = self.folder / f"machine-{len(self.workers)}"
        if course:
            skip = shutil.ignore_patterns(".*", "tests", "*.ipynb")
            shutil.copytree(ROOT, place, ignore=skip)
        else:
            place.mkdir()
        if change:
            with open(place / change, "a", encoding="utf-8") as file:
                file.write("# changed\n")
        words = ["dask_worker", self.address, "--nthreads", "1", "--no-dashboard"]
        words += ["--memory-limit", "0", *["--no-nanny"] * (not restarts)]
        worker = self.start(place, words)
        self.said(worker, r"Registered to:")
        self.workers.append(worker)


@pytest.fixture
def cluster(tmp_path):
    with contextlib.ExitStack() as stack:
        yield Cluster(tmp_path, stack)


@pytest.fixture(scope="module")
def steady(tmp_path_factory):
    """A cluster whose one worker nobody harms: several tests use it."""
    with contextlib.ExitStack() as stack:
        cluster = Cluster(tmp_path_factory.mktemp("steady"), stack)
        cluster.add()
        yield cluster


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A lesson whose checks take no JAX."""
    folder = tmp_path_factory.mktemp("small")
    return make_class(folder)


def jobs_of(lesson, *students):
    hashes, found = lesson_hashes(lesson, Limits()), []
    for student in students:
        notebook = release(lesson)
        notebook.metadata["learner"] = student
        submitted = SubmittedFile(notebook, data=student.encode())
        own = {**hashes, "submission": submitted.digest}
        found.append(Job(student, NAME, submitted, own))
    return found


def opened(lesson, cluster):
    lessons = {NAME: lesson, "other": lesson}
    executor = DaskExecutor(lessons, Limits(), cluster.address, trusted=True)
    return contextlib.closing(executor)


def graded_by(lesson, cluster, jobs):
    with opened(lesson, cluster) as executor:
        return {done.job.student: done for done in grade_jobs(executor, jobs)}


@pytest.fixture
def stand_in(monkeypatch):
    """Replaces grading on a worker; like it, the function is pickled by value."""
    on_worker = dask_executor.on_worker

    def answer(setup, job, precompile):
        lesson, job = pickle.loads(setup)[0], pickle.loads(job)
        learner = job.submitted.notebook.metadata.learner
        if learner == "poison":
            os._exit(1)
        if learner == "waits":
            threading.Event().wait()
        return lesson

    def stand_in(name):
        return answer if name == "grade_there" else on_worker(name)

    monkeypatch.setattr(dask_executor, "on_worker", stand_in)


def test_workers_without_a_shared_folder_give_the_same_results_though_one_dies(
    tmp_path, cluster, contained_here
):
    lesson, limits = make_class(tmp_path), Limits()
    hashes, jobs = lesson_hashes(lesson, limits), []
    for number in range(6):
        own = dict(WRONG if number % 2 else RIGHT)
        own["double"] += f"\n# {number}"
        path = hand_in(tmp_path, f"learner{number}", answered(lesson, **own))
        jobs.append(job_of(f"learner{number}", NAME, path.parent, hashes))
    cluster.add(restarts=True)
    cluster.add(restarts=True)
    there = {}
    with contextlib.closing(
        DaskExecutor({NAME: lesson}, limits, cluster.address)
    ) as executor:
        assert (
            executor.description
            == f"on the Dask cluster at {cluster.address} (contained)"
        )
        for done in grade_jobs(executor, jobs):
            if not there:
                cluster.end(cluster.workers[0])
            there[done.job.key] = done.record.result
    with contextlib.closing(LocalExecutor({NAME: lesson}, limits, workers=2)) as here:
        same = {done.job.key: done.record.result for done in grade_jobs(here, jobs)}
    assert there == same
    assert [there[job.key].points for job in jobs] == [3, 2] * 3


def test_the_command_starts_a_cluster_of_this_machine_and_its_grades_are_the_same(
    tmp_path, contained_here
):
    lesson, exports = make_class(tmp_path), []
    for student, answers in {"ada": RIGHT, "bob": WRONG, "cleo": {}}.items():
        hand_in(tmp_path, student, answered(lesson, **answers))
    for more in (["--scheduler", "local", "--workers", "2"], []):
        shutil.rmtree(tmp_path / "class" / "grading" / "results", ignore_errors=True)
        words = [sys.executable, "-m", "grader", "grade", tmp_path / "class", *more]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert (
            "on a Dask cluster of 2 workers here (contained)" in done.stdout
        ) == bool(more)
        export(tmp_path / "class", tmp_path / "grades.csv")
        exports.append((tmp_path / "grades.csv").read_bytes())
    assert exports[0] == exports[1]


def test_a_submission_that_kills_its_workers_takes_no_other_one_with_it(
    cluster, small, stand_in
):
    cluster.add(restarts=True)
    cluster.add(restarts=True)
    names = ["a", "b", "poison", "c", "d", "e", "f"]
    done = graded_by(small, cluster, jobs_of(small, *names))
    assert done.pop("poison").error.startswith("KilledWorker")
    assert all(one.record for one in done.values())


def test_where_no_worker_comes_each_submission_says_so(cluster, small, monkeypatch):
    monkeypatch.setattr(dask_executor, "PATIENCE_S", 1)
    done = graded_by(small, cluster, jobs_of(small, "a", "b", "c"))
    wanted = f"No worker for 1 s on the Dask cluster at {cluster.address}."
    assert [done[name].error for name in "abc"] == [wanted] * 3


def test_where_all_workers_die_what_is_done_is_kept_and_the_run_ends(
    cluster, small, stand_in, monkeypatch
):
    monkeypatch.setattr(dask_executor, "PATIENCE_S", 1)
    cluster.add()
    found = {}
    with opened(small, cluster) as executor:
        for done in grade_jobs(executor, jobs_of(small, "b", "waits", "a")):
            found[done.job.student] = done
            cluster.end(cluster.workers[0])
    assert len(found) == 3
    assert found["a"].record and "No worker" in found["waits"].error


def test_where_the_scheduler_dies_the_run_ends(cluster, small, stand_in, monkeypatch):
    monkeypatch.setattr(dask_executor, "CONNECT_S", 2)
    monkeypatch.setattr(dask_executor, "PATIENCE_S", 1)
    cluster.add()
    found = {}
    with opened(small, cluster) as executor:
        for done in grade_jobs(executor, jobs_of(small, "b", "waits", "a")):
            found[done.job.student] = done
            cluster.end(cluster.scheduler)
    assert len(found) == 3
    assert found["a"].record and found["waits"].error


def test_where_a_job_cannot_be_sent_the_other_results_are_kept(steady, small, stand_in):
    with opened(small, steady) as executor:
        calls = iter([executor.client.submit, None, executor.client.submit])
        executor.client.submit = lambda *args, **more: next(calls)(*args, **more)
        found = [*grade_jobs(executor, jobs_of(small, "b", "a"))]
    assert [done.job.student for done in found] == ["a", "b"]
    assert all(done.record for done in found)


def test_an_error_on_a_worker_is_reported_with_its_kind(steady, small):
    [job] = jobs_of(small, "a")
    job = dataclasses.replace(job, submitted=SubmittedFile("no notebook"))
    assert graded_by(small, steady, [job])["a"].error.startswith("AttributeError")


def test_a_worker_stays_with_a_lesson(steady, small, stand_in):
    mixed = [
        dataclasses.replace(job, lesson=[NAME, "other"][number % 2])
        for number, job in enumerate(jobs_of(small, *"abcdef"))
    ]
    with opened(small, steady) as executor:
        order = [done.record for done in grade_jobs(executor, mixed)]
    assert order in ([NAME] * 3 + ["other"] * 3, ["other"] * 3 + [NAME] * 3)


def test_a_worker_gets_neither_learners_nor_the_gradebook(steady, small, monkeypatch):
    monkeypatch.setattr(
        dask_executor,
        "on_worker",
        lambda name: lambda *sent: None if name == "check_setup" else sent,
    )
    [job] = jobs_of(small, "ada-lovelace")
    job.submitted.notebook.metadata.pop("learner")
    setup, sent, _ = graded_by(small, steady, [job])["ada-lovelace"].record
    name, *_ = pickle.loads(setup)
    assert name == NAME and pickle.loads(sent).hashes == job.hashes
    for secret in (b"ada-lovelace", b"sqlite", str(ROOT).encode()):
        assert secret not in setup + sent


def test_workers_of_another_version_or_without_the_course_are_refused(cluster, small):
    cluster.add(change="grader/judging/trial.py")
    with pytest.raises(
        ClusterError, match=r"(?s)another version of the course.*at the same commit"
    ):
        graded_by(small, cluster, [])
    cluster.end(cluster.workers[0])
    cluster.add(course=False)
    with pytest.raises(
        ClusterError, match=r"(?s)No module named 'grader'.*in the course's folder"
    ):
        graded_by(small, cluster, [])


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nowhere", "https://a b"])
def test_an_address_where_nobody_answers_is_named(small, address, monkeypatch):
    monkeypatch.setattr("grader.workers.dask_executor.CONNECT_S", 1)
    with pytest.raises(ClusterError, match=rf"answers at {address}.*dask scheduler"):
        DaskExecutor({NAME: small}, Limits(), address, trusted=True)


PAGE = (ROOT / "docs" / "grading-at-scale.md").read_text()


def block(language):
    return re.search(rf"```{language}\n(.*?)```", PAGE, re.S).group(1)


def understood(words):
    """Lets Dask read a worker's command line; returns the options."""
    return dask_worker.make_context("dask worker", words).params


def test_the_pages_command_starts_one_process_per_core():
    [line] = re.findall(r"dask_worker (tcp.*)", PAGE)
    options = understood(line.split())
    assert options["scheduler"] == "tcp://SCHEDULER:8786"
    assert (options["n_workers"], options["nthreads"]) == ("auto", 1)


def test_the_pages_slurm_jobs_start_workers_in_the_courses_folder():
    source, _, _ = block("python").partition("cluster.scale")
    names = {}
    # Another cluster on this machine may hold the dashboard's usual port.
    free = {"jobqueue.slurm.scheduler-options": {"dashboard_address": ":0"}}
    with dask.config.set(free):
        exec(source, names)
        with names["cluster"] as cluster:
            script = cluster.job_script()
    assert f"\ncd {os.getcwd()}\n" in script
    assert "#SBATCH --cpus-per-task=16" in script
    [line] = re.findall(
        r"/\.venv/bin/python -m distributed\.cli\.dask_worker (.*)", script
    )
    options = understood(line.split())
    assert (options["n_workers"], options["nthreads"]) == ("16", 1)


def test_the_pages_pods_start_workers_in_the_courses_folder():
    found = yaml.safe_load(block("yaml"))
    assert (found["apiVersion"], found["kind"]) == (
        "kubernetes.dask.org/v1",
        "DaskCluster",
    )
    [worker] = found["spec"]["worker"]["spec"]["containers"]
    assert worker["workingDir"] == "/opt/course"
    assert worker["args"][:3] == ["python", "-m", "distributed.cli.dask_worker"]
    assert understood(worker["args"][3:])["nthreads"] == 1
    [scheduler] = found["spec"]["scheduler"]["spec"]["containers"]
    ports = {port["name"] for port in scheduler["ports"]}
    service = found["spec"]["scheduler"]["service"]
    assert {port["targetPort"] for port in service["ports"]} == ports
