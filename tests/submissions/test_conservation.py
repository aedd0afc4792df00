"""Whatever a class hands in, each file is accounted for and none changes its learner.

ARCHIVES is the number of archives to try: `ARCHIVES=10000` takes minutes.
"""

import json
import os
import random
import time

import nbformat
import pytest
import tiny
from submitted import zipped

from grader import CourseError
from grader.lessons.release import dumps, release
from grader.submissions.collecting import Collection, Fate, collect
from grader.submissions.lms_names import safe_id

ARCHIVES = int(os.environ.get("ARCHIVES", "200"))
LESSONS = ["01_tiny", "02_more"]
EXERCISES = dict(zip(LESSONS, ["double", "triple"], strict=True))
LEARNERS = [
    *("ada", "bob", "Cyd Byron", "o'brien", "김철수", "Zoë Ångström", "s1234567"),
    *("20260001", "20260002", "101_20260003", "li", "ada.l@example.org", "kim-12"),
]
STRAYS = ["Untitled.ipynb", "Untitled1.ipynb", "Copy of {}.ipynb", "{} (2).ipynb"]
STRAYS += ["final_v2.ipynb", "my homework.ipynb", "{}.ipynb", "solution.zip"]
OWN_NAMES = ["{}", "Untitled", "2nd try", "3. final", "{} (1)", "Copy of {}", "1"]
# Words and dates that people add, and no learner.
CORRECTED = ["{}_corrected", "{}_v1x", "20260328_{}", "2026-03-28_{}", "{}-Copy1"]
CORRECTED += ["{}__20261104104101", "20260328090000_{}", "{}.ipynb의 사본"]
FORMS = [["{0}_{1}{2}", "{0} - {1}{2}", "{0} {1}{2}"], ["{1}_{0}", "20260328_{1}_{0}"]]
OTHERS = ["notes.txt", "data.csv", "scan.pdf", "submission.html"]
WRAPPERS = ["", "Lesson 1/", "Submissions/", "Week 2/Lesson 1/", "과제/"]
SECTIONS = ["", "", "Section A/", "Section B/", "late/", "Group 3/"]
MINE = ["", "my work/", "final/", "old/draft 2/"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """The solved lessons of a class, by name."""
    folder = tmp_path_factory.mktemp("class")
    changed = [
        one.replace("double", "triple").replace("negate", "halve")
        for one in (tiny.SOURCE, tiny.CHECKS)
    ]
    path = tiny.write_course(folder / "two", changed[0], checks=changed[1])
    solved = tiny.lesson(folder / "one"), tiny.read_lesson(path, tiny.REPOSITORY)
    for name, notebook in zip(LESSONS, solved, strict=True):
        (folder / "source" / name).mkdir(parents=True)
        nbformat.write(notebook, folder / "source" / name / f"{name}.ipynb")
    return folder / "source"


@pytest.fixture(scope="module")
def ours(source):
    solved = {n: nbformat.read(source / n / f"{n}.ipynb", 4) for n in LESSONS}
    files = {f"solutions/{n}.ipynb": dumps(one) for n, one in solved.items()}
    files |= {f"lessons/{n}.ipynb": dumps(release(one)) for n, one in solved.items()}
    return {path: text.encode() for path, text in files.items()}


class Class:
    """A generated download.

    Attributes:
        files: path to (bytes, when).
        newest: the bytes that have to count, by learner and lesson.
        strays: paths that have to be left for a person.
        count: the number of files, with those in learners' archives.
    """

    def __init__(self, seed, ours):
        self.chance, self.ours = random.Random(seed), ours
        self.files, self.newest, self.strays = {}, {}, []
        self.count = self.clock = 0
        way = self.chance.choice([*LMS, "folders", "names", "mixed", "mixed", "alone"])
        self.way, self.wrapper = way, self.chance.choice(WRAPPERS)
        self.forms = self.chance.choice(FORMS)
        if way == "folders":
            self.own_names = OWN_NAMES + self.chance.sample(CORRECTED, 1)
        else:
            self.own_names = OWN_NAMES
        self.learners = self.chance.sample(LEARNERS, self.chance.randint(2, 6))
        for number, learner in enumerate(self.learners):
            section = self.chance.choice(SECTIONS if way not in LMS else [""])
            for lesson in self.chance.sample(LESSONS, self.chance.randint(1, 2)):
                if way == "alone" and (learner, LESSONS[0]) in self.newest:
                    continue  # one name is one file
                lesson = LESSONS[0] if way == "alone" else lesson
                for _ in range(1 if way == "alone" else self.chance.randint(1, 3)):
                    self.submit(learner, 100 + number, lesson, section)
        if way not in LMS:
            for name in self.chance.sample(STRAYS, self.chance.randint(0, 2)):
                self.stray(self.wrapper + self.chance.choice(SECTIONS), name)

    def put(self, path, data):
        """Adds a file, newer than all before; tells whether the name was free."""
        if path in self.files or path in self.strays:
            return False
        self.clock += 1
        when = 2024, 1 + self.clock // 28, 1 + self.clock % 28, 9, 0, 0
        self.files[path] = data, when
        return True

    def stray(self, folder, name):
        path = folder + name.format(self.chance.choice(LESSONS))
        data = notebook("nobody", LESSONS[0])
        if self.put(path, zipped({"x.ipynb": data}) if ".zip" in name else data):
            self.strays.append(path)
            self.count += 1

    def submit(self, learner, number, lesson, section):
        data = notebook(f"{learner} {self.clock}", lesson)
        kind = self.chance.choice(["file", "file", "zip", "clone", "other"])
        if kind == "other" and self.way in LMS:
            kind = "file"  # an LMS's would be taken for want of a notebook
        size, end, packed = 1, ".ipynb", data
        if kind in ("zip", "clone"):
            inside = {f"{self.chance.choice(MINE)}{self.own_name(lesson)}.ipynb": data}
            if kind == "clone":
                inside = self.ours | {f"lessons/{lesson}.ipynb": data, "README.md": b""}
            names = self.chance.sample(sorted(inside), len(inside))
            packed = zipped({name: inside[name] for name in names})
            size, end = len(inside), ".zip"
        path = self.path_of(learner, number, lesson, section, end)
        if kind == "other":
            name = self.chance.choice(OTHERS)
            packed, path = b"x", f"{path.rpartition('/')[0]}/{name}".lstrip("/")
        if self.put(path, packed):
            self.count += size
            if kind != "other":
                self.newest[learner, lesson] = data

    def own_name(self, lesson):
        return self.chance.choice(self.own_names).format(lesson)

    def path_of(self, learner, number, lesson, section, end):
        own = self.own_name(lesson) + end
        if self.way == "Canvas":  # which tells names apart
            own = f"{self.own_name(lesson)}-{self.clock}{end}"
        if self.way in LMS:
            return self.wrapper + LMS[self.way].format(
                name=learner.replace("_", ""),
                number=number,
                minute=self.clock,
                version=1000 + self.clock,
                compact=compact(learner),
                file=own,
            )
        way = self.way
        if way == "mixed":
            way = self.chance.choice(["folders", "names"])
        if way == "alone":
            return f"{self.wrapper}{section}{learner}{end}"
        if way == "folders":
            return f"{self.wrapper}{section}{learner}/{self.chance.choice(MINE)}{own}"
        again = self.chance.choice(["", " (1)", " (2)", "-1"])
        name = self.chance.choice(self.forms + ["{0}"] * (end == ".zip"))
        return self.wrapper + section + name.format(learner, lesson, again) + end

    def id_of(self, learner):
        number = 100 + self.learners.index(learner)
        if self.way in ("Blackboard", "Sakai"):
            return safe_id(compact(learner))
        return str(number) if self.way in LMS else safe_id(learner)

    def write(self, folder):
        if self.chance.random() < 0.5:
            path = folder / "submissions.zip"
            names = self.chance.sample(sorted(self.files), len(self.files))
            path.write_bytes(zipped({name: self.files[name] for name in names}))
            return path
        for name, (data, when) in self.files.items():
            path = folder / "given" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            seconds = time.mktime((*when, 0, 0, -1))
            os.utime(path, (seconds, seconds))
        return folder / "given"


LMS = {
    "Moodle": "{name}_{number}_assignsubmission_file_/{file}",
    "flat Moodle": "{name}_{number}_assignsubmission_file_{file}",
    "Canvas": "{compact}x_{number}_{version}_{file}",
    "Sakai": "{name}, X({compact})/Submission attachment(s)/{file}",
    "Blackboard": "Lesson 1_{compact}_attempt_2026-03-28-09-{minute:02}-00_{file}",
    "Brightspace": "{number}-80551 - {name} - Mar 28, 2026 9{minute:02} AM/{file}",
}


def compact(learner):
    return "".join(c for c in learner if c.isalnum())


def notebook(text, lesson):
    name = EXERCISES[lesson]
    source = f"# exercise: {name}\ndef {name}(x):\n    return {text!r}"
    return json.dumps({"cells": [{"cell_type": "code", "source": source}]}).encode()


@pytest.mark.parametrize("first", range(0, ARCHIVES, 50))
def test_every_file_is_accounted_for_and_stays_its_learners(
    tmp_path, source, ours, first
):
    for seed in range(first, min(first + 50, ARCHIVES)):
        generated, folder = Class(seed, ours), tmp_path / str(seed)
        (folder / "class").mkdir(parents=True)
        (folder / "class" / "source").symlink_to(source)
        found = collect([generated.write(folder)], folder / "class", LESSONS)
        about = f"seed {seed}, {generated.way}: {sorted(generated.files)}"
        assert len(found.account) == generated.count, about
        root = folder / "class" / "submitted"
        placed = {path.relative_to(root): path for path in root.glob("*/*/*.ipynb")}
        assert {
            (path.parts[0], path.parts[1]): file.read_bytes()
            for path, file in placed.items()
        } == {
            (generated.id_of(learner), lesson): data
            for (learner, lesson), data in generated.newest.items()
        }, about
        left = [name for name, fate in found.account if fate is Fate.FOR_A_PERSON]
        assert len(left) == len(generated.strays), (about, found.problems)
        for path in generated.strays:
            assert any(path in name for name in left), (about, path)


@pytest.mark.parametrize("first", range(0, ARCHIVES, 100))
def test_no_learners_are_fewer_than_folders(tmp_path, source, first):
    """Whatever their files are called, each folder has a learner or needs a person."""
    words = ["ada", "bob", "li", "essay", "v1x", "20260328", "2026-03-28", "한글"]
    names = [form.format(LESSONS[0]) for form in OWN_NAMES + CORRECTED]
    for form in ("{}_{}", "{1}_{0}", "{1} - {0}", "{}"):
        names += [form.format(word, LESSONS[0]) for word in words]
    for seed in range(first, min(first + 100, ARCHIVES)):
        chance, files = random.Random(seed), {}
        two = chance.sample(names, 2)
        for folder in chance.sample(LEARNERS + words, chance.randint(1, 5)):
            for _ in range(chance.randint(1, 2)):
                name = f"{folder}/{chance.choice(MINE)}{chance.choice(two)}.ipynb"
                when = 2024, 1, 1 + len(files), 9, 0, 0
                files[name] = notebook(name, LESSONS[0]), when
        course = tmp_path / str(seed)
        course.mkdir()
        (course / "source").symlink_to(source)
        given = tmp_path / "submissions.zip"
        given.write_bytes(zipped(files))
        found = collect([given], course, LESSONS)
        folders = {path.partition("/")[0] for path in files}
        kept = (Fate.COUNTS, Fate.FOR_A_PERSON)
        assert folders == {
            path.split("/")[1] for path, fate in found.account if fate in kept
        }, (seed, found.problems)
        num_learners = len({student for student, _ in found.placed})
        asked = any(fate is Fate.FOR_A_PERSON for _, fate in found.account)
        assert num_learners >= len(folders) or asked, (seed, found.problems)


def test_a_file_that_is_not_accounted_for_stops_all(tmp_path, source, monkeypatch):
    """Were one forgotten, nothing would be graded."""
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "source").symlink_to(source)
    given = tmp_path / "submissions.zip"
    given.write_bytes(zipped({"ada_01_tiny.ipynb": notebook("ada", LESSONS[0])}))
    monkeypatch.setattr(Collection, "choose", lambda *arguments: None)
    with pytest.raises(CourseError, match=r'1 files .*"submissions.zip/ada_01_tiny'):
        collect([given], tmp_path / "class", LESSONS)


def test_a_class_of_two_thousand(tmp_path, source):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "source").symlink_to(source)
    given = tmp_path / "submissions.zip"
    data = {number: notebook(str(number), LESSONS[0]) for number in range(2000)}
    given.write_bytes(zipped({f"s{n}/Untitled.ipynb": one for n, one in data.items()}))
    found = collect([given], tmp_path / "class", LESSONS)
    assert found.summary == "2000 files: 2000 count."
    assert {student for student, _ in found.placed} == {f"s{n}" for n in data}
