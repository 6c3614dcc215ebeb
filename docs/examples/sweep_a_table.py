# %% [markdown]
# # Models tuned against each other
#
# `tabsweep.sweep` is `bench sweep` from Python: the same engine, ledger and report.

# %%
import os
from pathlib import Path

import tabsweep
from sklearn.datasets import load_wine

TRIALS = int(os.environ.get("TABSWEEP_EXAMPLE_TRIALS", "5"))  # configurations of each model

# %%
wine = load_wine(as_frame=True).frame
result = tabsweep.sweep(
    wine,
    target="target",
    models=["knn", "linear", "random-forest"],
    trials=TRIALS,
    name="wine",
    workers=0,  # in this process; without it, on all CPUs
)
print(result.leaderboard().iloc[:, :6].to_string())

# %% [markdown]
# The winner by validation rows, fitted on all rows:

# %%
best = result.best_model
print(type(best).__name__, best.predict(wine.drop(columns="target").head(3)))

# %% [markdown]
# The tables and the page, as the command writes them. Called again, the sweep finds its trials and
# fits nothing.

# %%
page = Path(result.report())
print(page.name, page.exists())
