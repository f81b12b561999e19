//! Findings about the setup of a table.

use std::time::Duration;

use aws_sdk_dynamodb::types::{TableDescription, TableStatus};
use idempotent_runtime::store::Finding;
use idempotent_runtime::store::Level::{Fine, Note, Problem, Warning};
use tokio::time::timeout;

use crate::clock::whole_millis;
use crate::records::{EXPIRES_AT, ID, Records};
use crate::table::{is_strongly_consistent, ttl_attribute};

/// AWS refuses requests whose signature is older.
const REFUSED: i64 = 5 * 60 * 1000;

/// Asks DynamoDB about the table.
pub(crate) async fn examine(records: &Records, deadline: Duration) -> Vec<Finding> {
    let Records { client, table, .. } = records;
    let describe = client.describe_table().table_name(table).send();
    let mut is_strong = false;
    let mut findings = match timeout(deadline, describe).await {
        Ok(Ok(described)) => {
            is_strong = described.table().is_some_and(is_strongly_consistent);
            described.table().map(of_table).unwrap_or_default()
        }
        Ok(Err(error)) => {
            let found = format!("the table cannot be examined: {}", records.error(&error));
            let advice = "allow `dynamodb:DescribeTable`";
            vec![Finding::new(Note, found).advise(advice)]
        }
        Err(_) => vec![Finding::new(Warning, "DynamoDB did not answer in time")],
    };
    if let Ok(Ok(attribute)) = timeout(deadline, ttl_attribute(records)).await {
        findings.extend(of_ttl(table, is_strong, attribute.as_deref()));
    }
    findings.extend(clock(records));
    findings
}

/// Whether expired records are removed.
fn of_ttl(table: &str, is_strong: bool, attribute: Option<&str>) -> Option<Finding> {
    if attribute == Some(EXPIRES_AT) {
        return None;
    }
    let found = "the table has no TTL attribute: expired records stay, and you pay for them";
    let finding = Finding::new(Warning, found);
    Some(if is_strong {
        finding.advise(format!(
            "DynamoDB has no TTL for tables with multi-Region strong consistency: delete items whose `{EXPIRES_AT}` is over a day old"
        ))
    } else {
        finding.advise(format!(
            "run `aws dynamodb update-time-to-live --table-name {table} --time-to-live-specification \
             Enabled=true,AttributeName={EXPIRES_AT}`"
        ))
    })
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
    if !table.replicas().is_empty() && !is_strongly_consistent(table) {
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
    let distance = records.clock.now()?.distance();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_ttl_is_advised_where_dynamodb_has_none() {
        let advice = |is_strong, attribute| {
            let finding = of_ttl("table", is_strong, attribute);
            finding.map(|finding| finding.advice().unwrap_or_default().to_owned())
        };
        for (is_strong, begin) in [(false, "run `aws"), (true, "DynamoDB has no TTL")] {
            let advice = advice(is_strong, None).expect("a finding");
            assert!(advice.starts_with(begin), "{advice}");
        }
        assert_eq!(advice(false, Some(EXPIRES_AT)), None);
    }
}
