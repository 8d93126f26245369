"""A desktop as a web tool: docs/howto/web-tools.md."""
