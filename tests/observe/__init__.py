"""The dashboard and the alerts of ``etc/``: what they are made of, and their tests."""
