"""Parts that serve the objects of other projects. Each registers what it needs; `PLUGINS` lists them."""
