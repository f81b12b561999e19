//! The time of the first try.

use std::time::{Duration, SystemTime};

use http::HeaderValue;

/// When a request was first sent: the header `Repeatability-First-Sent` of
/// [`Profile::Repeatability`](crate::Profile::Repeatability), in seconds.
///
/// The server runs nothing for a time outside of its window, because it may have forgotten the key. The middleware sends the time of
/// its own first try. A program that sends a request again after a restart stores this time with the key before the first try, and
/// adds both to each request:
///
/// ```
/// use idempotence_client::{FirstSent, OutgoingKey};
///
/// # fn request(client: &reqwest_middleware::ClientWithMiddleware) -> reqwest_middleware::RequestBuilder {
/// let (key, first_sent) = (OutgoingKey::random(), FirstSent::now()); // or the stored ones: `FirstSent::at(stored_time)`
/// client
///     .post("https://shop.example/orders")
///     .with_extension(key)
///     .with_extension(first_sent)
/// # }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FirstSent(SystemTime);

/// The last second of the year 9999, after 1970. A date of HTTP cannot be later.
const LAST: Duration = Duration::from_secs(253_402_300_799);

impl FirstSent {
    /// The time of this moment.
    pub fn now() -> Self {
        Self::at(SystemTime::now())
    }

    /// This time. A time before 1970 or after 9999 becomes the nearest one between them, because a date of HTTP has four digits for
    /// the year.
    pub fn at(time: SystemTime) -> Self {
        let first = SystemTime::UNIX_EPOCH;
        Self(time.clamp(first, first + LAST))
    }

    /// The time.
    pub fn time(self) -> SystemTime {
        self.0
    }

    /// The value of the header.
    pub(crate) fn header(self) -> Option<HeaderValue> {
        HeaderValue::try_from(httpdate::fmt_http_date(self.0)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_a_date_of_http() {
        let epoch = SystemTime::UNIX_EPOCH;
        let hour = Duration::from_hours(1);
        for (time, date) in [
            (epoch - hour, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (
                epoch + Duration::from_secs(784_111_777),
                "Sun, 06 Nov 1994 08:49:37 GMT",
            ),
            (epoch + LAST + hour, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(FirstSent::at(time).header().unwrap(), date);
        }
    }
}
