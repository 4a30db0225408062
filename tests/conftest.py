"""How hypothesis works in all tests.

`--hypothesis-profile=wander` looks for other examples than the last run did.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("wander", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "steady",  # a run says the same of the same commit, on a busy host as well
    settings.get_profile("wander"),
    derandomize=True,
)
settings.load_profile("steady")
