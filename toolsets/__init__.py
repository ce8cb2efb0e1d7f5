"""The reference deployment's toolsets: field devices, their sites, contacts and runbooks.

Each file declares one toolset, or one thing that the toolsets stand on. All data is in one
SQLite file that a seeded script makes on first use.
"""
