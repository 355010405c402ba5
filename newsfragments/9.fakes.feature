``python -m omnigate.testing.media.provider`` plays eight media providers, their file host and a receiver of webhooks on loopback, with some forty ways to go wrong, to try jobs with.
