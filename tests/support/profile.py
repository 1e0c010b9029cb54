"""How long hypothesis searches: the profile says it, and a test that wants more or less says how many times as much.

HYPOTHESIS_PROFILE=quick    the default: always the same few examples, for everyday work
HYPOTHESIS_PROFILE=ci       always the same, four times as many
HYPOTHESIS_PROFILE=long     new ones each time, as many as an evening takes
"""

import os

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


def load() -> None:
    """Registers the profiles and loads the one that the environment names."""
    common = settings(deadline=None, suppress_health_check=_SLOW)
    fixed = settings(common, derandomize=True)
    settings.register_profile("quick", fixed, max_examples=15, stateful_step_count=15)
    settings.register_profile("ci", fixed, max_examples=60, stateful_step_count=25)
    settings.register_profile("long", common, max_examples=1500, stateful_step_count=50)
    name = os.environ.get("HYPOTHESIS_PROFILE", "quick")
    settings.load_profile(name)
    if name == "long":
        os.environ["PYTEST_TIMEOUT"] = "0"  # a machine that searches for half an hour does not hang


def searched(times: float, *, steps: float = 1) -> settings:
    """Settings with ``times`` as many examples as the profile has, and ``steps`` times as many steps in each."""
    profile = settings()
    return settings(
        max_examples=max(1, round(profile.max_examples * times)),
        stateful_step_count=max(1, round(profile.stateful_step_count * steps)),
    )
