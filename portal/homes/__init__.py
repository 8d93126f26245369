"""Where a person's private files of the portal lie: in the home, or elsewhere where homes do not work."""
