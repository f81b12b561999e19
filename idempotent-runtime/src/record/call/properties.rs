//! Every written record is read, and any bytes under a key are read or refused.

use arbtest::arbitrary::{Result, Unstructured};

use super::reference::Reference;
use super::*;
use crate::cases::cases;
use crate::handle::Idempotency;
use crate::key::fingerprint::{Digest, Keying};
use crate::record::line::{HOST, LAST_MILLI, LONGEST_HOST};
use crate::store::Store as _;
use crate::store::memory::MemoryStore;
use crate::{Error, Policy, Release};

fn payload(u: &mut Unstructured<'_>) -> Result<Option<Fingerprint>> {
    let payload: Option<u64> = u.arbitrary()?;
    Ok(payload.map(|payload| Fingerprint::of(&(payload,)).expect("an integer")))
}

fn kept(u: &mut Unstructured<'_>) -> Result<Kept> {
    Ok(match u.int_in_range(0..=4)? {
        0 => Kept::Nothing,
        1 => Kept::TooLarge,
        2 => Kept::Unencodable,
        _ => Kept::Result(Stored {
            failure: u.arbitrary()?,
            schema: u.arbitrary()?,
            form: *u.choose(&Form::ALL)?,
            option_depth: u.arbitrary()?,
            bytes: Bytes::from(u.arbitrary::<Vec<u8>>()?),
            tail: Bytes::new(),
        }),
    })
}

struct Written {
    /// Whether an earlier version wrote it.
    is_earlier: bool,
    key: Option<KeyTag>,
    keys: Option<KeysDigest>,
    state: RecordState,
    owner: Owner,
    payload: Option<Fingerprint>,
    since: SystemTime,
    ttl: Duration,
    kept: Kept,
}

impl Written {
    fn any(u: &mut Unstructured<'_>) -> Result<Self> {
        let running = u.arbitrary()?;
        Ok(Self {
            is_earlier: u.arbitrary()?,
            key: u
                .arbitrary::<Option<[u8; 4]>>()?
                .map(|key| KeyTag::for_key(&format!("{key:?}"))),
            keys: payload(u)?.map(|key| KeysDigest::of(&Keying::new(Digest::Md5), &[key])),
            state: if running {
                RecordState::Running
            } else {
                RecordState::Done
            },
            owner: Owner(u.arbitrary()?),
            payload: payload(u)?,
            since: SystemTime::UNIX_EPOCH + Duration::from_millis(u.int_in_range(0..=LAST_MILLI)?),
            ttl: Duration::from_millis(u.arbitrary()?),
            kept: if running { Kept::Nothing } else { kept(u)? },
        })
    }

    fn bytes(&self) -> Bytes {
        let head = Head {
            key: self.key,
            keys: self.keys,
            owner: self.owner,
            payload: self.payload.as_ref(),
            now: Moment::at(self.since),
            ttl: self.ttl,
        };
        write(self.state, &head, &self.kept)
    }

    /// The bytes by the version that wrote it.
    fn stored(&self) -> Bytes {
        if self.is_earlier {
            Bytes::from(self.formatted(true))
        } else {
            self.bytes()
        }
    }

    /// The same bytes, formatted field by field.
    fn formatted(&self, is_earlier: bool) -> Vec<u8> {
        let payload = match self.payload {
            None => "-".to_owned(),
            Some(payload) if is_earlier => payload.to_string(),
            Some(payload) => base64(payload.as_bytes()),
        };
        let state = match self.state {
            RecordState::Running => "R",
            RecordState::Done => "D",
        };
        let process = std::process::id();
        let key = before_host(self.key, self.keys.filter(|_| !is_earlier));
        let host = &HOST[..HOST.len().min(LONGEST_HOST - key.len())];
        let (owner, ttl) = (self.owner.0, self.ttl.as_millis());
        let codec = codec(&self.kept).unwrap_or_else(|| "unencodable".to_owned());
        let line = if is_earlier {
            format!(
                "idem1 {state} owner={owner:032x} payload={payload} since={} for={ttl}ms \
                 by={key}{host}:{process} codec={codec}\n",
                humantime::format_rfc3339_millis(self.since),
            )
        } else {
            let since = self.since.duration_since(SystemTime::UNIX_EPOCH);
            let line = format!(
                "idem2 {state} {} {} {ttl} {key}{host}:{process} {payload} {codec}\n",
                base64(&owner.to_be_bytes()),
                since.expect("a time after 1970").as_millis(),
            );
            without_ends(&line)
        };
        let mut bytes = line.into_bytes();
        if let Kept::Result(stored) = &self.kept {
            bytes.extend_from_slice(&stored.bytes);
        }
        bytes
    }
}

/// The line without a payload and a codec that are both `-`.
fn without_ends(line: &str) -> String {
    match line.strip_suffix(" - -\n") {
        Some(line) => format!("{line}\n"),
        None => line.to_owned(),
    }
}

