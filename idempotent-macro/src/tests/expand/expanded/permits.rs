use idempotence::Error;
pub async fn export(tenant: u64) -> Result<u64, Error> {
    let returns = ::idempotence::__private::returns::<Result<u64, Error>>();
    let claim = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::named("exports.run"),
            {
                const POLICY: ::idempotence::__private::Policy = ::idempotence::__private::Policy::new(
                        ::core::time::Duration::from_millis(30000u64),
                    )
                    .release(::idempotence::__private::Release::Always)
                    .permits({
                        let value: ::core::primitive::u32 = 3;
                        value
                    });
                ::idempotence::__private::register! {
                    "exports.run", ::core::option::Option::Some(|| POLICY)
                }
                POLICY
            },
            ::core::option::Option::None,
        );
        call.part(::idempotence::__private::Part::of(&tenant).checked());
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
            { Ok(tenant) }
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
pub async fn within(tenant: u64, most: u32) -> Result<u64, Error> {
    let returns = ::idempotence::__private::returns::<Result<u64, Error>>();
    let claim = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::at(
                ::idempotence::__private::path_of(|| {}),
            ),
            ::idempotence::__private::Policy::new(
                    ::core::time::Duration::from_millis(30000u64),
                )
                .release(::idempotence::__private::Release::Always)
                .permits({
                    let value: ::core::primitive::u32 = most;
                    value
                }),
            ::core::option::Option::None,
        );
        call.part(::idempotence::__private::Part::of(&tenant).checked());
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
            { Ok(tenant) }
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
