"""The choices of a session: how they are declared, what is allowed of each, and both as a JSON schema. Pure."""
