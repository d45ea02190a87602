"""Every back end, held against the same statements."""
