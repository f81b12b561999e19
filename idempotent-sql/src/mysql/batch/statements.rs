//! The statements of a batch.
//!
//! Their text is constant, because the client may log it. The changes of a kind are in a variable of the session, as an array of
//! JSON with one array for each change: `[key, expected value, value, microseconds]`, with the bytes in hexadecimal.
//!
//! A set of these changes is in eight variables of 64 bits.

use crate::mysql::counting::{counted, digits, is_line, last, line};

macro_rules! now {
    () => {
        "CAST(@idempotence_now AS DATETIME(6))"
    };
}

/// The end of the time to live of a change.
macro_rules! end {
    () => {
        concat!(now!(), " + INTERVAL j.m MICROSECOND")
    };
}

/// The changes of a kind.
macro_rules! changes {
    ($kind:literal, $columns:literal) => {
        concat!(
            "JSON_TABLE(@idempotence_",
            $kind,
            ", '$[*]' COLUMNS (n FOR ORDINALITY, k VARCHAR(1024) PATH '$[0]'",
            $columns,
            ")) AS j"
        )
    };
}

/// The changes of a kind with the rows that are stored under their keys.
macro_rules! stored {
    ($kind:literal, $columns:literal) => {
        concat!(
            changes!($kind, $columns),
            " STRAIGHT_JOIN idempotence AS s FORCE INDEX (PRIMARY) ON s.`key` = UNHEX(j.k)"
        )
    };
}

/// Puts the changes `n` of a query into a set.
macro_rules! into {
    ($set:literal) => {
        into!($set, "0", "1", "2", "3", "4", "5", "6", "7")
    };
    ($set:literal, $first:literal $(, $other:literal)*) => {
        concat!(
            "SELECT BIT_OR(((n - 1) >> 6 = ", $first, ") << ((n - 1) & 63))",
            $(", BIT_OR(((n - 1) >> 6 = ", $other, ") << ((n - 1) & 63))",)*
            " INTO @idempotence_", $set, $first,
            $(", @idempotence_", $set, $other,)*
            " FROM "
        )
    };
}

/// 1 if a set has the change `j.n`, else 0.
macro_rules! is_in {
    ($set:literal) => {
        is_in!($set, "0", "1", "2", "3", "4", "5", "6", "7")
    };
    ($set:literal $(, $word:literal)*) => {
        concat!(
            "(CASE (j.n - 1) >> 6",
            $(" WHEN ", $word, " THEN @idempotence_", $set, $word,)*
            " END >> ((j.n - 1) & 63) & 1)"
        )
    };
}

/// Whether a set has any change. The server reads this before it reads a row.
macro_rules! has_any {
    ($set:literal) => {
        has_any!($set, "1", "2", "3", "4", "5", "6", "7")
    };
    ($set:literal $(, $word:literal)*) => {
        concat!("(@idempotence_", $set, "0" $(, " | @idempotence_", $set, $word)*, ") <> 0")
    };
}

/// The variables of a set.
macro_rules! set {
    ($set:literal) => {
        set!($set, "1", "2", "3", "4", "5", "6", "7")
    };
    ($set:literal $(, $word:literal)*) => {
        concat!("CONCAT_WS(',', @idempotence_", $set, "0" $(, ", @idempotence_", $set, $word)*, ")")
    };
}

/// Puts the changes whose row fulfils a condition into a set, and locks these rows. A row that another transaction has locked is
/// skipped. The limit makes this a query that the server does not merge with the other.
macro_rules! lock {
    ($set:literal, $kind:literal, $columns:literal, $condition:expr) => {
        concat!(
            into!($set),
            "(SELECT j.n FROM ",
            stored!($kind, $columns),
            " WHERE ",
            $condition,
            " LIMIT 512 FOR UPDATE /*!80000 OF s */ SKIP LOCKED) AS found; "
        )
    };
}

