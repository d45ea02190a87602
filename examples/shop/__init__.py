"""A small shop: payments, refunds and the ledger under them."""
