"""The demand that placement policies keep room for: given in a file, or learnt and kept in a ConfigMap."""