/// Base64 without padding, from a text of bits.
fn base64(bytes: &[u8]) -> String {
    let bits: Vec<_> = bytes.iter().map(|byte| format!("{byte:08b}")).collect();
    let mut bits = bits.concat();
    bits.extend(std::iter::repeat_n('0', (6 - bits.len() % 6) % 6));
    let digits = ('A'..='Z').chain('a'..='z').chain('0'..='9');
    let digits: Vec<_> = digits.chain(['+', '/']).collect();
    let six = bits.as_bytes().chunks(6).map(|bits| {
        let bits = str::from_utf8(bits).expect("ASCII");
        digits[usize::from_str_radix(bits, 2).expect("six bits")]
    });
    six.collect()
}

fn before_host(key: Option<KeyTag>, keys: Option<KeysDigest>) -> String {
    let mut text = Vec::new();
    text.extend(key.iter().flat_map(|key| [&key.0[..], b".."].concat()));
    text.extend(keys.iter().flat_map(|keys| [&keys.0[..], b".."].concat()));
    String::from_utf8(text).expect("ASCII")
}

/// The text of the codec in a record; `None` if it is not known.
fn codec(kept: &Kept) -> Option<String> {
    Some(match kept {
        Kept::Nothing => "-".to_owned(),
        Kept::TooLarge => "too-large".to_owned(),
        Kept::Unencodable | Kept::Unknown => "unencodable".to_owned(),
        Kept::Unreadable => return None,
        Kept::Result(stored) => {
            let (form, side) = (
                stored.form.name(),
                if stored.failure { "err" } else { "ok" },
            );
            format!(
                "{form}:{side}:{}:{:08x}",
                stored.option_depth, stored.schema
            )
        }
    })
}

#[test]
fn a_record_is_written_as_its_fields_are_formatted() {
    cases(300, |u| {
        let written = Written::any(u)?;
        assert_eq!(written.bytes(), written.formatted(false));
        Ok(())
    });
}

#[test]
fn a_record_is_read_as_it_was_written() {
    cases(300, |u| {
        let written = Written::any(u)?;
        let bytes = written.stored();
        let read = Record::read(&bytes).expect("a record");
        assert_eq!(read.state, written.state);
        assert_eq!(read.since, written.since);
        assert_eq!(read.ttl, written.ttl);
        let process = format!(":{}", std::process::id());
        let host = read.holder().strip_suffix(&process);
        assert!(host.is_some_and(|host| HOST.starts_with(host)));
        assert_eq!(read.kept(), written.kept);
        assert_eq!(read.key, written.key);
        assert_eq!(read.keys, written.keys.filter(|_| !written.is_earlier));
        let other = payload(u)?;
        let differs = written.payload.is_some() && other.is_some() && written.payload != other;
        assert_eq!(read.differs_from(other.as_ref()), differs);
        assert!(!read.differs_from(written.payload.as_ref()));
        Ok(())
    });
}

/// Writes the line of a record again, from the fields that were read.
fn as_written(bytes: &Bytes, record: &Record<'_>) -> Vec<u8> {
    let state = match record.state {
        RecordState::Running => "R",
        RecordState::Done => "D",
    };
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("ASCII");
    let payload = text(record.payload().unwrap_or(b"-"));
    let (ttl, holder) = (record.ttl.as_millis(), holder(record));
    let codec = codec(&record.kept()).unwrap_or_else(|| text(codec_in(&bytes[..record.result])));
    let line = if bytes.starts_with(b"idem1") {
        let (owner, since) = (text(&bytes[14..46]), record.since_text());
        format!(
            "idem1 {state} owner={owner} payload={payload} since={since} for={ttl}ms by={holder} codec={codec}\n"
        )
    } else {
        let since = record.since.duration_since(SystemTime::UNIX_EPOCH);
        let since = since.expect("a time after 1970").as_millis();
        let owner = text(&bytes[8..30]);
        let line = format!("idem2 {state} {owner} {since} {ttl} {holder} {payload} {codec}\n");
        without_ends(&line)
    };
    line.into_bytes()
}

/// The holder in the line, as a version reads it that does not know the digits of the key and of all keys.
fn holder(record: &Record<'_>) -> String {
    before_host(record.key, record.keys) + record.holder()
}

/// The codec at the end of a line.
fn codec_in(line: &[u8]) -> &[u8] {
    let line = &line[..line.len() - 1];
    let mut fields = line.split(|byte| *byte == b' ');
    match fields.nth(7) {
        None if line.starts_with(b"idem2") => b"-",
        codec => {
            let codec = codec.expect("eight fields");
            codec.strip_prefix(b"codec=").unwrap_or(codec)
        }
    }
}

