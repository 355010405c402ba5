"""Messages of the Anthropic protocol: requests, answers and streams ⇄ shapes."""
