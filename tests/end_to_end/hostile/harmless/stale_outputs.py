"""A notebook with all its outputs: old errors, results, and counts out of order."""

from hostile.build import FULL, output, solved

STATUS = "GRADED"
POINTS = FULL


def submission(lesson):
    notebook = solved(lesson)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code):
        cell.execution_count = 99 - number
        cell.outputs = [
            output(name="stdout", text="Wrong: double is not right.\n"),
            output("error", ename="Wrong", evalue="no", traceback=["no"]),
            output("display_data", data={"text/plain": "<Figure>"}),
        ]
    return notebook
