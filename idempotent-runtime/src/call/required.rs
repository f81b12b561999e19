//! The required settings of a guarded call: a key and a `ttl`. A call without them does not compile.

/// The call has its key, or its `ttl`.
#[derive(Debug)]
pub struct Given;

/// The call has no key and no token yet.
#[derive(Debug)]
pub struct NoKey;

/// The call has no `ttl` yet.
#[derive(Debug)]
pub struct NoTtl;

/// A call that has a key.
#[diagnostic::on_unimplemented(
    message = "this call has no key: call `.key(…)` or `.token(…)` before it runs",
    label = "needs `.key(…)` or `.token(…)` before this",
    note = "`.key(&())` is one key for all calls of the endpoint"
)]
pub trait HasKey {}

/// A call that has a `ttl`.
#[diagnostic::on_unimplemented(
    message = "this call has no time to live: call `.ttl(…)` before it runs",
    label = "needs `.ttl(…)` before this",
    note = "`.ttl_from_settings()` takes it from the handle's `Settings`"
)]
pub trait HasTtl {}

impl HasKey for Given {}
impl HasTtl for Given {}

/// A call without a key, a `ttl`, or both.
pub trait Incomplete {}

impl Incomplete for (NoKey, NoTtl) {}
impl Incomplete for (NoKey, Given) {}
impl Incomplete for (Given, NoTtl) {}