/// Inserts rows, and changes those of them that exist.
///
/// Rows that exist are left out, unless this transaction has locked them. So this waits only for a row that was inserted or
/// removed at the same time. MySQL waits up to a second. MariaDB reads the first line as a statement, MySQL as a comment.
macro_rules! insert {
    ($kind:literal, $condition:expr, $change:expr) => {
        concat!(
            into!("seen"),
            stored!($kind, ""),
            "; ",
            lock!("locked", $kind, "", concat!(has_any!("seen"), $condition)),
            "/*M! SET STATEMENT max_statement_time = 0.1 FOR */ \
             INSERT INTO idempotence (`key`, value, expires_at) SELECT UNHEX(j.k), UNHEX(j.v), ",
            end!(),
            " FROM ",
            changes!($kind, ", v LONGTEXT PATH '$[2]', m BIGINT PATH '$[3]'"),
            " WHERE ",
            is_in!("locked"),
            " = 1 OR ",
            is_in!("seen"),
            " = 0",
            $change,
            "; "
        )
    };
}

/// Whether the row of a change is live and has the expected value.
macro_rules! is_expected {
    () => {
        concat!("s.value = UNHEX(j.e) AND s.expires_at > ", now!())
    };
}

/// The most changes of a kind.
pub(super) const MOST: usize = 512;

/// The largest value that a batch reads, in bytes. A claim is done if its value is read.
pub(super) const LARGEST_READ: usize = 16 * 1024;

/// The most counts. Their records are in the answer before the commit, so the answer must fit into the buffers of a connection:
/// otherwise a client that stops would keep the rows locked. A record is at most 600 bytes long.
pub(super) const MOST_COUNTS: usize = 64;

/// The variables that the other statements read.
pub(super) const SET: &str = "SET @idempotence_batch = ?, @idempotence_claims = ?, @idempotence_counts = ?, @idempotence_renewals = ?, \
     @idempotence_swaps = ?, @idempotence_removals = ?";

/// READ UNCOMMITTED locks no gaps, and its reads without a lock also find the rows that other transactions have not committed.
/// Such a read only decides which rows are not inserted. Everything else is read with a lock, from rows that this transaction has
/// locked, or after the commit.
///
/// All statements use the time before the first lock.
pub(super) const BEGIN: &str = "\
    SET @idempotence_now = UTC_TIMESTAMP(6), @idempotence_wait = @@SESSION.innodb_lock_wait_timeout, \
    SESSION innodb_lock_wait_timeout = 1; \
    SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; START TRANSACTION; ";

/// The variable `completion_type` must not begin another transaction, nor end the session.
pub(super) const COMMIT: &str = "COMMIT AND NO CHAIN NO RELEASE; ";

/// Returns -1, the number of the batch, and the sets of changes that are done, each as its variables with commas between them.
///
/// The number shows that the session has the changes of this batch: a proxy may have sent them to another session.
pub(super) const DONE: &str = concat!(
    "SELECT -1, @idempotence_batch, ",
    set!("renewed"),
    ", ",
    set!("swapped"),
    ", ",
    set!("removed"),
    " LIMIT 1; "
);

/// Leaves the session as it was. The variables may be large.
pub(super) const END: &str = "SET SESSION innodb_lock_wait_timeout = @idempotence_wait, @idempotence_batch = NULL, \
     @idempotence_claims = NULL, @idempotence_counts = NULL, @idempotence_renewals = NULL, \
     @idempotence_swaps = NULL, @idempotence_removals = NULL";

/// Ends a batch that has failed.
pub(super) const ROLL_BACK: &str =
    "ROLLBACK AND NO CHAIN NO RELEASE; SET SESSION innodb_lock_wait_timeout = @idempotence_wait";

