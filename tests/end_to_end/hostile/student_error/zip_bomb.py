"""An archive of less than a megabyte that unpacks to more than two gigabytes."""

from hostile.build import named, zipped

POINTS = {}


def submission(lesson):
    zeros = zipped({"01_tiny.ipynb": bytes(140 * 2**20)})
    bomb = {f"{number}.zip": zeros for number in range(16)}
    return lambda folder: [
        named("01_tiny.zip", zeros)(folder),
        named("homework.zip", zipped(bomb))(folder),
    ]
