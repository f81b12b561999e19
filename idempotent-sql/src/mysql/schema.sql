CREATE TABLE IF NOT EXISTS idempotence (
    `key` VARBINARY(512) NOT NULL PRIMARY KEY,
    value LONGBLOB NOT NULL,
    expires_at DATETIME(6) NOT NULL,
    KEY idempotence_expires_at (expires_at)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS idempotence_lock (
    name VARBINARY(512) NOT NULL PRIMARY KEY,
    owner VARBINARY(16) NOT NULL,
    fence BIGINT NOT NULL,
    expires_at DATETIME(6) NOT NULL
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS idempotence_version (
    version BIGINT NOT NULL PRIMARY KEY
) ENGINE = InnoDB;
INSERT IGNORE INTO idempotence_version (version) VALUES (1);
