"""Toolsets of the reference deployment.

They are about field devices, their sites, contacts, runbooks and work orders.

Each file declares one toolset, or something that several toolsets use. All data is in one
SQLite file, which seeded code makes on first use.
"""
