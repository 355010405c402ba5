"""Tells ``twistd`` of the two daemons, of our reactor and of the endpoint string ``https:``."""

from twisted.application.reactors import Reactor
from twisted.application.service import ServiceMaker

from omnigate.tls_endpoint import TlsServerParser

omnigate_data = ServiceMaker(
    "omnigate data plane",
    "omnigate.data_tap",
    "The public port of omnigate: takes requests of applications to model providers.",
    "omnigate-data",
)

omnigate_control = ServiceMaker(
    "omnigate control plane",
    "omnigate.control_tap",
    "The private port of omnigate: config, keys, ledger, budgets and metrics.",
    "omnigate-control",
)

omnigate_reactor = Reactor(
    "omnigate",
    "omnigate.protocols.lean_reactor",
    "epoll with fewer steps between the kernel and a protocol; for omnigate-data.",
)

omnigate_https = TlsServerParser()
