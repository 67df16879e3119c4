"""Every Prometheus series of the server."""
