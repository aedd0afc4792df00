"""Leaves a note for learners who come later, and looks for one of those before."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}

# It looks once, when the cell runs; the grader must give each process empty folders.
LEAKED = """
FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run", os.path.expanduser("~"), os.getcwd())
FOUND = False
for folder in FOLDERS:
    note = os.path.join(folder, "course-corpus-note.txt")
    FOUND = FOUND or os.path.exists(note)
for folder in FOLDERS:
    try:
        open(os.path.join(folder, "course-corpus-note.txt"), "w").close()
    except OSError:
        pass


def leaked():
    return FOUND
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
