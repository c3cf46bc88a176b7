"""Objects of any version and shape, written as Kubernetes 1.36 takes them, without changing any answer."""
