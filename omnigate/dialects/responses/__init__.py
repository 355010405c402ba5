"""Responses of the OpenAI protocol: requests, answers and streams ⇄ shapes."""
