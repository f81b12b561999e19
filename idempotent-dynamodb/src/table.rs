//! Makes the table.

use std::time::Duration;

use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType, TableStatus,
    TimeToLiveSpecification, TimeToLiveStatus,
};
use idempotent_runtime::store::{StoreError, StoreErrorKind};
use tokio::time::sleep;

use crate::records::{EXPIRES_AT, ID, Records};

const POLL: Duration = Duration::from_millis(500);

fn incomplete_table(what: String) -> StoreError {
    StoreError::new(StoreErrorKind::Misconfigured, what).reason("cannot be used in its status")
}

/// Makes the table if it does not exist, and its TTL attribute if it has none.
pub(crate) async fn create(records: &Records) -> Result<(), StoreError> {
    let Records { client, table, .. } = records;
    let incomplete = |error| StoreError::new(StoreErrorKind::Misconfigured, error);
    let id = AttributeDefinition::builder()
        .attribute_name(ID)
        .attribute_type(ScalarAttributeType::S);
    let key = KeySchemaElement::builder()
        .attribute_name(ID)
        .key_type(KeyType::Hash);
    let create = client
        .create_table()
        .table_name(table)
        .attribute_definitions(id.build().map_err(incomplete)?)
        .key_schema(key.build().map_err(incomplete)?)
        .billing_mode(BillingMode::PayPerRequest);
    if let Err(error) = create.send().await {
        let exists = error
            .as_service_error()
            .is_some_and(CreateTableError::is_resource_in_use_exception);
        if !exists {
            return Err(records.error(&error));
        }
    }
    loop {
        let described = client.describe_table().table_name(table).send().await;
        let described = described.map_err(|error| records.error(&error))?;
        let status = described.table().and_then(|table| table.table_status());
        match status {
            Some(TableStatus::Active) => break,
            Some(TableStatus::Creating | TableStatus::Updating) => sleep(POLL).await,
            status => {
                let status = status.map_or("unknown", TableStatus::as_str);
                let what = format!("the status of the table is {status}");
                return Err(incomplete_table(what).place(records.place()));
            }
        }
    }
    let described = client.describe_time_to_live().table_name(table).send();
    let described = described.await.map_err(|error| records.error(&error))?;
    let status = described
        .time_to_live_description()
        .and_then(|described| described.time_to_live_status());
    if let Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling) = status {
        return Ok(());
    }
    let ttl = TimeToLiveSpecification::builder()
        .attribute_name(EXPIRES_AT)
        .enabled(true);
    let update = client
        .update_time_to_live()
        .table_name(table)
        .time_to_live_specification(ttl.build().map_err(incomplete)?);
    let updated = update.send().await;
    updated.map(drop).map_err(|error| records.error(&error))
}
