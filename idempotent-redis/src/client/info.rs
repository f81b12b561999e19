//! The answers of a server to `INFO` and `CONFIG GET`.

use ::redis::aio::ConnectionLike;
use ::redis::{RedisResult, Value, cmd};

/// The texts of an answer to `INFO`: one from a server, one per node of a cluster.
pub(crate) fn texts(reply: Value) -> Vec<String> {
    match reply {
        Value::BulkString(bytes) => vec![String::from_utf8_lossy(&bytes).into_owned()],
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => vec![text],
        Value::Map(nodes) => nodes
            .into_iter()
            .flat_map(|(_, info)| texts(info))
            .collect(),
        _ => Vec::new(),
    }
}

/// The value of the line with this name.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

/// `standalone`, `cluster` or `sentinel`. Valkey uses another name for the field.
pub(crate) fn mode(info: &str) -> Option<&str> {
    field(info, "redis_mode").or_else(|| field(info, "server_mode"))
}

/// Whether the store has one server, with all keys: a proxy may have several servers behind it.
pub(crate) fn is_one_server(info: &[String]) -> bool {
    !info.is_empty() && info.iter().all(|info| mode(info) == Some("standalone"))
}

/// Whether the server knows `SET … NX GET`. Valkey always reports 7.2.4 here.
pub(crate) fn is_version_7(info: &str) -> bool {
    field(info, "redis_version")
        .and_then(|version| version.split('.').next()?.parse::<u32>().ok())
        .is_some_and(|major| major >= 7)
}

/// The first two numbers of a version.
pub(crate) fn version(info: &str, name: &str) -> Option<(u32, u32)> {
    let mut numbers = field(info, name)?.split('.').map(|part| part.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// A setting of the server. With the client of a cluster any server may answer.
pub(crate) async fn config<C: ConnectionLike>(
    connection: &mut C,
    name: &str,
) -> RedisResult<String> {
    let mut ask = cmd("CONFIG");
    ask.arg("GET").arg(name);
    let (_, value): (String, String) = ask.query_async(connection).await?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        for (info, is_7) in [
            ("# Server\r\nredis_version:7.0.15\r\n", true),
            ("redis_version:10.1.0", true),
            ("redis_version:6.2.14\r\n", false),
            ("redis_version:unstable\r\n", false),
            ("", false),
        ] {
            assert_eq!(is_version_7(info), is_7, "{info}");
        }
    }

    #[test]
    fn every_node_of_a_cluster_is_read() {
        let node = |name: &str| {
            (
                Value::SimpleString(name.to_owned()),
                Value::BulkString(name.into()),
            )
        };
        assert_eq!(texts(Value::Map(vec![node("a"), node("b")])), ["a", "b"]);
        assert!(texts(Value::Nil).is_empty());
    }
}
