"""What models are told of the metric that a study ranks by."""

from __future__ import annotations

import pytest
from tabsweep.benchmark.planning import suite as suites
from tabsweep.benchmark.planning.options import Options
from tabsweep.benchmark.planning.settings import Settings
from tabsweep.sweeps.search.space import Fixed


@pytest.mark.parametrize(
    ("metric", "task", "stops"),
    [
        (None, "binary", "roc_auc"),
        (None, "multiclass", None),  # accuracy: the model's own
        (None, "regression", None),  # RMSE, likewise
        ("log_loss", "multiclass", "log_loss"),
        ("mae", "regression", "mae"),
        ("f1_macro", "binary", None),
    ],
)
def test_a_model_that_can_stop_by_the_metric_of_the_study_does(metric, task, stops):
    settings = Settings(suites.load("uci-small"), Options(budget="reference", metric=metric))
    told = settings.search("realmlp", task)[1].params.get("stop_on")
    assert (told.value if isinstance(told, Fixed) else told) == stops
    if metric is None:
        of_hopular = settings.search("hopular", task)[1].params.get("stop_on")
        assert (of_hopular is not None) == (task == "binary")
    others = {
        settings.search(m, task)[1].params["stop_on"].value for m in ("mlp", "resnet", "tabm")
    }
    assert others == {"loss"}  # as the suite fixes it
