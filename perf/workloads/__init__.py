"""The workloads, one file a family. Every one checks its own answers; a wrong answer fails the run."""
