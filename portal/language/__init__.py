"""The texts of the hub's pages in the languages of who reads them. Pure."""
