"""Killed processes and full disks."""
