"""Tests of Responses, as a client speaks it and an upstream."""
