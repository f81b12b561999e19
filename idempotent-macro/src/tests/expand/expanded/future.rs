use std::future::{Future, ready};
use std::pin::Pin;
use idempotence::Error;
pub fn boxed(id: u64) -> Pin<Box<dyn Future<Output = Result<u64, Error>> + Send>> {
    ::std::boxed::Box::pin(async move {
        let returns = ::idempotence::__private::returns::<Result<u64, Error>>();
        let claim = {
            let mut call = ::idempotence::__private::Call::new(
                ::idempotence::__private::Endpoint::at(
                    ::idempotence::__private::path_of(|| {}),
                ),
                ::idempotence::__private::Policy::new(
                    ::core::time::Duration::from_millis(30000u64),
                ),
                ::core::option::Option::None,
            );
            call.part(::idempotence::__private::Part::of(&id).checked());
            call.claim()
        };
        let mut held = match claim.await {
            ::core::result::Result::Ok(held) => held,
            ::core::result::Result::Err(refusal) => return returns.refused(refusal),
        };
        let outcome = match {
            let body = async move {
                (move || -> Pin<Box<dyn Future<Output = Result<u64, Error>> + Send>> {
                    if id == 0 {
                        return Box::pin(ready(Ok(0)));
                    }
                    Box::pin(async move { Ok(id) })
                })()
                    .await
            };
            let mut body = ::core::pin::pin!(body);
            ::core::future::poll_fn(|context| held.poll_body(context, body.as_mut()))
                .await
        } {
            ::core::result::Result::Ok(outcome) => outcome,
            ::core::result::Result::Err(error) => return returns.refused(error),
        };
        returns.settle(held, &outcome).await;
        outcome
    })
}
pub fn unboxed(id: &u64) -> impl Future<Output = Result<u64, Error>> + Send {
    let future = async move {
        let returns = ::idempotence::__private::returns::<Result<u64, Error>>();
        let claim = {
            let mut call = ::idempotence::__private::Call::new(
                ::idempotence::__private::Endpoint::at(
                    ::idempotence::__private::path_of(|| {}),
                ),
                ::idempotence::__private::Policy::new(
                    ::core::time::Duration::from_millis(30000u64),
                ),
                ::core::option::Option::None,
            );
            call.part(::idempotence::__private::Part::of(&id).checked());
            call.claim()
        };
        let mut held = match claim.await {
            ::core::result::Result::Ok(held) => held,
            ::core::result::Result::Err(refusal) => return returns.refused(refusal),
        };
        let outcome = match {
            let body = async move {
                (move || {
                    let id = *id;
                    async move { Ok(id) }
                })()
                    .await
            };
            let mut body = ::core::pin::pin!(body);
            ::core::future::poll_fn(|context| held.poll_body(context, body.as_mut()))
                .await
        } {
            ::core::result::Result::Ok(outcome) => outcome,
            ::core::result::Result::Err(error) => return returns.refused(error),
        };
        returns.settle(held, &outcome).await;
        outcome
    };
    future
}
