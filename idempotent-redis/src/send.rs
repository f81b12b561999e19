//! How an operation is sent, in layers. Each is a file that can be read alone.
//!
//! A store makes an [`Op`](op::Op) and gives it to its [`Sender`](sender::Sender). [`compose`] makes the layers of a store once,
//! when it is opened. Each passes the operation to the layer below:
//!
//! ```text
//! Sender ─ Large ─ a key with a large record has a connection for few such keys
//!        └ BatchScope ─ PerNode ─ the batches of the node that has the key
//!                     └ Batched ─ with others, if many operations have no answer
//!                         └ Direct ─ one operation or a batch over one connection
//! ```
//!
//! If writes wait for replicas, they have layers of their own: `BatchScope`, and `WaitReplicas` in place of `Direct`.

pub(crate) mod batched;
pub(crate) mod compose;
pub(crate) mod direct;
pub(crate) mod large;
pub(crate) mod layer;
pub(crate) mod op;
pub(crate) mod per_node;
pub(crate) mod pipeline;
pub(crate) mod request;
pub(crate) mod sender;
pub(crate) mod unsent;
pub(crate) mod wait_connections;
pub(crate) mod wait_replicas;