/// Stores claims whose key has no live row.
pub(super) const CLAIM: &str = insert!(
    "claims",
    concat!(" AND s.expires_at <= ", now!()),
    concat!(
        " ON DUPLICATE KEY UPDATE value = IF(expires_at <= ",
        now!(),
        ", VALUES(value), value), expires_at = IF(expires_at <= ",
        now!(),
        ", VALUES(expires_at), expires_at)"
    )
);

/// Counts attempts. Attempts at one counter are rows of one statement, which changes the row of the counter for each of them.
pub(super) const COUNT: &str = insert!(
    "counts",
    "",
    // The line of a first attempt has the attempt at this place.
    concat!(
        " ON DUPLICATE KEY UPDATE ",
        counted!(
            now!(),
            "VALUES(value)",
            "SUBSTRING(VALUES(value), 22, 16)",
            "VALUES(expires_at)"
        )
    )
);

/// This does not write the value again, because it may be large.
pub(super) const RENEW: &str = concat!(
    lock!(
        "renewed",
        "renewals",
        ", e LONGTEXT PATH '$[1]'",
        is_expected!()
    ),
    "UPDATE ",
    stored!("renewals", ", m BIGINT PATH '$[3]'"),
    " SET s.expires_at = ",
    end!(),
    " WHERE ",
    is_in!("renewed"),
    " = 1; "
);

/// Without microseconds the remaining time does not change.
pub(super) const REPLACE: &str = concat!(
    lock!(
        "swapped",
        "swaps",
        ", e LONGTEXT PATH '$[1]'",
        is_expected!()
    ),
    "UPDATE ",
    stored!("swaps", ", v LONGTEXT PATH '$[2]', m BIGINT PATH '$[3]'"),
    " SET s.value = UNHEX(j.v), s.expires_at = IF(j.m IS NULL, s.expires_at, ",
    end!(),
    ") WHERE ",
    is_in!("swapped"),
    " = 1; "
);

pub(super) const REMOVE: &str = concat!(
    lock!(
        "removed",
        "removals",
        ", e LONGTEXT PATH '$[1]'",
        is_expected!()
    ),
    "DELETE s FROM ",
    stored!("removals", ""),
    " WHERE ",
    is_in!("removed"),
    " = 1; "
);

/// Before a read after the commit, so that it finds only committed rows in any session.
pub(super) const COMMITTED: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; ";

/// Reads the live rows of changes. The first column is the number of the kind. A large value is not read, because the values of
/// a batch are in memory at the same time.
macro_rules! read {
    ($number:literal, $kind:literal, $condition:expr) => {
        concat!(
            "SELECT ",
            $number,
            ", CAST(j.n AS SIGNED), IF(LENGTH(s.value) <= 16384, s.value, NULL) FROM ",
            stored!($kind, ""),
            " WHERE s.expires_at > UTC_TIMESTAMP(6)",
            $condition,
            " LIMIT 512; "
        )
    };
}

pub(super) const READ_CLAIMS: &str = read!("0", "claims", "");

/// Reads the counters that this transaction has changed, before the commit: a counter remembers only its last attempts, and other
/// processes may count many more right after the commit. A window may have ended after the count. It is still the window of the
/// attempt.
pub(super) const READ_COUNTS: &str = concat!(
    "SELECT 1, CAST(j.n AS SIGNED), SUBSTRING(s.value, 1, 1024), \
     GREATEST(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), s.expires_at), 0) FROM ",
    stored!("counts", ""),
    " WHERE ",
    is_in!("locked"),
    " = 1 OR ",
    is_in!("seen"),
    " = 0 LIMIT 512; "
);

pub(super) const READ_RENEWALS: &str =
    read!("2", "renewals", concat!(" AND ", is_in!("renewed"), " = 0"));

pub(super) const READ_SWAPS: &str =
    read!("3", "swaps", concat!(" AND ", is_in!("swapped"), " = 0"));

pub(super) const READ_REMOVALS: &str =
    read!("4", "removals", concat!(" AND ", is_in!("removed"), " = 0"));
