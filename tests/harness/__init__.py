"""What several test packages share: the back ends under test, and an independent check of every budget."""
