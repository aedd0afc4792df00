"""What goes through the two pipes between the grader and a learner's process.

Requests: a header, then a cell's source. Frames: a header, then a text in UTF-8. Sizes
are in bytes, so the reader decides how much to read, and there is nothing to parse.
"""

import struct

REQUEST = struct.Struct(">I?I")  # number of the cell, whether it is silent, size
FRAME = struct.Struct(">cII")  # kind, number of the cell, size
ERROR, REPLY, DONE = b"e", b"r", b"d"
# Of a display message that holds the answer to a question.
REPLY_TYPE = "application/x-course-answer+json"
