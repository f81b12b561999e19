use std::future::Future;
use std::sync::Arc;
use idempotence::Error;
pub struct Service {
    pub tenant: String,
}
impl Service {
    pub async fn pay(self: Arc<Self>, id: u64) -> Result<u64, Error> {
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
            call.part(::idempotence::__private::Part::of(&self.tenant).checked());
            call.part(::idempotence::__private::Part::of(&id).checked());
            call.claim()
        };
        let held = match claim.await {
            ::core::result::Result::Ok(held) => held,
            ::core::result::Result::Err(refusal) => return returns.refused(refusal),
        };
        let body = ::std::boxed::Box::pin(async move {
            if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
                Result<u64, Error>,
            > {
                return outcome;
            }
            #[allow(clippy::used_underscore_binding)]
            let _ = &self;
            { Ok(id) }
        });
        match returns.finish(held, body).await {
            ::core::result::Result::Ok(outcome) => outcome,
            ::core::result::Result::Err(error) => returns.refused(error),
        }
    }
}
pub fn pay(id: u64) -> impl Future<Output = Result<u64, Error>> + Send {
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
        let held = match claim.await {
            ::core::result::Result::Ok(held) => held,
            ::core::result::Result::Err(refusal) => return returns.refused(refusal),
        };
        let body = ::std::boxed::Box::pin(async move {
            (move || { async move { Ok(id) } })().await
        });
        match returns.finish(held, body).await {
            ::core::result::Result::Ok(outcome) => outcome,
            ::core::result::Result::Err(error) => returns.refused(error),
        }
    };
    future
}
pub async fn replayed(id: u64) -> Result<u64, Error> {
    let returns = ::idempotence::__private::replaying::<
        Result<u64, Error>,
        _,
        _,
    >(::idempotence::__private::returns::<Result<u64, Error>>());
    let claim = {
        let mut call = ::idempotence::__private::Call::new(
            ::idempotence::__private::Endpoint::at(
                ::idempotence::__private::path_of(|| {}),
            ),
            ::idempotence::__private::Policy::new(
                    ::core::time::Duration::from_millis(30000u64),
                )
                .replay(),
            ::core::option::Option::None,
        );
        call.part(::idempotence::__private::Part::of(&id).checked());
        call.claim()
    };
    let held = match claim.await {
        ::core::result::Result::Ok(held) => held,
        ::core::result::Result::Err(refusal) => return returns.refused(refusal),
    };
    let body = ::std::boxed::Box::pin(async move {
        if let ::core::option::Option::Some(outcome) = ::core::option::Option::None::<
            Result<u64, Error>,
        > {
            return outcome;
        }
        { Ok(id) }
    });
    match returns.finish(held, body).await {
        ::core::result::Result::Ok(outcome) => outcome,
        ::core::result::Result::Err(error) => returns.refused(error),
    }
}