/// The bytes of a record after a few changes, or arbitrary bytes.
fn broken(u: &mut Unstructured<'_>) -> Result<Bytes> {
    if u.ratio(1, 8)? {
        return Ok(Bytes::from(u.arbitrary::<Vec<u8>>()?));
    }
    let mut bytes = Written::any(u)?.stored().to_vec();
    for _ in 0..u.int_in_range(0..=3)? {
        let at = u.choose_index(bytes.len().max(1))?;
        match u.int_in_range(0..=5)? {
            _ if bytes.is_empty() => bytes.push(u.arbitrary()?),
            0 => bytes[at] = u.arbitrary()?,
            1 => bytes[at] = *u.choose(b" \n:=-09azRD\xff\0")?,
            2 => bytes.insert(at, *u.choose(b" \n:=-09azRD\xff\0")?),
            3 => drop(bytes.remove(at)),
            4 => bytes.truncate(at),
            // This repeats fields, or puts them in the wrong place.
            _ => bytes.extend_from_within(at..),
        }
    }
    Ok(Bytes::from(bytes))
}

#[test]
fn any_bytes_are_read_or_refused() {
    cases(300, |u| {
        let bytes = broken(u)?;
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(u.arbitrary::<u32>()?.into());
        if let Some(record) = Record::read(&bytes) {
            let remaining = record.remaining_at(record.age(now));
            assert!(remaining <= record.ttl);
            assert_eq!(as_written(&bytes, &record), bytes[..record.result]);
            let _ = record.is_failure();
            let _ = record.differs_from(payload(u)?.as_ref());
            if let Kept::Result(stored) = record.kept() {
                assert!(bytes.ends_with(&stored.bytes));
            }
        }
        Ok(())
    });
}

#[test]
fn the_reference_reads_the_same_records() {
    let (mut read, mut refused) = (0, 0);
    cases(300, |u| {
        let bytes = broken(u)?;
        let (record, expected) = match (Record::read(&bytes), Reference::read(&bytes)) {
            (None, None) => {
                refused += 1;
                return Ok(());
            }
            (record, reference) => (
                record.unwrap_or_else(|| panic!("the reference reads {bytes:?}")),
                reference.unwrap_or_else(|| panic!("the reference refuses {bytes:?}")),
            ),
        };
        read += 1;
        assert_eq!(record.state, expected.state);
        assert_eq!(record.since, expected.since);
        assert_eq!(record.ttl, expected.ttl);
        assert_eq!(holder(&record), expected.holder);
        assert_eq!(record.payload(), expected.payload.map(str::as_bytes));
        assert_eq!(record.result, expected.result);
        assert_eq!(codec_in(&bytes[..record.result]), expected.codec.as_bytes());
        assert_eq!(record.is_failure(), expected.is_failure());
        assert_eq!(record.kept(), expected.kept());
        Ok(())
    });
    assert!(
        read > 1000 && refused > 1000,
        "{read} read, {refused} refused"
    );
}

#[test]
fn a_call_that_finds_any_bytes_is_answered_and_does_not_run() {
    let clock = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    let (mut foreign, mut ours) = (0, 0);
    cases(300, |u| {
        let bytes = broken(u)?;
        let policy = Policy::new(Duration::from_secs(20));
        let release = *u.choose(&[Release::Always, Release::OnError, Release::Never])?;
        let waits = u.arbitrary()?;
        let key = format!("idem:test:{}", Fingerprint::of(&(1,)).expect("an integer"));
        let is_ours =
            Record::read(&bytes).is_some_and(|read| read.may_be_of(|| KeyTag::for_key(&key)));
        let found = clock.block_on(async {
            let store = MemoryStore::new();
            let year = Duration::from_hours(24 * 365);
            let put = store.claim(&key, &bytes, year).await;
            put.expect("the store is empty");
            let idempotency = Idempotency::new(store);
            let call = idempotency
                .call("test")
                .key(&1)
                .ttl(policy.ttl)
                .release(release);
            let call = if waits {
                call.wait(Duration::from_millis(1))
            } else {
                call
            };
            let call = call.payload(&7);
            let found = match release {
                Release::Always => call.run(async { ran() }).await,
                _ => call.replay().run(async { ran() }).await,
            };
            let peeked = idempotency.peek("test", &(1,)).await;
            assert_eq!(peeked.is_ok(), is_ours);
            let _ = format!("{found:?} {peeked:?}");
            found
        });
        match found {
            Err(Error::ForeignRecord(_)) => {
                assert!(!is_ours);
                foreign += 1;
            }
            Err(error) => {
                let duplicate = error.duplicate().expect("the error of a duplicate");
                let hint = error.retry_after();
                assert!(hint <= duplicate.free_in(), "{duplicate:?}");
                let _ = (error.to_string(), error.code());
                ours += 1;
            }
            Ok(_) => ours += 1,
        }
        Ok(())
    });
    assert!(
        foreign > 1000 && ours > 1000,
        "{foreign} foreign, {ours} own records"
    );
}

fn ran() -> std::result::Result<Option<u64>, Error> {
    panic!("the body ran although its key has a record")
}
