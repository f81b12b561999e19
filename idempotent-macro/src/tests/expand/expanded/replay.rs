use idempotence::Error;
#[derive(Debug, serde::Serialize, serde::Deserialize)]
pub enum PayError {
    Declined,
    Timeout,
    Refused(String),
}
impl From<Error> for PayError {
    fn from(error: Error) -> Self {
        Self::Refused(error.to_string())
    }
}
pub async fn pay(
    user_id: u64,
    order_id: u64,
    amount: u64,
    currency: String,
) -> Result<String, PayError> {
    let returns = ::idempotence::__private::replaying::<
        Result<String, PayError>,
        _,
        _,
    >(::idempotence::__private::returns::<Result<String, PayError>>())
        .replay_err(|error| matches!(error, PayError::Declined))
        .hold_err(|error| matches!(error, PayError::Timeout));
    let claim = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::named("orders.pay"),
            {
                const POLICY: ::idempotence::__private::Policy = ::idempotence::__private::Policy::new(
                        ::core::time::Duration::from_millis(86400000u64),
                    )
                    .replay()
                    .wait(::core::time::Duration::from_millis(2000u64));
                ::idempotence::__private::register! {
                    "orders.pay", ::core::option::Option::Some(|| POLICY)
                }
                POLICY
            },
            ::core::option::Option::None,
        );
        call.part(::idempotence::__private::Part::of(&user_id).checked());
        call.part(::idempotence::__private::Part::of(&order_id).checked());
        call.payload(&amount);
        call.payload(&currency);
        call.claim()
    };
    let mut held = match claim.await {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    let outcome = match {
        let body = async move {
            if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
                Result<String, PayError>,
            > {
                return outcome;
            }
            {
                if amount == 0 {
                    return Err(PayError::Declined);
                }
                Ok(format!("{user_id} paid {amount} {currency} for {order_id}"))
            }
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
