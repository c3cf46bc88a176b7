"""The functions of the language, one library a file (section 14.3)."""
