//! Parsing the URL of a table.

use std::time::Duration;

use idempotent_runtime::port::dynamodb::read_duration;
use idempotent_runtime::store::StoreError;
use percent_encoding::percent_decode_str;

use crate::failure::bad_url;

/// A parsed URL.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Address {
    pub(crate) table: String,
    pub(crate) region: Option<String>,
    pub(crate) endpoint: Option<String>,
    pub(crate) margin: Option<Duration>,
}

impl Address {
    /// Parses `dynamodb://table?region=eu-central-1`.
    ///
    /// # Errors
    ///
    /// If the URL is malformed. The text repeats no part of the URL.
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        let rest = url
            .strip_prefix("dynamodb://")
            .ok_or_else(|| bad_url("must begin with `dynamodb://`"))?;
        let (table, query) = rest.split_once('?').unwrap_or((rest, ""));
        let table = table.strip_suffix('/').unwrap_or(table);
        let is_name = |char: char| char.is_ascii_alphanumeric() || "_-.".contains(char);
        if !(3..=255).contains(&table.len()) || !table.chars().all(is_name) {
            return Err(bad_url(
                "must name a table, of 3 to 255 letters, digits and `_-.`, like `dynamodb://idempotence?region=eu-central-1`",
            ));
        }
        let mut address = Self {
            table: table.to_owned(),
            ..Self::default()
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_decode_str(value).decode_utf8();
            let value = value.map_err(|_| bad_url("must be UTF-8 after `%` is decoded"))?;
            match name {
                "region" if !value.is_empty() => address.region = Some(value.into_owned()),
                "endpoint" if value.starts_with("http://") || value.starts_with("https://") => {
                    address.endpoint = Some(value.into_owned());
                }
                "margin" => address.margin = Some(parse_margin(&value)?),
                "region" | "endpoint" => {
                    return Err(bad_url(
                        "must have a `region` like `eu-central-1`, and an `endpoint` like `http://localhost:8000`",
                    ));
                }
                _ => {
                    return Err(bad_url(
                        "has an unknown parameter: the parameters are `region`, `endpoint` and `margin`",
                    ));
                }
            }
        }
        Ok(address)
    }
}

/// A duration of at most an hour.
fn parse_margin(text: &str) -> Result<Duration, StoreError> {
    let margin = read_duration(text).ok();
    margin
        .filter(|margin| *margin <= Duration::from_hours(1))
        .ok_or_else(|| bad_url("must have a `margin` like `2s` or `500ms`, of at most an hour"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_the_table_and_its_service() {
        for (url, region, endpoint, margin) in [
            ("dynamodb://a.B-1_", None, None, None),
            ("dynamodb://a.B-1_/?", None, None, None),
            (
                "dynamodb://a.B-1_?region=eu-central-1&endpoint=http://localhost:8000&margin=500ms",
                Some("eu-central-1"),
                Some("http://localhost:8000"),
                Some(500),
            ),
            (
                "dynamodb://a.B-1_?endpoint=https%3A%2F%2F10.0.0.1&margin=3s",
                None,
                Some("https://10.0.0.1"),
                Some(3000),
            ),
        ] {
            let expected = Address {
                table: "a.B-1_".to_owned(),
                region: region.map(str::to_owned),
                endpoint: endpoint.map(str::to_owned),
                margin: margin.map(Duration::from_millis),
            };
            assert_eq!(Address::parse(url).expect(url), expected);
        }
    }

    #[test]
    fn a_wrong_url_is_refused() {
        for (url, reason) in [
            ("dynamo://table", "must begin with `dynamodb://`"),
            ("dynamodb:table", "must begin with `dynamodb://`"),
            ("dynamodb://", "must name a table"),
            ("dynamodb://ab", "must name a table"),
            ("dynamodb://user:s3cret@table", "must name a table"),
            ("dynamodb://table#1", "must name a table"),
            ("dynamodb://table?region=", "must have a `region`"),
            (
                "dynamodb://table?endpoint=localhost",
                "must have a `region`",
            ),
            ("dynamodb://table?margin=2", "must have a `margin`"),
            ("dynamodb://table?margin=2h", "must have a `margin`"),
            ("dynamodb://table?margin=3601s", "must have a `margin`"),
            ("dynamodb://table?region=%ff", "must be UTF-8"),
            ("dynamodb://table?secret=s3cret", "has an unknown parameter"),
        ] {
            let error = Address::parse(url).expect_err(url);
            let text = error.to_string();
            let begin = format!("the DynamoDB URL {reason}");
            assert!(text.starts_with(&begin), "{url}: {text}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        }
    }
}
