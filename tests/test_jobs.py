"""Workers stay with a lesson, whose judge is warm, and share what is left."""

from types import SimpleNamespace

from grader.jobs import Done, Job, Waiting


def waiting(text):
    """Makes jobs of lessons: "aab" are two of lesson a and one of b."""
    return Waiting([Job(str(n), lesson, None, {}) for n, lesson in enumerate(text)])


def did(job, seconds=1.0):
    """Makes what tells that a job was done in so many seconds."""
    return Done(job, SimpleNamespace(seconds=seconds))


def taken(todo, lesson, count):
    """Lets one worker do jobs, one after another; returns their lessons."""
    found = ""
    for _ in range(count):
        _, job = todo.take([lesson])
        todo.end(did(job))
        lesson = job.lesson
        found += lesson
    return found


def test_a_worker_changes_its_lesson_as_seldom_as_it_can():
    assert taken(waiting("abcabcabb"), "", 9) == "bbbbaaacc"


def test_of_as_much_work_the_later_lesson_comes_first():
    assert taken(waiting("abcabc"), "", 6) == "ccbbaa"


def test_workers_spread_over_the_lessons():
    todo = waiting("aaabbbccc")
    assert {todo.take([""])[1].lesson for _ in range(3)} == {*"abc"}


def test_lessons_that_take_longer_come_first():
    todo = waiting("aaabbb")
    for lesson, seconds in (("b", 1), ("a", 9)):
        _, job = todo.take([lesson])
        todo.end(did(job, seconds))
    assert todo.take([""])[1].lesson == "a"
    assert todo.take([""])[1].lesson == "a"  # 9 s for one more, 2 s for both of b
    assert todo.take([""])[1].lesson == "b"


def test_of_free_workers_the_one_with_the_lessons_judge_takes_a_job():
    todo = waiting("aabbb")
    number, job = todo.take(["", "c", "b", "a"])
    assert (number, job.lesson) == (2, "b")


def test_a_judge_of_use_is_not_given_up_for_another_lesson():
    todo = waiting("aabbb")
    assert todo.take(["a", "c"])[0] == 1  # c's judge has nothing left to do
    assert todo.take(["a"])[1].lesson == "a"


def test_an_error_says_nothing_about_how_long_a_lesson_takes():
    todo = waiting("ab")
    _, job = todo.take(["b"])
    todo.end(Done(job, error="no memory"))
    assert todo.took == {} and todo.running == set()


def test_each_job_is_taken_once():
    todo = waiting("abab")
    found = [todo.take([lesson])[1].student for lesson in "aabb"]
    assert sorted(found) == ["0", "1", "2", "3"]


def test_what_nobody_took_is_counted_and_listed():
    todo = waiting("abab")
    todo.take(["a"])
    assert len(todo) == 3
    assert sorted(job.student for job in todo) == ["1", "2", "3"]
    assert taken(todo, "", 3) and not todo
