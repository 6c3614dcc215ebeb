"""The process that reads a model file first, as its trees or boosters may crash their library.

python -m tabsweep.models.persistence.checking_process

`trial_prediction.check_apart` starts it, with the file as its input. It answers with a line:
"sound", or why the file is refused.
"""

from __future__ import annotations

import os
import sys
from resource import RLIMIT_CPU, setrlimit

from ...common.text import one_line
from .archive import ModelFileError, unpack
from .model_file import open_members
from .trial_prediction import CPU_S, SOUND, predict_made_up


def fault_of(data: bytes) -> str:
    """What is wrong with a model file, "" for nothing."""
    try:
        predict_made_up(open_members(unpack(data), warn=lambda text: None))
    except ModelFileError as error:
        return one_line(error, 500)
    return ""


def main() -> None:
    """Answer for the file that is the input."""
    setrlimit(RLIMIT_CPU, (CPU_S, CPU_S + 5))
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what libraries print is no answer
    answer.write(fault_of(sys.stdin.buffer.read()) or SOUND)
    answer.close()
    os._exit(0)  # a library that crashes as the interpreter ends says nothing about the file


if __name__ == "__main__":
    main()
