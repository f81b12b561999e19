//! Makes the table.

use std::time::Duration;

use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, MultiRegionConsistency,
    ScalarAttributeType, TableDescription, TableStatus, TimeToLiveSpecification, TimeToLiveStatus,
};
use idempotent_runtime::store::{StoreError, StoreErrorKind};
use tokio::time::sleep;

use crate::records::{EXPIRES_AT, ID, Records};

const POLL: Duration = Duration::from_millis(500);

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
    let is_strong = loop {
        let described = client.describe_table().table_name(table).send().await;
        let described = described.map_err(|error| records.error(&error))?;
        let table = described.table();
        match table.and_then(TableDescription::table_status) {
            Some(TableStatus::Active) => break table.is_some_and(is_strongly_consistent),
            Some(TableStatus::Creating | TableStatus::Updating) => sleep(POLL).await,
            status => {
                let status = status.map_or("unknown", TableStatus::as_str);
                let what = format!("the status of the table is {status}");
                let error = StoreError::new(StoreErrorKind::Misconfigured, what);
                let error = error.reason("cannot be used in its status");
                return Err(error.place(records.place()));
            }
        }
    };
    if is_strong || ttl_attribute(records).await?.is_some() {
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

/// Whether the regions of a global table agree on each write. DynamoDB has no TTL for such a table.
pub(crate) fn is_strongly_consistent(table: &TableDescription) -> bool {
    table.multi_region_consistency() == Some(&MultiRegionConsistency::Strong)
}

/// The TTL attribute of the table, if it is on.
pub(crate) async fn ttl_attribute(records: &Records) -> Result<Option<String>, StoreError> {
    let describe = records.client.describe_time_to_live();
    let described = describe.table_name(&records.table).send().await;
    let described = described.map_err(|error| records.error(&error))?;
    let ttl = described.time_to_live_description;
    let is_on = |status: &TimeToLiveStatus| {
        matches!(
            status,
            TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling
        )
    };
    let ttl = ttl.filter(|ttl| ttl.time_to_live_status().is_some_and(is_on));
    Ok(ttl.and_then(|ttl| ttl.attribute_name))
}
