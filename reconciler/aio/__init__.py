"""Asyncio tools that could be a library of their own. Nothing here knows Kubernetes."""
