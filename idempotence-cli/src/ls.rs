//! `ls`: lists keys.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use idempotence::fingerprint::Fingerprint;
use idempotence::store::Cursor;
use idempotence::{Error, Idempotency, ListedCall, Listing};
use serde::Serialize;

use crate::args::{Access, Ls, State};
use crate::exit::Failure;
use crate::late::KeyTimes;
use crate::open::open;
use crate::output::{self, Output, note};
use crate::progress::Progress;
use crate::{find, pattern};

pub(crate) async fn run(access: &Access, args: &Ls, output: &mut Output) -> Result<(), Failure> {
    let idempotency = open(access).await?;
    let mut calls: Vec<ListedCall> = Vec::new();
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let after = args.after.as_deref().map(Cursor::new);
    let mut pages = Pages::new(&args.endpoint, args.state, after);
    let (progress, mut looks) = (Progress::new(), 0);
    while calls.len() < limit
        && let Some(page) = pages.next(&idempotency, limit - calls.len()).await?
    {
        looks += 1;
        calls.extend(page);
        progress.say(format!("{} keys found by {looks} requests", calls.len()));
    }
    drop(progress);
    calls.sort_by(|one, other| {
        let key = |call: &ListedCall| (call.endpoint().to_owned(), call.since());
        key(one).cmp(&key(other))
    });
    let next = pages.after.as_ref().map(Cursor::as_str);
    if output.is_json() {
        let records = calls.iter().map(ListedRow::of).collect();
        return output.json(&Listed { records, next });
    }
    let mut with_digits: HashMap<_, u32> = HashMap::new();
    for call in &calls {
        *with_digits
            .entry((call.endpoint(), call.digits()))
            .or_default() += 1;
    }
    let rows = calls.iter().map(|call| {
        let digits = call.digits();
        match with_digits[&(call.endpoint(), digits.clone())] {
            1 => row(call, digits),
            // Such as the slots of a key with permits, which differ only in their last digits.
            _ => row(call, call.fingerprint().to_string()),
        }
    });
    let rows: Vec<_> = rows.collect();
    let headings = ["ENDPOINT", "DIGITS", "STATE", "AGE", "FREE IN", "HOLDER"];
    output.table(headings, &rows)?;
    for (digest, keys) in keys_of_calls(&calls) {
        note(&format!(
            "Listed keys of one call (`also` {digest}): {}; it may have others",
            keys.join(", ")
        ));
    }
    if let Some(next) = next {
        note(&format!("More keys: --after '{next}'"));
    }
    if let Some((taken, until)) = pages.not_late_yet {
        note(&format!(
            "Taken and not late: {taken}. If a holder of these was killed, its key is late in {} at most",
            output::duration(until)
        ));
    }
    Ok(())
}

/// The listed keys of each call with `also` that has several of them, by the digest of all its keys.
fn keys_of_calls(calls: &[ListedCall]) -> BTreeMap<&str, Vec<String>> {
    let mut keys: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for call in calls {
        if let Some(digest) = call.keys_digest() {
            let key = format!("{} {}", call.endpoint(), call.digits());
            keys.entry(digest).or_default().push(key);
        }
    }
    keys.retain(|_, keys| keys.len() > 1);
    keys
}

/// The pages of a listing, each key once.
pub(crate) struct Pages<'a> {
    pattern: &'a str,
    /// Only calls in this state.
    state: Option<State>,
    /// The calls of the pages so far: only those that the listing wants, because a store may have millions of others.
    seen: HashSet<Id>,
    /// Where the next page begins.
    pub(crate) after: Option<Cursor>,
    ended: bool,
    /// How many keys the store looks at for the next page.
    most: usize,
    /// How many taken keys a listing of late keys has left out whose holder may be dead, and the time until all of them are late if
    /// nobody renews them.
    not_late_yet: Option<(u32, Duration)>,
}

/// The most keys that the store looks at for one page.
const MOST: usize = 1000;

impl<'a> Pages<'a> {
    pub(crate) fn new(pattern: &'a str, state: Option<State>, after: Option<Cursor>) -> Self {
        Self {
            pattern,
            state,
            seen: HashSet::new(),
            after,
            ended: false,
            most: 0,
            not_late_yet: None,
        }
    }

    /// The calls of the next page: at most `wanted`, on Redis a few more, because `SCAN` returns all keys of a place in its table. `None`
    /// after the last page.
    pub(crate) async fn next(
        &mut self,
        idempotency: &Idempotency,
        wanted: usize,
    ) -> Result<Option<Vec<ListedCall>>, Failure> {
        if self.ended {
            return Ok(None);
        }
        self.most = self.most.max(wanted).clamp(1, MOST);
        let mut page = self.look(idempotency).await?;
        if self.most > wanted && self.count(&page) > wanted {
            // A cursor continues after a whole page, so a smaller page is read.
            self.most = wanted;
            page = self.look(idempotency).await?;
        }
        self.after = page.next;
        self.ended = self.after.is_none();
        let mut calls = page.records;
        calls.retain(|call| {
            pattern::matches(self.pattern, call.endpoint())
                && self.wants(call)
                && self.seen.insert(id(call))
        });
        // A page without such calls: most keys are others, so the next page looks at more of them.
        self.most = if calls.is_empty() { 4 * self.most } else { 0 };
        Ok(Some(calls))
    }

