CREATE TABLE IF NOT EXISTS idempotence (
    key text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX IF NOT EXISTS idempotence_expires_at ON idempotence (expires_at);
CREATE TABLE IF NOT EXISTS idempotence_lock (
    name text COLLATE "C" PRIMARY KEY,
    owner bytea NOT NULL,
    fence bigint NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS idempotence_version (
    version bigint PRIMARY KEY
);
INSERT INTO idempotence_version (version) VALUES (1) ON CONFLICT DO NOTHING;
