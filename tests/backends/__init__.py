"""Tests of the back ends: the conformance suite, the index, shared stores and the state machine."""
