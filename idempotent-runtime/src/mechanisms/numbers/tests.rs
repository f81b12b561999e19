//! Texts that are not numbers, and machines whose clocks differ.

use super::number::{Proof, parse};
use super::*;
use crate::cases::cases;

#[test]
fn only_the_exact_text_of_a_number_is_read() {
    let (mut read, mut refused) = (0_u32, 0_u32);
    cases(64, |u| {
        let bits: u32 = u.int_in_range(0..=63)?;
        let number = u.int_in_range(0..=i64::MAX.cast_unsigned() >> bits)?;
        let mac: [u8; 32] = u.arbitrary()?;
        let proof = Proof::from_mac(&mac);
        let text = OrderNumber::new(number, proof).to_string();
        assert!(parse(&text) == Some((number, proof)), "{text}");
        let mut bytes = text.into_bytes();
        for _ in 0..u.int_in_range(1..=3)? {
            let at = u.int_in_range(0..=bytes.len())?;
            match u.int_in_range(0..=2)? {
                0 => bytes.insert(at, u.arbitrary()?),
                1 if at < bytes.len() => drop(bytes.remove(at)),
                _ if at < bytes.len() => bytes[at] = *u.choose(b"0123456789abcdefABCDEF-+ \0")?,
                _ => {}
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        match parse(&text) {
            Some((number, proof)) => {
                assert_eq!(OrderNumber::new(number, proof).as_str(), text);
                read += 1;
            }
            None => refused += 1,
        }
        Ok(())
    });
    assert!(read > 100 && refused > 100, "{read} {refused}");
}

#[test]
fn any_text_is_read_without_a_panic() {
    cases(200, |u| {
        let text: &str = u.arbitrary()?;
        if let Some((number, proof)) = parse(text) {
            assert_eq!(OrderNumber::new(number, proof).as_str(), text);
        }
        Ok(())
    });
}

#[test]
fn numbers_above_a_bigint_are_refused() {
    let proof = "0".repeat(20);
    assert!(parse(&format!("9223372036854775807-{proof}")).is_some());
    for number in [
        "9223372036854775808",
        "18446744073709551615",
        "-1",
        "+1",
        "01",
        "",
    ] {
        assert!(parse(&format!("{number}-{proof}")).is_none(), "{number}");
    }
}

mod handed_over {
    use std::collections::HashSet;
    use std::future::pending;
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::time::{Instant, advance, sleep, sleep_until};

    use super::*;
    use crate::handle::Idempotency;
    use crate::simulation::source::clock_ahead;
    use crate::store::memory::MemoryStore;
    use crate::store::{Bytes, Store, StoreError, Swap, Wrap, async_trait};

    const SECRET: &str = "0123456789abcdef";
    const LEASE: Duration = Duration::from_secs(10);
    const SKEW: Duration = Duration::from_secs(5);
    const HOUR: Duration = Duration::from_hours(1);
    const MILLISECOND: Duration = Duration::from_millis(1);

    /// How the first machine loses its id.
    #[derive(Debug, Clone, Copy)]
    enum End {
        /// Its lease expires, because the store is unavailable.
        Lease,
        /// It gives its id back after a burst of numbers.
        Release,
    }

    /// Answers no renewal while it hangs. A clone shares the records.
    #[derive(Debug, Clone, Default)]
    struct Hanging {
        store: MemoryStore,
        hangs: Arc<AtomicBool>,
    }

    #[async_trait]
    impl Wrap for Hanging {
        type Inner = MemoryStore;

        fn inner(&self) -> &MemoryStore {
            &self.store
        }

        async fn replace(
            &self,
            key: &str,
            expected: &Bytes,
            value: &Bytes,
            ttl: Duration,
        ) -> Result<Swap, StoreError> {
            if self.hangs.load(Ordering::Relaxed) {
                pending::<()>().await;
            }
            self.store.replace(key, expected, value, ttl).await
        }
    }

    async fn machine(store: &Hanging) -> Option<OrderNumbers> {
        let idempotency = Idempotency::new(store.clone());
        let numbers = OrderNumbers::builder(&idempotency, "orders", SECRET);
        numbers.lease(LEASE).skew(SKEW).build().await.ok()
    }

    fn issue(numbers: &OrderNumbers, numbers_of_one: &mut HashSet<i64>) -> bool {
        let number = numbers.issue(&42).map(|number| number.value());
        let issued = number.is_ok();
        assert!(number.is_err() || numbers_of_one.insert(number.unwrap()));
        issued
    }

    /// The number of order numbers that both machines made. The second machine leases the id of the first as soon as possible,
    /// and its clock is `behind`.
    async fn made_twice(behind: Duration, end: End) -> usize {
        let began = Instant::now();
        let store = Hanging::default();
        let clock = clock_ahead(HOUR);
        let first = machine(&store).await.unwrap();
        drop(clock);

        let (mut of_first, mut of_second) = (HashSet::new(), HashSet::new());
        assert!(issue(&first, &mut of_first));
        let id = of_first.iter().next().unwrap() >> 12 & 1023;
        for other in (0..1024).filter(|other| *other != id) {
            let (key, value) = (
                format!("idem:#machine:orders:{other}"),
                Bytes::from("another"),
            );
            Store::claim(&store, &key, &value, HOUR).await.unwrap();
        }
        match end {
            End::Lease => {
                store.hangs.store(true, Ordering::Relaxed);
                sleep_until(began + LEASE - Duration::from_secs(1)).await;
                while issue(&first, &mut of_first) {
                    advance(MILLISECOND).await;
                }
                assert_eq!(began.elapsed(), LEASE);
            }
            End::Release => {
                // The times of these numbers are ahead of the clock, because only 4096 numbers fit into a millisecond.
                for _ in 0..20_000 {
                    assert!(issue(&first, &mut of_first));
                }
                drop(first);
                // Lets the task of the first machine run.
                sleep(MILLISECOND).await;
            }
        }
        sleep_until(Instant::now() + SKEW - MILLISECOND * 10).await;
        let clock = clock_ahead((HOUR + began.elapsed()).saturating_sub(behind));
        let second = loop {
            match machine(&store).await {
                Some(second) => break second,
                None => advance(MILLISECOND).await,
            }
            assert!(began.elapsed() < HOUR, "the second machine must get the id");
        };
        drop(clock);
        for _ in 0..4000 {
            assert!(issue(&second, &mut of_second));
            if of_second.len() % 4 == 0 {
                advance(MILLISECOND).await;
            }
        }
        assert!(of_second.iter().all(|number| number >> 12 & 1023 == id));
        of_first.intersection(&of_second).count()
    }

    #[tokio::test(start_paused = true)]
    async fn within_the_skew_a_re_leased_id_makes_no_number_twice() {
        for end in [End::Lease, End::Release] {
            for behind in [Duration::ZERO, SKEW / 2, SKEW.saturating_sub(MILLISECOND)] {
                assert_eq!(made_twice(behind, end).await, 0, "{behind:?} {end:?}");
            }
        }
    }

    /// The negative control of the test above.
    #[tokio::test(start_paused = true)]
    async fn beyond_the_skew_numbers_are_made_twice() {
        for end in [End::Lease, End::Release] {
            let twice = made_twice(SKEW + Duration::from_millis(200), end).await;
            assert!(twice > 0, "{end:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn numbers_grow_even_if_the_clock_is_set_back_before_the_next_lease() {
        let store = Hanging::default();
        let clock = clock_ahead(HOUR);
        let numbers = machine(&store).await.unwrap();
        let before = numbers.issue(&42).unwrap().value();
        drop(clock);
        let _an_hour_back = clock_ahead(Duration::ZERO);
        // The store loses the id, and the next renewal notices it.
        let key = format!("idem:#machine:orders:{}", before >> 12 & 1023);
        let record = Store::get(&store, &key).await.unwrap().unwrap().value;
        Store::remove(&store, &key, &record).await.unwrap();
        sleep(LEASE / 2).await;
        let after = numbers.issue(&42).unwrap().value();
        assert!(after > before);
        assert_ne!(after >> 12 & 1023, before >> 12 & 1023);
    }
}
