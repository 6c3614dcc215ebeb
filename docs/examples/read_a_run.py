# %% [markdown]
# # What the trials of a run say
#
# One row a trial, for pandas: how much does tuning gain, and what does a fit cost?

# %%
import os

import tabsweep
from sklearn.datasets import load_breast_cancer

TRIALS = int(os.environ.get("TABSWEEP_EXAMPLE_TRIALS", "8"))

# %%
X, y = load_breast_cancer(return_X_y=True, as_frame=True)
result = tabsweep.sweep(
    X.assign(benign=y),
    target="benign",
    models=["knn", "lightgbm"],
    trials=TRIALS,
    name="wdbc",
    workers=0,  # in this process; without it, on all CPUs
)
trials = tabsweep.load_results(result.run)
print(*trials.columns[:12], "...", sep=", ")

# %% [markdown]
# The best validation score after one trial and after all of them:

# %%
by_study = trials.sort_values("index").groupby(["dataset", "fold", "model"])
gain = by_study["val_roc_auc"].agg(first="first", best="max")
print(gain.assign(gain=gain["best"] - gain["first"]).round(4).to_string())

# %% [markdown]
# Seconds of a fit:

# %%
print(trials.groupby("model")["fit_s"].median().round(3).to_string())
