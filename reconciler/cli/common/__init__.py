"""What several commands share: options, exit codes, input, output, connections."""
