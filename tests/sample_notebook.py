"""A notebook of two lines, as the tests of the runner use it."""

SOURCE = """\
# %% [markdown]
# # A tiny notebook

# %% tags=["parameters"]
count = 1
word = "a"
scale = -0.5

# %%
import os

print(count * 2, word, os.path.basename(os.getcwd()))

# %%
assert count < 5
"""
