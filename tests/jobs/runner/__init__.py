"""Tests of how jobs are run."""
