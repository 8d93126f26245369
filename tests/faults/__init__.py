"""The fault suite: what happens to sessions when a part of the cluster or of the portal fails."""
