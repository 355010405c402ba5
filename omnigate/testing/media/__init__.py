"""Media providers that are none: eight APIs, a file host and a receiver of webhooks on loopback.

They are written from the providers' pages and not from the adapters, and are strict: what a real
provider would refuse is refused in its words.
"""
