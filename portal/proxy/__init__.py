"""The proxy apart from the hub: how it is started, used and replaced, and the process that outlives the hub."""
