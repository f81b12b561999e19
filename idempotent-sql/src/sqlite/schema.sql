CREATE TABLE IF NOT EXISTS idempotence (
    key TEXT NOT NULL PRIMARY KEY,
    value BLOB NOT NULL,
    expires_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS idempotence_expires_at ON idempotence (expires_at);
CREATE TABLE IF NOT EXISTS idempotence_lock (
    name TEXT NOT NULL PRIMARY KEY,
    owner BLOB NOT NULL,
    fence INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS idempotence_version (
    version INTEGER NOT NULL PRIMARY KEY
);
INSERT OR IGNORE INTO idempotence_version (version) VALUES (1);
