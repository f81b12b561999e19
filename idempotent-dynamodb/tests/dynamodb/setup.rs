//! Clients.

use idempotence::dynamodb::aws_sdk_dynamodb::Client;
use idempotence::dynamodb::aws_sdk_dynamodb::config::{
    BehaviorVersion, Builder, Config, Credentials, Region,
};

/// A client of the service at this address, with any credentials.
pub(crate) fn client(endpoint: &str) -> Client {
    Client::from_conf(config(endpoint).build())
}

pub(crate) fn config(endpoint: &str) -> Builder {
    Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new("key", "secret", None, None, "tests"))
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .endpoint_url(endpoint)
}
