use std::future::Future;
use std::pin::Pin;
use idempotence::Error;
use idempotence::sql::sqlx::{Sqlite, Transaction};
pub async fn pay(tx: &mut Transaction<'_, Sqlite>, order_no: u64) -> Result<u64, Error> {
    let returns = ::idempotence::__private::replaying::<
        Result<u64, Error>,
        _,
        _,
    >(::idempotence::__private::returns::<Result<u64, Error>>());
    let rows = ::idempotence::__private::rows(&mut *tx);
    let claim = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::at(
                ::idempotence::__private::path_of(|| {}),
            ),
            ::idempotence::__private::Policy::new(
                    ::core::time::Duration::from_millis(604800000u64),
                )
                .replay()
                .tx(),
            ::core::option::Option::None,
        );
        call.part(::idempotence::__private::Part::of(&order_no).checked());
        call.claim_in(rows(&mut *tx))
    };
    let mut held = match claim.await {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    let outcome = {
        let body = {
            #[allow(unused_variables)]
            let tx = &mut *tx;
            async move {
                if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
                    Result<u64, Error>,
                > {
                    return outcome;
                }
                {
                    let _ = &*tx;
                    Ok(order_no)
                }
            }
        };
        let mut body = ::core::pin::pin!(body);
        ::core::future::poll_fn(|context| held.poll_body(context, body.as_mut())).await
    };
    returns.settle_in(held, outcome, rows(tx)).await
}
pub fn boxed<'a>(
    tx: &'a mut Transaction<'_, Sqlite>,
    order_no: &'a u64,
) -> Pin<Box<dyn Future<Output = Result<u64, Error>> + Send + 'a>> {
    ::std::boxed::Box::pin(async move {
        let returns = ::idempotence::__private::returns::<Result<u64, Error>>();
        let rows = ::idempotence::__private::rows(&mut *tx);
        let claim = {
            let mut call = ::idempotence::__private::Call::new(
                ::idempotence::__private::Endpoint::at(
                    ::idempotence::__private::path_of(|| {}),
                ),
                ::idempotence::__private::Policy::new(
                        ::core::time::Duration::from_millis(604800000u64),
                    )
                    .tx(),
                ::core::option::Option::None,
            );
            call.part(::idempotence::__private::Part::of(&order_no).checked());
            call.claim_in(rows(&mut *tx))
        };
        let mut held = match claim.await {
            ::core::result::Result::Ok(held) => held,
            ::core::result::Result::Err(refusal) => return returns.refused(refusal),
        };
        let outcome = {
            let body = {
                #[allow(unused_variables)]
                let tx = &mut *tx;
                async move {
                    (move || -> Pin<
                        Box<dyn Future<Output = Result<u64, Error>> + Send + '_>,
                    > {
                        Box::pin(async move {
                            let _ = &*tx;
                            Ok(*order_no)
                        })
                    })()
                        .await
                }
            };
            let mut body = ::core::pin::pin!(body);
            ::core::future::poll_fn(|context| held.poll_body(context, body.as_mut()))
                .await
        };
        returns.settle_in(held, outcome, rows(tx)).await
    })
}
pub async fn refund(
    tx: &mut Transaction<'_, Sqlite>,
    order_no: u64,
) -> Result<String, Error> {
    let returns = ::idempotence::__private::returns::<Result<String, Error>>();
    let rows = ::idempotence::__private::rows(&mut *tx);
    let claim = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::at(
                ::idempotence::__private::path_of(|| {}),
            ),
            ::idempotence::__private::Policy::new(
                    ::core::time::Duration::from_millis(604800000u64),
                )
                .tx(),
            ::core::option::Option::None,
        );
        call.part(::idempotence::__private::Part::of(&order_no).checked());
        call.claim_in(rows(&mut *tx))
    };
    let mut held = match claim.await {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    let outcome = {
        let cx: ::idempotence::__private::IdempotencyContext<
            ::idempotence::__private::OneIntent,
        > = held.context();
        let body = {
            #[allow(unused_variables)]
            let tx = &mut *tx;
            async move {
                if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
                    Result<String, Error>,
                > {
                    return outcome;
                }
                {
                    let _ = (&*tx, order_no);
                    Ok(cx.downstream_key("bank.refund"))
                }
            }
        };
        let mut body = ::core::pin::pin!(body);
        ::core::future::poll_fn(|context| held.poll_body(context, body.as_mut())).await
    };
    returns.settle_in(held, outcome, rows(tx)).await
}
