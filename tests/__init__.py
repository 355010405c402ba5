"""Tests; the folders mirror ``omnigate/``."""

import signal

from hypothesis import HealthCheck, settings

# Time is the machine's: what a loaded one takes for an example says nothing of the code. What has
# to be quick is measured by the bench.
settings.register_profile("omnigate", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("omnigate")

# Shells start what runs in the background with SIGINT ignored, and children inherit that: programs
# that are to end at Ctrl-C would not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
