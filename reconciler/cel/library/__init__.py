"""The CEL functions, one library a file."""
