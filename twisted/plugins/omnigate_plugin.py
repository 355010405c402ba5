"""Tells ``twistd`` of the two daemons: ``twistd omnigate-data`` and ``twistd omnigate-control``."""

from twisted.application.reactors import Reactor
from twisted.application.service import ServiceMaker

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
