"""Tests; the folders mirror ``omnigate/``."""

from hypothesis import HealthCheck, settings

# Time is the machine's: what a loaded one takes for an example says nothing of the code. What has
# to be quick is measured by the bench.
settings.register_profile("omnigate", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("omnigate")
