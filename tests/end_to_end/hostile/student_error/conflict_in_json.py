"""A notebook with git's conflict markers: two versions were merged by hand."""

from hostile.build import dumps, solved

POINTS = {}


def submission(lesson):
    mark = b'<<<<<<< HEAD\n "nbformat": 4,\n=======\n "nbformat": 4,\n>>>>>>> mine'
    return dumps(solved(lesson)).replace(b'"nbformat": 4,', mark)
