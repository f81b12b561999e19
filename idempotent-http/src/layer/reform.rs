//! A refusal of this crate that a handler has returned, in the form of the layer.
//!
//! The conversions for axum and actix make a problem, because they do not know the convention of the layer outside. A client of
//! another convention would not understand a problem: an SDK that looks only for the member `error` takes it for a success.

use std::sync::Arc;

use ::http::{Response, header, response};
use bytes::Bytes;
use http_body::Body;
use idempotent_runtime::port::http::{PROBLEM_JSON, Problem};
use idempotent_runtime::{Error, Lang};

use crate::body::ReplayBody;
use crate::layer::config::{Config, RefusalForm};
use crate::rejection::Rejection;

impl Config {
    /// The response of a handler. A refusal of this crate takes the form of the layer.
    pub(crate) fn reformed<B: Body>(
        &self,
        response: Response<B>,
        form: RefusalForm,
    ) -> Response<ReplayBody<B>> {
        let (mut head, body) = response.into_parts();
        let body = match self.reform(&mut head, body.size_hint().exact(), form) {
            Some(refusal) => refusal.into(),
            None => ReplayBody::inner(body),
        };
        Response::from_parts(head, body)
    }

    /// Gives a head the form of the layer, and returns the body. `None` if the response, whose body has this `length`, is not a
    /// refusal of this crate, or the program has changed it.
    pub(crate) fn reform(
        &self,
        head: &mut response::Parts,
        length: Option<u64>,
        form: RefusalForm,
    ) -> Option<Bytes> {
        let problem = head.extensions.get::<Problem>()?;
        let content_type = head.headers.get(header::CONTENT_TYPE);
        let is_unchanged = head.status == problem.status
            && content_type.is_some_and(|content_type| content_type == PROBLEM_JSON)
            && length == u64::try_from(problem.json().len()).ok();
        if !is_unchanged {
            return None;
        }
        let error = head.extensions.get::<Arc<Error>>().cloned();
        let problem = match (form, &error) {
            // The handler has chosen no language.
            (RefusalForm::Page(lang), Some(error)) if problem.lang == Lang::default() => {
                Problem::from_error(error, lang)
            }
            _ => problem.clone(),
        };
        let mut rejection = Rejection::inside(problem, error);
        let (formed, body) = self.form(&mut rejection, form).into_parts();
        head.extensions.remove::<Problem>();
        head.status = formed.status;
        for name in [
            header::CONTENT_TYPE,
            header::CONTENT_LANGUAGE,
            header::CONTENT_LENGTH,
            header::RETRY_AFTER,
        ] {
            head.headers.remove(name);
        }
        head.headers.extend(formed.headers);
        Some(body)
    }
}
