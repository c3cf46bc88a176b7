"""The options and the help of each command, one file a command. They import nothing that is slow."""
