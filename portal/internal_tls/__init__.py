"""TLS between the hub and its sessions: what either side trusts."""
