"""Objects of any version and shape, written as a release of Kubernetes takes them. No answer changes."""
