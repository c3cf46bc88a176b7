"""The functions of the language, one library a file."""
