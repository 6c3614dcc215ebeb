"""The process that reads model files first whose trees or boosters may crash their library.

python -m tabsweep.models.persistence.checking_process

`trial_prediction.check_apart` asks it: the size of a file in a line, then the file. A child of its
own reads each file and answers with a line: "sound", or why the file is refused.
"""

from __future__ import annotations

import os
import signal
import sys
from resource import RLIMIT_CPU, setrlimit

from .allowlist import NotPlain
from .archive import ModelFileError, unpack
from .model_file import open_members
from .native_checks import check_native
from .trial_prediction import MOST, SOUND, WALL_S, predict_made_up

CPU_S = 120  # of a child; a file that keeps it busy for longer is refused
IDLE_S = 60  # without a file, this process ends
ENDS = {
    signal.SIGALRM: f"it was not read within {WALL_S} s; refused",
    signal.SIGXCPU: f"its trees kept their library busy for more than {CPU_S} s; refused",
}


def fault_of(data: bytes) -> str:
    """What is wrong with a model file, "" for nothing."""
    try:
        model = open_members(unpack(data), warn=lambda text: None)
        if model.how == "state":
            check_native(model.estimator, int(model.estimator.preprocessor_.n_out_))
        predict_made_up(model, MOST)
    except NotPlain as error:
        return f"it holds {error}; refused"
    except ModelFileError as error:
        return str(error)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        return f"its trees are not as their library writes them: {type(error).__name__}; refused"
    return ""


def answer_to(data: bytes) -> str:
    """The answer of a child that reads this file, or what ended the child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        setrlimit(RLIMIT_CPU, (CPU_S, CPU_S + 5))
        signal.alarm(WALL_S)
        os.write(writing, " ".join(fault_of(data)[:500].split()).encode() or SOUND.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        text = answer.read().decode()
    end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if end < 0:
        crash = f"its trees crashed the library that reads them (signal {-end}); refused"
        return ENDS.get(signal.Signals(-end), crash)
    return text if end == 0 else f"its reader ended with {end}; refused"


def main() -> None:
    """Answer for each file of the input."""
    answers = os.fdopen(os.dup(1), "w")
    for output in (1, 2):  # what libraries print is no answer
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    signal.alarm(IDLE_S)
    while size := sys.stdin.buffer.readline():
        signal.alarm(0)
        print(answer_to(sys.stdin.buffer.read(int(size))), file=answers, flush=True)
        signal.alarm(IDLE_S)


if __name__ == "__main__":
    main()
