"""Adapters to systems that others make; each module needs the package it is named after."""
