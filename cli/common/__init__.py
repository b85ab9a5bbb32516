"""Options, output and signals that commands share."""
