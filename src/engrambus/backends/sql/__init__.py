"""What back ends on SQL databases share; what differs between their dialects lies with each."""
