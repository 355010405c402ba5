Upstreams with ``attestation`` sign their answers: the gateway hashes what passes, judges the signature and keeps a receipt, which a key reads under ``GET /v1/receipts/{id}``.
