use idempotence::{Error, RequestId};
pub async fn place(user_id: u64, request_id: Option<RequestId>) -> Result<u64, Error> {
    let returns = ::idempotence::__private::replaying::<
        Result<u64, Error>,
        _,
        _,
    >(::idempotence::__private::returns::<Result<u64, Error>>());
    let claim = {
        let when = {
            let value: ::core::primitive::bool = request_id.is_some();
            value
        };
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::at(
                ::idempotence::__private::path_of(|| {}),
            ),
            ::idempotence::__private::Policy::new(
                    ::core::time::Duration::from_millis(86400000u64),
                )
                .replay(),
            ::core::option::Option::None,
        );
        if when {
            call.part(&user_id);
            call.part(&request_id);
        } else {
            call.when(false);
        }
        call.claim()
    };
    let mut held = match claim.await {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    let outcome = match {
        let body = async move {
            if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
                Result<u64, Error>,
            > {
                return outcome;
            }
            { Ok(user_id) }
        };
        let mut body = ::core::pin::pin!(body);
        ::core::future::poll_fn(|context| held.poll_body(context, body.as_mut())).await
    } {
        ::core::result::Result::Ok(outcome) => outcome,
        ::core::result::Result::Err(error) => return returns.refused(error),
    };
    returns.settle(held, &outcome).await;
    outcome
}
