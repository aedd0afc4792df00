"""Workers stay with a lesson, whose judge is warm, and share what is left."""

import queue

import pytest

from grader.jobs import Job, Waiting


def waiting(text):
    """Makes jobs of lessons: "aab" are two of lesson a and one of b."""
    return Waiting([Job(str(n), lesson, None, {}) for n, lesson in enumerate(text)])


def taken(todo, lesson, count):
    """Lets one worker take jobs; returns their lessons."""
    found = ""
    for _ in range(count):
        lesson = todo.take(lesson).lesson
        found += lesson
    return found


def test_a_worker_changes_its_lesson_as_seldom_as_it_can():
    assert taken(waiting("abcabcabb"), "", 9) == "bbbbaaacc"


def test_of_as_much_work_the_later_lesson_comes_first():
    assert taken(waiting("abcabc"), "", 6) == "ccbbaa"


def test_workers_spread_over_the_lessons():
    todo = waiting("aaabbbccc")
    assert {todo.take("").lesson for _ in range(3)} == {*"abc"}


def test_who_is_done_helps_where_most_is_left():
    todo = waiting("aabbb")
    assert todo.take("").lesson == "b"
    assert taken(todo, "", 2) == "aa"  # another worker's lesson, to its end
    assert taken(todo, "a", 2) == "bb"
    with pytest.raises(queue.Empty):
        todo.take("b")


def test_each_job_is_taken_once():
    todo = waiting("abab")
    found = [todo.take("a").student for _ in range(2)]
    found += [todo.take("b").student for _ in range(2)]
    assert sorted(found) == ["0", "1", "2", "3"]


def test_what_nobody_took_is_counted_and_listed():
    todo = waiting("abab")
    todo.take("a")
    assert len(todo) == 3
    assert sorted(job.student for job in todo) == ["1", "2", "3"]
    assert taken(todo, "", 3) and not todo
