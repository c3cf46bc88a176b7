"""What `import dra_reconciler` offers to programs: the answers of the offline commands as Python objects.

Its names, their parameters and their fields are the public interface, which follows semver.
"""
