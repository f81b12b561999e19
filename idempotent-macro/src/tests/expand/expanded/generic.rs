use std::fmt::Display;
use idempotence::Error;
use serde::Serialize;
pub async fn store<'a, T, const N: usize>(
    id: &'a T,
    names: [String; N],
    note: impl Display + Send,
) -> Result<impl Display, Error>
where
    T: Serialize + Display + Sync + ?Sized,
{
    let returns = ::idempotence::__private::returns::<Result<_, Error>>();
    let claim = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::at(
                ::idempotence::__private::path_of(|| {}),
            ),
            ::idempotence::__private::Policy::new(
                ::core::time::Duration::from_millis(10000u64),
            ),
            ::core::option::Option::None,
        );
        call.part(::idempotence::__private::Part::of(&id).checked());
        call.part(::idempotence::__private::Part::of(&&names[0]).checked());
        call.part(::idempotence::__private::Part::of(&N).checked());
        call.claim()
    };
    let mut held = match claim.await {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    let outcome = match {
        let body = async move {
            if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
                Result<_, Error>,
            > {
                return outcome;
            }
            { Ok(format!("{id} {names:?} {note}")) }
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
