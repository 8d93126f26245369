"""What an administrator installs (``site/``), the demo, and the environments: standard library only."""
