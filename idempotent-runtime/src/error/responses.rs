//! The page on responses says of every error what is so.

use super::call::Error;

const PAGE: &str = include_str!("../../../docs/responses.md");
const HEAD: &str =
    "| error | `code()` | `client_action()` | `is_silent()` | HTTP | gRPC | the front end |";

/// The cells of each row, without their backticks.
fn rows() -> Vec<Vec<String>> {
    let lines = PAGE.lines().skip_while(|line| *line != HEAD).skip(2);
    let rows = lines.take_while(|line| line.starts_with('|'));
    let cells = |row: &str| {
        let cells = row.trim_matches('|').split(" | ");
        cells
            .map(|cell| cell.trim().trim_matches('`').to_owned())
            .collect()
    };
    rows.map(cells).collect()
}

#[test]
fn every_error_stands_in_the_table_with_what_it_says() {
    let rows = rows();
    let errors = Error::samples();
    assert_eq!(rows.len(), errors.len());
    for (row, error) in rows.iter().zip(errors) {
        let [name, code, action, silent, _, _, advice] = &row[..] else {
            panic!("{row:?}");
        };
        assert!(
            format!("{error:?}").starts_with(&format!("{name}(")),
            "{row:?}"
        );
        assert_eq!(error.code(), code);
        assert_eq!(error.client_action().as_str(), action, "{code}");
        assert_eq!(
            if error.is_silent() { "yes" } else { "no" },
            silent,
            "{code}"
        );
        assert_eq!(
            advice.starts_with("tells nobody"),
            error.is_silent(),
            "{code}"
        );
    }
}

#[cfg(feature = "axum")]
#[test]
fn every_status_of_http_stands_there() {
    use ::axum::response::IntoResponse;

    for (row, error) in rows().iter().zip(Error::samples()) {
        assert_eq!(error.into_response().status().as_str(), row[4], "{row:?}");
    }
}

#[cfg(feature = "tonic")]
#[test]
fn every_code_of_grpc_stands_there() {
    for (row, error) in rows().iter().zip(Error::samples()) {
        let code = format!("{:?}", ::tonic::Status::from(error).code());
        assert_eq!(code.to_uppercase(), row[5].replace('_', ""), "{row:?}");
    }
}
