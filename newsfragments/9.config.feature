The config file has tables for media jobs: ``[media]`` with its routes, bucket and webhooks, and ``[outbound]`` for private networks that webhooks and downloads may reach.
