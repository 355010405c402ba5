`omnigate_data_receipts_dropped_total` counts receipts of attested upstreams that the control plane was not told of.
