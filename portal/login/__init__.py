"""Who may come in: the login page, the site's directory (LDAP), how often a password may be guessed."""
