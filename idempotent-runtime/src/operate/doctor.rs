//! Whether a store is suitable for a handle: the doctor tries it, measures it, and reads its configuration.

use std::fmt;

use self::probe::Probe;
use crate::handle::Idempotency;
use crate::key::fingerprint::Keying;
use crate::key::kind::RecordKind;
use crate::settings::registered::{ONE_NAME_EACH, shared_names};
use crate::store::{Durability, Finding, Level, Mechanism};
use crate::world;

mod probe;

/// The findings of [`Idempotency::doctor`].
///
/// [`Display`](fmt::Display) prints it for a person, one finding per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis(Vec<Finding>);

impl Diagnosis {
    /// All findings, including the good ones.
    pub fn findings(&self) -> &[Finding] {
        &self.0
    }

    /// The level of the worst finding.
    pub fn worst(&self) -> Level {
        let levels = self.0.iter().map(Finding::level);
        levels.max().unwrap_or(Level::Fine)
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, finding) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{:7}  {}", finding.level(), finding.found())?;
            if let Some(advice) = finding.advice() {
                write!(f, "\n{:7}  -> {advice}", "")?;
            }
        }
        Ok(())
    }
}

impl Idempotency {
    /// Checks that the store does what calls need, and that it is configured for that.
    ///
    /// Call it at start-up, or by hand as an operator. It checks whether every operation works, how long an operation takes
    /// compared to the [deadline](crate::Builder::deadline), whether records expire in time, and how the store is configured:
    /// for example the permissions, eviction and persistence of a Redis. It also reports functions of this program that share
    /// one `name`, settings that disable the guard or have a `ttl` below a second, and routes of `for_route` of a layer for HTTP that have had no request, which may be misspelled.
    ///
    /// It takes about half a second and sixty round trips. It uses one key with a random name under the handle's prefix. The
    /// key is removed at the end. If that fails, it expires after a minute.
    ///
    /// Findings about Bloom filters are only notes, because the handle does not know whether you use them. If you
    /// do, call [`doctor_for`](Self::doctor_for).
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use idempotence::store::Level;
    /// use idempotence::{Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let diagnosis = idempotency.doctor().await;
    /// println!("{diagnosis}");
    /// assert!(diagnosis.worst() < Level::Problem);
    /// # }
    /// ```
    pub async fn doctor(&self) -> Diagnosis {
        let shared = self.shared();
        let key = shared.key_of(
            RecordKind::Doctor,
            format_args!("{:032x}", world::random_bits()),
        );
        let probe = Probe::new(shared.store(), key, shared.deadline());
        let mut findings = probe.exercise().await;
        findings.extend(durability(shared.store().durability()));
        findings.push(digest(shared.keying()));
        findings.extend(downstream_keys(shared.keying()));
        findings.extend(probe.examine().await);
        findings.extend(shared_names().into_iter().map(|shared| {
            let shared = Finding::new(Level::Problem, shared);
            shared.advise(ONE_NAME_EACH)
        }));
        let disabled = shared.known_endpoints().disabled().into_iter();
        findings.extend(disabled.map(|disabled| {
            let disabled = Finding::new(Level::Problem, disabled);
            disabled.advise("remove the setting and call `Idempotency::reload` as soon as the calls can be guarded again")
        }));
        let short = shared.known_endpoints().short_ttls().into_iter();
        findings.extend(short.map(|short| {
            let short = Finding::new(Level::Warning, short);
            short.advise(
                "write a `ttl` that is longer than the time in which a client repeats a request",
            )
        }));
        let unused = shared.known_endpoints().routes_without_requests();
        findings.extend(unused.into_iter().map(|route| {
            let route = Finding::new(Level::Note, route);
            route.advise(
                "compare the route with the route of the router if it should have had requests",
            )
        }));
        findings.extend(shared.known_endpoints().findings());
        Diagnosis(findings)
    }

    /// Does the same as [`doctor`](Self::doctor), for programs that also use these mechanisms. A finding that prevents one of
    /// them from working is a [`Problem`](Level::Problem). Findings about other mechanisms are left out.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use idempotence::store::{Level, Mechanism};
    /// use idempotence::{Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let diagnosis = idempotency.doctor_for([Mechanism::Bloom]).await;
    /// assert!(diagnosis.worst() < Level::Problem, "{diagnosis}");
    /// # }
    /// ```
    pub async fn doctor_for(&self, used: impl IntoIterator<Item = Mechanism>) -> Diagnosis {
        let used: Vec<_> = used.into_iter().collect();
        let Diagnosis(findings) = self.doctor().await;
        let findings = findings.into_iter();
        Diagnosis(
            findings
                .filter_map(|finding| finding.for_users_of(&used))
                .collect(),
        )
    }
}

fn durability(durability: Durability) -> Option<Finding> {
    let (level, what) = match durability {
        // A store in the process reports this itself. It is also the default of a store that does not implement `durability`.
        Durability::Process => return None,
        Durability::Server => (
            Level::Note,
            "a restart or a fail-over of the server may lose the latest records",
        ),
        Durability::Fsync => (
            Level::Fine,
            "a record is on disk before the store acknowledges it",
        ),
        Durability::Replicated { .. } => (
            Level::Fine,
            "a record is on the replicas before the store acknowledges it",
        ),
        Durability::Quorum => (
            Level::Fine,
            "a record is on the disks of most members before the store acknowledges it",
        ),
        Durability::Sql => (
            Level::Fine,
            "a record is committed before the store acknowledges it",
        ),
    };
    Some(Finding::new(
        level,
        format!("durability is {durability}: {what}"),
    ))
}

/// Keys that the bodies of calls send to other services.
fn downstream_keys(keying: &Keying) -> Option<Finding> {
    let found = "keys are made without a secret, so a reader who guesses the key of a call can compute its `downstream_key`";
    let advice = "call `.secret(…)` if another service takes these keys from several callers";
    (!keying.has_secret()).then(|| Finding::new(Level::Note, found).advise(advice))
}

fn digest(keying: &Keying) -> Finding {
    let (name, can_collide) = keying.strength();
    let found = format!("keys are made by {name}");
    if !can_collide {
        return Finding::new(Level::Fine, found);
    }
    Finding::new(Level::Note, found).advise(
        "call `.digest(Digest::Sha256)` if a user who chooses arguments could gain from two calls with one key",
    )
}
