"""Imported by a function before all else, for what it does to its process.

Python's collector goes over all objects whenever 700 new ones have come, and the modules of a
function are hundreds of thousands that stay. With a threshold that loading them does not reach,
a cold start costs a sixth less CPU (`scripts/bench imports`, with and without).
"""

import gc

OBJECTS = 100_000
"""New objects before the collector looks at them; a request makes some thousands."""

gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])
