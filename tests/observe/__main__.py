"""``python -m tests.observe``: writes ``etc/grafana.json`` and ``etc/alerts.yml`` anew."""

from tests.observe import alerts, dashboard
from tests.observe.files import ALERTS_FILE, DASHBOARD_FILE

DASHBOARD_FILE.write_text(dashboard.text(), "utf-8")
ALERTS_FILE.write_text(alerts.text(), "utf-8")
