"""The hub's page of templates: what there is to learn from, and a start that opens it."""
