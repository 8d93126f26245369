"""The notebook templates: the catalogue, the house style, new ones, and running one."""
