//! The store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use idempotent_runtime::store::{Store, StoreError, Wrap};
use tokio::time::timeout;
use tonic::{Code, Status};

use crate::client::Client;
use crate::failure::bad_url;
use crate::records::Records;
use crate::url::Address;
use crate::wire::Range;

/// A store in a cluster of etcd. A clone shares the connections.
///
/// A record that etcd acknowledged is on the disks of most members. So the loss of a member loses no claim, and a fail-over does not
/// either. Needs etcd 3.4 or newer. One process has one connection to each member that it uses.
///
/// A record lives up to 2.5 seconds longer than its time to live, a record of hours up to 1/3600 longer, and never shorter. The
/// time to live begins once more at each change of the leader, and in a full database at the renewals of other records with its etcd lease.
#[derive(Clone)]
pub struct EtcdStore(Arc<Records>);

/// How long [`EtcdStore::connect`] waits for a member.
const CONNECT: Duration = Duration::from_secs(5);

impl EtcdStore {
    /// Connects to the members that the URL names, for example `etcd://a:2379,b:2379,c:2379`. The port may be left out.
    ///
    /// `etcds://` connects by TLS. `user:password@` before the members logs in; other characters than letters and digits are written
    /// as `%40`. The parameters are all for `etcds://`:
    ///
    /// * `ca`: the file of certificates (PEM) that sign the members' certificates; without it the system's;
    /// * `cert` and `key`: the files of the client's certificate and its key;
    /// * `server_name`: the name in the members' certificates, if it is not their host name.
    ///
    /// The store works while the runtime runs that this is called in. Costs a round trip, and one more for a user.
    ///
    /// # Errors
    ///
    /// A [`StoreError`] if the URL is wrong, no member answers within five seconds, there is no leader, or the user is refused.
    ///
    /// # Panics
    ///
    /// If it is not called in a runtime of tokio.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let address = Address::parse(url)?;
        let client = Client::new(&address.members, address.login, address.tls.as_ref());
        let client =
            client.map_err(|_| bad_url("has members or certificates that cannot be used"))?;
        let records = Records::new(client);
        let question = Range::count(b"idempotence");
        match timeout(CONNECT, records.client.call(question)).await {
            // The user may have only the keys of its handle.
            Err(_) => Err(records.error(&Status::unavailable("no answer in time"))),
            Ok(Err(status)) if status.code() != Code::PermissionDenied => {
                Err(records.error(&status))
            }
            Ok(_) => Ok(Self(Arc::new(records))),
        }
    }
}

impl Wrap for EtcdStore {
    type Inner = dyn Store;

    fn inner(&self) -> &dyn Store {
        &*self.0
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EtcdStore").field(&self.0.client).finish()
    }
}
