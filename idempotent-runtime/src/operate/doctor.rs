//! Whether a store is fit for what a handle does with it: tried out, measured, and asked.

use std::fmt;

use self::probe::Probe;
use crate::handle::Idempotency;
use crate::key::fingerprint::Keying;
use crate::key::kind::Kind;
use crate::settings::registered::{ONE_NAME_EACH, shared_names};
use crate::store::{Durability, Finding, Level, Mechanism};
use crate::world;

mod probe;

/// What [`Idempotency::doctor`] found.
///
/// [`Display`](fmt::Display) prints it for a person, one finding a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnosis(Vec<Finding>);

impl Diagnosis {
    /// All that was found, also what is as it should be.
    pub fn findings(&self) -> &[Finding] {
        &self.0
    }

    /// How bad the worst of it is.
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
    /// Tries out whether the store does what calls need of it, and asks it how it is set up.
    ///
    /// For an operator, at start-up or by hand: whether every operation works, how long it takes
    /// compared to the [deadline](crate::Builder::deadline), whether records expire as told, and what
    /// the store has to say of itself, such as missing permissions, eviction and persistence of a Redis. Functions of this
    /// program that have one `name` between them are a problem, too.
    ///
    /// Takes about half a second, some sixty round trips, and one key under the handle's prefix with a
    /// random name, which is removed again and ends after a minute by itself.
    ///
    /// What only seen-sets or Bloom filters need is noted, because the handle does not know whether you use them. Say so by
    /// [`doctor_for`](Self::doctor_for).
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
        let key = shared.key_of(Kind::Doctor, format_args!("{:032x}", world::random_bits()));
        let probe = Probe::new(shared.store(), key, shared.deadline());
        let mut findings = probe.try_out().await;
        findings.extend(durability(shared.store().durability()));
        findings.push(digest(shared.keying()));
        findings.extend(probe.examine().await);
        findings.extend(shared_names().into_iter().map(|shared| {
            let shared = Finding::new(Level::Problem, shared);
            shared.advise(ONE_NAME_EACH)
        }));
        Diagnosis(findings)
    }

    /// As [`doctor`](Self::doctor), for one who uses these mechanisms beside calls: what keeps one of them from
    /// working is a [`Problem`](Level::Problem), and what only others need is not told.
    ///
    /// ```
    /// # use idempotent_runtime as idempotence;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use idempotence::store::{Level, Mechanism};
    /// use idempotence::{Idempotency, MemoryStore};
    ///
    /// let idempotency = Idempotency::new(MemoryStore::new());
    /// let diagnosis = idempotency.doctor_for([Mechanism::SeenSets]).await;
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
    let what = match durability {
        // Said by the store itself if it is so: this is also what a store says that says nothing.
        Durability::Process => return None,
        Durability::Server => {
            "a restart or a fail-over of the server may forget the latest records"
        }
        Durability::Fsync => "records are on disk before they count",
        Durability::Replicated { .. } => "records are in the replicas before they count",
        Durability::Sql => "records are committed before they count",
    };
    Some(Finding::new(
        Level::Fine,
        format!("durability is {durability}: {what}"),
    ))
}

fn digest(keying: &Keying) -> Finding {
    let (name, can_collide) = keying.strength();
    let found = format!("keys are made by {name}");
    if !can_collide {
        return Finding::new(Level::Fine, found);
    }
    Finding::new(Level::Note, found).advise(
        "say `.digest(Digest::Sha256)` if somebody who chooses arguments gains from two calls with one key",
    )
}
