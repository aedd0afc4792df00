"""Writes where later learners would run it: packages, modules, start-up folders."""

from hostile.build import FULL, leak, solved

POINTS = FULL | {"double": 0}

# What it writes changes nothing, should it ever get out.
LEAKED = """
import site


def leaked():
    folders = [*site.getsitepackages(), os.path.dirname(np.__file__), "/etc", "/usr"]
    folders += [os.path.dirname(sys.modules["coursekit.observe"].__file__), "/work"]
    folders += ["/var", "/root", "/opt", "/srv", "/etc/profile.d", "/etc/cron.d"]
    for folder in folders:
        try:
            path = os.path.join(folder, "course-corpus-escaped.txt")
            with open(path, "w") as file:
                file.write("a test of the course's grader wrote this")
            return True
        except OSError:
            continue
    return False
"""


def submission(lesson):
    return solved(lesson, double=leak(LEAKED))
