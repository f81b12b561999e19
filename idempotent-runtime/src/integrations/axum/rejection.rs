//! The rejection of a request whose header with an id is missing or malformed, as a response of axum.

use ::axum::response::{IntoResponse, Response};

use crate::integrations::rejection::HeaderRejection;

impl IntoResponse for HeaderRejection {
    fn into_response(self) -> Response {
        self.response()
    }
}

#[cfg(test)]
mod tests {
    use ::axum::body::to_bytes;
    use ::axum::http::{HeaderMap, HeaderValue, StatusCode, header};
    use serde_json::{Value, json};

    use super::*;
    use crate::Lang;
    use crate::integrations::fault::{Carrier, Expected, HeaderFault, Id, IdFault};
    use crate::integrations::mistake::Mistake;
    use crate::integrations::rejection::rejected;

    const KEY: (Id, &str) = (Id::IdempotencyKey(Expected::Text), "Idempotency-Key");
    const REQUEST_ID: (Id, &str) = (Id::RequestId, "X-Request-Id");

    fn rejection(
        (id, header): (Id, &'static str),
        fault: HeaderFault,
        mistake: Option<Mistake>,
        headers: &HeaderMap,
    ) -> HeaderRejection {
        let fault = IdFault {
            id,
            carrier: Carrier::Header(header),
            fault,
            mistake,
        };
        rejected(fault, headers)
    }

    async fn problem(
        id: (Id, &'static str),
        fault: HeaderFault,
        accept_language: &'static str,
    ) -> (Response, Value) {
        let mut headers = HeaderMap::new();
        let accepted = HeaderValue::from_static(accept_language);
        headers.insert(header::ACCEPT_LANGUAGE, accepted);
        let response = rejection(id, fault, None, &headers).into_response();
        let (head, body) = response.into_parts();
        let body = to_bytes(body, 10_000).await.unwrap();
        let problem = serde_json::from_slice(&body).unwrap();
        (Response::from_parts(head, body.into()), problem)
    }

    #[tokio::test]
    async fn a_request_without_a_key_gets_what_to_send() {
        let (response, problem) = problem(KEY, HeaderFault::Missing, "en").await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        let headers = response.headers();
        assert_eq!(headers[header::CONTENT_TYPE], "application/problem+json");
        assert_eq!(headers[header::CONTENT_LANGUAGE], "en");
        let expected = json!({
            "type": "urn:idempotence:idempotency_key_missing",
            "title": "Idempotency-Key is missing",
            "status": 400,
            "detail": "Send the header Idempotency-Key once, with 1 to 255 printable ASCII characters.",
            "code": "idempotency_key_missing",
            "retryable": false,
            "client_action": "fix",
            "silent": false,
        });
        assert_eq!(problem, expected);
    }

    #[tokio::test]
    async fn a_client_gets_what_to_send_in_its_own_language() {
        for id in [KEY, REQUEST_ID] {
            let header = id.1;
            let faults = [
                HeaderFault::Missing,
                HeaderFault::Repeated,
                HeaderFault::Malformed,
            ];
            for fault in faults {
                let (response, problem) = problem(id, fault, "zh-CN;Q=0.9").await;
                assert_eq!(response.headers()[header::CONTENT_LANGUAGE], "zh-Hans");
                let detail = problem["detail"].as_str().unwrap();
                assert!(
                    detail.contains(header) && detail.contains("必须且只能出现一次"),
                    "{detail}"
                );
            }
        }
    }

    #[test]
    fn a_malformed_header_is_rejected_with_its_mistake() {
        let headers = HeaderMap::new();
        let unclosed = Some(Mistake::Unclosed);
        let unclosed = rejection(KEY, HeaderFault::Malformed, unclosed, &headers);
        assert_eq!(
            unclosed.text(Lang::En),
            "The header Idempotency-Key has an opening quote without a closing quote. \
             Send the header Idempotency-Key once, with 1 to 255 printable ASCII characters."
        );
        assert_eq!(
            unclosed.text(Lang::ZhHans),
            "请求头 Idempotency-Key 无法读取：其值有起始引号，但没有结束引号。\
             请求头 Idempotency-Key 必须且只能出现一次，其值为 1 至 255 个可打印的 ASCII 字符"
        );
        assert_eq!(
            unclosed.to_string(),
            "Idempotency-Key cannot be read: it has an opening quote without a closing quote"
        );
    }

    /// A rejection for each fault of each header.
    fn every_rejection() -> impl Iterator<Item = HeaderRejection> {
        [KEY, REQUEST_ID].into_iter().flat_map(|id| {
            [
                HeaderFault::Missing,
                HeaderFault::Repeated,
                HeaderFault::Malformed,
            ]
            .map(|fault| rejection(id, fault, None, &HeaderMap::new()))
        })
    }

    #[test]
    fn the_page_of_errors_names_every_rejection() {
        let page = include_str!("../../../../docs/guide/errors.md");
        let (_, section) = page.split_once("The extractors of axum refuse").unwrap();
        let (section, _) = section.split_once("\n\n").unwrap();
        for rejection in every_rejection() {
            let (id, fault) = rejection.code().rsplit_once('_').unwrap();
            let status = rejection.into_response().status();
            for fact in [id, &format!("_{fault}`"), status.as_str(), "`fix`"] {
                assert!(section.contains(fact), "{fact} in {section}");
            }
        }
    }

    #[test]
    fn every_rejection_has_its_own_code() {
        let mut codes: Vec<&str> = every_rejection().map(HeaderRejection::code).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), 6, "{codes:?}");
    }
}
