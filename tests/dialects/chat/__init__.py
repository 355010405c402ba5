"""Chat Completions ⇄ shapes."""
