Metrics tell of media jobs: how many ended how, attempts at providers, how long jobs took, outputs
stored, webhooks, requests to other servers, and costs that the ledger lacks. Grafana's dashboard has
a section of them, and three alerts tell of jobs that fail, webhooks given up and costs owed.
