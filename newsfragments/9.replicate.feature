Media jobs at Replicate: official models, pinned versions and one's own deployments.
