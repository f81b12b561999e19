//! The pages of the guide, one module each.
//!
//! | page | answers |
//! | --- | --- |
//! | [the attribute](macro@crate::idempotent) | what each option means, and when a key is free again |
//! | [`results`] | what is stored for duplicates, and how they wait |
//! | [`errors`] | what a refused call returns, and what a client does about it |
//! | [`keys`] | which calls are equal, and what the store shows |
//! | [`stores`] | which store to take, its URL, TLS, durability and permissions |
//! | [`sql`](crate::sql) | how a thing happens once in your own transaction |
//! | [`mechanisms`] | tokens, counters, seen-sets, Bloom filters, order numbers, request ids |
//! | [`settings`] | what operators can change without compiling |
//! | [`observability`] | events, metrics, alarms, stuck keys, the doctor |
//! | [`testing`] | how to test functions that carry the attribute |
//! | [`guarantees`] | what is promised, under which store, and how it was tested |
//! | [`security`] | who is trusted with what |
//! | [`fingerprint`](crate::fingerprint) | how another language makes the same key |
//! | [`store`](crate::store), [`store_contract`] | how to write a store, and what stores will have to answer |

// Each page begins with the links of rustdoc: the first definition of a link counts, and the definitions
// at the end of a page lead to its neighbours in the repository.

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/errors.md")]
pub mod errors {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/guarantees.md")]
pub mod guarantees {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/keys.md")]
pub mod keys {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/mechanisms.md")]
pub mod mechanisms {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/observability.md")]
pub mod observability {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/results.md")]
pub mod results {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../SECURITY.md")]
pub mod security {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/settings.md")]
pub mod settings {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/store-contract.md")]
pub mod store_contract {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/stores.md")]
pub mod stores {}

#[doc = include_str!("links.md")]
#[doc = include_str!("../docs/testing.md")]
pub mod testing {}
