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

/// The client of a URL. The URL's region and the credentials come from the environment if the URL has none.
pub(crate) fn of_url(address: &Address) -> Result<Client, StoreError> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
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
