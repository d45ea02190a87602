"""Other people's systems, behind ports of the domain packages."""
