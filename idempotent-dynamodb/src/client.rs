//! Makes the client of the SDK.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Config, Credentials, Region};
use aws_smithy_http_client::Builder;
use aws_smithy_http_client::tls::{Provider, rustls_provider::CryptoMode};
use idempotent_runtime::store::StoreError;

use crate::clock::Clock;
use crate::failure::bad_url;
use crate::url::Address;

/// The client of a URL. The credentials come from the environment, and the region if the URL has none.
pub(crate) fn of_url(
    address: &Address,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Client, StoreError> {
    let variable = |name| environment(name).filter(|value| !value.is_empty());
    let region = address.region.clone();
    let region = region
        .or_else(|| variable("AWS_REGION"))
        .or_else(|| variable("AWS_DEFAULT_REGION"))
        .ok_or_else(|| bad_url("must have a `region`, or the environment `AWS_REGION`"))?;
    let (key, secret) = variable("AWS_ACCESS_KEY_ID")
        .zip(variable("AWS_SECRET_ACCESS_KEY"))
        .ok_or_else(|| {
            bad_url(
                "needs `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY` in the environment; with other credentials make a client by \
                 `aws-config` and pass it to `DynamoDbStore::new`",
            )
        })?;
    let token = variable("AWS_SESSION_TOKEN");
    let tls = Provider::Rustls(CryptoMode::Ring);
    let mut config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new(region))
        .credentials_provider(Credentials::new(key, secret, token, None, "environment"))
        .http_client(Builder::new().tls_provider(tls).build_https());
    config.set_endpoint_url(address.endpoint.clone());
    Ok(Client::from_conf(config.build()))
}

/// The same client, which measures the clock of the server. Calls send a request again themselves, until their deadline.
pub(crate) fn with_clock(client: &Client) -> (Client, Clock) {
    let config = client.config();
    let clock = Clock::new(config.time_source().unwrap_or_default());
    let config = config
        .to_builder()
        .retry_config(RetryConfig::disabled())
        .interceptor(clock.clone());
    (Client::from_conf(config.build()), clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_has_the_credentials_and_the_region() {
        const KEYS: [&str; 2] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
        let client = |url: &str, set: &[&str]| {
            let address = Address::parse(url).expect("a URL");
            of_url(&address, |name| {
                let is_set = set.contains(&name) || KEYS.contains(&name) && set.is_empty();
                is_set.then(|| "us-west-2".to_owned())
            })
        };
        let region = |client: Result<Client, StoreError>| {
            let client = client.expect("a client");
            client.config().region().map(ToString::to_string)
        };
        let [key, secret] = KEYS;
        let url = "dynamodb://table?region=eu-central-1";
        assert_eq!(region(client(url, &[])).as_deref(), Some("eu-central-1"));
        let all = [key, secret, "AWS_REGION"];
        assert_eq!(
            region(client("dynamodb://table", &all)).as_deref(),
            Some("us-west-2")
        );
        for (url, set, reason) in [
            ("dynamodb://table", &[][..], "must have a `region`"),
            (url, &[key][..], "needs `AWS_ACCESS_KEY_ID`"),
        ] {
            let text = client(url, set).expect_err(reason).to_string();
            assert!(
                text.starts_with(&format!("the DynamoDB URL {reason}")),
                "{text}"
            );
        }
    }
}
