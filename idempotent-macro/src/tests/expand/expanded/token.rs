use idempotence::Error;
pub struct Form {
    token: String,
    note: String,
}
pub async fn submit(user_id: u64, form: Form) -> Result<String, Error> {
    let returns = ::idempotence::__private::replaying::<
        Result<String, Error>,
        _,
        _,
    >(::idempotence::__private::returns::<Result<String, Error>>());
    let claim = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::at(
                ::idempotence::__private::path_of(|| {}),
            ),
            ::idempotence::__private::Policy::new(
                    ::core::time::Duration::from_millis(600000u64),
                )
                .replay()
                .token(),
            ::core::option::Option::None,
        );
        call.token(&form.token, &user_id, "orders.submit");
        call.keyed();
        call.claim()
    };
    let mut held = match claim.await {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    let outcome = match {
        let body = async move {
            if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
                Result<String, Error>,
            > {
                return outcome;
            }
            { Ok(format!("{user_id}: {}", form.note)) }
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
pub async fn pay(
    tenant: &str,
    user_id: u64,
    order_no: u64,
    token: &str,
) -> Result<(), Error> {
    let returns = ::idempotence::__private::returns::<Result<(), Error>>();
    let claim = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::named("orders.pay"),
            {
                const POLICY: ::idempotence::__private::Policy = ::idempotence::__private::Policy::new(
                        ::core::time::Duration::from_millis(86400000u64),
                    )
                    .token()
                    .give_back();
                ::idempotence::__private::register! {
                    "orders.pay", ::core::option::Option::Some(|| POLICY)
                }
                POLICY
            },
            ::core::option::Option::None,
        );
        call.part(::idempotence::__private::Part::of(&order_no).checked());
        call.token(&token.trim(), &(&tenant, &user_id), "orders.pay");
        call.claim()
    };
    let mut held = match claim.await {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    let outcome = match {
        let body = async move {
            if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
                Result<(), Error>,
            > {
                return outcome;
            }
            { Ok(()) }
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
