"""The process that reads a model file first whose trees or boosters may crash their library.

python -m tabsweep.models.persistence.checking_process < FILE     prints "sound", or why not
"""

from __future__ import annotations

import sys
from resource import RLIMIT_CPU, setrlimit

from .allowlist import NotPlain
from .archive import ModelFileError, unpack
from .model_file import open_members
from .native_checks import check_native
from .trial_prediction import CPU_S, MOST, SOUND, predict_made_up


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


if __name__ == "__main__":
    setrlimit(RLIMIT_CPU, (CPU_S, CPU_S + 5))
    answer = fault_of(sys.stdin.buffer.read())
    print(" ".join(answer.split()) or SOUND)
    sys.exit(1 if answer else 0)
