"""The LDAP servers of a site: conversations with them, and what their answers mean."""
