"""The process that reads a model file with a booster first, because its library may crash.

python -m tabsweep.models.persistence.booster_process < FILE     prints "sound", or why not
"""

from __future__ import annotations

import sys

from .allowlist import NotPlain
from .archive import ModelFileError, unpack
from .booster_checks import check_booster
from .boosters import BOOSTERS
from .model_file import open_members
from .serialization import name_of
from .trial_prediction import MOST, SOUND, predict_made_up


def fault_of(data: bytes) -> str:
    """What is wrong with a model file, "" for nothing."""
    try:
        model = open_members(unpack(data), warn=lambda text: None)
        for value in vars(model.estimator).values():
            if name_of(value) in BOOSTERS:
                check_booster(value, int(model.estimator.preprocessor_.n_out_))
        predict_made_up(model, MOST)
    except NotPlain as error:
        return f"it holds {error}; refused"
    except ModelFileError as error:
        return str(error)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        return f"its booster is not as its library writes one: {type(error).__name__}; refused"
    return ""


if __name__ == "__main__":
    answer = fault_of(sys.stdin.buffer.read())
    print(" ".join(answer.split()) or SOUND)
    sys.exit(1 if answer else 0)
