"""Asks for a name in a cell: nobody answers a grader's notebook."""

from hostile.build import FULL, add_cell, solved

STATUS = "GRADED"
POINTS = FULL


def submission(lesson):
    notebook = add_cell(solved(lesson), 'name = input("Your name? ")')
    return add_cell(notebook, 'import getpass\ngetpass.getpass("Your password? ")')
