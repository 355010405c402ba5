"""Webhooks: the end of a job is told to the URL that its client named, until that has taken it.

Deliveries follow Standard Webhooks 1.0.0 (https://www.standardwebhooks.com): a POST of JSON, signed
with a secret of the key, and repeated on a schedule that reaches over a day. How far each has come
stands in its job, and an attempt is written there before its request is sent.
"""
