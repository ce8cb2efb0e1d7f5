"""The tables of the operations database."""

__all__ = ["SCHEMA", "SEARCH_INDEX", "VERSION"]

VERSION = 2
"""Changes with the tables or the generated data; a file of another version is refused."""

SCHEMA = """
CREATE TABLE dataset (seed INTEGER NOT NULL, starts_at INTEGER NOT NULL, as_of INTEGER NOT NULL);

CREATE TABLE sites (
    site_id TEXT PRIMARY KEY,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    region TEXT NOT NULL,
    gateway_id TEXT NOT NULL
);

CREATE TABLE devices (
    device_id TEXT PRIMARY KEY,
    site_id TEXT NOT NULL REFERENCES sites,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    model TEXT NOT NULL,
    firmware TEXT NOT NULL,
    installed_on TEXT NOT NULL,
    last_seen INTEGER,
    status TEXT NOT NULL
);
CREATE INDEX devices_by_site ON devices (site_id, status, device_id);

CREATE TABLE series (
    series_no INTEGER PRIMARY KEY,
    device_id TEXT NOT NULL REFERENCES devices,
    metric TEXT NOT NULL,
    unit TEXT NOT NULL,
    interval_s INTEGER NOT NULL,
    low_limit REAL,
    UNIQUE (device_id, metric)
);

CREATE TABLE readings (
    series_no INTEGER NOT NULL REFERENCES series,
    time INTEGER NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (series_no, time)
) WITHOUT ROWID;

CREATE TABLE profiles (
    site_id TEXT NOT NULL REFERENCES sites,
    role TEXT NOT NULL,
    name TEXT NOT NULL,
    email TEXT NOT NULL,
    phone TEXT,
    valid_until TEXT,
    revision INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (site_id, role)
);

CREATE TABLE profile_writes (idempotency_key TEXT PRIMARY KEY, profile TEXT NOT NULL);

CREATE TABLE runbooks (
    runbook_id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    summary TEXT NOT NULL,
    steps TEXT NOT NULL
);

CREATE TABLE work_orders (
    order_no INTEGER PRIMARY KEY,
    site_id TEXT NOT NULL REFERENCES sites,
    summary TEXT NOT NULL COLLATE NOCASE,
    priority TEXT NOT NULL,
    status TEXT NOT NULL,
    cuts TEXT,
    opened_at INTEGER NOT NULL,
    starts_at INTEGER,
    ends_at INTEGER,
    closed_at INTEGER
);
CREATE UNIQUE INDEX work_orders_open ON work_orders (site_id, summary) WHERE status = 'open';

CREATE TABLE executions (
    execution_no INTEGER PRIMARY KEY,
    run_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    tool_call_id TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    started_at TEXT NOT NULL,
    finished_at TEXT
);
"""
"""Times are seconds since 1970, except in `executions`, where they are ISO 8601 for people."""

SEARCH_INDEX = """
CREATE VIRTUAL TABLE runbooks_index USING fts5 (runbook_id UNINDEXED, title, summary, steps, tokenize = 'porter');
INSERT INTO runbooks_index SELECT runbook_id, title, summary, steps FROM runbooks;
"""
"""The full-text index, for SQLite with FTS5; without it, searches read the table."""
