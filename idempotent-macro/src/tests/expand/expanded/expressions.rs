use std::sync::Arc;
use std::time::Duration;
use idempotence::{Duplicate, Error, Idempotency};
pub struct Status(pub u16);
pub struct Order {
    pub id: u64,
    pub patience: Duration,
}
fn status(error: Error) -> Status {
    Status(if error.is_duplicate() { 409 } else { 503 })
}
pub async fn create(idempotency: Arc<Idempotency>, order: Order) -> Result<u64, Status> {
    let returns = ::idempotence::__private::returns_with::<
        Result<u64, Status>,
        _,
    >(status)
        .success(|outcome| !matches!(outcome, Err(Status(500..))));
    let claim = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::named("orders.create"),
            {
                ::idempotence::__private::register! {
                    "orders.create", ::core::option::Option::None
                }
                ::idempotence::__private::Policy::new({
                        let value: ::core::time::Duration = order.patience;
                        value
                    })
                    .wait({
                        let value: ::core::time::Duration = order.patience;
                        value
                    })
                    .renew(
                        ::idempotence::__private::Renew::Cap({
                            let value: ::core::time::Duration = order.patience * 10;
                            value
                        }),
                    )
                    .on_cancel(::idempotence::__private::OnCancel::Release)
                    .on_lease_lost(::idempotence::__private::OnLeaseLost::Continue)
                    .on_store_error(::idempotence::__private::OnStoreError::Run)
                    .settle(::idempotence::__private::Settle::Background)
            },
            ::core::option::Option::Some(
                ::idempotence::__private::Using::idempotency(&idempotency),
            ),
        );
        call.part(::idempotence::__private::Part::of(&order.id).checked());
        call.claim()
    };
    let mut held = match claim.await {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => {
            return returns
                .answered(
                    refusal,
                    |duplicate: Duplicate| match duplicate.age().as_secs() {
                        0 => Ok(order.id),
                        _ => Err(Status(409)),
                    },
                );
        }
    };
    let outcome = match {
        let body = async move {
            if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
                Result<u64, Status>,
            > {
                return outcome;
            }
            { Ok(order.id) }
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
