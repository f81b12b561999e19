//! Each of the questions that users ask has its answer two clicks from the README, in both languages.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{pages, root, targets};

/// A question, the page and the heading of its answer, and words of the answer.
const ANSWERS: &str = r#"
my handler takes 5 minutes, what `ttl`? | docs/guide/faq.md | My handler takes 5 minutes. How long must `ttl` be? | `ttl` does not limit the body
a Kafka, RabbitMQ or NATS consumer? | docs/guide/recipes.md | Queue consumer | `ttl` is longer than the broker keeps messages
Redis fails over: charged twice? | docs/guide/faq.md | Redis fails over: is a card charged twice? | ?replicas=1
a stuck key at 3 a.m.: what do I type? | docs/guide/runbooks.md | A stuck key | redis-cli --scan --pattern
a deploy renames the function? | docs/guide/runbooks.md | Deploy, rename, rollback | all records of the endpoint are forgotten
how do I test my handler? | docs/guide/testing.md | A storm of equal calls | assert_ran_once
which mechanism for a payment button? | docs/guide/choosing.md | Which first for your endpoint? | payment button, order
migrate from my own `SET NX`? | docs/guide/migrating.md | From `SET NX` | a roll-back is safe
a cron job on several machines? | docs/guide/recipes.md | Cron on several machines | is not repeated
a webhook comes five times? | docs/guide/recipes.md | Webhook | Without `replay`
clients without a key? | docs/guide/attribute.md | A key that may be missing | `when
the same key, another body? | docs/guide/faq.md | What if a client sends the same key with another body? | `PayloadMismatch` (422)
what JSON does my front end get? | docs/guide/http-answers.md | Codes | "client_action": "wait"
a key for Stripe, 支付宝, 微信支付? | docs/guide/faq.md | How do I pass a key to Stripe, 支付宝 or 微信支付? | `out_trade_no`
how slow does it make me? | README.md | Cost | round trips
who cleans the table of PostgreSQL? | docs/guide/sql.md | Tables, migration, purge | A store purges by itself
`connect` refuses my cloud's Redis? | docs/guide/managed-redis.md | Eviction | `volatile-lru`
old and new versions side by side? | docs/guide/runbooks.md | Deploy, rename, rollback | may share a store
reentrant, fair, read-write? | docs/guide/faq.md | Is it a distributed lock like Redlock or Redisson: reentrant, fair, read-write? | `InProgress`
switch the guard off now? | docs/guide/settings.md | The switch | `disabled = true`
the answer was lost? | docs/guide/faq.md | The answer was lost: may I send the request again? | with the same key
Redis is down? | docs/guide/runbooks.md | The store is down | `store_unavailable`
"#;

#[test]
fn each_question_of_users_is_answered_two_clicks_from_the_readme() {
    for readme in ["README.md", "README.zh-CN.md"] {
        let clicks = clicks(&root().join(readme));
        for line in ANSWERS.trim().lines() {
            let cells: Vec<&str> = line.split(" | ").collect();
            let [question, page, heading, words] = cells[..] else {
                panic!("{line}");
            };
            let path = root().join(page);
            assert!(clicks[&path] <= 2, "{readme}: {question}");
            let text = std::fs::read_to_string(path).unwrap();
            let (_, answer) = text
                .split_once(&format!("\n## {heading}\n"))
                .expect(question);
            let answer = answer.split("\n## ").next().unwrap_or_default();
            assert!(answer.contains(words), "{question} {words}");
        }
    }
}

/// How many links lead from a page to each other page, at least. The list of all pages does not count, because it answers nothing.
fn clicks(from: &Path) -> BTreeMap<PathBuf, usize> {
    let pages = pages();
    let mut clicks = BTreeMap::from([(from.to_owned(), 0)]);
    for distance in 1..4 {
        for (page, _) in clicks.clone() {
            if page.ends_with("SUMMARY.md") {
                continue;
            }
            for target in targets(pages.get(&page).map_or("", String::as_str)) {
                let file = target.split('#').next().unwrap_or_default();
                if let Ok(file) = page.with_file_name(file).canonicalize() {
                    clicks.entry(file).or_insert(distance);
                }
            }
        }
    }
    clicks
}