    /// How many calls of the page the listing wants.
    fn count(&self, page: &Listing) -> usize {
        let is_wanted = |call: &&ListedCall| {
            pattern::matches(self.pattern, call.endpoint())
                && self.state.is_none_or(|wanted| wanted == state_of(call))
        };
        page.records.iter().filter(is_wanted).count()
    }

    fn wants(&mut self, call: &ListedCall) -> bool {
        let state = state_of(call);
        if let (Some(State::Late), State::Taken) = (self.state, state)
            && let Some(times) = KeyTimes::of_listed(call)
            && !times.has_ended()
        {
            let until = times.until_late();
            let (taken, longest) = self.not_late_yet.unwrap_or_default();
            self.not_late_yet = Some((taken.saturating_add(1), longest.max(until)));
        }
        self.state.is_none_or(|wanted| wanted == state)
    }

    async fn look(&self, idempotency: &Idempotency) -> Result<Listing, Failure> {
        let names = pattern::beginning(self.pattern);
        let page = idempotency
            .list(names, self.after.as_ref(), self.most)
            .await;
        match page {
            // A store that lists from its beginning refuses only the cursor, which only the first page has from the arguments.
            Err(Error::Misconfigured(_))
                if self.after.is_some() && idempotency.list(names, None, 1).await.is_ok() =>
            {
                let text =
                    "`--after` is no cursor of this store: write the cursor of the page before";
                Err(Failure::usage(text))
            }
            page => page?.ok_or_else(|| Failure::usage("this store cannot list keys")),
        }
    }
}

/// What tells listed calls apart: the endpoint, the fingerprint, and whether the row is of a transaction.
pub(crate) type Id = (String, Fingerprint, bool);

pub(crate) fn id(call: &ListedCall) -> Id {
    (call.endpoint().to_owned(), call.fingerprint(), call.in_tx())
}

/// The state of a listed call.
pub(crate) fn state_of(call: &ListedCall) -> State {
    match (call.state(), KeyTimes::of_listed(call)) {
        (Some(state), Some(times)) => find::state(state, times),
        _ => State::Foreign,
    }
}

#[derive(Serialize)]
struct Listed<'a> {
    records: Vec<ListedRow<'a>>,
    next: Option<&'a str>,
}

/// A listed call, for programs.
#[derive(Serialize)]
pub(crate) struct ListedRow<'a> {
    endpoint: &'a str,
    digits: String,
    fingerprint: String,
    state: &'static str,
    in_tx: bool,
    holder: Option<&'a str>,
    since: Option<String>,
    free_in_ms: Option<u128>,
    /// Equal for all keys of one call with `also`.
    also: Option<&'a str>,
}

impl<'a> ListedRow<'a> {
    pub(crate) fn of(call: &'a ListedCall) -> Self {
        Self {
            endpoint: call.endpoint(),
            digits: call.digits(),
            fingerprint: call.fingerprint().to_string(),
            state: state_of(call).word(),
            in_tx: call.in_tx(),
            holder: call.holder(),
            since: call.since().map(output::time),
            free_in_ms: call.remaining().map(|remaining| remaining.as_millis()),
            also: call.keys_digest(),
        }
    }
}

fn row(call: &ListedCall, digits: String) -> [String; 6] {
    let dash = || "-".to_owned();
    [
        call.endpoint().to_owned(),
        digits,
        state_of(call).word().to_owned(),
        call.since()
            .map_or_else(dash, |since| output::duration(find::age(since))),
        call.remaining()
            .map_or_else(|| "never".to_owned(), output::duration),
        call.holder().map_or_else(dash, str::to_owned),
    ]
}

#[cfg(test)]
mod tests {
    use idempotence::MemoryStore;

    use super::*;

    #[test]
    fn calls_in_other_states_are_not_kept() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().expect("a runtime");
        runtime.block_on(async {
            let idempotency = Idempotency::new(MemoryStore::new());
            for id in 0..60 {
                let call = idempotency.call("orders.pay").key(&id);
                let call = call.ttl(Duration::from_mins(1));
                let ran = call.run(async { Ok::<_, Error>(()) }).await;
                ran.expect("a first call");
            }
            for (state, kept) in [(Some(State::Late), 0), (Some(State::Done), 60), (None, 60)] {
                let mut pages = Pages::new("*", state, None);
                let mut listed = 0;
                while let Some(page) = pages.next(&idempotency, 10).await.expect("a page") {
                    listed += page.len();
                }
                assert_eq!((listed, pages.seen.len()), (kept, kept), "{state:?}");
            }
        });
    }
}
