"""Sudden death and full disks."""
