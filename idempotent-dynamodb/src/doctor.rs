//! Findings about the setup of a table.

use std::time::Duration;

use aws_sdk_dynamodb::types::{
    MultiRegionConsistency, TableDescription, TableStatus, TimeToLiveStatus,
};
use idempotent_runtime::store::Finding;
use idempotent_runtime::store::Level::{Fine, Note, Problem, Warning};
use tokio::time::timeout;

use crate::clock::whole_millis;
use crate::records::{EXPIRES_AT, ID, Records};

/// AWS refuses requests whose signature is older.
const REFUSED: i64 = 5 * 60 * 1000;

/// Asks DynamoDB about the table.
pub(crate) async fn examine(records: &Records, deadline: Duration) -> Vec<Finding> {
    let Records { client, table, .. } = records;
    let describe = client.describe_table().table_name(table).send();
    let mut findings = match timeout(deadline, describe).await {
        Ok(Ok(described)) => described.table().map(of_table).unwrap_or_default(),
        Ok(Err(error)) => {
            let found = format!("the table cannot be examined: {}", records.error(&error));
            let advice = "allow `dynamodb:DescribeTable`";
            vec![Finding::new(Note, found).advise(advice)]
        }
        Err(_) => vec![Finding::new(Warning, "DynamoDB did not answer in time")],
    };
    let describe = client.describe_time_to_live().table_name(table).send();
    if let Ok(Ok(described)) = timeout(deadline, describe).await {
        let ttl = described.time_to_live_description();
        let is_on = ttl.is_some_and(|ttl| {
            let status = ttl.time_to_live_status();
            ttl.attribute_name() == Some(EXPIRES_AT)
                && matches!(
                    status,
                    Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling)
                )
        });
        if !is_on {
            let found =
                "the table has no TTL attribute: expired records stay, and you pay for them";
            findings.push(Finding::new(Warning, found).advise(format!(
                "run `aws dynamodb update-time-to-live --table-name {table} --time-to-live-specification \
                 Enabled=true,AttributeName={EXPIRES_AT}`"
            )));
        }
    }
    findings.extend(clock(records));
    findings
}

fn of_table(table: &TableDescription) -> Vec<Finding> {
    let mut findings = Vec::new();
    let name = table.table_name().unwrap_or_default();
    let key = table.key_schema();
    if let [id] = key
        && id.attribute_name() == ID
    {
        findings.push(match table.table_status() {
            Some(TableStatus::Active | TableStatus::Updating) | None => {
                Finding::new(Fine, format!("the table {name} of DynamoDB is ready"))
            }
            Some(status) => {
                Finding::new(Problem, format!("the table {name} is {}", status.as_str()))
            }
        });
    } else {
        let found = format!("the key of the table {name} is not the attribute `{ID}` alone");
        findings.push(Finding::new(Problem, found).advise("make a table of its own"));
    }
    let is_strong = table.multi_region_consistency() == Some(&MultiRegionConsistency::Strong);
    if !table.replicas().is_empty() && !is_strong {
        let found =
            "the table is global without strong consistency: each region admits a call of a key";
        findings.push(
            Finding::new(Problem, found)
                .advise("send all calls to one region, or use multi-Region strong consistency"),
        );
    }
    findings
}

/// How far the clock of this machine is from the clock of DynamoDB.
fn clock(records: &Records) -> Option<Finding> {
    let distance = records.clock.distance()?;
    if distance.abs() <= whole_millis(records.margin) {
        return None;
    }
    let side = if distance < 0 { "ahead of" } else { "behind" };
    let seconds = distance.abs() / 1000;
    let found = format!("the clock of this machine is {seconds} s {side} the clock of DynamoDB");
    let level = if distance.abs() < REFUSED {
        Warning
    } else {
        Problem
    };
    Some(Finding::new(level, found).advise(
        "synchronise it, for example by chrony: calls take the time from DynamoDB, but AWS refuses signatures of a clock that is five \
         minutes off",
    ))
}
