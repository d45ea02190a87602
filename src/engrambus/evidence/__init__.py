"""What is true: pointers to evidence, and the receipts and bodies that prove it."""
