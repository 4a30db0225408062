"""The tables of routes, one for each part of a function (decision 1830)."""
