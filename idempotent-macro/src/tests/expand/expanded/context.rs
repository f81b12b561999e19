use idempotence::Error;
pub async fn pay(order_no: u64) -> Result<String, Error> {
    let returns = ::idempotence::__private::returns::<Result<String, Error>>();
    let claim = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::at(
                ::idempotence::__private::path_of(|| {}),
            ),
            ::idempotence::__private::Policy::new(
                ::core::time::Duration::from_millis(604800000u64),
            ),
            ::core::option::Option::None,
        );
        call.part(::idempotence::__private::Part::of(&order_no).checked());
        call.claim()
    };
    let mut held = match claim.await {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    let outcome = match {
        let cx: ::idempotence::__private::IdempotencyContext<
            ::idempotence::__private::OneIntent,
        > = held.context();
        let body = async move {
            if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
                Result<String, Error>,
            > {
                return outcome;
            }
            {
                let _ = order_no;
                Ok(cx.downstream_key("bank.charge"))
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
pub async fn pack(order_no: u64) -> Result<String, Error> {
    let returns = ::idempotence::__private::returns::<Result<String, Error>>();
    let claim = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::at(
                ::idempotence::__private::path_of(|| {}),
            ),
            ::idempotence::__private::Policy::new(
                    ::core::time::Duration::from_millis(5000u64),
                )
                .release(::idempotence::__private::Release::Always),
            ::core::option::Option::None,
        );
        call.part(::idempotence::__private::Part::of(&order_no).checked());
        call.claim()
    };
    let mut held = match claim.await {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    let outcome = match {
        let cx: ::idempotence::__private::IdempotencyContext<
            ::idempotence::__private::AnyIntent,
        > = held.context();
        let body = async move {
            if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
                Result<String, Error>,
            > {
                return outcome;
            }
            {
                let _ = order_no;
                Ok(cx.key())
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
pub async fn ship(order_no: u64) -> Result<String, Error> {
    let returns = ::idempotence::__private::returns::<Result<String, Error>>();
    let claim = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::at(
                ::idempotence::__private::path_of(|| {}),
            ),
            ::idempotence::__private::Policy::new(
                ::core::time::Duration::from_millis(604800000u64),
            ),
            ::core::option::Option::None,
        );
        call.part(::idempotence::__private::Part::of(&order_no).checked());
        call.claim()
    };
    let held = match claim.await {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    let cx: ::idempotence::__private::IdempotencyContext<
        ::idempotence::__private::OneIntent,
    > = held.context();
    let body = ::std::boxed::Box::pin(async move {
        if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
            Result<String, Error>,
        > {
            return outcome;
        }
        {
            let _ = order_no;
            Ok(cx.downstream_key("carrier.book"))
        }
    });
    match returns.finish(held, body).await {
        ::core::result::Result::Ok(outcome) => outcome,
        ::core::result::Result::Err(error) => returns.refused(error),
    }
}
pub async fn pick(order_no: u64) -> Result<i64, Error> {
    let returns = ::idempotence::__private::returns::<Result<i64, Error>>();
    let claim = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::at(
                ::idempotence::__private::path_of(|| {}),
            ),
            ::idempotence::__private::Policy::new(
                    ::core::time::Duration::from_millis(604800000u64),
                )
                .fence(),
            ::core::option::Option::None,
        );
        call.part(::idempotence::__private::Part::of(&order_no).checked());
        call.claim()
    };
    let mut held = match claim.await {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    let outcome = match {
        let cx: ::idempotence::__private::IdempotencyContext<
            ::idempotence::__private::Fenced<::idempotence::__private::OneIntent>,
        > = held.context();
        let body = async move {
            if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
                Result<i64, Error>,
            > {
                return outcome;
            }
            {
                let _ = order_no;
                Ok(cx.fence())
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
pub async fn weigh(order_no: u64) -> Result<i64, Error> {
    let returns = ::idempotence::__private::returns::<Result<i64, Error>>();
    let claim = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::at(
                ::idempotence::__private::path_of(|| {}),
            ),
            ::idempotence::__private::Policy::new(
                    ::core::time::Duration::from_millis(5000u64),
                )
                .release(::idempotence::__private::Release::Always)
                .fence(),
            ::core::option::Option::None,
        );
        call.part(::idempotence::__private::Part::of(&order_no).checked());
        call.claim()
    };
    let mut held = match claim.await {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    let outcome = match {
        let cx: ::idempotence::__private::IdempotencyContext<
            ::idempotence::__private::Fenced<::idempotence::__private::AnyIntent>,
        > = held.context();
        let body = async move {
            if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
                Result<i64, Error>,
            > {
                return outcome;
            }
            {
                let _ = order_no;
                Ok(cx.fence())
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
