use idempotence::Error;
pub struct Service {
    pub tenant: String,
}
impl Service {
    pub async fn pay(&self, id: u64) -> Result<u64, Error> {
        let returns = ::idempotence::__private::returns::<Result<u64, Error>>();
        let claim = {
            let mut call = ::idempotence::__private::Call::new(
                ::idempotence::__private::Endpoint::at(
                    ::idempotence::__private::path_of(|| {}),
                ),
                ::idempotence::__private::Policy::new(
                    ::core::time::Duration::from_millis(5400000u64),
                ),
                ::core::option::Option::None,
            );
            call.part(::idempotence::__private::Part::of(&self.tenant).checked());
            call.part(::idempotence::__private::Part::of(&id).checked());
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
                { Ok(id) }
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
    }
    pub async fn open(tenant: String) -> Result<Self, Error> {
        let returns = ::idempotence::__private::returns::<Result<Self, Error>>();
        let claim = {
            let mut call = ::idempotence::__private::Call::new(
                ::idempotence::__private::Endpoint::at(
                    ::idempotence::__private::path_of(|| {}),
                ),
                ::idempotence::__private::Policy::new(
                        ::core::time::Duration::from_millis(86400000u64),
                    )
                    .release(::idempotence::__private::Release::Never),
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
                    Result<Self, Error>,
                > {
                    return outcome;
                }
                { Ok(Self { tenant }) }
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
    }
    pub async fn sweep() -> Result<(), Error> {
        let returns = ::idempotence::__private::returns::<Result<(), Error>>();
        let claim = {
            let call = ::idempotence::__private::Call::new(
                ::idempotence::__private::Endpoint::named("service.sweep"),
                {
                    const POLICY: ::idempotence::__private::Policy = ::idempotence::__private::Policy::new(
                            ::core::time::Duration::from_millis(60000u64),
                        )
                        .lease(::core::time::Duration::from_millis(5000u64))
                        .renew(
                            ::idempotence::__private::Renew::Cap(
                                ::core::time::Duration::from_millis(600000u64),
                            ),
                        );
                    ::idempotence::__private::register! {
                        "service.sweep", ::core::option::Option::Some(|| POLICY)
                    }
                    POLICY
                },
                ::core::option::Option::None,
            );
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
            ::core::future::poll_fn(|context| held.poll_body(context, body.as_mut()))
                .await
        } {
            ::core::result::Result::Ok(outcome) => outcome,
            ::core::result::Result::Err(error) => return returns.refused(error),
        };
        returns.settle(held, &outcome).await;
        outcome
    }
}
