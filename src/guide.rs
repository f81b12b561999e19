//! The guide: which page answers which question.
//!
//! | you want to know | page |
//! | --- | --- |
//! | which mechanism for which case | [`choosing`] |
//! | what each word means, on one time line | [`how_it_works`] |
//! | short answers, and ten pitfalls | [`faq`] |
//! | what each option means, and when a key is free again | [the attribute](macro@crate::idempotent) |
//! | what a duplicate gets: which error, and what its client does | [`errors`] |
//! | what a duplicate gets: the first result, or a wait for it | [`results`] |
//! | how an HTTP service answers a repeated request with its first response | [`http`] |
//! | the codes, headers and limits of that layer | [`http_answers`] |
//! | that layer in axum, actix-web, tonic, hyper; documents of `OpenAPI`, CORS, clients | [`http_frameworks`] |
//! | how that layer speaks like the API of Stripe, ACP or Azure | [`http_profiles`] |
//! | which options clients of Stripe, PayPal, AWS, Google and others need | [`vendors`] |
//! | how that layer answers the test cases of other libraries | [`http_conformance`] |
//! | which calls are equal, and what the store shows of them | [`keys`] |
//! | which store to take, its URL, TLS, durability and permissions | [`stores`] |
//! | what a Redis of AWS, Google, Azure, Alibaba or Huawei needs | [`managed_redis`] |
//! | how to keep records that survive the loss of a machine | [`etcd`] |
//! | how to keep records without a server of your own | [`dynamodb`] |
//! | how to do work once, in your own transaction | [`sql`](crate::sql) |
//! | the lines for a payment button, a webhook, a queue, cron, an upload, a coupon, an import, a saga | [`recipes`] |
//! | how to come from `SET NX`, Redisson, lock4j, RuoYi, `idempotent`, Powertools or ShedLock | [`migrating`] |
//! | how to replace a table of idempotency keys that you wrote by hand | [`hand_written`] |
//! | how to use tokens, counters, seen-sets, Bloom filters, order numbers and request ids | [`mechanisms`] |
//! | how to call a guarded function from code without `async`, from smol, and from actix | [`runtimes`] |
//! | how to test functions that have the attribute | [`testing`] |
//! | how to change settings without compiling | [`settings`] |
//! | what to do: a stuck key, an outage, a deploy, an alarm, a shutdown | [`runbooks`] |
//! | how to find and free a stuck key from a shell | [`command`] |
//! | how to see what happens: events, the log, metrics | [`observability`] |
//! | what is promised with which store, and how it was tested | [`guarantees`] |
//! | who is trusted with what | [`security`] |
//! | what a coding assistant writes, and what not | [`assistants`] |
//! | how another language makes the same key | [`fingerprint`](crate::fingerprint) |
//! | how to write a store | [`store`](crate::store) |
//! | which operations stores will have (for maintainers) | [`store_contract`] |

// Each page begins with the links of rustdoc: the first definition of a link counts, and the definitions
// at the end of a page lead to its neighbours in the repository.

// The blocks of the page need these features.
#[doc = include_str!("links.md")]
#[cfg_attr(
    all(feature = "axum", feature = "http", feature = "postgres"),
    doc = include_str!("../llms.txt")
)]
#[cfg_attr(
    not(all(feature = "axum", feature = "http", feature = "postgres")),
    doc = "What a coding assistant writes: see `llms.txt`."
)]
pub mod assistants {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/choosing.md")]
pub mod choosing {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/command.md")]
pub mod command {}

// The page needs the feature: its examples do not compile without it.
#[doc = include_str!("links.md")]
#[cfg_attr(feature = "dynamodb", doc = include_str!("../docs/guide/dynamodb.md"))]
#[cfg_attr(
    not(feature = "dynamodb"),
    doc = "Records in Amazon DynamoDB: see the feature `dynamodb`."
)]
pub mod dynamodb {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/errors.md")]
pub mod errors {}

// The page needs the feature: its example does not compile without it.
#[doc = include_str!("links.md")]
#[cfg_attr(feature = "etcd", doc = include_str!("../docs/guide/etcd.md"))]
#[cfg_attr(
    not(feature = "etcd"),
    doc = "Records in etcd: see the feature `etcd`."
)]
pub mod etcd {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/faq.md")]
pub mod faq {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/guarantees.md")]
pub mod guarantees {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/hand-written.md")]
pub mod hand_written {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/how-it-works.md")]
pub mod how_it_works {}

// The page needs the layer and axum: its examples do not compile without these features.
#[doc = include_str!("links.md")]
#[cfg_attr(
    all(feature = "http", feature = "axum"),
    doc = include_str!("../docs/guide/http.md")
)]
#[cfg_attr(
    not(all(feature = "http", feature = "axum")),
    doc = "The layer of HTTP: see the features `http` and `axum`."
)]
pub mod http {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/http-answers.md")]
pub mod http_answers {}

#[doc = include_str!("links.md")]
#[cfg_attr(
    all(feature = "http", feature = "axum"),
    doc = include_str!("../docs/guide/http-frameworks.md")
)]
#[cfg_attr(
    not(all(feature = "http", feature = "axum")),
    doc = "The layer of HTTP: see the features `http` and `axum`."
)]
pub mod http_frameworks {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/http-conformance.md")]
pub mod http_conformance {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/http-profiles.md")]
pub mod http_profiles {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/keys.md")]
pub mod keys {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/managed-redis.md")]
pub mod managed_redis {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/mechanisms.md")]
pub mod mechanisms {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/migrating.md")]
pub mod migrating {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/observability.md")]
pub mod observability {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/recipes.md")]
pub mod recipes {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/results.md")]
pub mod results {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/runbooks.md")]
pub mod runbooks {}

/// Who is trusted with what, how to protect a store and its users, and what was tested.
///
#[doc = include_str!("links.md")]
#[doc = include_str!("../SECURITY.md")]
pub mod security {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/runtimes.md")]
pub mod runtimes {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/settings.md")]
pub mod settings {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/store-contract.md")]
pub mod store_contract {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guide/stores.md")]
pub mod stores {}

// The page needs the feature: its examples do not compile without it.
#[doc = include_str!("links.md")]
#[cfg_attr(feature = "testkit", doc = include_str!("../docs/guide/testing.md"))]
#[cfg_attr(
    not(feature = "testkit"),
    doc = "How to test: see the feature `testkit`."
)]
pub mod testing {}

// The page needs the layer: its examples do not compile without the feature.
#[doc = include_str!("links.md")]
#[cfg_attr(feature = "http", doc = include_str!("../docs/guide/vendors.md"))]
#[cfg_attr(
    not(feature = "http"),
    doc = "Which options the SDKs of vendors need: see the feature `http`."
)]
pub mod vendors {}
