A route with `cache_ttl_s` keeps whole answers for the same request of the same key; `cache-control: no-cache` and `no-store` opt out.
