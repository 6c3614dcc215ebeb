# %% [markdown]
# # Models on a DataFrame
#
# Every model takes a DataFrame as it is: numbers, categories, gaps, dates. Run it with
# `python docs/examples/estimators_on_a_dataframe.py`, or open it as a notebook with jupytext.

# %%
import os

import numpy as np
import pandas as pd
import tabsweep
from sklearn.model_selection import train_test_split

ROWS = int(os.environ.get("TABSWEEP_EXAMPLE_ROWS", "600"))  # fewer for a quick look

# %% [markdown]
# A table of flats: a date, a category with gaps, numbers written as text.

# %%
chance = np.random.default_rng(0)
area = chance.uniform(30, 150, ROWS)
built = pd.Timestamp("1950-01-01") + pd.to_timedelta(chance.integers(0, 25_000, ROWS), unit="D")
heating = chance.choice(["gas", "oil", "heat pump"], ROWS)
rent = 8 * area + 0.1 * (built.year - 1950) * area + 60 * (heating == "heat pump")
flats = pd.DataFrame(
    {
        "area": [f"{a:,.1f}" for a in area * 10],  # "1,234.5": read as numbers
        "built": built,
        "heating": pd.Series(heating).mask(chance.random(ROWS) < 0.1),
    }
)
rent = rent + chance.normal(0, 20, ROWS)

# %% [markdown]
# Three models, the same five lines each. Networks hold rows out and stop early by themselves.

# %%
seen, new, rent_seen, rent_new = train_test_split(flats, rent, random_state=0)
scores = {}
for cls in (
    tabsweep.LinearRegressor,
    tabsweep.LightGBMRegressor,
    tabsweep.FTTransformerRegressor,
):
    model = cls(random_state=0).fit(seen, rent_seen)
    scores[cls.__name__] = model.score(new, rent_new)
print(pd.Series(scores, name="R2 on new rows").round(3).to_string())

# %% [markdown]
# What became of the columns:

# %%
for notice in model.columns_.notices_:
    print(notice)
