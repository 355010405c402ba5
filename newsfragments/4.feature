Chat completions, Responses and messages are served by upstreams of either protocol, translated each into each other: requests, answers, streams, errors and token counts.
