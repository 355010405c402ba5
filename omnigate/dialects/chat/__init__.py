"""Chat Completions of the OpenAI protocol: requests, answers and streams ⇄ shapes."""
