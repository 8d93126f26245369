"""How full people's folders are, as the site's own command says it."""
